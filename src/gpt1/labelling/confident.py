"""Confident learning: which labels are likely wrong, by probabilities of somebody who has not learned them.

After Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels" (2021). A class has a
threshold: how sure answers are of it, on average, in the rows that have it as their label. A row counts as one of the
likeliest class whose threshold it reaches, so that a class of which one is never sure, and a class that is given too
readily, are each held to their own measure. That tells which share of the rows of each label belongs to each other
class, and so many are flagged: those in which the other class is furthest ahead of the label ("prune by noise rate").
Where the other is not ahead of it, nothing is flagged: a tie says nothing against a label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import Floats


@dataclass(frozen=True, eq=False)
class Doubts:
    """What is doubtful about labels: each with the class in its place, whether it is flagged, and all in an order."""

    suggested: NDArray[np.int64]  # the class that a flagged row is taken for; of others the likeliest
    flagged: NDArray[np.bool_]
    order: NDArray[np.int64]  # rows, the worst first: flagged ones, then by how far the label is behind


def find_doubts(probabilities: Floats, labels: NDArray[Any], *, flags: bool = True) -> Doubts:
    """Return what is doubtful about labels, by the probabilities of classes [rows, classes]; without `flags` no label.

    Then there is the order alone.
    """
    suggested = probabilities.argmax(1)
    ahead, flagged = np.zeros(len(labels)), np.zeros(len(labels), np.bool_)
    for label, other, count in _wrong(probabilities, labels) if flags else ():
        rows = np.flatnonzero((labels == label) & (probabilities[:, other] > probabilities[:, label]))
        lead = probabilities[rows, other] - probabilities[rows, label]
        for place in np.argsort(-lead, kind="stable")[:count].tolist():
            row = rows[place]
            if lead[place] > ahead[row]:
                flagged[row], ahead[row], suggested[row] = True, lead[place], other
    return Doubts(suggested, flagged, np.lexsort((_margins(probabilities, labels), ~flagged)))


def _wrong(probabilities: Floats, labels: NDArray[Any]) -> Iterator[tuple[int, int, int]]:
    """Yield for each label and each other class how many rows of the label are thought to belong to it."""
    counted = _counted_as(probabilities, labels)
    classes = probabilities.shape[1]
    for label in np.unique(labels).tolist():
        joint = np.bincount(counted[(labels == label) & (counted >= 0)], minlength=classes)
        shares = joint / max(1, joint.sum()) * int((labels == label).sum())
        for other in range(classes):
            if other != label and (count := round(float(shares[other]))):
                yield label, other, count


def _thresholds(probabilities: Floats, labels: NDArray[Any]) -> Floats:
    """Return how sure answers are of each class in the rows of its label; of one that no row has, never enough."""
    found = np.full(probabilities.shape[1], np.inf)
    for label in np.unique(labels):
        found[label] = probabilities[labels == label, label].mean()
    return found


def _counted_as(probabilities: Floats, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class that each row counts as, of several alike its label; -1: it reaches no threshold."""
    reached = np.where(probabilities >= _thresholds(probabilities, labels), probabilities, -1.0)
    most = reached.max(1)
    is_label = reached[np.arange(len(labels)), labels] == most
    return np.where(most >= 0, np.where(is_label, labels, reached.argmax(1)), -1)


def _margins(probabilities: Floats, labels: NDArray[Any]) -> Floats:
    """Return by how much the label of each row is likelier than the likeliest other class (normalized margin)."""
    rows = np.arange(len(labels))
    others = probabilities.copy()
    others[rows, labels] = -1.0
    return np.asarray(probabilities[rows, labels] - others.max(1))
