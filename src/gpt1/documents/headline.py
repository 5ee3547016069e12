"""The first thing a person is to know of a run: what its score is worth, and what it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import BarPlot, Beside, Block, Estimate, Note, Picture, Pictures, Table, TableCell, TableRow
from gpt1.documents.figures import between, metric_name, score
from gpt1.documents.verdict import Decided, Verdict, better_known_by, by_commonest, verdict
from gpt1.records.ensemble import WORDS as COUNTED
from gpt1.records.ensemble import TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.tasks.assessment import wilson

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
        return f"{_opening(worth)}: {worth.sentence}."
    metric, reached = next(iter(evaluation.metrics.items()), ("", 0.0))  # a damaged record may have none
    rows = many(evaluation.examples, "row")
    told = "" if worth is None else f"; {worth.sentence}"
    return f"{_titled(metric)} {score(reached)} on {rows}; counted words were not asked the same{told}."


def _opening(worth: Verdict) -> str:
    if worth.is_flattered or (worth.is_of_use and worth.may_be_chance):
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
    held = _held(evaluation, decided)
    return [Note(headline(evaluation, decided), leads=True), Beside([[_table(held)], [Pictures([_picture(held)])]])]


def yardsticks(evaluation: Evaluation, decided: Decided) -> Table:
    """Return a run's score beside those of counted words and of the commonest label."""
    return _table(_held(evaluation, decided))


@dataclass(frozen=True)
class _Held:
    """What each reached by the metric that decides, x 100, and on which rows."""

    metric: str
    found: dict[str, Estimate]
    rows: str


def _held(evaluation: Evaluation, decided: Decided) -> _Held:
    by = better_known_by(evaluation, decided.get(evaluation.task))
    return _on_the_split(evaluation) if by is None else _by_cross_validation(by)


def _on_the_split(evaluation: Evaluation) -> _Held:
    metric, reached = next(iter(evaluation.metrics.items()), ("", 0.0))
    low_high = evaluation.intervals.get(metric)
    found = {RUN: Estimate(x100(reached), None if low_high is None else (x100(low_high[0]), x100(low_high[1])))}
    if (words := (evaluation.words or {}).get(metric)) is not None:
        found[WORDS] = Estimate(x100(words), None)
    if (common := by_commonest(evaluation)) is not None:
        found[f"always '{common[0]}', the commonest label"] = Estimate(x100(common[1]), None)
    chose = ", which also chose the epoch" if evaluation.split == "dev" else ""
    return _Held(metric, found, f"{many(evaluation.examples, 'row')} of {evaluation.split}{chose}")


def _by_cross_validation(by: TaskEnsemble) -> _Held:
    """Return what trainings on other parts of the table reached on each part of it."""
    reached = by.scores[by.best]
    interval = None
    if by.metric == "accuracy":
        low, high = wilson(round(reached * by.examples), by.examples)
        interval = (x100(low), x100(high))
    found = {RUN: Estimate(x100(reached), interval), WORDS: Estimate(x100(by.scores[COUNTED]), None)}
    if by.metric == "accuracy" and by.commonest is not None:
        found["always the commonest label"] = Estimate(x100(by.commonest), None)
    how = "held out once" if by.is_held_out_once else "by cross-validation"
    return _Held(by.metric, found, f"{many(by.examples, 'row')}, {how}, which also chose who answers")


def _table(held: _Held) -> Table:
    best = max((one.value for one in held.found.values()), default=0.0)
    rows = [
        TableRow(name, [TableCell(score(one.value / 100), _note(one), is_best=one.value == best)])
        for name, one in held.found.items()
    ]
    below = "; below it is the 95 % interval" if any(one.interval for one in held.found.values()) else ""
    caption = f"{_titled(held.metric)} x 100 on {held.rows}{below}."
    return Table(caption, ["who answers", metric_name(held.metric)], rows)


def _note(found: Estimate) -> str:
    return "" if found.interval is None else between((found.interval[0] / 100, found.interval[1] / 100))


def _picture(held: _Held) -> Picture:
    name = metric_name(held.metric)
    spoken = "; ".join(f"{who} {score(one.value / 100)}" for who, one in held.found.items())
    bars = {who: {"": one} for who, one in held.found.items()}
    caption = f"{_titled(held.metric)} x 100; the line is the 95 % interval."
    return Picture(BarPlot(bars, name), f"{name}: {spoken}", caption)
