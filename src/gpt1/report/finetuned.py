"""A fine-tuned run on the page: what it learned from what, its scores and curves, what it mixes up, its mistakes."""

from __future__ import annotations

from gpt1.documents.blocks import (
    SCORE_SPAN,
    Block,
    Curve,
    CurvePlot,
    Facts,
    Heading,
    Note,
    Picture,
    Pictures,
    Section,
)
from gpt1.documents.evaluation import evaluation_blocks, scores_table, seeds_blocks
from gpt1.documents.figures import metric_name
from gpt1.records.seeds import SeedsResult
from gpt1.report.gather import GatheredRun
from gpt1.report.wording import (
    averaging,
    configuration,
    happened,
    origin,
    recipe_facts,
    start_in_words,
    told,
    trained_on,
)
from gpt1.tasks.catalog import Task


def finetuned_section(run: GatheredRun, anchor: str) -> Section:
    """Return all there is to say of a fine-tuned run."""
    blocks: list[Block] = [Facts(_what(run))]
    if run.seeds is not None:
        blocks += [Heading("Seeds"), *_seeds(run, run.seeds)]
    if not run.evaluations:
        blocks.append(
            Note(f"It was not measured: there is no evaluation-*.json (gpt1 evaluate {run.given} writes it).")
        )
    for name, task in run.tasks.items():
        own = [one for one in run.evaluations if one.task == name]
        title = "Scores and curves" if len(run.tasks) == 1 else f"{name}: scores and curves"
        blocks += [Heading(title), *([scores_table(own)] if own else []), *_curves(run, task)]
        for evaluation in own:
            blocks += evaluation_blocks(evaluation)
    blocks += [Heading("What happened"), *happened(run), configuration(run), origin(run)]
    return Section(anchor, run.name, f"Fine-tuned on {', '.join(run.tasks)}", blocks)


def _what(run: GatheredRun) -> list[tuple[str, str]]:
    settings, training = run.recipe.finetuning, run.recipe.training
    facts = [("task", task.in_short()) for task in run.tasks.values()]
    for name, splits in run.record.examples.items():
        counts = ", ".join(f"{split} {count:,}" for split, count in splits.items())
        facts.append(("examples" if len(run.tasks) == 1 else f"examples of {name}", counts))
    weights = start_in_words(settings)
    facts.append(("start", f"{weights}; network and words of {run.record.parent}"))
    facts += recipe_facts(run)
    updates = "" if run.progress is None else f"{run.progress.step:,} updates of "
    rate = f"learning rate {run.recipe.optimizer.lr:g}"
    facts.append(("training", f"{updates}{training.batch} examples, {rate}, {_beside(settings.lm_weight)}"))
    facts += [("hardware", hardware)] if (hardware := trained_on(run)) else []
    return [*facts, ("seed", str(run.record.seed))]


def _beside(weight: float) -> str:
    return f"language model's loss weighted {weight:g}" if weight else "without the language model's loss"


def _seeds(run: GatheredRun, seeds: SeedsResult) -> list[Block]:
    absent = [seed for seed in seeds.seeds if not (run.given / seed).is_dir()]
    gone: list[Block] = [Note(f"Not there any more: {', '.join(absent)}.")] if absent else []
    return [*seeds_blocks(seeds), *gone]


# ---- curves ----


def _curves(run: GatheredRun, task: Task) -> list[Block]:
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
                scores[f"{split} {metric_name(metric)}"] = curves[f"{prefix}_{metric}"]
    pictures = []
    if losses:
        pictures.append(_picture(losses, "loss", "The task's loss; language modelling is not in it."))
    if scores:
        pictures.append(
            _picture(
                scores,
                next(iter(scores)) if len(scores) == 1 else "score",
                "Scores on dev along the way; the best one was kept.",
                least_span=SCORE_SPAN,
            )
        )
    return [Pictures(pictures)] if pictures else [Note("Its metrics.jsonl has no figures of this task yet.")]


def _seen(curve: Curve) -> Curve:
    """Return a task's loss at the updates that had examples of it: of several tasks a batch has one, the rest is 0."""
    kept = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value != 0]
    return Curve([step for step, _ in kept], [value for _, value in kept])


def _picture(curves: dict[str, Curve], value: str, caption: str, *, least_span: float = 0) -> Picture:
    alternative = f"{value}: " + "; ".join(f"{name} {told(curve)}" for name, curve in curves.items())
    return Picture(CurvePlot(curves, value, least_span), alternative, caption + averaging(curves.values()))
