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
    found = minimize_scalar(
        lambda inverse: log_loss(labels, soften(sure, 1 / inverse), labels=range(3)),
        bounds=(1 / HOTTEST, 1 / COLDEST),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert fit_temperature(sure, labels) == pytest.approx(1 / found.x, rel=1e-4)


def test_a_few_right_answers_do_not_make_it_freeze_nor_wrong_ones_boil() -> None:
    shares = np.array([[0.9, 0.1]] * 5)
    assert fit_temperature(shares, np.zeros(5, np.int64)) == pytest.approx(COLDEST, abs=1e-5)
    assert fit_temperature(shares, np.ones(5, np.int64)) == HOTTEST


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
