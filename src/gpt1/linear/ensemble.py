"""A stacked ensemble: a network and counted words that answer together, each with the weight that it has earned.

Their answers to examples that neither has learned decide. The members of classes are pooled by their log-probabilities
(a product of experts), which also mends how sure they are; of scores by a weighted mean. The network alone, words alone
and both together are held against each other by the task's first metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.records.ensemble import NETWORK, TOGETHER, WORDS
from gpt1.tasks.answers import THRESHOLD, Floats, no_and_yes, predictions
from gpt1.tasks.catalog import Task
from gpt1.tasks.metrics import scores
from gpt1.tasks.thresholds import factors_of_others, fit_factors, fit_thresholds

ALONE = {NETWORK: 1.0}

_FLOOR = 1e-6  # of a probability, so that one member cannot rule out what it has never seen
_MOST = 3.0  # of a weight: where a few answers are all right, every larger one would look better

Weights = Mapping[str, float]


@dataclass(frozen=True)
class Choice:
    """Who answers a task, and how each did on the examples by which that was decided."""

    weights: dict[str, float]
    scores: dict[str, float]  # the first metric of the network, of words, and of both together
    thresholds: Floats | float  # with which who answers was judged
    words: Floats | float  # and counted words alone


def pool(task: Task, members: Mapping[str, Floats], weights: Weights) -> Floats:
    """Return the probabilities of members as one [examples, answers]; one alone is left as it is."""
    if list(weights.values()) == [1.0]:
        return members[next(iter(weights))]
    if task.score_range is not None:
        return np.asarray(sum(weight * members[name] for name, weight in weights.items()))
    if task.is_multilabel:
        each = {name: no_and_yes(members[name]) for name in weights}
        return _product(each, weights)[:, 1].reshape(next(iter(members.values())).shape)
    return _product(members, weights)


def _product(members: Mapping[str, Floats], weights: Weights) -> Floats:
    logits = sum(weight * _log(members[name]) for name, weight in weights.items())
    shares = np.exp(logits - np.max(logits, 1, keepdims=True))
    return np.asarray(shares / shares.sum(1, keepdims=True))


def choose_members(
    task: Task, members: Mapping[str, Floats], labels: NDArray[Any], *, with_thresholds: bool = False
) -> Choice:
    """Return who answers best: the network, words, or both; of equals the first of these but words.

    Each way is judged with factors of its own where classes have these, and where several labels are to have
    thresholds chosen on these examples (`with_thresholds`) with its own too.
    """
    together = _fit(task, [members[NETWORK], members[WORDS]], labels)
    ways: dict[str, dict[str, float]] = {
        NETWORK: ALONE,
        TOGETHER: dict(zip((NETWORK, WORDS), together, strict=True)),
        WORDS: {WORDS: 1.0},
    }
    metric = task.metrics[0]
    found, thresholds = {}, {}
    for name, weights in ways.items():
        own = pool(task, members, weights)
        thresholds[name] = own_thresholds(task, own, labels, with_thresholds=with_thresholds)
        judged = judging_thresholds(task, own, labels, thresholds[name])
        found[name] = float(scores(task, labels, predictions(task, own, judged))[metric])
    best = max(found, key=lambda name: found[name])
    weights = {name: weight for name, weight in ways[best].items() if weight > 0} or ALONE
    return Choice(weights, found, thresholds[best], thresholds[WORDS])


def own_thresholds(task: Task, probabilities: Floats, labels: NDArray[Any], *, with_thresholds: bool) -> Floats | float:
    """Return by which factors classes, or from which probabilities several labels are given, best for these examples.

    Labels have their own `with_thresholds`, where these examples are to choose them.
    """
    if task.class_factors:
        return fit_factors(probabilities, labels, task.metrics[0])
    return fit_thresholds(probabilities, labels) if with_thresholds and task.is_multilabel else THRESHOLD


def judging_thresholds(
    task: Task, probabilities: Floats, labels: NDArray[Any], chosen: Floats | float
) -> Floats | float:
    """Return with which thresholds or factors answers to the examples that chose these are scored.

    Factors of each row are those that others chose: rows that chose them would flatter the score, and it is told.
    """
    return factors_of_others(probabilities, labels, task.metrics[0]) if task.class_factors else chosen


def _log(probabilities: Floats) -> Floats:
    return np.log(np.maximum(probabilities, _FLOOR))


def _fit(task: Task, members: Sequence[Floats], labels: NDArray[Any]) -> list[float]:
    """Return the weights, none below 0, under which the pooled answers come nearest to the labels."""
    if task.score_range is not None:
        one, other = (predictions(task, member) for member in members)
        apart = one - other
        share = float(np.clip((labels - other) @ apart / max(float(apart @ apart), 1e-12), 0, 1))
        return [share, 1 - share]
    from scipy.optimize import minimize

    if task.is_multilabel:
        members, labels = [no_and_yes(member) for member in members], labels.ravel()
    logs = np.stack([_log(member) for member in members])  # [members, examples, answers]
    rows = np.arange(len(labels))

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = np.tensordot(weights, logs, 1)
        logits -= logits.max(1, keepdims=True)
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        right = logs[:, rows, labels]
        expected = (shares * logs).sum(2)
        return float(-np.log(shares[rows, labels]).mean()), (expected - right).mean(1)

    start = np.full(len(members), 1 / len(members))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, _MOST)] * len(members))
    return [round(float(weight), 6) for weight in found.x]
