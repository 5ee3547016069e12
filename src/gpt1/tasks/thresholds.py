"""From which probability on each of several labels is given: where micro F1 is highest on rows that were not learned.

A network is surer of common labels than of rare ones, so one threshold for all gives rare ones too seldom. The best of
each label by its own F1 would not do: a label that can hardly be told has that where every row gets it. Numpy alone,
as fine-tuning needs it on machines that have little else; scikit-learn is the judge in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import THRESHOLD, Floats

FEWEST = 10  # rows that have a label: of fewer a threshold would be chosen by chance
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
