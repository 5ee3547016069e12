"""What a sheet of answers shows beyond its score: which classes are mixed up, whether confidence is earned, how far the
score itself can be trusted, and the worst mistakes.

The metrics of a task belong to `metrics.py`. What comes out is plain values, to be kept as JSON and drawn elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import Floats, predictions
from gpt1.tasks.catalog import Task
from gpt1.tasks.metrics import scores

BINS = 15  # of confidence, equally wide
MISTAKES = 20  # kept, the worst first
RESAMPLES = 1000
DIGITS = 6  # of a probability that is told

_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
_SEED = 0
_TINY = float(np.finfo(np.float64).eps)  # as scikit-learn bounds a probability of which the logarithm is taken


def assess(
    task: Task,
    labels: NDArray[Any],
    probabilities: Floats,
    *,
    groups: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Return what there is to say about the answers to labelled examples, as values that JSON can hold.

    `labels` are indices of classes or answers, or scores; `probabilities` has a row an example and a column a class, an
    answer, or a bin of the scores.
    """
    answers = predictions(task, probabilities)
    found: dict[str, Any] = {"examples": len(labels), "metrics": scores(task, labels, answers, groups)}
    if task.score_range is not None:
        return found | {"intervals": _resampled(task, labels, answers)} | _residuals(labels, answers)
    right = int((answers == labels).sum())
    found |= {"right": right, "intervals": {"accuracy": wilson(right, len(labels))}}
    found["intervals"] |= _resampled(task, labels, answers)
    if task.labels:
        found |= _confusion(task, labels, answers)
    return found | {
        "calibration": _calibration(labels, probabilities, answers),
        "mistakes": _mistakes(task, labels, probabilities, answers),
    }


def answer_name(task: Task, answer: float) -> str | int | float:
    """Return an answer as a person reads it: the name of a class, the index of a choice, or a score."""
    if task.labels:
        return task.labels[int(answer)]
    return float(answer) if task.score_range is not None else int(answer)


def share_names(task: Task, shares: Floats) -> dict[str, float]:
    """Return the probabilities of one example by the names of the classes or the indices of the choices, rounded."""
    names = task.labels or tuple(map(str, range(task.choices)))
    return {name: round(float(share), DIGITS) for name, share in zip(names, shares, strict=True)}


def wilson(right: int, count: int) -> list[float]:
    """Return the 95 % interval of a share of which `right` of `count` were seen (Wilson's score interval)."""
    share, spread = right / count, _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def _resampled(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> dict[str, list[float]]:
    """Return the 95 % interval of every metric but accuracy, from examples drawn with replacement."""
    names = [name for name in task.metrics if name != "accuracy"]
    if not names:
        return {}
    draws = np.random.default_rng(_SEED)
    drawn = []
    for _ in range(RESAMPLES):
        chosen = draws.integers(len(labels), size=len(labels))
        found = scores(task, labels[chosen], answers[chosen])
        drawn.append([found[name] for name in names])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return {name: [float(low[index]), float(high[index])] for index, name in enumerate(names)}


def _confusion(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> dict[str, Any]:
    """Return how often each label got each answer, and what that means for each class."""
    classes = len(task.labels)
    counts = np.bincount(labels * classes + answers, minlength=classes**2).reshape(classes, classes)
    right, given, there = np.diag(counts), counts.sum(0), counts.sum(1)
    by_class = []
    for index, name in enumerate(task.labels):
        hits, answered, support = int(right[index]), int(given[index]), int(there[index])
        by_class.append(
            {
                "label": name,
                "precision": hits / answered if answered else 0.0,
                "recall": hits / support if support else 0.0,
                "f1": 2 * hits / (answered + support) if answered + support else 0.0,
                "support": support,
            }
        )
    return {"confusion": {"labels": list(task.labels), "counts": counts.tolist()}, "classes": by_class}


def _calibration(labels: NDArray[Any], probabilities: Floats, answers: NDArray[Any]) -> dict[str, Any]:
    """Return whether answers of 80 % confidence are right in 80 % of the cases, and two scores of probabilities.

    The expected calibration error is the mean distance of confidence and accuracy over bins of confidence, weighted by
    their counts; the Brier score adds up the squared errors of all columns, so it lies between 0 and 2.
    """
    rows = np.arange(len(labels))
    confidence, right = probabilities[rows, answers], answers == labels
    bin_of = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # a bin holds its upper end
    bins = []
    for index in np.unique(bin_of).tolist():
        inside = bin_of == index
        bins.append(
            {
                "from": index / BINS,
                "to": (index + 1) / BINS,
                "count": int(inside.sum()),
                "confidence": float(confidence[inside].mean()),
                "accuracy": float(right[inside].mean()),
            }
        )
    truth = np.zeros_like(probabilities)
    truth[rows, labels] = 1.0
    return {
        "ece": sum(one["count"] * abs(one["confidence"] - one["accuracy"]) for one in bins) / len(labels),
        "brier": float(((probabilities - truth) ** 2).sum(1).mean()),
        "nll": float(-np.log(np.clip(probabilities[rows, labels], _TINY, 1.0)).mean()),
        "bins": bins,
    }


def _mistakes(task: Task, labels: NDArray[Any], probabilities: Floats, answers: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the mistakes the model was surest of."""
    wrong = np.flatnonzero(answers != labels)
    confidence = probabilities[wrong, answers[wrong]]
    worst = wrong[np.argsort(-confidence, kind="stable")[:MISTAKES]]
    return [
        {
            "index": int(index),
            "label": answer_name(task, labels[index]),
            "prediction": answer_name(task, answers[index]),
            "probability": float(probabilities[index, answers[index]]),
        }
        for index in worst
    ]


def _residuals(labels: NDArray[Any], answers: NDArray[Any]) -> dict[str, Any]:
    """Return how far predicted scores lie from the true ones."""
    errors = answers - labels
    worst = np.argsort(-np.abs(errors), kind="stable")[:MISTAKES]
    return {
        "residuals": {
            "mean_absolute_error": float(np.abs(errors).mean()),
            "root_mean_squared_error": float(np.sqrt((errors**2).mean())),
        },
        "mistakes": [
            {
                "index": int(index),
                "label": float(labels[index]),
                "prediction": float(answers[index]),
                "error": float(errors[index]),
            }
            for index in worst
        ],
    }
