"""A fine-tuned run on the page: what it learned from what, its scores and curves, what it mixes up, its mistakes."""

from __future__ import annotations

from collections.abc import Sequence

from gpt1.base.wording import many
from gpt1.records.evaluation import Evaluation
from gpt1.records.seeds import SeedsResult
from gpt1.report.blocks import (
    Beside,
    Block,
    Facts,
    Folded,
    Heading,
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
from gpt1.report.gather import LONGEST_NAME, Curve, GatheredRun, page_text
from gpt1.report.plots import SCORE_SPAN, draw_curves, draw_reliability
from gpt1.report.wording import (
    averaging,
    between,
    configuration,
    figure,
    happened,
    metric_name,
    number,
    origin,
    recipe_facts,
    signed,
    start_in_words,
    told,
    trained_on,
)
from gpt1.tasks.assessment import Calibration, ClassRates, Confusion, Mistake
from gpt1.tasks.catalog import Task
from gpt1.text.specials import SPECIALS

MISTAKES = 5  # shown at once, the others in a fold
MOST_RATES = 200  # labels of which it is told how they were answered
WIDE = 15  # classes, beyond which a table of all pairs is no longer readable


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
        blocks += [Heading(title), *([_scores(own)] if own else []), *_curves(run, task)]
        for evaluation in own:
            blocks += _evaluation(evaluation)
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


# ---- scores ----


def _scores(evaluations: Sequence[Evaluation]) -> Table:
    """Return a table with a row for each split."""
    metrics = list(dict.fromkeys(name for one in evaluations for name in one.metrics))
    residuals = list(dict.fromkeys(name for one in evaluations for name in one.residuals))
    calibrated = any(one.calibration for one in evaluations)
    common = any(one.confusion for one in evaluations)
    header = ["split", "examples", *map(metric_name, metrics), *(name.replace("_", " ") for name in residuals)]
    header += ["commonest label"] if common else []
    header += ["ECE", "Brier", "log loss"] if calibrated else []
    rows = []
    for one in evaluations:
        cells = [TableCell(f"{one.examples:,}", note=f"update {one.step:,}")]
        cells += [_metric(one, name) for name in metrics]
        cells += [number(one.residuals[name]) if name in one.residuals else TableCell("–") for name in residuals]
        cells += [_commonest(one.classes)] if common else []
        if calibrated:
            found = one.calibration
            cells += [number(x) for x in (found.ece, found.brier, found.nll)] if found else [TableCell("–")] * 3
        rows.append(TableRow(one.split, cells))
    caption = "Below a score is its 95 % interval, over examples."
    caption += " Always answering the commonest label would be right in the share told." if common else ""
    caption += (
        " Of the expected calibration error (ECE), Brier score and log loss less is better." if calibrated else ""
    )
    return Table(caption, header, rows)


def _metric(evaluation: Evaluation, name: str) -> TableCell:
    if name not in evaluation.metrics:
        return TableCell("–")
    interval = evaluation.intervals.get(name)
    return TableCell(figure(evaluation.metrics[name]), note=between(interval) if interval else "")


def _commonest(classes: Sequence[ClassRates]) -> TableCell:
    if not classes:
        return TableCell("–")
    most = max(classes, key=lambda one: one.support)
    return TableCell(figure(most.support / sum(one.support for one in classes)), note=_name(most.label))


def _seeds(run: GatheredRun, seeds: SeedsResult) -> list[Block]:
    header = ["score", "median", "mean", "deviation", "worst", "best", "each"]
    rows = []
    for name, figures in seeds.summary.items():
        each = [figure(scores[name]) for scores in seeds.seeds.values() if name in scores]
        values = [TableCell(figure(figures[what])) if what in figures else TableCell("–") for what in _SUMMARY]
        rows.append(TableRow(name, [*values, TableCell(", ".join(each))]))
    found: list[Block] = [
        Table(f"{many(len(seeds.seeds), 'seed')}: {', '.join(seeds.seeds)}.", header, rows),
        Note(f"{seeds.best} is the best on dev and was kept; all that follows is of this one."),
    ]
    absent = [seed for seed in seeds.seeds if not (run.given / seed).is_dir()]
    return [*found, Note(f"Not there any more: {', '.join(absent)}.")] if absent else found


_SUMMARY = ("median", "mean", "sd", "worst", "best")


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
    return Picture(draw_curves(curves, value, least_span=least_span), alternative, caption + averaging(curves.values()))


# ---- one split ----


def _evaluation(evaluation: Evaluation) -> list[Block]:
    blocks: list[Block] = [Heading(f"{evaluation.task} {evaluation.split}: what is mixed up, and how surely")]
    left = [f"{many(evaluation.unlabelled, 'example')} had no label and were not counted."] * bool(
        evaluation.unlabelled
    )
    if cut := evaluation.cut.examples:
        left.append(f"{many(cut, 'example')} had more text than fits and lost the rest.")
    left += [f"{text}." for text in evaluation.unknown_notices()]
    blocks += map(Note, left)
    columns: list[list[Block]] = []
    if evaluation.calibration and evaluation.calibration.bins:
        columns.append([Pictures([_reliability(evaluation.calibration)])])
    if evaluation.confusion:
        columns.append(_confusion(evaluation.confusion, evaluation.classes))
    return [*blocks, *([Beside(columns)] if columns else []), *_mistakes(evaluation.mistakes)]


def _confusion(confusion: Confusion, classes: Sequence[ClassRates]) -> list[Block]:
    many_labels = len(classes) > MOST_RATES
    most = sorted(classes, key=lambda one: -one.support)[:MOST_RATES] if many_labels else classes
    rates = Table(
        f"How the {MOST_RATES} most frequent labels were answered." if many_labels else "How each label was answered.",
        ["label", "precision", "recall", "F1", "examples"],
        [
            TableRow(
                _name(one.label),
                [number(one.precision), number(one.recall), number(one.f1), TableCell(f"{one.support:,}")],
            )
            for one in most
        ],
    )
    if len(classes) > WIDE:
        summary = f"{'All ' if len(most) == len(classes) else ''}{len(most):,} labels"
        return [_commonest_confusions(confusion, len(classes)), Folded(summary, [rates])]
    rows = []
    labels = [_name(one.label) for one in classes]
    for place, (label, counts) in enumerate(zip(labels, confusion.counts, strict=True)):
        total = sum(counts) or 1
        cells = [
            TableCell(f"{count:,}", share=round(100 * count / total), is_wrong=column != place)
            for column, count in enumerate(counts)
        ]
        rows.append(TableRow(label, cells))
    caption = "Rows are labels, columns are answers; the stronger the colour, the larger the share of the row."
    return [
        Table(caption, ["label", *labels], rows, over="answered"),
        Folded("Precision and recall", [rates]),
    ]


def _commonest_confusions(confusion: Confusion, classes: int) -> Table:
    rows = [
        TableRow(_name(one.label), [TableCell(_name(one.answer), is_number=False), TableCell(f"{one.count:,}")])
        for one in confusion.commonest()[:WIDE]
    ]
    caption = f"What is mixed up most, of {classes:,} labels."
    return Table(caption, ["label", "answered", "times"], rows)


def _reliability(calibration: Calibration) -> Picture:
    spoken = [f"{one.confidence:.2f} sure, {one.accuracy:.2f} right ({one.count:,})" for one in calibration.bins]
    caption = (
        f"Reliability: expected calibration error (ECE) {figure(calibration.ece)}. On the dashed line confidence is "
        "earned; bars below it are too sure. The stronger its colour, the more answers a bar stands for."
    )
    return Picture(draw_reliability(calibration.bins), "Reliability: " + "; ".join(spoken), caption)


def _mistakes(mistakes: Sequence[Mistake]) -> list[Block]:
    if not mistakes:
        return [Note("There were no mistakes.")]
    quotes = [_quote(one) for one in mistakes]
    title = "The surest mistakes" if mistakes[0].error is None else "The largest errors"
    blocks: list[Block] = [Heading(title, level=4), Quotes(quotes[:MISTAKES])]
    if rest := quotes[MISTAKES:]:
        blocks.append(Folded(f"{len(rest)} more", [Quotes(rest)]))
    return blocks


def _quote(mistake: Mistake) -> Quote:
    place = f"example {mistake.index + 1:,}"
    if mistake.error is not None:
        head = f"{place}: answered {_name(mistake.prediction)}; right is {_name(mistake.label)}"
        return Quote(f"{head} ({signed(mistake.error)})", _plain(mistake.text))
    sure = "" if mistake.probability is None else f", {100 * mistake.probability:.0f} % sure"
    if mistake.right_text:  # of choices the numbers of the answers say little
        return Quote(f"{place}: wrong{sure}", _plain(mistake.text), after=_plain(mistake.right_text))
    answered, right = _name(mistake.prediction), _name(mistake.label)
    return Quote(f"{place}: answered {answered}{sure}; right is {right}", _plain(mistake.text))


def _name(label: str | float) -> str:
    return f"{label:.2f}" if isinstance(label, float) else page_text(str(label), LONGEST_NAME)


def _plain(text: str) -> str:
    """Return a sequence without the special tokens at its two ends, which all have."""
    start, _, extract = (f"[{name}]" for name in SPECIALS)
    return page_text(text).removeprefix(start).removesuffix(extract).strip()
