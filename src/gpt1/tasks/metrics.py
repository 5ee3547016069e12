"""Scores of a task's answers: accuracy, F1, Matthews' and Pearson's and Spearman's correlations, the score of GLUE.

Macro F1 is taken class by class; where a row may have several labels, label by label, and micro F1 over all decisions,
and a row is right where all its labels are.

Numpy alone, as fine-tuning needs it on machines that have little else; scikit-learn and SciPy are the judges in the
tests. All scores are between 0 and 1, correlations between -1 and 1. Where a score is not defined (no rows, a class
that is neither there nor answered, one side that never changes) it is 0.0: it has shown nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.answers import right_rows
from gpt1.tasks.catalog import CATALOGUE, GLUE, Task
from gpt1.tasks.tagging import word_scores

Values = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def accuracy(labels: Values, predictions: Values) -> float:
    """Return the share of right answers."""
    return float((labels == predictions).mean()) if len(labels) else 0.0


def f1(labels: Values, predictions: Values) -> float:
    """Return the harmonic mean of precision and recall of class 1, the second label."""
    named = int((labels == 1).sum() + (predictions == 1).sum())
    return float(2 * ((labels == 1) & (predictions == 1)).sum() / named) if named else 0.0


def matthews(labels: Values, predictions: Values) -> float:
    """Return the correlation of classes and answers, for any number of classes (Gorodkin, 2004)."""
    if not len(labels):
        return 0.0
    classes = int(max(labels.max(), predictions.max())) + 1
    # Python's integers: products of four counts leave 64 bits behind.
    there = np.bincount(labels, minlength=classes).tolist()
    answered = np.bincount(predictions, minlength=classes).tolist()
    rows, right = len(labels), int((labels == predictions).sum())
    together = rows * right - sum(a * b for a, b in zip(there, answered, strict=True))
    alone = (rows**2 - sum(count**2 for count in there)) * (rows**2 - sum(count**2 for count in answered))
    return together / math.sqrt(alone) if alone else 0.0


def score_of_counts(metric: str, hits: Values, given: Values, there: Values) -> Values:
    """Return F1, macro F1 or Matthews' correlation from how often classes were right, answered and there [.., classes].

    It is what the functions of these names return, for many sets of answers to the same rows at once.
    """
    named = given + there
    if metric == "f1":
        return np.asarray(2 * hits[..., 1] / np.maximum(named[..., 1], 1))
    if metric == "macro_f1":
        return np.asarray((2 * hits / np.maximum(named, 1)).sum(-1) / np.maximum((named > 0).sum(-1), 1))
    rows = float(there.sum())
    together = rows * hits.sum(-1) - given @ there
    alone = (rows**2 - float(there @ there)) * (rows**2 - (given.astype(np.float64) ** 2).sum(-1))
    return np.asarray(together / np.sqrt(np.where(alone > 0, alone, np.inf)))


def blind_score(metric: str, shares: Sequence[float]) -> float | None:
    """Return what answers that know nothing of the texts reach at most, given the shares of classes; None: not known.

    They give the commonest class always, or each class in its share; of several labels a row always the same ones.
    """
    if metric == "micro_f1":
        return constant_micro_f1(shares)[0]
    most = commonest_score(metric, max(shares), len(shares))
    return max(most, 1 / len(shares)) if most is not None and metric == "macro_f1" else most


def commonest_score(metric: str, share: float, classes: int) -> float | None:
    """Return what always giving the commonest of so many classes scores, by its share; None: not known."""
    return {"accuracy": share, "macro_f1": 2 * share / (1 + share) / classes, "matthews": 0.0}.get(metric)


def constant_micro_f1(shares: Sequence[float]) -> tuple[float, int]:
    """Return the best micro F1 of always giving the same labels, and how many: the commonest, by their shares of rows.

    Of N rows the k commonest are given k N times, rightly as often as they are there.
    """
    commonest, there = sorted(shares, reverse=True), sum(shares)
    reached = [2 * sum(commonest[:count]) / (count + there) for count in range(1, len(shares) + 1)]
    best = max(reached, default=0.0)
    return best, reached.index(best) + 1 if reached else 0


def pearson(labels: Values, predictions: Values) -> float:
    """Return how well a straight line links two sets of numbers."""
    one, other = _direction(labels), _direction(predictions)
    return min(1.0, max(-1.0, float(one @ other)))  # rounding may step over the ends


def spearman(labels: Values, predictions: Values) -> float:
    """Return Pearson's correlation of the ranks, equal numbers sharing the mean of theirs."""
    return pearson(_ranks(labels), _ranks(predictions))


def micro_f1(labels: Values, predictions: Values) -> float:
    """Return F1 over all labels of all rows [rows, labels]: every decision counts the same."""
    return f1(labels.ravel(), predictions.ravel())


def macro_f1(labels: Values, predictions: Values) -> float:
    """Return the mean of the F1 of each label [rows, labels]: every label counts the same, however rare.

    Of classes [rows] it is that of those that are there or answered.
    """
    if labels.ndim == 1:
        present = np.union1d(labels, predictions)
        labels, predictions = (found[:, None] == present for found in (labels, predictions))
        if not len(present):
            return 0.0
    hits, named = ((labels == 1) & (predictions == 1)).sum(0), (labels == 1).sum(0) + (predictions == 1).sum(0)
    return float((2 * hits / np.maximum(named, 1)).mean())


def exact_match(labels: Values, predictions: Values) -> float:
    """Return the share of rows with all labels right."""
    return float(right_rows(labels, predictions).mean()) if len(labels) else 0.0


_METRICS: dict[str, Callable[[Values, Values], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "exact_match": exact_match,
}


def scores(task: Task, labels: Values, predictions: Values, groups: Values | None = None) -> dict[str, float]:
    """Return the task's metrics by name, and with `groups` also as `metric/group` for each group that has rows.

    Labels and predictions are indices of classes or answers, or scores, or of several labels 1 and 0 [rows, labels], or
    indices of the labels of words [rows, words].
    Rows without a label are left out.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if len(labels) != len(predictions):
        raise InputError(f"task '{task.name}': {len(predictions)} predictions for {len(labels)} labels")
    known = np.asarray(labels >= 0 if task.score_range is None else ~np.isnan(labels))
    if task.is_multilabel:
        known = np.asarray(known.all(1))
    if not known.any():
        raise InputError(f"task '{task.name}': no row has a label, so there is nothing to score")
    if not np.isfinite(predictions).all():
        raise InputError(f"task '{task.name}': {int((~np.isfinite(predictions)).sum())} predictions are not numbers")
    if task.labels_words:
        return word_scores(task.metrics, task.labels, labels, predictions)
    found = {metric: _METRICS[metric](labels[known], predictions[known]) for metric in task.metrics}
    for number, name in enumerate(task.groups if groups is not None else ()):
        own = known & (np.asarray(groups) == number)
        if own.any():
            found |= {f"{metric}/{name}": _METRICS[metric](labels[own], predictions[own]) for metric in task.metrics}
    return found


def glue_score(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> float:
    """Return the mean over the nine tasks of GLUE, from their scores by task and split.

    The metrics of a task, and the two splits of MNLI, are averaged first. A task's splits may be those for
    development or those for the test, but all of one kind.
    """
    if absent := [name for name in GLUE if name not in found]:
        raise SettingError(f"the score of GLUE is a mean over nine tasks; not given: {', '.join(absent)}")
    return float(np.mean([task_score(CATALOGUE[name], found[name]) for name in GLUE]))


def task_score(task: Task, splits: Mapping[str, Mapping[str, float]]) -> float:
    """Return what a task gives to the score of GLUE: the mean of its metrics, over its splits."""
    if len(splits) != len(task.dev_splits):
        expected = " and ".join(task.dev_splits)
        raise SettingError(f"the score of '{task.name}' is that of {expected}, given: {', '.join(splits) or 'none'}")
    return float(np.mean([[split[metric] for metric in task.metrics] for split in splits.values()]))


def _direction(values: Values) -> Floats:
    """Return the numbers less their mean, scaled to length one; all zeros if they are all the same."""
    found: Floats = np.array(values, np.float64)
    if not len(found) or (found == found[0]).all():  # the mean of equal numbers may differ from them by rounding
        return np.zeros(len(found))
    found /= np.abs(found).max()  # squares of huge numbers would overflow
    found -= found.mean()
    return found / float(np.linalg.norm(found))


def _ranks(values: Values) -> Floats:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[place]
    return ranks
