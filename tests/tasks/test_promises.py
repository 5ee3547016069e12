"""A promise of few wrong answers: its arithmetic against SciPy, and that it is kept, by drawing the world 200 times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from gpt1.tasks.promises import CONFIDENCE, Promise, Surenesses, find_promise, least_examples, surenesses, tail

Floats = NDArray[np.float64]
DRAWS = 200
MOST_BROKEN = int(binom.ppf(0.995, DRAWS, 1 - CONFIDENCE))  # 19: so many of 200 are chance, where 5 % are broken

# How often an answer of a confidence is right.
CLASSIFIERS: dict[str, Callable[[Floats], Floats]] = {
    "calibrated": lambda sure: sure,
    "too sure": lambda sure: 0.5 + 0.7 * (sure - 0.5),
    "not sure enough": lambda sure: np.minimum(1, sure + 0.08),
    "the surest are the worst": lambda sure: np.where(sure > 0.97, 0.85, 0.99),
    "confidence says nothing, just above the risk": lambda sure: np.full_like(sure, 0.899),
    "the surest are just above the risk": lambda sure: np.where(sure > 0.9, 0.899, 0.6),
}


def draw(right: Callable[[Floats], Floats], count: int, draws: np.random.Generator) -> Surenesses:
    sure = np.round(draws.beta(4, 0.7, count) / 2 + 0.5, 6)
    hits = draws.random(count) < right(sure)
    return Surenesses(sure[hits].tolist(), sure[~hits].tolist())


EVERYTHING = np.sort(np.round(np.random.default_rng(0).beta(4, 0.7, 400_000) / 2 + 0.5, 6))[::-1]


def true_risks(right: Callable[[Floats], Floats], thresholds: list[float]) -> Floats:
    """Return the share of wrong answers among all that are as sure as a threshold, from very many."""
    shares = np.cumsum(1 - right(EVERYTHING)) / np.arange(1, len(EVERYTHING) + 1)
    found: Floats = shares[np.searchsorted(-EVERYTHING, -np.array(thresholds), side="right") - 1]
    return found


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("count", [120, 400])
def test_the_promise_is_broken_in_no_more_than_a_twentieth_of_all_draws(name: str, count: int) -> None:
    right, risk = CLASSIFIERS[name], 0.1
    found = []
    for seed in range(DRAWS):
        draws = np.random.default_rng([seed, count])
        found.append(find_promise(draw(right, count, draws), draw(right, count, draws), risk))
    risks = true_risks(right, [one.threshold for one in found if one is not None])
    assert (risks > risk).sum() <= MOST_BROKEN


def test_it_is_not_kept_by_saying_nothing() -> None:
    draws = np.random.default_rng(0)
    kept = [find_promise(*(draw(CLASSIFIERS["calibrated"], 400, draws) for _ in range(2)), 0.1) for _ in range(50)]
    answered = [one.answered / one.examples for one in kept if one is not None]
    assert len(answered) >= 45
    assert float(np.median(answered)) > 0.6  # nine of ten answers in all are right, so nearly all could be given


def test_where_the_same_rows_chose_the_threshold_and_proved_it_the_promise_would_be_broken() -> None:
    """Why half of the rows is kept apart: the laxest threshold that looks good enough is one too many."""
    right, risk = CLASSIFIERS["confidence says nothing, just above the risk"], 0.1
    broken = 0
    for seed in range(DRAWS):
        seen = draw(right, 200, np.random.default_rng(seed))
        looked = [seen.at_least(one) for one in sorted({*seen.right, *seen.wrong})]
        broken += any(tail(wrong, answered, risk) <= 1 - CONFIDENCE for answered, wrong in looked)
    assert broken > MOST_BROKEN


@pytest.mark.parametrize(("wrong", "answered", "risk"), [(0, 59, 0.05), (13, 400, 0.05), (1900, 40_000, 0.05)])
def test_the_tail_is_that_of_a_binomial_distribution(wrong: int, answered: int, risk: float) -> None:
    assert tail(wrong, answered, risk) == pytest.approx(float(binom.cdf(wrong, answered, risk)), rel=1e-9)


@pytest.mark.parametrize(("risk", "count"), [(0.01, 299), (0.05, 59), (0.1, 29), (0.2, 14)])
def test_so_many_answers_without_a_mistake_are_needed_and_one_fewer_is_too_few(risk: float, count: int) -> None:
    assert least_examples(risk) == count
    assert tail(0, count, risk) <= 1 - CONFIDENCE < tail(0, count - 1, risk)
    for rows, is_enough in ((count, True), (count - 1, False)):
        flawless = Surenesses([0.9] * rows, [])
        assert (find_promise(flawless, flawless, risk) is not None) == is_enough


def test_where_all_are_right_all_are_answered_and_where_all_are_wrong_none() -> None:
    right, wrong = Surenesses([0.9, 0.8] * 100, []), Surenesses([], [0.9, 0.8] * 100)
    assert find_promise(right, right, 0.05) == Promise(0.05, 0.0, 200, 200, 0)
    assert find_promise(wrong, wrong, 0.05) is None
    assert find_promise(Surenesses([], []), Surenesses([], []), 0.05) is None


def test_the_surest_come_first() -> None:
    found = surenesses(np.array([0.5, 0.9, 0.7]), np.array([True, True, False]))
    assert found == Surenesses([0.9, 0.5], [0.7])
    assert (len(found), found.at_least(0.7)) == (3, (2, 1))


def test_many_rows_are_counted_and_not_walked_through_again_and_again() -> None:
    sure = np.linspace(0.5, 1.0, 40_000)
    found = surenesses(sure, np.arange(40_000) % 10 > 0)
    assert (promise := find_promise(found, found, 0.3)) is not None
    assert promise.answered == 40_000
