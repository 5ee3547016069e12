"""From which probability on a label is given, and which factor a class has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from gpt1.tasks.answers import THRESHOLD
from gpt1.tasks.metrics import macro_f1, matthews, micro_f1
from gpt1.tasks.thresholds import FEWEST, MOST_CLASSES, MOST_COUNTS, factors_of_others, fit_factors, fit_thresholds
from tests.properties import examples

PROBABILITY = st.integers(0, 20).map(lambda number: number / 20)
JUDGES = {
    "macro_f1": lambda labels, given: f1_score(labels, given, average="macro", zero_division=0),
    "matthews": matthews_corrcoef,
    "f1": lambda labels, given: f1_score(labels, given, zero_division=0),
}
UNSURE = st.lists(  # what is 0 or 1 no factor moves
    st.tuples(st.integers(1, 19).map(lambda number: number / 20), st.booleans()), min_size=20, max_size=60
)
ROWS = st.lists(st.tuples(PROBABILITY, st.booleans()), min_size=20, max_size=60)


@examples(60)
@given(ROWS)
def test_no_threshold_has_a_better_f1_than_the_one_that_is_chosen(rows: list[tuple[float, bool]]) -> None:
    probabilities, labels = np.array([[p] for p, _ in rows]), np.array([[int(own)] for _, own in rows])
    (found,) = fit_thresholds(probabilities, labels)
    if labels.sum() < FEWEST:
        assert found == THRESHOLD
        return
    tried = {at: f1_score(labels, probabilities >= at, zero_division=0) for at in (found, *np.linspace(0.01, 1, 100))}
    assert tried[found] >= max(tried.values()) - 1e-12


@examples(60)
@given(st.lists(st.tuples(PROBABILITY, st.booleans(), PROBABILITY, st.booleans()), min_size=20, max_size=40))
def test_no_thresholds_of_two_labels_have_a_better_micro_f1(rows: list[tuple[float, bool, float, bool]]) -> None:
    probabilities = np.array([[p, q] for p, _, q, _ in rows])
    labels = np.array([[int(a), int(b)] for _, a, _, b in rows])
    found = fit_thresholds(probabilities, labels)
    places = [[THRESHOLD] if few else np.linspace(0.01, 1, 60) for few in labels.sum(0) < FEWEST]
    tried = [np.array([one, other]) for one in places[0] for other in places[1]]
    score = micro_f1(labels, (probabilities >= found).astype(int))
    assert score == pytest.approx(f1_score(labels, probabilities >= found, average="micro", zero_division=0))
    assert score >= max(micro_f1(labels, (probabilities >= at).astype(int)) for at in tried) - 1e-9


def test_a_label_that_cannot_be_told_is_not_given_to_every_row() -> None:
    draw = np.random.default_rng(0)
    known = draw.random(400) < 0.5
    labels = np.stack((known, draw.random(400) < 0.1), 1).astype(int)
    probabilities = np.stack((np.where(known, 0.9, 0.1), draw.uniform(0.05, 0.15, 400)), 1)
    given = probabilities >= fit_thresholds(probabilities, labels)
    assert given[:, 1].mean() < 0.05
    assert micro_f1(labels, given.astype(int)) >= micro_f1(labels, (probabilities >= THRESHOLD).astype(int))


def test_of_equally_good_thresholds_the_one_nearest_to_one_half_is_chosen() -> None:
    has = np.repeat([0, 1], FEWEST)[:, None]
    assert fit_thresholds(np.where(has == 1, 0.9, 0.2), has).tolist() == [0.5]
    assert fit_thresholds(np.where(has == 1, 0.3, 0.1), has).tolist() == [0.2]
    assert fit_thresholds(np.where(has == 1, 0.9, 0.7), has).tolist() == [0.8]


def test_a_label_that_no_row_is_given_at_all_keeps_one_half() -> None:
    assert fit_thresholds(np.zeros((20, 1)), np.ones((20, 1))).tolist() == [0.5]


def test_a_label_of_few_rows_keeps_one_half_beside_one_that_does_not() -> None:
    rare, common = np.arange(40) < FEWEST - 1, np.arange(40) < 20
    labels = np.stack((rare, common), 1).astype(int)
    assert fit_thresholds(np.where(labels == 1, 0.3, 0.1), labels).tolist() == [0.5, 0.2]


def answered(probabilities: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return (probabilities * factors).argmax(1)


@examples(60)
@given(UNSURE, st.sampled_from(list(JUDGES)))
def test_of_two_classes_no_factor_is_better_than_the_one_that_is_chosen(
    rows: list[tuple[float, bool]], metric: str
) -> None:
    labels, judge = np.array([int(own) for _, own in rows]), JUDGES[metric]
    probabilities = np.array([[1 - p, p] for p, _ in rows])
    found = fit_factors(probabilities, labels, metric)
    if min(labels.sum(), len(labels) - labels.sum()) < FEWEST:
        assert found.tolist() == [1, 1]
        return
    cuts = [(number + 1 / 2) / 20 for number in range(20)]  # between all probabilities that there are
    best = max(judge(labels, (probabilities[:, 1] > cut).astype(int)) for cut in cuts)
    reached, plain = (judge(labels, answered(probabilities, factors)) for factors in (found, np.ones(2)))
    assert reached == pytest.approx(max(best, plain))
    if plain >= best - 1e-12:
        assert found.tolist() == [1, 1]


@examples(8)
@given(st.integers(0, 10**6), st.sampled_from(["macro_f1", "matthews"]))
def test_of_more_classes_no_single_factor_makes_what_is_chosen_better(seed: int, metric: str) -> None:
    draw, judge = np.random.default_rng(seed), JUDGES[metric]
    labels = np.repeat(np.arange(4), (60, 20, 12, FEWEST - 1))
    probabilities = draw.dirichlet(np.ones(4), len(labels)) + np.array([0.8, 0.1, 0.0, 0.0])
    probabilities[np.arange(len(labels)), labels] += 0.3
    probabilities /= probabilities.sum(1, keepdims=True)
    found = fit_factors(probabilities, labels, metric)
    assert found[3] == 1  # of few rows
    reached = judge(labels, answered(probabilities, found))
    assert reached >= judge(labels, answered(probabilities, np.ones(4))) - 1e-12
    for one in range(3):
        for factor in np.geomspace(0.02, 50, 40):
            tried = found.copy()
            tried[one] *= factor
            assert judge(labels, answered(probabilities, tried)) <= reached + 1e-9


def test_of_equally_good_factors_the_one_nearest_to_the_likeliest_class_is_chosen() -> None:
    labels = np.repeat([0, 1], (30, FEWEST))
    unsure = np.where(labels == 1, 0.4, 0.2)
    assert fit_factors(np.stack((1 - unsure, unsure), 1), labels, "macro_f1").tolist() == pytest.approx([1, 7 / 3])
    sure = np.where(labels == 1, 0.6, 0.2)
    assert fit_factors(np.stack((1 - sure, sure), 1), labels, "macro_f1").tolist() == [1, 1]


def test_of_very_many_classes_none_has_a_factor() -> None:
    labels = np.repeat(np.arange(MOST_CLASSES + 1), FEWEST)
    assert (fit_factors(np.ones((len(labels), MOST_CLASSES + 1)), labels, "macro_f1") == 1).all()


def test_factors_of_others_score_nothing_where_there_is_nothing_to_learn() -> None:
    flattered, honest = [], []
    for seed in range(40):
        random = np.random.default_rng(seed)
        labels, one = random.integers(0, 2, 100), random.beta(5, 5, 100)
        probabilities = np.stack([1 - one, one], 1)
        for found, factors in (
            (flattered, fit_factors(probabilities, labels, "matthews")),
            (honest, factors_of_others(probabilities, labels, "matthews")),
        ):
            found.append(matthews(labels, (probabilities * factors).argmax(1)))
    assert np.mean(flattered) > 0.15
    assert abs(np.mean(honest)) < 0.04


def test_many_rows_of_many_classes_are_drawn_from_in_the_shares_of_the_classes() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 40, 2 * MOST_COUNTS // 40)
    probabilities = random.dirichlet(np.ones(40), len(labels))
    factors = fit_factors(probabilities, labels, "macro_f1")
    before, after = (macro_f1(labels, (probabilities * one).argmax(1)) for one in (np.ones(40), factors))
    assert after >= before
