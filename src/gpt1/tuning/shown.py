"""What a person is shown of a search: what it gained, how honest that figure is, and each trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpt1.base.wording import duration, hundred, many
from gpt1.documents.blocks import Block, Note, Table, TableCell, TableRow
from gpt1.documents.figures import metric_name
from gpt1.records.tuning import DIVERGED, DONE, PRUNED, TrialRecord
from gpt1.tuning.space import in_digits
from gpt1.tuning.tune import TuneResult

_ENDS = {DONE: "", PRUNED: "given up", DIVERGED: "blew up"}


def search_blocks(found: TuneResult) -> list[Block]:
    """Return what was gained, the caution that goes with it, and a table of all trials."""
    told: list[Block] = [Note(_gained(found), leads=True)]
    if len(found.record.trials) > 1:
        told.append(Note(_caution(found)))
    return [*told, _table(found)]


def search_as_json(found: TuneResult) -> dict[str, Any]:
    """Return the search for programs."""
    record, best = found.record, found.best
    return {
        "metric": record.metric,
        "rows": record.rows,
        "folds": record.folds,
        "trials": [one.as_json() for one in record.trials],
        "winner": best + 1,
        "gained": record.trials[best].scores[-1] - record.trials[0].scores[-1],
    }


def _gained(found: TuneResult) -> str:
    """Return in a sentence what the search brought, by its own measure."""
    record, best = found.record, found.best
    as_is = f"recipe {found.recipe} as it is"
    trials, metric = many(len(record.trials), "trial"), metric_name(record.metric)
    first, won = record.trials[0].scores[-1], record.trials[best].scores[-1]
    if best == 0 or hundred(won) == hundred(first):
        why = "no other was better" if best == 0 else f"trial {best + 1}, which is taken, is only surer of its answers"
        return f"Nothing was gained: of {trials}, {why}; {as_is} has {metric} {hundred(first)} on rows not learned."
    return (
        f"Gained {hundred(won - first)} points by the search's own measure: {metric} {hundred(won)} with trial "
        f"{best + 1}, {hundred(first)} with {as_is}, on rows for training that were not learned.{_chance(found)}"
    )


def _chance(found: TuneResult) -> str:
    """Return that a gain may be none, where the recipe's own score lies within the interval of the winner's."""
    interval, first = found.record.trials[found.best].interval, found.record.trials[0].scores[-1]
    return " On so few rows that may be chance." if interval is None or first >= interval[0] else ""


def _caution(found: TuneResult) -> str:
    record, best = found.record, found.best
    interval = record.trials[best].interval
    between = "" if interval is None else f" (95 % interval {hundred(interval[0])} to {hundred(interval[1])})"
    flatters = (
        f"That score{between} flatters: it is the best of {many(len(record.trials), 'trial')}, chosen by these very "
        f"{many(_judging_rows(found), 'row')}."
    )
    if "test" in found.finetune:
        return f"{flatters} The run's test tells what it is worth: nobody had looked at it before."
    return (
        f"{flatters} So does what cross-validation on the same rows tells of the run; rows that `test` names tell what "
        "it is worth."
    )


def _judging_rows(found: TuneResult) -> int:
    rows = found.record.rows
    return rows if found.record.folds > 1 else rows // 3


def _table(found: TuneResult) -> Table:
    names = list(found.usual)
    rows = [_row(found, number, one, names) for number, one in enumerate(found.record.trials)]
    return Table("Trials", ["trial", *(name.partition(".")[2] for name in names), "score", "95 %", "time", ""], rows)


def _short(value: float) -> str:
    """Return a value in few digits, a whole number in all of its own."""
    return in_digits(value) if float(value).is_integer() else f"{value:.3g}"


def _row(found: TuneResult, number: int, trial: TrialRecord, names: Sequence[str]) -> TableRow:
    values = trial.values or found.usual
    interval = "" if trial.interval is None else " to ".join(map(hundred, trial.interval))
    score = hundred(trial.scores[-1]) if trial.scores else ""
    cells = [
        *(TableCell(_short(values[name])) for name in names),
        TableCell(score, is_best=number == found.best),
        TableCell(interval),
        TableCell(duration(trial.seconds)),
        TableCell(_ENDS[trial.end] if number else "as it is", is_number=False),
    ]
    return TableRow(str(number + 1), cells)
