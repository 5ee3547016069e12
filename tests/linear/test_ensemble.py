"""Who answers: weights that fit best, held against a search by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpt1.linear.ensemble import choose_members, pool
from gpt1.records.ensemble import NETWORK, TOGETHER, WORDS
from gpt1.tasks.answers import soft_targets
from tests.finetuning.tools import make_task

CLASSES = make_task(labels=("a", "b", "c"))
SCORES = make_task(shape="both", score_range=(0.0, 5.0))


def noisy(labels: NDArray[Any], spread: float, seed: int) -> NDArray[np.float64]:
    """Return probabilities that lean towards the labels, the less the larger the spread."""
    logits = np.eye(3)[labels] + np.random.default_rng(seed).normal(0, spread, (len(labels), 3))
    shares = np.exp(3 * logits)
    return shares / shares.sum(1, keepdims=True)


LABELS = np.random.default_rng(0).integers(3, size=400)


def log_loss(probabilities: NDArray[np.float64]) -> float:
    return float(-np.log(probabilities[np.arange(len(LABELS)), LABELS]).mean())


def test_of_two_that_err_apart_both_answer_and_better_than_each() -> None:
    members = {NETWORK: noisy(LABELS, 0.6, 1), WORDS: noisy(LABELS, 0.6, 2)}
    choice = choose_members(CLASSES, members, LABELS)
    assert set(choice.weights) == {NETWORK, WORDS}
    assert choice.scores[TOGETHER] > max(choice.scores[NETWORK], choice.scores[WORDS])
    assert choice.scores[TOGETHER] == (pool(CLASSES, members, choice.weights).argmax(1) == LABELS).mean()


def test_no_weights_on_a_grid_fit_better() -> None:
    members = {NETWORK: noisy(LABELS, 0.5, 1), WORDS: noisy(LABELS, 0.9, 2)}
    best = log_loss(pool(CLASSES, members, choose_members(CLASSES, members, LABELS).weights))
    grid = [
        log_loss(pool(CLASSES, members, {NETWORK: one, WORDS: other}))
        for one in np.linspace(0.05, 1.5, 30)
        for other in np.linspace(0.05, 1.5, 30)
    ]
    assert best <= min(grid) + 1e-6


@pytest.mark.parametrize(("right", "wrong"), [(NETWORK, WORDS), (WORDS, NETWORK)])
def test_who_knows_nothing_does_not_answer(right: str, wrong: str) -> None:
    members = {right: noisy(LABELS, 0.05, 1), wrong: noisy(LABELS[::-1], 0.5, 2)}
    choice = choose_members(CLASSES, {NETWORK: members[NETWORK], WORDS: members[WORDS]}, LABELS)
    assert choice.scores[right] == 1
    assert max(choice.weights.values()) <= 3  # however right it was
    assert (pool(CLASSES, members, choice.weights).argmax(1) == LABELS).all()


def test_of_equals_the_network_answers_alone_and_its_probabilities_are_untouched() -> None:
    members = {NETWORK: noisy(LABELS, 0.05, 1), WORDS: noisy(LABELS, 0.05, 2)}
    choice = choose_members(CLASSES, members, LABELS)
    assert choice.weights == {NETWORK: 1.0}
    assert pool(CLASSES, members, choice.weights) is members[NETWORK]


def test_scores_are_averaged_with_the_weights_of_least_squares() -> None:
    draws = np.random.default_rng(0)
    labels = draws.uniform(2, 3, 300)
    one, other = labels + draws.normal(0, 0.2, 300), labels + draws.normal(0, 0.4, 300)
    members = {NETWORK: soft_targets(SCORES, one), WORDS: soft_targets(SCORES, other)}
    choice = choose_members(SCORES, members, labels)
    apart = one - other
    share = ((labels - other) @ apart) / (apart @ apart)
    assert choice.weights == {NETWORK: pytest.approx(share), WORDS: pytest.approx(1 - share)}
    np.testing.assert_allclose(pool(SCORES, members, choice.weights).sum(1), 1)


def test_a_member_cannot_rule_out_what_it_has_never_seen() -> None:
    sure = np.array([[1.0, 0.0, 0.0]])
    found = pool(CLASSES, {NETWORK: sure, WORDS: np.array([[1e-5, 1 - 2e-5, 1e-5]])}, {NETWORK: 0.5, WORDS: 1.0})
    assert np.isfinite(found).all()
    assert found.argmax() == 1


TOPICS = make_task(labels=("a", "b", "c"), labels_sep="|", metrics=("micro_f1",))
SETS = np.random.default_rng(3).integers(2, size=(400, 3)) * [1, 1, 0]


def leaning(spread: float, seed: int) -> NDArray[np.float64]:
    """Return probabilities of several labels that lean towards those that are there."""
    logits = 2 * (2 * SETS - 1) + np.random.default_rng(seed).normal(0, spread, SETS.shape)
    return np.asarray(1 / (1 + np.exp(-logits)))


def test_of_several_labels_each_is_pooled_by_itself() -> None:
    members = {NETWORK: leaning(3, 1), WORDS: leaning(3, 2)}
    choice = choose_members(TOPICS, members, SETS)
    assert set(choice.weights) == {NETWORK, WORDS}
    assert choice.scores[TOGETHER] > max(choice.scores[NETWORK], choice.scores[WORDS])
    pooled = pool(TOPICS, members, choice.weights)
    yes, no = (
        sum(w * np.log(np.maximum(of(members[name]), 1e-6)) for name, w in choice.weights.items())
        for of in (np.asarray, lambda p: 1 - p)
    )
    np.testing.assert_allclose(pooled, 1 / (1 + np.exp(no - yes)), rtol=1e-9)


def test_who_is_only_less_sure_is_not_behind_where_thresholds_are_chosen() -> None:
    sure = leaning(2, 1) * [1, 1, 0]  # nobody gives the label that is never there
    members = {NETWORK: sure, WORDS: sure / 3}
    by_half = choose_members(TOPICS, members, SETS)
    chosen = choose_members(TOPICS, members, SETS, with_thresholds=True)
    assert by_half.scores[WORDS] < by_half.scores[NETWORK]
    assert chosen.scores[WORDS] == pytest.approx(chosen.scores[NETWORK])
