"""A temperature: how sure answers are, held against SciPy, and never which of them wins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss

from gpt1.tasks.answers import LEAST
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.temperature import COLDEST, HOTTEST, fit_temperature, soften, tempered

Floats = NDArray[np.float64]


def drawn(count: int, classes: int = 3, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Return probabilities that are as sure as they may be, and labels that are drawn from them."""
    draws = np.random.default_rng(seed)
    shares = np.exp(draws.normal(0, 2, (count, classes)))
    shares /= shares.sum(1, keepdims=True)
    return shares, (shares.cumsum(1) > draws.random((count, 1))).argmax(1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 4.0])
def test_what_made_answers_too_sure_is_found(temperature: float) -> None:
    shares, labels = drawn(20_000)
    assert fit_temperature(soften(shares, 1 / temperature), labels) == pytest.approx(temperature, rel=0.05)


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_search_finds_a_lower_log_loss(count: int, seed: int) -> None:
    shares, labels = drawn(count, seed=seed)
    sure = soften(shares, 0.4)
    weights = [*([1 - 1 / (count + 1)] * count), *([1 / 3 / (count + 1)] * 3 * count)]  # any answer may be right, once

    def cost(inverse: float) -> float:
        answers = np.tile(soften(sure, 1 / inverse), (4, 1))
        return float(log_loss([*labels, *np.repeat(range(3), count)], answers, labels=range(3), sample_weight=weights))

    found = minimize_scalar(
        cost,
        bounds=(1 / HOTTEST, 1 / COLDEST),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert fit_temperature(sure, labels) == pytest.approx(1 / found.x, rel=1e-4)


@pytest.mark.parametrize("count", [5, 200])
def test_right_answers_are_made_no_surer_than_so_many_can_show(count: int) -> None:
    shares = np.array([[0.9, 0.1]] * count)
    found = soften(shares, fit_temperature(shares, np.zeros(count, np.int64)))
    np.testing.assert_allclose(1 - found[:, 0], 1 / (count + 1) / 2, rtol=1e-4)  # two answers, once


def test_wrong_answers_do_not_make_it_boil() -> None:
    assert fit_temperature(np.array([[0.9, 0.1]] * 5), np.ones(5, np.int64)) == HOTTEST


def test_which_answer_wins_never_changes_even_where_rounding_makes_two_equal() -> None:
    shares, _ = drawn(2000, classes=5)
    near = np.array([[0.5, np.nextafter(0.5, 1)], [np.nextafter(0.5, 0), 0.5], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    for temperature in (COLDEST, 0.7, 1.3, 2.0, 7.0, HOTTEST):
        for some in (shares, near):
            softened = soften(some, temperature)
            assert (softened.argmax(1) == some.argmax(1)).all()
            np.testing.assert_allclose(softened.sum(1), 1)


def test_at_one_probabilities_are_untouched_and_twice_is_the_product() -> None:
    shares, _ = drawn(50)
    assert soften(shares, 1.0) is shares
    np.testing.assert_allclose(soften(soften(shares, 3.0), 1 / 3.0), shares)
    assert (soften(shares, 2.0).max(1) < shares.max(1)).all()
    assert (soften(shares, 0.5).max(1) > shares.max(1)).all()


def test_a_right_answer_that_was_thought_impossible_counts_as_one_that_was_nearly_so() -> None:
    random = np.random.default_rng(0)
    sure = random.uniform(0.6, 0.999, 400)
    labels = (random.random(400) > sure).astype(int)
    found = []
    for impossible in (0.0, 1e-200, LEAST):
        sure[0], labels[0] = impossible, 0
        found.append(fit_temperature(np.stack((sure, 1 - sure), 1), labels))
    assert found == [found[-1]] * 3
    assert 1 < found[0] < HOTTEST


def test_each_of_several_labels_is_softened_by_itself_and_fitted_together() -> None:
    task = replace(CATALOGUE["sst2"], labels=("a", "b", "c"), labels_sep="|", metrics=("micro_f1",))
    draw = np.random.default_rng(0)
    logits = draw.normal(0, 2, (2000, 3))
    labels = (draw.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.int64)
    sure = 1 / (1 + np.exp(-2.5 * logits))
    temperature = fit_temperature(sure, labels)
    assert temperature == pytest.approx(2.5, rel=0.1)
    np.testing.assert_allclose(tempered(task, sure, temperature), 1 / (1 + np.exp(-2.5 * logits / temperature)))
