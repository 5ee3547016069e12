"""Trials are reckoned by the updates that they make, and so is the winner."""

from __future__ import annotations

from gpt1.recipes.values import FOLDS
from gpt1.records.tuning import DONE, TrialRecord
from gpt1.tuning.budget import FEWEST_TRIALS, ROOM, Costs, folds_that_fit, measured

COSTS = Costs(seconds_an_update=1.0, updates=100, is_cross_validated=True, folds=FOLDS)


def trial(seconds: float, updates: int) -> TrialRecord:
    return TrialRecord(DONE, {}, [0.5], 0.5, seconds, updates)


def test_the_winner_is_reckoned_with_the_cross_validation_that_follows_it() -> None:
    assert COSTS.winner(100) == ROOM * 300
    assert Costs(1.0, 100, False, FOLDS).winner(100) == ROOM * 100
    assert COSTS.trial(200) == ROOM * 200


def test_all_parts_are_held_out_where_some_trials_fit_so_else_one() -> None:
    enough = ROOM * (300 + FEWEST_TRIALS * 200)
    assert folds_that_fit(COSTS, 300, 1000, enough) == FOLDS
    assert folds_that_fit(COSTS, 300, 1000, enough - 1) == 1
    assert folds_that_fit(COSTS, 1001, 1000, enough) == 1


def test_an_update_takes_what_trials_took_and_what_was_made_before_a_kill_tells_nothing() -> None:
    assert measured(2.0, []) == 2.0
    assert measured(2.0, [trial(5.0, 0)]) == 2.0
    assert measured(2.0, [trial(10.0, 10), trial(5.0, 0), trial(30.0, 10), trial(40.0, 10)]) == 3.0
