"""What a search for settings has tried, and whether it is over: `tuning.json`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart, Seconds, Size

TUNING_FILE = "tuning.json"

TrialEnd = Literal["done", "pruned", "diverged"]
DONE: TrialEnd = "done"
PRUNED: TrialEnd = "pruned"  # given up after a fold, for being worse than half of the others
DIVERGED: TrialEnd = "diverged"


@dataclass(frozen=True)
class TrialRecord(RecordPart):
    """Settings that were tried, and what rows that were not learned say of them."""

    end: TrialEnd
    values: dict[str, float]  # of what is searched; none of the first, which is the recipe as it is
    scores: list[float]  # after each fold, of all rows that were answered by then
    loss: float | None  # of these answers: minus the mean of their log-likelihoods
    seconds: Seconds
    updates: Count  # that were made in all folds; 0 where some were made before a kill, so that they tell no time
    interval: tuple[float, float] | None = None  # 95 %, of the last score, over other rows

    @property
    def figures(self) -> list[float]:
        """All of it that is a measure."""
        loss = [] if self.loss is None else [self.loss]
        return [self.seconds, *self.scores, *self.values.values(), *loss, *(self.interval or ())]


@dataclass(frozen=True)
class TuningRecord(Record):
    """A search: what it is of, how trials are judged, and each that was made."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-tuning", 1, "search for settings", "what a search for settings has tried"
    REMEDY = "bring it back from a copy, or search anew in another folder"

    made_for: dict[str, str]  # what tells this search from another in the same folder
    metric: str
    rows: Size  # for training
    seconds_an_update: Seconds  # as a few updates told before the first trial
    folds: Size  # of the parts of the rows, so many are held out, one after the other
    trials: list[TrialRecord] = field(default_factory=list)
    closed: bool = False  # the winner is chosen: what has seen its test is not searched further

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path, remedy: str = "") -> Self:
        """Return what a file holds, whose first trial is the recipe as it is."""
        found = super().from_json(value, path, remedy)
        first = found.trials[:1]
        figures = [found.seconds_an_update, *(figure for one in found.trials for figure in one.figures)]
        wrong = {
            "a trial that is done has no score": any(not one.scores for one in found.trials if one.end != DIVERGED),
            "its first trial is not the recipe as it is": any(one.values or one.end != DONE for one in first),
            "a figure of it is no number": not all(map(math.isfinite, figures)),
            "a winner is chosen, and there are no trials": found.closed and not found.trials,
        }
        if problem := next((sentence for sentence, holds in wrong.items() if holds), None):
            raise FormatError(f"{path} is damaged: {problem}; {remedy or cls.REMEDY}")
        return found
