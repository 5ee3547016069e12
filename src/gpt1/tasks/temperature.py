"""One temperature for all answers of a task: how sure they are, and never which of them wins (Guo et al., 2017).

Numpy alone, as fine-tuning needs it on machines that have little else; SciPy is the judge in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import LEAST, Floats, no_and_yes
from gpt1.tasks.catalog import Task

COLDEST, HOTTEST = 1 / 3, 20.0
DIGITS = 6  # of a temperature that is kept

_HALVINGS = 50


def tempered(task: Task, probabilities: Floats, temperature: float) -> Floats:
    """Return a task's probabilities [examples, answers] at a temperature; each of several labels by itself."""
    if not task.is_multilabel:
        return soften(probabilities, temperature)
    return soften(no_and_yes(probabilities), temperature)[:, 1].reshape(probabilities.shape)


def soften(probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities [examples, answers] at a temperature: above 1 less sure, below 1 surer, at 1 as they are."""
    if temperature == 1:
        return probabilities
    with np.errstate(divide="ignore"):  # of what is impossible, which it stays
        logits = np.log(probabilities) / temperature
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return _with_winners(shares, probabilities.argmax(1))


def _with_winners(shares: Floats, winners: NDArray[np.int64]) -> Floats:
    """Return shares with the same winners, where rounding has made two of them equal."""
    for row in np.flatnonzero(shares.argmax(1) != winners).tolist():
        shares[row, winners[row]] = np.nextafter(shares[row].max(), 2)
    return shares


def fit_temperature(probabilities: Floats, labels: NDArray[Any]) -> float:
    """Return the temperature of least log loss; labels are indices of classes or answers, or 1 and 0 for each label.

    Where all answers are right every colder one would look better, so one more example is thought of that any answer
    may be right of (as Platt did, 1999): 200 right answers are on average as sure as if one were wrong. Log loss is
    convex in the inverse of the temperature, so its slope is halved in upon.
    """
    if labels.ndim == 2:
        probabilities, labels = no_and_yes(probabilities), labels.ravel()
    probabilities = np.maximum(probabilities, LEAST)
    logs = np.log(probabilities)
    doubt = 1 / (len(labels) + 1)
    of_labels = (1 - doubt) * logs[np.arange(len(labels)), labels] + doubt * logs.mean(1)
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        expected = (soften(probabilities, 1 / middle) * logs).sum(1)
        low, high = (low, middle) if (expected - of_labels).mean() > 0 else (middle, high)
    return round(1 / high, DIGITS)
