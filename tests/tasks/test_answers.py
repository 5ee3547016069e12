"""Labels as numbers for a network, and a network's numbers as labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.tasks.answers import BINS, answers, balanced_weights, predictions, soft_targets, surenesses_of
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.shapes import SINGLE
from tests.properties import examples

CALM = examples(60)


def scored(low: float, high: float) -> Task:
    return Task(name="t", title="t", shape=SINGLE, metrics=("pearson",), fields=("text",), score_range=(low, high))


@pytest.mark.parametrize(
    ("name", "count"), [("sst2", 2), ("mnli", 3), ("race", 4), ("storycloze", 2), ("stsb", 6), ("mrpc", 2)]
)
def test_there_are_as_many_answers_as_classes_choices_or_bins(name: str, count: int) -> None:
    assert answers(CATALOGUE[name]) == count


@pytest.mark.parametrize("name", ["mnli", "race"])
def test_the_right_answer_has_the_whole_share_and_an_unknown_label_none(name: str) -> None:
    task = CATALOGUE[name]
    shares = soft_targets(task, np.array([2, -1, 0]))
    wanted = np.zeros((3, answers(task)))
    wanted[0, 2] = wanted[2, 0] = 1
    np.testing.assert_array_equal(shares, wanted)


def test_the_bins_of_sts_b_are_those_of_the_paper() -> None:
    """A score s between two whole numbers counts s - floor(s) for the upper one, and the rest for the lower one."""
    shares = soft_targets(CATALOGUE["stsb"], np.array([0.0, 0.25, 3.0, 4.75, 5.0, np.nan]))
    wanted = [
        [1, 0, 0, 0, 0, 0],
        [0.75, 0.25, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0.25, 0.75],
        [0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0],
    ]
    np.testing.assert_array_equal(shares, wanted)


RANGES = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda x: (x[0], x[0] + x[1]))


@CALM
@given(RANGES, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_score_belongs_to_two_neighbours_at_most_and_is_what_they_expect(
    span: tuple[float, float], places: list[float]
) -> None:
    low, high = span
    labels = np.clip(low + np.array(places) * (high - low), low, high)
    shares = soft_targets(scored(low, high), labels)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    for row in shares:
        (used,) = np.nonzero(row)
        assert used.max() - used.min() <= 1
    found = predictions(scored(low, high), shares)
    np.testing.assert_allclose(found, labels, atol=1e-9 * max(abs(low), abs(high), high - low))


def test_what_is_predicted_is_the_likeliest_class_or_the_expected_score() -> None:
    shares = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    found = predictions(CATALOGUE["mnli"], shares)
    assert found.tolist() == [1, 0, 2]
    assert found.dtype == np.int64
    even = np.full((1, BINS), 1 / BINS)
    assert predictions(scored(-10, 30), even) == pytest.approx([10])
    sure = np.eye(BINS)
    assert predictions(CATALOGUE["stsb"], sure).tolist() == pytest.approx([0, 1, 2, 3, 4, 5])


@CALM
@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_with_balanced_weights_every_class_that_is_there_counts_the_same(found: list[int]) -> None:
    labels = np.array(found)
    weights = balanced_weights(CATALOGUE["mnli"], labels)
    assert np.isfinite(weights).all()
    counted = [weights[labels == label].sum() for label in set(found)]
    np.testing.assert_allclose(counted, len(labels) / 3, rtol=1e-12)


def test_labels_that_are_all_as_frequent_have_the_weight_one() -> None:
    np.testing.assert_array_equal(balanced_weights(CATALOGUE["mnli"], np.array([0, 1, 2, 2, 1, 0])), np.ones(6))


def test_with_factors_the_class_of_the_largest_product_is_answered_and_as_sure_as_its_share() -> None:
    task = replace(CATALOGUE["sst2"], metrics=("matthews",), class_factors=True)
    probabilities, factors = np.array([[0.7, 0.3], [0.9, 0.1], [0.2, 0.8]]), np.array([1.0, 3.0])
    assert predictions(task, probabilities).tolist() == [0, 0, 1]
    assert predictions(task, probabilities, factors).tolist() == [1, 0, 1]
    assert surenesses_of(probabilities).tolist() == [0.7, 0.9, 0.8]
    assert surenesses_of(probabilities, factors) == pytest.approx([0.9 / 1.6, 0.9 / 1.2, 2.4 / 2.6])
