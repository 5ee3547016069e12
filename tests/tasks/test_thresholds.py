"""From which probability on a label is given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from gpt1.tasks.answers import THRESHOLD
from gpt1.tasks.metrics import micro_f1
from gpt1.tasks.thresholds import FEWEST, fit_thresholds
from tests.properties import examples

PROBABILITY = st.integers(0, 20).map(lambda number: number / 20)
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
