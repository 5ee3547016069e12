"""A run on the page: pre-trained (what it is, how its losses fell, how fast it was, what it wrote on the way) or
fine-tuned (what it learned from what, its scores and curves, what it mixes up, its mistakes).
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpt1.base.wording import duration, many, x100
from gpt1.documents.blocks import (
    SCORE_SPAN,
    Block,
    Curve,
    CurvePlot,
    Facts,
    Folded,
    Heading,
    Lines,
    Note,
    Picture,
    Pictures,
    Quote,
    Quotes,
    Section,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.evaluation import evaluation_blocks, scores_table, seeds_blocks, verdicts
from gpt1.documents.figures import figure, metric_name, rough
from gpt1.finetuning.target import apart_in_words, target_in_words
from gpt1.inference.teaching import taught_in_words
from gpt1.model.costs import count_parameters, flops_per_token
from gpt1.recipes.catalog import FINETUNE, PAPER, RECIPES
from gpt1.recipes.changes import differences, settings
from gpt1.recipes.values import LSTM, Finetuning
from gpt1.records.run import RunRecord
from gpt1.records.seeds import SeedsResult
from gpt1.report.attention import attention_blocks
from gpt1.report.gather import GatheredRun
from gpt1.tasks.catalog import Task

SAMPLED_STEPS = 6  # shown, from the first to the last

# ---- pre-trained ----


@dataclass(frozen=True)
class Reached:
    """How big a run is, how much it read, and how well it predicts at its best evaluation."""

    parameters: int
    tokens: int | None
    step: int | None
    loss: float | None
    perplexity: float | None
    bits_per_byte: float | None


def reached(run: GatheredRun) -> Reached:
    """Return what a pre-training run reached."""
    parameters = count_parameters(run.recipe.shape, run.record.vocab_size).total
    if run.progress is None:
        return Reached(parameters, None, None, None, None, None)
    tokens = run.progress.step * run.recipe.training.batch * run.recipe.shape.context
    curve = run.progress.curves.get("valid_loss")
    if curve is None:
        return Reached(parameters, tokens, None, None, None, None)
    loss = min(curve.values)
    step = curve.steps[curve.values.index(loss)]
    return Reached(parameters, tokens, step, loss, _at(run, "perplexity", step), _at(run, "bits_per_byte", step))


def _at(run: GatheredRun, name: str, step: int) -> float | None:
    curve = run.progress.curves.get(name) if run.progress else None
    return curve.values[curve.steps.index(step)] if curve and step in curve.steps else None


def pretrained_section(run: GatheredRun, anchor: str) -> Section:
    """Return all there is to say of a pre-training run."""
    found = reached(run)
    blocks: list[Block] = [Facts([*_pretrained_facts(run, found), *_how_well(found), *_how_fast(run, found)])]
    blocks += _loss_curves(run)
    blocks.append(Folded("What it wrote on the way", _samples(run)))
    if run.recipe.shape.kind != LSTM:
        blocks.append(Folded("Where it looks", _attention(run)))
    blocks.append(Folded("What happened, and how it was made", [*_happened(run), _configuration(run), _origin(run)]))
    parent = run.record.parent
    lead = "Pre-training" + (f", begun with the weights of {parent}" if parent else "")
    return Section(anchor, run.name, lead, blocks)


def _pretrained_facts(run: GatheredRun, found: Reached) -> list[tuple[str, str]]:
    shape, corpus = run.recipe.shape, run.record.corpus
    network = f"LSTM of {shape.units:,} units" if shape.kind == LSTM else many(shape.layers, "layer")
    facts = [
        *_recipe_facts(run),
        ("network", f"{network}, width {shape.width:,}, context {shape.context:,} tokens"),
        ("parameters", f"{found.parameters:,}"),
    ]
    if corpus:
        facts.append(("text", f"{corpus.path}, {rough(corpus.tokens)} tokens"))
    old = 0.0
    if (mix := run.record.mixed) is not None:
        old = mix.share
        facts.append(("mixed in", f"{mix.path}, {rough(mix.tokens)} tokens: a share of {old:g} of what was read"))
    if found.tokens is not None and run.progress is not None:
        times = (
            f", {_times((1 - old) * found.tokens / corpus.tokens)} times the text" if corpus and corpus.tokens else ""
        )
        planned = run.progress.planned
        of = f" of {planned:,}" if planned > run.progress.step else ""
        facts.append(("trained on", f"{rough(found.tokens)} tokens in {run.progress.step:,}{of} updates{times}"))
    return [*facts, *made_of(run.record), ("seed", str(run.record.seed))]


def made_of(record: RunRecord, *, paths: bool = True) -> list[tuple[str, str]]:
    """Return who taught a run, how it reads, to which domain it was adapted, and what was left out of its network."""
    taught, adapted, pruned = record.taught, record.adapted, record.pruned
    facts = [] if taught is None else [("taught by", taught_in_words(taught, paths=paths))]
    if record.tasks and record.recipe.finetuning.bidirectional:
        facts.append(("reads", "each token with those before it and those after it"))
    if adapted is not None:
        told = (target_in_words(adapted, paths=paths), apart_in_words(adapted))
        facts.append(("adapted to", "; the domains are ".join(filter(None, told))))
    if pruned is not None:
        kept = f"layers {', '.join(map(str, pruned.layers))} of {pruned.of_layers}"
        units = f"{record.recipe.shape.feed_forward:,} of {pruned.of_feed_forward:,} units in each feed-forward part"
        losses = f"loss {figure(pruned.loss_before)} before, {figure(pruned.loss_after)} after, on {pruned.measured_on}"
        facts.append(("pruned", f"{kept}, {units}: {losses}"))
    return facts


def _times(count: float) -> str:
    return f"{count:.1f}" if count >= 0.1 else f"{count:.1g}"


def _how_well(found: Reached) -> list[tuple[str, str]]:
    if found.loss is None:
        return [("validation", "there was none")]
    text = f"loss {figure(found.loss)} nats a token at update {found.step:,}"
    text += f", perplexity {found.perplexity:,.1f}" if found.perplexity is not None else ""
    return [("validation", text + (f", {figure(found.bits_per_byte)} bits per byte" if found.bits_per_byte else ""))]


def _how_fast(run: GatheredRun, found: Reached) -> list[tuple[str, str]]:
    curves = run.progress.curves if run.progress else {}
    if "tokens_per_second" not in curves:
        return []
    speed = statistics.median(curves["tokens_per_second"].values)
    text = f"{rough(speed)} tokens a second in the middle"
    if "utilisation" in curves:
        text += f", {100 * statistics.median(curves['utilisation'].values):.0f} % of the device's peak"
    facts = [("speed", text), *_cost(run, found, speed)]
    if memory := max(curves["memory_bytes"].values, default=0) if "memory_bytes" in curves else 0:
        facts.append(("memory", f"{memory / 2**30:.1f} GiB at most"))
    return facts


def _cost(run: GatheredRun, found: Reached, speed: float) -> list[tuple[str, str]]:
    if not found.tokens or not speed:
        return []
    hardware = _trained_on(run)
    on = f" on {hardware}" if hardware else ""
    work = found.tokens * flops_per_token(run.recipe.shape, run.record.vocab_size)
    return [("cost", f"about {duration(found.tokens / speed)}{on}; {rough(work)}FLOP of the model's own")]


def _loss_curves(run: GatheredRun) -> list[Block]:
    if run.progress is None:
        return [Note("There is no metrics.jsonl, so there are no curves.")]
    curves = run.progress.curves
    named = {"loss": "training", "valid_loss": "validation"}
    losses = {title: curves[name] for name, title in named.items() if name in curves}
    pictures = []
    if losses:
        alternative = "; ".join(f"{name} loss {_told(curve)}" for name, curve in losses.items())
        caption = "Loss in nats a token." + _averaging(losses.values())
        pictures.append(Picture(CurvePlot(losses, "loss"), alternative, caption))
    if "tokens_per_second" in curves:
        speed = curves["tokens_per_second"]
        picture = CurvePlot({"tokens a second": speed}, "tokens a second")
        pictures.append(Picture(picture, f"tokens a second {_told(speed)}", "Speed." + _averaging([speed])))
    return [Pictures(pictures)] if pictures else [Note("Its metrics.jsonl has no figures yet, so there are no curves.")]


def _attention(run: GatheredRun) -> list[Block]:
    if run.attention is None:
        return [Note("There is no attention.json, so where it looks is not known (it is written with samples).")]
    return attention_blocks(run.attention)


def _ought_to_have_written(run: GatheredRun) -> bool:
    every = run.recipe.logging.sample_every
    return every is not None and run.progress is not None and run.progress.step >= min(every, run.progress.planned)


def _samples(run: GatheredRun) -> list[Block]:
    samples = run.samples
    if not samples and _ought_to_have_written(run):
        return [Note("It wrote no samples: they begin in text for validation, and a corpus of one document has none.")]
    if not samples:
        return [Note("It wrote no samples (the setting logging.sample_every makes it).")]
    steps = sorted({sample.step for sample in samples})
    if len(steps) > SAMPLED_STEPS:
        places = range(SAMPLED_STEPS)
        shown = [steps[round(place * (len(steps) - 1) / (SAMPLED_STEPS - 1))] for place in places]
    else:
        shown = steps
    quotes = [
        Quote(f"update {sample.step:,}", sample.text, before=sample.prompt)
        for step in shown
        for sample in samples
        if sample.step == step
    ]
    note = f"At {len(shown)} of {len(steps)} places along the way. " if len(shown) < len(steps) else ""
    return [Note(f"{note}What is pale was given, the rest is the model's."), Quotes(quotes)]


# ---- fine-tuned ----


def finetuned_section(run: GatheredRun, anchor: str) -> Section:
    """Return all there is to say of a fine-tuned run."""
    blocks: list[Block] = []
    if run.seeds is not None:
        blocks += [Heading("Seeds"), *_seeds(run, run.seeds)]
    if not run.evaluations:
        blocks.append(
            Note(f"It was not measured: there is no evaluation-*.json (gpt1 evaluate {run.given} writes it).")
        )
    for name, task in run.tasks.items():
        own = [one for one in run.evaluations if one.task == name]
        title = "Scores and curves" if len(run.tasks) == 1 else f"{name}: scores and curves"
        for evaluation in own:
            blocks += evaluation_blocks(evaluation)
        scores = [scores_table(own), *verdicts(own, run.decided)] if own else []
        blocks.append(Folded(title, [*scores, *_task_curves(run, task)]))
    made = [Facts(_finetuned_facts(run)), *_happened(run), _configuration(run), _origin(run)]
    blocks.append(Folded("What it is, and how it was made", made))
    return Section(anchor, run.name, f"Fine-tuned on {', '.join(run.tasks)}", blocks)


def _finetuned_facts(run: GatheredRun) -> list[tuple[str, str]]:
    settings, training = run.recipe.finetuning, run.recipe.training
    facts = [("task", task.in_short()) for task in run.tasks.values()]
    for name, splits in run.record.examples.items():
        counts = ", ".join(f"{split} {count:,}" for split, count in splits.items())
        facts.append(("examples" if len(run.tasks) == 1 else f"examples of {name}", counts))
    weights = start_in_words(settings)
    facts.append(("start", f"{weights}; network and words of {run.record.parent}"))
    facts += made_of(run.record)
    facts += _recipe_facts(run)
    updates = "" if run.progress is None else f"{run.progress.step:,} updates of "
    rate = f"learning rate {run.recipe.optimizer.lr:g}"
    facts.append(("training", f"{updates}{training.batch} examples, {rate}, {_beside(settings.lm_weight)}"))
    facts += [] if run.ensemble is None else [("answers", one.why) for one in run.ensemble.tasks.values()]
    facts += [] if run.calibration is None else [("how surely", one.why) for one in run.calibration.tasks.values()]
    facts += [] if run.thresholds is None else [("labels", one.why) for one in run.thresholds.tasks.values()]
    facts += [("hardware", hardware)] if (hardware := _trained_on(run)) else []
    return [*facts, ("seed", str(run.record.seed))]


def _beside(weight: float) -> str:
    return f"language model's loss weighted {weight:g}" if weight else "without the language model's loss"


def _seeds(run: GatheredRun, seeds: SeedsResult) -> list[Block]:
    absent = [seed for seed in seeds.seeds if not (run.given / seed).is_dir()]
    gone: list[Block] = [Note(f"Not there any more: {', '.join(absent)}.")] if absent else []
    return [*seeds_blocks(seeds), *gone]


def _task_curves(run: GatheredRun, task: Task) -> list[Block]:
    if run.progress is None:
        return [Note("There is no metrics.jsonl, so there are no curves.")]
    curves = run.progress.curves
    losses, scores = {}, {}
    if (train := curves.get(f"terms.{task.name}")) and (seen := _seen(train)).steps:
        losses["training"] = seen
    for split in task.dev_splits:
        prefix = f"{task.name}_{split}" if len(run.tasks) > 1 else split
        if f"{prefix}_loss" in curves:
            losses[split] = curves[f"{prefix}_loss"]
        for metric in task.metrics:
            if f"{prefix}_{metric}" in curves:
                scores[f"{split} {metric_name(metric)}"] = _scaled(curves[f"{prefix}_{metric}"])
    pictures = []
    if losses:
        pictures.append(_picture(losses, "loss", "The task's loss; language modelling is not in it."))
    if scores:
        pictures.append(
            _picture(
                scores,
                next(iter(scores)) if len(scores) == 1 else "score",
                "Scores on dev along the way, x 100; the best one was kept.",
                least_span=SCORE_SPAN,
                form=".1f",
            )
        )
    return [Pictures(pictures)] if pictures else [Note("Its metrics.jsonl has no figures of this task yet.")]


def _scaled(scores: Curve) -> Curve:
    return Curve(scores.steps, [x100(value) for value in scores.values])


def _seen(curve: Curve) -> Curve:
    """Return a task's loss at the updates that had examples of it: of several tasks a batch has one, the rest is 0."""
    kept = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value != 0]
    return Curve([step for step, _ in kept], [value for _, value in kept])


def _picture(
    curves: dict[str, Curve], value: str, caption: str, *, least_span: float = 0, form: str = ".4g"
) -> Picture:
    alternative = f"{value}: " + "; ".join(f"{name} {_told(curve, form)}" for name, curve in curves.items())
    return Picture(CurvePlot(curves, value, least_span), alternative, caption + _averaging(curves.values()))


# ---- what both have ----


def _told(curve: Curve, form: str = ".4g") -> str:
    """Return a curve in words, for those who do not see it."""
    if len(curve.steps) == 1:
        return f"{curve.values[0]:{form}} at update {curve.steps[0]:,}"
    low, high = min(curve.values), max(curve.values)
    return (
        f"from {curve.values[0]:{form}} at update {curve.steps[0]:,} to {curve.values[-1]:{form}} at update "
        f"{curve.steps[-1]:,}, between {low:{form}} and {high:{form}}"
    )


def _averaging(curves: Iterable[Curve]) -> str:
    """Return how long curves were shortened, if any was."""
    most = max(curve.neighbours for curve in curves)
    return f" A point is the mean of up to {most:,} that were noted." if most > 1 else ""


def _recipe_facts(run: GatheredRun) -> list[tuple[str, str]]:
    """Return the recipe's name and what was changed of it."""
    recipe = run.recipe
    facts = [("recipe", recipe.name)]
    if recipe.name in RECIPES:
        changed = differences(RECIPES[recipe.name], recipe)
        # How a run is watched changes nothing about it, and the shape of a fine-tuned one is its parent's.
        beside = ("logging.", "shape.") if run.is_finetuned else ("logging.",)
        changed = {name: pair for name, pair in changed.items() if not name.startswith(beside)}
        shown = [f"{name} {_value(after)} (recipe: {_value(before)})" for name, (before, after) in changed.items()]
        facts.append(("changed settings", ", ".join(shown) or "none"))
    return facts


def _value(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


def _configuration(run: GatheredRun) -> Folded:
    """Return every setting, those first that are not the paper's, in a fold."""
    own, papers = settings(run.recipe), settings(FINETUNE if run.is_finetuned else PAPER)
    own = {name: value for name, value in own.items() if run.is_finetuned or not name.startswith("finetuning.")}
    rows = [
        TableRow(name, [TableCell(_value(value), is_number=False), TableCell(_value(papers[name]), is_number=False)])
        for name, value in own.items()
        if value != papers[name]
    ]
    same = ", ".join(f"{name} {_value(value)}" for name, value in own.items() if value == papers[name])
    table = Table("Settings that are not the paper's.", ["setting", "this run", "the paper"], rows)
    title = f"Settings ({len(rows)} of {len(own)} are not the paper's)"
    return Folded(title, [*([table] if rows else []), Note(f"As in the paper: {same}.")])


def _trained_on(run: GatheredRun) -> str | None:
    """Return the hardware of a run, where it is known."""
    found = run.record.trained_on
    if found is None or not found.device:
        return None
    return found.device + (f", in {found.processes} processes" if found.processes != 1 else "")


def start_in_words(how: Finetuning) -> str:
    """Return which weights a fine-tuning began with."""
    if how.scratch:
        return "from scratch"
    if how.transfer_layers is not None:
        return f"pre-trained, first {many(how.transfer_layers, 'layer')}"
    return "pre-trained"


def _happened(run: GatheredRun) -> list[Block]:
    """Return what the log tells: batches that blew up, and all else in a fold."""
    if run.log is None:
        return [Note("There is no events.jsonl, so what happened on the way is not known.")]
    blocks: list[Block] = []
    if run.log.rollback_count:
        times = many(run.log.rollback_count, "time")
        blocks += [Note(f"A batch blew up {times}, and the run went back:"), Lines(run.log.rollbacks)]
    else:
        blocks.append(Note("No batch blew up, and the run never had to go back."))
    if run.log.notices:
        more = run.log.notice_count - len(run.log.notices)
        lines = [*run.log.notices, *([f"and {many(more, 'line')} more"] if more else [])]
        blocks.append(Folded(f"Log ({many(run.log.notice_count, 'line')})", [Lines(lines)]))
    return blocks


def _origin(run: GatheredRun) -> Folded:
    """Return with what, where, when and by which command a run was made, in a fold."""
    made = run.record.made_with
    pairs = [(name, str(made[name])) for name in ("at", "machine") if made.get(name)]
    versions = [f"{name} {made[name]}" for name in ("gpt1", "git", "python", "torch", "numpy") if made.get(name)]
    if versions:
        pairs.append(("versions", ", ".join(versions)))
    if isinstance(made.get("command"), list):
        pairs.append(("command", shlex.join(map(str, made["command"]))))
    pairs.append(("tokenizer", f"{str(run.record.tokenizer)[:12]}, {run.record.vocab_size:,} tokens"))
    return Folded("Made with", [Facts([("folder", str(run.folder)), *pairs])])
