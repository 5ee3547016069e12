"""What fits into the time of a search: trials, and the training of the winner, for which time is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpt1.finetuning.ensembling import times_as_long
from gpt1.recipes.values import FOLDS
from gpt1.records.tuning import TrialRecord

ROOM = 1.2  # times what was reckoned, for what is no update: reading, answering, writing
FEWEST_TRIALS = 6  # for which all parts of the rows are held out; where there is time for fewer, one part is


@dataclass(frozen=True)
class Costs:
    """How long trials and the winner take, by the updates that they make."""

    seconds_an_update: float
    updates: int  # of the recipe as it is, with all rows
    is_cross_validated: bool  # afterwards, to tell who answers and what it is worth
    folds: int  # of that cross-validation

    def winner(self, updates: int) -> float:
        """Return how long the winner takes that makes so many updates."""
        again = times_as_long(self.folds) if self.is_cross_validated else 0.0
        return ROOM * self.seconds_an_update * updates * (1 + again)

    def trial(self, updates: int) -> float:
        """Return how long a trial takes that makes so many updates in all its folds."""
        return ROOM * self.seconds_an_update * updates


def folds_that_fit(costs: Costs, rows: int, most: int, seconds: float) -> int:
    """Return how many parts of the rows are held out in each trial; many rows tell enough by one part."""
    all_parts = costs.trial(round(costs.updates * times_as_long(FOLDS)))
    enough = costs.winner(costs.updates) + FEWEST_TRIALS * all_parts <= seconds
    return FOLDS if rows <= most and enough else 1


def measured(costs_before: float, trials: Sequence[TrialRecord]) -> float:
    """Return how long an update takes: as trials took, with all that is around updates, or as was reckoned before."""
    took = [one.seconds / one.updates for one in trials if one.updates]
    return median(took) if took else costs_before
