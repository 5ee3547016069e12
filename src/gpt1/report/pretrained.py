"""A pre-training run on the page: what it is, how its losses fell, how fast it was, what it wrote on the way."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from gpt1.base.wording import duration, many
from gpt1.documents.blocks import Block, CurvePlot, Facts, Heading, Note, Picture, Pictures, Quote, Quotes, Section
from gpt1.documents.figures import figure, rough
from gpt1.inspection.sizes import count_parameters
from gpt1.model.costs import flops_per_token
from gpt1.recipes.values import LSTM
from gpt1.report.attention import attention_blocks
from gpt1.report.gather import GatheredRun
from gpt1.report.wording import averaging, configuration, happened, origin, recipe_facts, told, trained_on

SAMPLED_STEPS = 6  # shown, from the first to the last


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
    blocks: list[Block] = [Facts([*_what(run, found), *_how_well(found), *_how_fast(run, found)])]
    blocks += _curves(run)
    blocks += [Heading("What it wrote on the way"), *_samples(run)]
    if run.recipe.shape.kind != LSTM:
        blocks += [Heading("Where it looks"), *_attention(run)]
    blocks += [Heading("What happened"), *happened(run), configuration(run), origin(run)]
    parent = run.record.parent
    lead = "Pre-training" + (f", begun with the weights of {parent}" if parent else "")
    return Section(anchor, run.name, lead, blocks)


def _what(run: GatheredRun, found: Reached) -> list[tuple[str, str]]:
    shape, corpus = run.recipe.shape, run.record.corpus
    network = f"LSTM of {shape.units:,} units" if shape.kind == LSTM else many(shape.layers, "layer")
    facts = [
        *recipe_facts(run),
        ("network", f"{network}, width {shape.width:,}, context {shape.context:,} tokens"),
        ("parameters", f"{found.parameters:,}"),
    ]
    if corpus:
        facts.append(("text", f"{corpus.path}, {rough(corpus.tokens)} tokens"))
    if found.tokens is not None and run.progress is not None:
        times = f", {_times(found.tokens / corpus.tokens)} times the text" if corpus and corpus.tokens else ""
        planned = run.progress.planned
        of = f" of {planned:,}" if planned > run.progress.step else ""
        facts.append(("trained on", f"{rough(found.tokens)} tokens in {run.progress.step:,}{of} updates{times}"))
    return [*facts, ("seed", str(run.record.seed))]


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
    hardware = trained_on(run)
    on = f" on {hardware}" if hardware else ""
    work = found.tokens * flops_per_token(run.recipe.shape, run.record.vocab_size)
    return [("cost", f"about {duration(found.tokens / speed)}{on}; {rough(work)}FLOP of the model's own")]


def _curves(run: GatheredRun) -> list[Block]:
    if run.progress is None:
        return [Note("There is no metrics.jsonl, so there are no curves.")]
    curves = run.progress.curves
    named = {"loss": "training", "valid_loss": "validation"}
    losses = {title: curves[name] for name, title in named.items() if name in curves}
    pictures = []
    if losses:
        alternative = "; ".join(f"{name} loss {told(curve)}" for name, curve in losses.items())
        caption = "Loss in nats a token." + averaging(losses.values())
        pictures.append(Picture(CurvePlot(losses, "loss"), alternative, caption))
    if "tokens_per_second" in curves:
        speed = curves["tokens_per_second"]
        picture = CurvePlot({"tokens a second": speed}, "tokens a second")
        pictures.append(Picture(picture, f"tokens a second {told(speed)}", "Speed." + averaging([speed])))
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
