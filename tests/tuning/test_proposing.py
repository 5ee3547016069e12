"""What optuna proposes is a function of the seed and of the trials that are done."""

from __future__ import annotations

import sys

import pytest

import gpt1
from gpt1.base.errors import MissingDependency
from gpt1.records.tuning import DIVERGED, DONE, PRUNED, TrialEnd, TrialRecord
from gpt1.tuning.proposing import RANDOM_FIRST, Proposal, propose
from gpt1.tuning.space import DROPOUT, EPOCHS, RATE, Range

SPACE = [Range(RATE, 1e-5, 1e-3), Range(EPOCHS, 1, 9), Range(DROPOUT, 0.0, 0.3)]
USUAL = {RATE: 1e-4, EPOCHS: 5.0, DROPOUT: 0.1}


def trial(values: dict[str, float], *scores: float, end: TrialEnd = DONE) -> TrialRecord:
    return TrialRecord(end, values, list(scores), 0.5, 1.0, 10)


def proposed(done: list[TrialRecord], seed: int = 0, usual: dict[str, float] = USUAL) -> Proposal:
    found = propose(SPACE, usual, done, seed)
    assert found is not None
    return found


def many_trials(count: int, seed: int = 0) -> list[TrialRecord]:
    """Return trials whose score is the better the nearer the rate is to 3e-4."""
    done = [trial({}, 0.1, 0.1, 0.1)]
    while len(done) < count:
        values = proposed(done, seed).values
        score = 1 - abs(values[RATE] - 3e-4)
        done.append(trial(values, score, score, score))
    return done


def test_the_same_trials_and_seed_give_the_same_values_within_their_ranges() -> None:
    done = many_trials(12)
    assert done == many_trials(12)
    assert done[1:] != many_trials(12, seed=1)[1:]
    assert all(one.holds(each.values[one.name]) for each in done[1:] for one in SPACE)
    assert len({each.values[RATE] for each in done[1:]}) == 11


def test_what_was_found_says_where_to_look() -> None:
    rates = [one.values[RATE] for one in many_trials(40)[1:]]
    near = [2e-4 < rate < 4.5e-4 for rate in rates]
    assert sum(near[-20:]) > sum(near[:RANDOM_FIRST]) * 20 / RANDOM_FIRST


def test_trials_that_were_given_up_or_blew_up_or_lie_outside_are_told_without_an_error() -> None:
    done = [
        trial({}, 0.5, 0.6),
        trial({RATE: 1e-5, EPOCHS: 1.0, DROPOUT: 0.3}, 0.4, end=PRUNED),
        trial({RATE: 1e-3, EPOCHS: 9.0, DROPOUT: 0.0}, end=DIVERGED),
    ]
    assert proposed(done, usual=USUAL | {RATE: 1.0}).values.keys() == USUAL.keys()


def test_after_some_trials_one_that_is_worse_than_half_of_them_is_hopeless() -> None:
    done = [trial({}, 0.7, 0.8, 0.9), *many_trials(RANDOM_FIRST)[1:]]
    assert proposed(done).is_hopeless([0.1])
    assert not proposed(done).is_hopeless([0.9999999])
    assert not proposed(done[:2]).is_hopeless([0.1])


def test_what_was_tried_is_not_tried_again_and_where_all_was_nothing_is_proposed() -> None:
    space, done = [Range(EPOCHS, 1, 3)], [trial({}, 0.5)]
    while (found := propose(space, {EPOCHS: 2.0}, done, 0)) is not None:
        done.append(trial(found.values, 0.5))
    assert sorted(one.values.get(EPOCHS, 2.0) for one in done) == [1.0, 2.0, 3.0]


def test_without_optuna_a_person_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingDependency, match=r"needs the library optuna: pip install 'gpt1\[tune\]'"):
        gpt1.tune("reviews.csv", "out")
