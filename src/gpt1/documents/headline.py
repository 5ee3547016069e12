"""The first thing a person is to know of a run: what its score is worth, and what it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import BarPlot, Beside, Block, Estimate, Note, Picture, Pictures, Table, TableCell, TableRow
from gpt1.documents.figures import between, metric_name, score
from gpt1.documents.verdict import Decided, Verdict, better_known_by, by_commonest, commonest_by_folds, verdict
from gpt1.records.ensemble import WORDS as COUNTED
from gpt1.records.ensemble import TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.tasks.assessment import Interval, wilson

RUN, WORDS = "this run", "counting words (TF-IDF)"


def decisive(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return of each task what tells most: answers to rows that chose nothing, else those for dev."""
    found: dict[str, Evaluation] = {}
    for one in evaluations:
        if one.task not in found or one.split == "test":
            found[one.task] = one
    return list(found.values())


def headline(evaluation: Evaluation, decided: Decided) -> str:
    """Return what a run is worth, in a sentence; `decided` by what, where more rows than these decided who answers."""
    worth = verdict(evaluation, decided.get(evaluation.task))
    if worth is not None and worth.is_of_use is not None:
        return opened(worth)
    metric, reached = next(iter(evaluation.metrics.items()), ("", 0.0))  # a damaged record may have none
    rows = many(evaluation.examples, "row")
    told = "" if worth is None else f"; {worth.sentence}"
    others = "a linear model was" if evaluation.by else "counted words were"
    return f"{_titled(metric)} {score(reached)} on {rows}; {others} not asked the same{told}."


def measured_line(evaluation: Evaluation, decided: Decided) -> str:
    """Return what the sentence stands on: the score with its interval, that of counted words, and which rows."""
    found = _best_known(evaluation, decided)
    interval = "" if found.interval is None else f" (95 % interval {between(found.interval)})"
    yardstick = found.yardstick.removesuffix(" (TF-IDF)")
    words = "" if found.words is None else f", {yardstick} {score(found.words)}"
    return f"{_titled(found.metric)} {score(found.score)}{interval}{words}, on {found.rows}."


def opened(worth: Verdict) -> str:
    """Return a verdict on what was held against something as the first thing to be said."""
    return f"{_opening(worth)}: {worth.sentence}."


def _opening(worth: Verdict) -> str:
    if worth.is_flattered or worth.may_be_chance:
        return "How good it is is not known"
    if worth.is_as_words:
        return "No gain"
    return "Of use" if worth.is_of_use else "Not of use yet"


def _titled(metric: str) -> str:
    """Return the name of a metric at the beginning of a sentence."""
    name = metric_name(metric)
    return f"{name[:1].upper()}{name[1:]}"


def headline_blocks(evaluation: Evaluation, decided: Decided) -> list[Block]:
    """Return the sentence, the yardsticks as a table, and beside it as a picture."""
    found = _best_known(evaluation, decided)
    table, picture = measured_table(found), _picture(found)
    return [Note(headline(evaluation, decided), leads=True), Beside([[table], [Pictures([picture])]])]


def yardsticks(evaluation: Evaluation, decided: Decided) -> Table:
    """Return a run's score beside those of counted words and of the commonest label."""
    return measured_table(_best_known(evaluation, decided))


@dataclass(frozen=True)
class HeldScore:
    """What a run reached by the metric that decides and what it is held against, from 0 to 1, on the same rows."""

    rows: str  # which, in words
    examples: int
    metric: str
    score: float
    interval: Interval | None  # 95 %, where it is known
    words: float | None  # what counted words (TF-IDF) reached, where they were asked
    commonest: float | None  # what always giving the commonest label reaches, where that is known
    label: str | None = None  # the commonest, where it is known
    yardstick: str = WORDS  # what the run is held against


def _best_known(evaluation: Evaluation, decided: Decided) -> HeldScore:
    by = better_known_by(evaluation, decided.get(evaluation.task))
    return measured(evaluation) if by is None else measured_by_folds(by)


def measured(evaluation: Evaluation) -> HeldScore:
    """Return what was measured on a split."""
    metric, reached = next(iter(evaluation.metrics.items()), ("", 0.0))
    label, share = by_commonest(evaluation) or (None, None)
    chose = ", which also chose the epoch" if evaluation.split == "dev" else ""
    return HeldScore(
        rows=f"{many(evaluation.examples, 'row')} of {evaluation.split}{chose}",
        examples=evaluation.examples,
        metric=metric,
        score=reached,
        interval=evaluation.intervals.get(metric),
        words=(evaluation.words or {}).get(metric),
        commonest=share,
        label=label,
        yardstick=evaluation.by or WORDS,
    )


def measured_by_folds(by: TaskEnsemble) -> HeldScore:
    """Return what trainings on other parts of the table reached on each part of it."""
    reached, is_share = by.scores[by.best], by.metric == "accuracy"
    how = "held out once" if by.is_held_out_once else "by cross-validation"
    return HeldScore(
        rows=f"{many(by.examples, 'row')}, {how}, which also chose who answers",
        examples=by.examples,
        metric=by.metric,
        score=reached,
        interval=wilson(round(reached * by.examples), by.examples) if is_share else by.interval,
        words=by.scores[COUNTED],
        commonest=commonest_by_folds(by),
    )


def _estimates(found: HeldScore) -> dict[str, Estimate]:
    """Return what each reached, x 100, by who it is."""
    interval = None if found.interval is None else (x100(found.interval[0]), x100(found.interval[1]))
    each = {RUN: Estimate(x100(found.score), interval)}
    if found.words is not None:
        each[found.yardstick] = Estimate(x100(found.words), None)
    if found.commonest is not None:
        common = "the commonest labels" if found.metric == "micro_f1" else "the commonest label"
        name = f"always {common}" if found.label is None else f"always '{found.label}', {common}"
        each[name] = Estimate(x100(found.commonest), None)
    return each


def measured_table(found: HeldScore) -> Table:
    """Return what each reached as a table."""
    each = _estimates(found)
    best = max(one.value for one in each.values())
    rows = [
        TableRow(name, [TableCell(score(one.value / 100), _note(one), is_best=one.value == best)])
        for name, one in each.items()
    ]
    below = "; below it is the 95 % interval" if found.interval is not None else ""
    caption = f"{_titled(found.metric)} x 100 on {found.rows}{below}."
    return Table(caption, ["who answers", metric_name(found.metric)], rows)


def _note(found: Estimate) -> str:
    return "" if found.interval is None else between((found.interval[0] / 100, found.interval[1] / 100))


def _picture(found: HeldScore) -> Picture:
    each, name = _estimates(found), metric_name(found.metric)
    spoken = "; ".join(f"{who} {score(one.value / 100)}" for who, one in each.items())
    bars = {who: {"": one} for who, one in each.items()}
    caption = f"{_titled(found.metric)} x 100; the line is the 95 % interval."
    return Picture(BarPlot(bars, name), f"{name}: {spoken}", caption)
