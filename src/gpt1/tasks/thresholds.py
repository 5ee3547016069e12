"""From which probability on each of several labels is given, and which factor a class has of which one is right.

A network is surer of common labels than of rare ones, so one threshold for all gives rare ones too seldom, and of one
label a row the likeliest is hardly ever a rare one. Chosen is what scores best on rows that were not learned: several
labels by micro F1, as the best of each by its own F1 would not do (a label that can hardly be told has that where every
row gets it); classes by their task's first metric. Numpy alone, as fine-tuning needs it on machines that have little
else; scikit-learn is the judge in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import THRESHOLD, Floats
from gpt1.tasks.metrics import score_of_counts

FEWEST = 10  # rows that have a label: of fewer a threshold would be chosen by chance
MOST_CLASSES = 200  # that have factors: the search counts every class at every row
MOST_COUNTS = 200_000  # rows times classes that are searched; of more rows so many are drawn, a class in its share
_SAME = 1e-9  # what differs by less differs by rounding


def fit_thresholds(probabilities: Floats, labels: NDArray[Any]) -> Floats:
    """Return a threshold for each label [labels], those of the best micro F1 together, of equals the nearest to a half.

    Labels with fewer than `FEWEST` rows keep one half. The best share of hits, 2 hits / (given + there), is found as
    that of any ratio (Dinkelbach, 1967): with the best so far as the price of a label that is given, each label has a
    best threshold of its own, and those together are better still, until they are not.
    """
    has_label = labels == 1
    found = np.full(labels.shape[1], THRESHOLD)
    chosen = np.flatnonzero(has_label.sum(0) >= FEWEST)
    best = _micro_f1(probabilities, has_label, found)
    while True:
        tried = found.copy()
        tried[chosen] = [_best(probabilities[:, one], has_label[:, one], best) for one in chosen]
        reached = _micro_f1(probabilities, has_label, tried)
        if reached < best + _SAME:
            return tried
        best = reached


def _micro_f1(probabilities: Floats, has_label: NDArray[np.bool_], thresholds: Floats) -> float:
    given = probabilities >= thresholds
    return float(2 * (given & has_label).sum() / max(1, given.sum() + has_label.sum()))


def _best(probabilities: Floats, has_label: NDArray[np.bool_], price: float) -> float:
    """Return the threshold with the most of 2 for each row that has the label, less the price of each that gets it."""
    order = np.argsort(-probabilities, kind="stable")
    bounds = np.concatenate(([1.0], probabilities[order], [0.0]))
    high, low = bounds[:-1], bounds[1:]  # between them rows up to a place get the label; the first: none do
    gains = 2 * np.append(0, np.cumsum(has_label[order])) - price * np.arange(len(order) + 1)
    differs = high > low  # equal rows are not told apart
    if not differs.any():
        return THRESHOLD
    ends = np.flatnonzero(differs & (gains >= gains[differs].max() - _SAME))
    # Between two rows any threshold does the same: one half where it can be, else the middle.
    inside = (low[ends] < THRESHOLD) & (high[ends] >= THRESHOLD)
    middle = np.where(inside, THRESHOLD, (low[ends] + high[ends]) / 2)
    return float(middle[np.abs(middle - THRESHOLD).argmin()])


def fit_factors(probabilities: Floats, labels: NDArray[Any], metric: str) -> Floats:
    """Return a factor for each class [classes]: the largest probability times its factor is best by a metric.

    Classes with fewer than `FEWEST` rows keep 1. Of two classes the best of all is found; of more, one factor after the
    other is set to its best beside the others, the rarest class first, until none makes it better (coordinate ascent).
    Of equals it is the one that is nearest to the likeliest class, and nothing changes that is not better.
    """
    classes = probabilities.shape[1]
    there = np.bincount(labels, minlength=classes)
    found = np.ones(classes)
    if (most := MOST_COUNTS // classes) < len(labels):
        drawn = np.argsort(labels, kind="stable")[np.linspace(0, len(labels) - 1, most).round().astype(np.int64)]
        probabilities, labels = probabilities[drawn], labels[drawn]
        there = np.bincount(labels, minlength=classes)
    chosen = [one for one in np.argsort(there, kind="stable").tolist() if there[one] >= FEWEST]
    if len(chosen) < 2 or classes > MOST_CLASSES:
        return found
    reached, before = _score(probabilities.argmax(1), labels, there, metric), -np.inf
    while reached > before + _SAME:
        before = reached
        for one in chosen:
            factor, score = _best_factor(probabilities * found, labels, one, metric)
            if score > reached + _SAME:
                found[one], reached = found[one] * factor, score
    return found


def factors_of_others(probabilities: Floats, labels: NDArray[Any], metric: str) -> Floats:
    """Return for each row factors that were chosen by the other half of the rows [rows, classes].

    What is answered with them is scored honestly: the best factors of few rows look better there than they are.
    """
    found = np.ones(probabilities.shape)
    half = np.empty(len(labels), np.int64)
    half[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % 2  # a class is in both
    for number in (0, 1):
        others = half != number
        found[half == number] = fit_factors(probabilities[others], labels[others], metric)
    return found


def _score(answers: NDArray[Any], labels: NDArray[Any], there: NDArray[np.int64], metric: str) -> float:
    hits, given = (np.bincount(some, minlength=len(there)) for some in (answers[answers == labels], answers))
    return float(score_of_counts(metric, hits, given, there))


def _best_factor(weighed: Floats, labels: NDArray[Any], one: int, metric: str) -> tuple[float, float]:
    """Return by what a class is to be weighed once more, all others as they are, and the score that this gives.

    Rows go over to it one after the other as its factor grows. A factor is looked at as the share f / (1 + f), which of
    two classes is the probability of the other up to which this one is answered.
    """
    rivals = weighed.copy()
    rivals[:, one] = -1
    rival, strength = rivals.argmax(1), rivals.max(1)
    shares = strength / np.maximum(strength + weighed[:, one], np.finfo(np.float64).tiny)
    order = np.argsort(shares, kind="stable")
    bounds = np.concatenate(([0.0], shares[order], [1.0]))
    low, high = bounds[:-1], bounds[1:]  # between them rows up to a place get the class; the first: none do
    reached = _as_rows_go_over(rival[order], labels[order], one, weighed.shape[1], metric)
    differs = high > low + _SAME  # equal rows are not told apart
    ends = np.flatnonzero(differs & (reached >= reached[differs].max() - _SAME))
    middle = (low[ends] + high[ends]) / 2
    share = float(middle[np.abs(middle - 1 / 2).argmin()])
    return share / (1 - share), float(reached[ends].max())


def _as_rows_go_over(rival: NDArray[Any], labels: NDArray[Any], one: int, classes: int, metric: str) -> Floats:
    """Return the score with none of the rows answered by a class but by its rivals, with the first, the first two..."""
    names, rows = np.arange(classes), len(labels)
    leaving = rival[:, None] == names
    given = np.concatenate((leaving.sum(0)[None], -leaving.astype(np.int64)))
    given[1:, one] += 1
    hits = np.concatenate(((leaving & (labels[:, None] == names)).sum(0)[None], np.zeros((rows, classes), np.int64)))
    hits[1:, one] += labels == one
    hits[np.arange(1, rows + 1), rival] -= labels == rival
    there = np.bincount(labels, minlength=classes)
    return np.asarray(score_of_counts(metric, hits.cumsum(0), given.cumsum(0), there))
