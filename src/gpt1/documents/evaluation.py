"""What was measured of a run's answers: scores, what is mixed up, how far confidence can be trusted, mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import (
    Beside,
    Block,
    Folded,
    Heading,
    Note,
    Picture,
    Pictures,
    Quote,
    Quotes,
    ReliabilityPlot,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.figures import (
    LONGEST_NAME,
    between,
    figure,
    metric_name,
    number,
    score,
    share,
    shown_text,
    signed,
)
from gpt1.documents.verdict import Decided, commonest, verdict
from gpt1.records.evaluation import Evaluation
from gpt1.records.seeds import SeedsResult
from gpt1.tasks.assessment import Calibration, ClassRates, Confusion, Mistake
from gpt1.text.specials import SPECIALS

MISTAKES = 5  # shown at once, the others in a fold
MOST_RATES = 200  # labels of which it is told how they were answered
WIDE = 15  # classes, beyond which a table of all pairs is no longer readable


def evaluation_blocks(evaluation: Evaluation) -> list[Block]:
    """Return what there is to say of the answers to one split, beyond their scores."""
    blocks: list[Block] = [
        Heading(f"{evaluation.task} {evaluation.split}: {_about(evaluation)}"),
        *map(Note, _left_out(evaluation)),
    ]
    columns: list[list[Block]] = []
    if evaluation.calibration and evaluation.calibration.bins:
        columns.append(_reliability(evaluation.calibration))
    if evaluation.confusion:
        columns.append(_confusion(evaluation.confusion, evaluation.classes))
    elif evaluation.classes:  # several labels a row, of which none is taken for another
        columns.append(_labels(evaluation.classes, is_of_spans="span_f1" in evaluation.metrics))
    return [*blocks, *([Beside(columns)] if columns else []), *_mistakes(evaluation.mistakes)]


def _about(evaluation: Evaluation) -> str:
    if "span_f1" in evaluation.metrics:
        return "each kind of span, and what is wrong"
    by_label = evaluation.classes and not evaluation.confusion
    return "each label, and what is wrong" if by_label else "what is mixed up, and how surely"


def task_scores(evaluations: Sequence[Evaluation], decided: Decided) -> list[Block]:
    """Return the scores of each task, below its name."""
    tasks = dict.fromkeys(one.task for one in evaluations)
    own = {task: [one for one in evaluations if one.task == task] for task in tasks}
    return [
        block
        for task, found in own.items()
        for block in (Heading(task), scores_table(found), *verdicts(found, decided))
    ]


def verdicts(evaluations: Sequence[Evaluation], decided: Decided) -> list[Block]:
    """Return what each score is worth, in a sentence."""
    found = {one.split: verdict(one, decided.get(one.task)) for one in evaluations}
    return [Note(f"{split}: {worth.sentence}.") for split, worth in found.items() if worth is not None]


def scores_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the scores of a task, a row for each split."""
    metrics = _all_names(_scores(one) for one in evaluations)
    residuals = _all_names(one.residuals for one in evaluations)
    calibrated = any(one.calibration for one in evaluations)
    common = any(one.confusion for one in evaluations)
    words = any(one.words for one in evaluations)
    header = ["split", "examples", *map(metric_name, metrics), *(name.replace("_", " ") for name in residuals)]
    yardstick = next((one.yardstick for one in evaluations if one.words), "")
    header += [yardstick.removeprefix("a ")] if words else []
    header += ["commonest label"] if common else []
    header += ["ECE", "Brier", "log loss"] if calibrated else []
    rows = []
    for one in evaluations:
        cells = [TableCell(f"{one.examples:,}", note=f"update {one.step:,}")]
        cells += [_metric(one, name) for name in metrics]
        cells += [number(one.residuals[name]) if name in one.residuals else TableCell("–") for name in residuals]
        cells += [_by_words(one)] if words else []
        cells += [_commonest(one.classes)] if common else []
        if calibrated:
            cells += _calibrated(one)
        rows.append(TableRow(one.split, cells))
    caption = "Scores are x 100; below one is its 95 % interval, over examples."
    if words:
        by_words = yardstick == "counting words"
        what = "Counting words is TF-IDF and a linear model" if by_words else f"Held against it is {yardstick}"
        caption += f" {what} on the same rows."
    caption += " Always answering the commonest label would be right in the share told." if common else ""
    caption += (
        " Of the expected calibration error (ECE), Brier score and log loss less is better." if calibrated else ""
    )
    if any(one.tempered for one in evaluations):
        caption += (
            " Below ECE is what it was before the temperature. Where that was fitted on dev, ECE looks a little better "
            "there than it is."
        )
    return Table(caption, header, rows)


def _calibrated(evaluation: Evaluation) -> list[TableCell]:
    """Return three figures of probabilities; below the first, what it was without a temperature."""
    found, tempered = evaluation.calibration, evaluation.tempered
    if found is None:
        return [TableCell("–")] * 3
    ece = number(found.ece)
    note = "" if tempered is None else f"before {figure(tempered.ece_before)}"
    return [replace(ece, note=note), number(found.brier), number(found.nll)]


def _all_names(figures: Iterable[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in figures for name in one))


def _scores(evaluation: Evaluation) -> dict[str, float]:
    """Return the task's metrics and, where answers are right or wrong, the share of right ones."""
    right = {} if evaluation.right is None else {"accuracy": evaluation.right / evaluation.examples}
    return evaluation.metrics | {name: share for name, share in right.items() if name not in evaluation.metrics}


def _metric(evaluation: Evaluation, name: str) -> TableCell:
    scores = _scores(evaluation)
    if name not in scores:
        return TableCell("–")
    interval = evaluation.intervals.get(name)
    return TableCell(score(scores[name]), note=between(interval) if interval else "")


def _by_words(evaluation: Evaluation) -> TableCell:
    metric = next(iter(evaluation.metrics), "")
    found = (evaluation.words or {}).get(metric)
    return TableCell("–") if found is None else TableCell(score(found), note=metric_name(metric))


def _commonest(classes: Sequence[ClassRates]) -> TableCell:
    found = commonest(classes)
    return TableCell("–") if found is None else TableCell(score(found[1]), note=found[0])


def _left_out(evaluation: Evaluation) -> list[str]:
    """Return what of the examples does not count, or was not read."""
    told = []
    if evaluation.unlabelled:
        told.append(f"{many(evaluation.unlabelled, 'example')} had no label and were not counted.")
    if cut := evaluation.cut.examples:
        fits = f"than {evaluation.context:,} tokens" if evaluation.context else "than fits"
        fits = f"than {evaluation.windows} windows hold" if evaluation.windows else fits
        told.append(f"{many(cut, 'example')} had more text {fits} and lost the rest.")
    return [*told, *(f"{text}." for text in evaluation.unknown_notices())]


# ---- what is mixed up ----


def _confusion(confusion: Confusion, classes: Sequence[ClassRates]) -> list[Block]:
    if len(classes) > WIDE:
        most = sorted(classes, key=lambda one: -one.support)[:MOST_RATES]
        summary, caption = f"All {len(most):,} labels", "How each label was answered, the most frequent first."
        if len(most) < len(classes):
            summary, caption = f"{len(most):,} labels", f"How the {len(most):,} most frequent labels were answered."
        return [_commonest_confusions(confusion, len(classes)), Folded(summary, [_rates(caption, most)])]
    rows = []
    labels = [_name(one.label) for one in classes]
    for place, (label, counts) in enumerate(zip(labels, confusion.counts, strict=True)):
        total = sum(counts) or 1
        cells = [
            TableCell(f"{count:,}", share=round(100 * count / total), is_wrong=column != place)
            for column, count in enumerate(counts)
        ]
        rows.append(TableRow(label, cells))
    table = Table("Rows are labels, columns are answers.", ["label", *labels], rows, over="answered")
    return [table, Folded("Precision and recall", [_rates("How each label was answered.", classes)])]


def _labels(classes: Sequence[ClassRates], *, is_of_spans: bool) -> list[Block]:
    caption = "How each label was answered: of those given, and of those there, how many are right."
    if is_of_spans:
        return [_rates("How spans were answered: right are those of the right kind with both ends.", classes, "spans")]
    if len(classes) <= MOST_RATES:
        return [_rates(caption, classes)]
    most = sorted(classes, key=lambda one: -one.support)[:MOST_RATES]
    return [_rates(f"{caption} The {MOST_RATES:,} most frequent of {len(classes):,}.", most)]


def _rates(caption: str, classes: Sequence[ClassRates], counted: str = "examples") -> Table:
    rows = [
        TableRow(
            _name(one.label), [share(one.precision), share(one.recall), share(one.f1), TableCell(f"{one.support:,}")]
        )
        for one in classes
    ]
    return Table(caption, ["label", "precision", "recall", "F1", counted], rows)


def _commonest_confusions(confusion: Confusion, classes: int) -> Table:
    rows = [
        TableRow(_name(one.label), [TableCell(_name(one.answer), is_number=False), TableCell(f"{one.count:,}")])
        for one in confusion.commonest()[:WIDE]
    ]
    return Table(f"What is mixed up most, of {classes:,} labels.", ["label", "answered", "times"], rows)


# ---- how surely ----


def _reliability(calibration: Calibration) -> list[Block]:
    spoken = [f"{score(one.confidence)} sure, {score(one.accuracy)} right ({one.count:,})" for one in calibration.bins]
    caption = (
        f"Reliability: expected calibration error (ECE) {figure(calibration.ece)}. On the dashed line confidence is "
        "earned; bars below it are too sure. The stronger its colour, the more answers a bar stands for."
    )
    rows = [
        TableRow(
            between((one.from_, one.to)),
            [TableCell(f"{one.count:,}"), share(one.confidence), share(one.accuracy)],
        )
        for one in calibration.bins
    ]
    table = Table(
        "Both x 100. Where accuracy is below confidence, answers are too sure.",
        ["confidence", "examples", "its mean", "accuracy"],
        rows,
    )
    picture = Picture(ReliabilityPlot(calibration.bins), "Reliability: " + "; ".join(spoken), caption)
    return [Pictures([picture]), Folded("Confidence and accuracy", [table])]


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
    place = f"example {mistake.index + 1:,}" if mistake.row is None else f"row {mistake.row:,}"
    if mistake.error is not None:
        head = f"{place}: answered {_name(mistake.prediction)}; right is {_name(mistake.label)}"
        return Quote(f"{head} ({signed(mistake.error)})", _plain(mistake.text))
    sure = "" if mistake.probability is None else f", {x100(mistake.probability):.0f} % sure"
    if mistake.right_text:  # of choices the numbers of the answers say little
        return Quote(f"{place}: wrong{sure}", _plain(mistake.text), after=_plain(mistake.right_text))
    answered, right = _name(mistake.prediction), _name(mistake.label)
    return Quote(f"{place}: answered {answered}{sure}; right is {right}", _plain(mistake.text))


def _name(label: str | float) -> str:
    return f"{label:.2f}" if isinstance(label, float) else shown_text(str(label), LONGEST_NAME) or "no label"


def _plain(text: str) -> str:
    """Return a sequence without the special tokens at its two ends, which all have."""
    start, _, extract = (f"[{name}]" for name in SPECIALS)
    return shown_text(text).removeprefix(start).removesuffix(extract).strip()


# ---- several seeds ----

_SUMMARY = {"median": "median", "mean": "mean", "sd": "deviation", "worst": "worst", "best": "best"}


def seeds_blocks(seeds: SeedsResult) -> list[Block]:
    """Return the scores of all seeds, and which was kept."""
    rows = []
    for name, figures in seeds.summary.items():
        each = [score(scores[name]) for scores in seeds.seeds.values() if name in scores]
        values = [share(figures[what]) if what in figures else TableCell("–") for what in _SUMMARY]
        rows.append(TableRow(name, [*values, TableCell(", ".join(each))]))
    return [
        Table(
            f"{many(len(seeds.seeds), 'seed')}: {', '.join(seeds.seeds)}. Scores are x 100.",
            ["score", *_SUMMARY.values(), "each"],
            rows,
        ),
        Note(f"{seeds.best} is kept: the best on dev; all that follows is of this one."),
    ]
