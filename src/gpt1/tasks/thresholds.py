"""From which probability on each of several labels is given: where F1 is highest on rows that were not learned.

A network is surer of common labels than of rare ones, so one threshold for all gives rare ones too seldom. Numpy alone,
as fine-tuning needs it on machines that have little else; scikit-learn is the judge in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import THRESHOLD, Floats

FEWEST = 10  # rows that have a label: of fewer a threshold would be chosen by chance


def fit_thresholds(probabilities: Floats, labels: NDArray[Any]) -> Floats:
    """Return a threshold for each label [labels]: that of the best F1, of equals the nearest to one half.

    Labels with fewer than `FEWEST` rows keep one half.
    """
    return np.array([_best(own, given == 1) for own, given in zip(probabilities.T, labels.T, strict=True)])


def _best(probabilities: Floats, has_label: NDArray[np.bool_]) -> float:
    if has_label.sum() < FEWEST:
        return THRESHOLD
    order = np.argsort(-probabilities, kind="stable")
    sorted_, hits = probabilities[order], np.cumsum(has_label[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + has_label.sum())  # where all rows up to a place get the label
    nexts = np.append(sorted_[1:], 0.0)
    falls = sorted_ > nexts  # equal rows are not told apart
    if not falls.any():
        return THRESHOLD
    ends = np.flatnonzero(falls & (f1 == f1[falls].max()))
    # Between two rows any threshold does the same: one half where it can be, else the middle.
    high, low = sorted_[ends], nexts[ends]
    found = np.where((low < THRESHOLD) & (high >= THRESHOLD), THRESHOLD, (low + high) / 2)
    return float(found[np.abs(found - THRESHOLD).argmin()])
