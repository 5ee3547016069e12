"""What a task asks of a network as numbers: how many outputs, which answer each label stands for, and back again.

Classes and choices have one output each. So has each label of a task whose rows may have several: its probability is
its own, and it is given where that reaches the label's threshold. Scores are learned as six bins over their range (of
STS-B, 0 to 5, one for each whole number): a score between two bins belongs to both, the nearer one more, and what is
predicted is the expected bin. The paper does not say how it learned STS-B. Where each word has a label, answers are of
words, and there is one axis more [examples, words, answers]; behind the last word of an example all is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.tagging import NO_WORD

BINS = 6
LEAST = 1e-30  # probability: what was thought impossible may be right, and one such answer must not decide alone
THRESHOLD = 0.5  # of a label, where none was chosen for it

Floats = NDArray[np.float64]


def answers(task: Task) -> int:
    """Return how many answers there are to choose from."""
    if task.score_range is not None:
        return BINS
    return task.choices if task.shape == CHOICES else len(task.labels)


def soft_targets(task: Task, labels: NDArray[Any]) -> Floats:
    """Return labels as the share each answer should have [examples, answers]; rows of unknown labels are zero."""
    if task.is_multilabel:
        return np.asarray(labels == 1, np.float64)
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


def predictions(task: Task, probabilities: Floats, thresholds: Floats | float = THRESHOLD) -> NDArray[Any]:
    """Return the likeliest class or answer of each example [examples], or the expected score.

    Of several labels it is 1 for each whose probability reaches its threshold, else 0 [examples, labels]. Where classes
    have factors, which stand in the thresholds' place, it is the class with the largest probability times its factor.
    Of words it is the likeliest label of each [examples, words].
    """
    if task.labels_words:
        return np.where(probabilities.any(-1), probabilities.argmax(-1), NO_WORD)
    if task.is_multilabel:
        return (probabilities >= thresholds).astype(np.int64)
    if task.score_range is None:
        found: NDArray[np.int64] = _weighed(probabilities, thresholds).argmax(1)
        return found
    low, high = task.score_range
    # Not a product of matrices, which may round a row in another way where it stands beside others.
    expected: Floats = (probabilities * np.arange(BINS)).sum(1) / (BINS - 1)
    return low + expected * (high - low)


def surenesses_of(probabilities: Floats, thresholds: Floats | float = THRESHOLD) -> Floats:
    """Return how sure each answer is: the probability of the likeliest, where classes have factors weighed by these."""
    weighed = _weighed(probabilities, thresholds)
    largest: Floats = weighed.max(1, initial=0)
    return largest if weighed is probabilities else largest / weighed.sum(1)


def _weighed(probabilities: Floats, factors: Floats | float) -> Floats:
    return probabilities * factors if isinstance(factors, np.ndarray) else probabilities


def no_and_yes(probabilities: Floats) -> Floats:
    """Return the probabilities of several labels [examples, labels] as those of so many questions [.., no and yes]."""
    return np.stack((1 - probabilities, probabilities), -1).reshape(-1, 2)


def log_likelihoods(task: Task, labels: NDArray[Any], probabilities: Floats) -> Floats:
    """Return for each example the logarithm of how likely its label was found; of several labels their mean."""
    if task.labels_words:
        known = labels != NO_WORD
        of_labels = np.take_along_axis(probabilities, np.maximum(labels, 0)[..., None], -1)[..., 0]
        logs = np.where(known, np.log(np.maximum(of_labels, LEAST)), 0.0)
        return np.asarray(logs.sum(1) / np.maximum(known.sum(1), 1))
    shares, logs = soft_targets(task, labels), np.log(np.maximum(probabilities, LEAST))
    if task.is_multilabel:
        return np.asarray((shares * logs + (1 - shares) * np.log(np.maximum(1 - probabilities, LEAST))).mean(1))
    return np.asarray((shares * logs).sum(1))


def right_rows(labels: NDArray[Any], given: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which examples have exactly the class, the answer or the labels that were given."""
    same = np.asarray(labels == given)
    return same if same.ndim == 1 else np.asarray(same.all(1))


def balanced_weights(task: Task, labels: NDArray[Any]) -> Floats:
    """Return a weight for each example such that all classes count the same over these labels.

    Of several labels it is one for each label of each example: its yes and its no then count the same.
    """
    if task.is_multilabel:
        yes = (labels == 1).sum(0)
        shares = np.stack((len(labels) - yes, yes)) / len(labels)  # [no and yes, labels]
        return np.asarray(1 / (2 * np.where(labels == 1, shares[1], shares[0])))
    counts = np.bincount(labels[labels >= 0], minlength=len(task.labels))
    of = counts.sum() if task.labels_words else len(labels)
    weights: Floats = of / (len(task.labels) * np.maximum(counts, 1))
    return np.asarray(weights[labels])
