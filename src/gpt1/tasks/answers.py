"""What a task asks of a network as numbers: how many outputs, which answer each label stands for, and back again.

Classes and choices have one output each. Scores are learned as six bins over their range (of STS-B, 0 to 5, one for
each whole number): a score between two bins belongs to both, the nearer one more, and what is predicted is the expected
bin. The paper does not say how it learned STS-B.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import CHOICES

BINS = 6

Floats = NDArray[np.float64]


def answers(task: Task) -> int:
    """Return how many answers there are to choose from."""
    if task.score_range is not None:
        return BINS
    return task.choices if task.shape == CHOICES else len(task.labels)


def soft_targets(task: Task, labels: NDArray[Any]) -> Floats:
    """Return labels as the share each answer should have [examples, answers]; rows of unknown labels are zero."""
    shares = np.zeros((len(labels), answers(task)))
    rows = np.arange(len(labels))
    if task.score_range is None:
        known = labels >= 0
        shares[rows[known], labels[known]] = 1.0
        return shares
    known = ~np.isnan(labels)
    low, high = task.score_range
    bins = (labels[known] - low) / (high - low) * (BINS - 1)
    lower = np.minimum(np.floor(bins).astype(np.int64), BINS - 2)
    shares[rows[known], lower] = 1 - (bins - lower)
    shares[rows[known], lower + 1] = bins - lower
    return shares


def predictions(task: Task, probabilities: Floats) -> NDArray[Any]:
    """Return the likeliest class or answer of each example [examples], or the expected score."""
    if task.score_range is None:
        found: NDArray[np.int64] = probabilities.argmax(1)
        return found
    low, high = task.score_range
    # Not a product of matrices, which may round a row in another way where it stands beside others.
    expected: Floats = (probabilities * np.arange(BINS)).sum(1) / (BINS - 1)
    return low + expected * (high - low)


def balanced_weights(task: Task, labels: NDArray[Any]) -> Floats:
    """Return a weight for each class such that all classes count the same over these labels."""
    counts = np.bincount(labels[labels >= 0], minlength=len(task.labels))
    weights: Floats = len(labels) / (len(task.labels) * np.maximum(counts, 1))
    return weights
