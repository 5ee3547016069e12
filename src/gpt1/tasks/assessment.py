"""Confusion, calibration, bootstrap intervals, mistakes: what a sheet of answers shows beyond its score.

The metrics of a task belong to `metrics.py`. What comes out is values, to be kept as JSON and drawn elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.records import Count, RecordPart
from gpt1.tasks.answers import THRESHOLD, Floats, predictions, right_rows, soft_targets
from gpt1.tasks.catalog import Task
from gpt1.tasks.metrics import scores
from gpt1.tasks.tagging import NO_WORD, count_spans, drawn_scores, kinds_of

BINS = 15  # of confidence, equally wide
MISTAKES = 20  # kept, the worst first
RESAMPLES = 1000
DIGITS = 6  # of a probability that is told
MOST_SHARES = 100  # classes whose probabilities are told of one example
MOST_CONFUSED = 200  # classes of which all pairs are counted, and pairs that are told of more classes

_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations
_SEED = 0
_TINY = float(np.finfo(np.float64).eps)  # as scikit-learn bounds a probability of which the logarithm is taken


Interval = tuple[float, float]  # the lower and the upper end


@dataclass(frozen=True)
class ConfusedPair(RecordPart):
    """How often a label got a wrong answer."""

    label: str | int
    answer: str | int
    count: Count


@dataclass(frozen=True)
class Confusion(RecordPart):
    """How often each label (a row) got each answer (a column); of very many labels only which were mixed up most."""

    labels: list[str | int] = field(default_factory=list)
    counts: list[list[Count]] = field(default_factory=list)
    pairs: list[ConfusedPair] | None = None
    other_pairs: Count | None = None  # how many there are besides

    def commonest(self) -> list[ConfusedPair]:
        """Return the wrong answers that are told of, the commonest first."""
        if self.pairs is not None:
            return self.pairs
        found = [
            ConfusedPair(label, answer, count)
            for label, counts in zip(self.labels, self.counts, strict=True)
            for answer, count in zip(self.labels, counts, strict=True)
            if count and label != answer
        ]
        return sorted(found, key=lambda one: -one.count)


@dataclass(frozen=True)
class ClassRates(RecordPart):
    """How one class was answered."""

    label: str | int
    precision: float
    recall: float
    f1: float
    support: Count


@dataclass(frozen=True)
class Bin(RecordPart):
    """Answers of about the same confidence."""

    from_: float
    to: float
    count: Count
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration(RecordPart):
    """How far confidence can be trusted."""

    ece: float
    brier: float
    nll: float
    bins: list[Bin]


@dataclass(frozen=True)
class Mistake(RecordPart):
    """A wrong answer: how sure the model was of it, or by how much a score was missed."""

    index: Count
    label: str | float
    prediction: str | float
    probability: float | None = None
    error: float | None = None
    text: str = ""
    right_text: str = ""  # of choices, the answer that was right
    row: Count | None = None  # of the file, as a person counts; where rows were at hand


@dataclass(frozen=True, kw_only=True)
class Assessment(RecordPart):
    """What there is to say about the answers to labelled examples."""

    examples: Count
    metrics: dict[str, float]
    right: Count | None = None
    intervals: dict[str, Interval]
    residuals: dict[str, float] = field(default_factory=dict)  # how far predicted scores lie from the true ones
    confusion: Confusion | None = None
    classes: list[ClassRates] = field(default_factory=list)
    calibration: Calibration | None = None
    mistakes: list[Mistake]


@dataclass(frozen=True, eq=False)
class Answered:
    """What was answered to examples, an example a row; however many classes there are, a row is short."""

    answers: NDArray[
        Any
    ]  # the class or choice that is given, the expected score, or 1 and 0 for each of several labels
    confidence: Floats  # the probability of that answer; of scores, of the likeliest bin; of labels, as if independent
    of_label: Floats  # the probability of what is right; 0 where that is not known, and of scores
    squares: Floats  # of the errors of all probabilities, added up
    likeliest: NDArray[np.int64]  # the classes whose probabilities are told
    shares: Floats  # those probabilities

    def of(self, examples: NDArray[np.int64]) -> Answered:
        """Return what was answered to some of the examples."""
        return Answered(*(getattr(self, one.name)[examples] for one in fields(self)))


def hold_against(
    task: Task, labels: NDArray[Any], probabilities: Floats, thresholds: Floats | float = THRESHOLD
) -> Answered:
    """Return what probabilities (a row an example, a column a class, an answer, or a bin of scores) say of labels.

    Labels are indices of classes or answers, -1 for none; or scores; or 1 and 0 for each of several, given where their
    probabilities reach `thresholds`, which are factors where classes have these.
    """
    answers, rows = predictions(task, probabilities, thresholds), np.arange(len(labels))
    if task.labels_words:
        return _words_held(answers, probabilities)
    places = likeliest(probabilities)
    if task.is_multilabel:
        return Answered(
            answers=answers,
            confidence=_of_all(probabilities, answers),
            of_label=_of_all(probabilities, labels) * (labels >= 0).all(1),
            squares=((probabilities - soft_targets(task, labels)) ** 2).sum(1),
            likeliest=places,
            shares=np.take_along_axis(probabilities, places, 1),
        )
    truth = np.zeros_like(probabilities)
    if task.score_range is None:
        truth[rows[labels >= 0], labels[labels >= 0]] = 1.0
    return Answered(
        answers=answers,
        confidence=probabilities.max(1) if task.score_range is not None else probabilities[rows, answers],
        of_label=probabilities[rows, labels] * (labels >= 0) if task.score_range is None else np.zeros(len(labels)),
        squares=((probabilities - truth) ** 2).sum(1),
        likeliest=places,
        shares=np.take_along_axis(probabilities, places, 1),
    )


def _words_held(answers: NDArray[Any], probabilities: Floats) -> Answered:
    """Return what was answered to words; a sentence is as sure as the least sure of its words."""
    sure = np.where(answers == NO_WORD, 1.0, probabilities.max(-1))
    nothing = np.zeros(len(answers))
    return Answered(
        answers=answers,
        confidence=sure.min(1, initial=1.0),
        of_label=nothing,
        squares=nothing,
        likeliest=np.zeros((len(answers), 0), np.int64),
        shares=np.zeros((len(answers), 0)),
    )


def _of_all(probabilities: Floats, answers: NDArray[Any]) -> Floats:
    """Return how likely it is that all labels of an example are as answered, if they are independent."""
    found: Floats = np.where(answers == 1, probabilities, 1 - probabilities).prod(1)
    return found


def joined(parts: Sequence[tuple[NDArray[np.int64], Answered]]) -> Answered:
    """Return the parts, each with the places of its examples, as one, in the order of the examples."""
    back = np.argsort(np.concatenate([examples for examples, _ in parts]))
    return Answered(*(np.concatenate([getattr(part, one.name) for _, part in parts])[back] for one in fields(Answered)))


def likeliest(probabilities: Floats) -> NDArray[np.int64]:
    """Return for each row the classes whose probabilities are told: all in their order, or the likeliest of many."""
    count, classes = probabilities.shape
    if classes <= MOST_SHARES:
        return np.tile(np.arange(classes), (count, 1))
    some = np.argpartition(probabilities, classes - MOST_SHARES, axis=1)[:, -MOST_SHARES:]
    some.sort(axis=1)  # so that equal ones come in their order
    order = np.argsort(-np.take_along_axis(probabilities, some, 1), axis=1, kind="stable")
    return np.take_along_axis(some, order, 1)


def assess(
    task: Task, labels: NDArray[Any], answered: Answered, *, groups: NDArray[np.int64] | None = None
) -> Assessment:
    """Return what there is to say about the answers to labelled examples."""
    answers = answered.answers
    if task.labels_words:
        return _assess_words(task, labels, answered)
    metrics, intervals = scores(task, labels, answers, groups), _resampled(task, labels, answers)
    if task.score_range is not None:
        return Assessment(
            examples=len(labels),
            metrics=metrics,
            intervals=intervals,
            residuals=_residuals(answers - labels),
            mistakes=_largest_errors(labels, answers),
        )
    if task.is_multilabel:
        return Assessment(
            examples=len(labels),
            metrics=metrics,
            intervals=intervals,
            classes=_label_rates(task, labels, answers),
            mistakes=_mistakes(task, labels, answered),
        )
    right = int((answers == labels).sum())
    return Assessment(
        examples=len(labels),
        metrics=metrics,
        right=right,
        intervals={"accuracy": wilson(right, len(labels)), **intervals},
        confusion=_confusion(task, labels, answers) if task.labels else None,
        classes=_rates(task, labels, answers),
        calibration=_calibration(labels, answered),
        mistakes=_mistakes(task, labels, answered),
    )


def _assess_words(task: Task, labels: NDArray[Any], answered: Answered) -> Assessment:
    """Return what there is to say of labels of words: of spans by their kinds, else what is mixed up.

    Words of a sentence hang together, so intervals are of sentences drawn with replacement.
    """
    answers = np.where(labels == NO_WORD, NO_WORD, answered.answers)
    drawn = drawn_scores(task.metrics, task.labels, labels, answers, resamples(len(labels)))
    known = labels != NO_WORD
    has_spans = "span_f1" in task.metrics
    counts = count_spans(task.labels, labels, answers).by_kind if has_spans else ()
    return Assessment(
        examples=len(labels),
        metrics=scores(task, labels, answers),
        intervals={name: interval_of([found[name] for found in drawn]) for name in task.metrics},
        confusion=None if has_spans else _confusion(task, labels[known], answers[known]),
        classes=_rates_of(kinds_of(task.labels), *counts) if has_spans else _rates(task, labels[known], answers[known]),
        mistakes=_mistakes(task, labels, answered),
    )


def answer_name(task: Task, answer: Any) -> str | int | float:
    """Return an answer as a person reads it: the name of a class, the index of a choice, a score, or all its labels."""
    if task.is_multilabel:
        return task.labels_sep.join(label_names(task, answer))
    if task.labels_words:
        return " ".join(word_labels(task, answer))
    if task.labels:
        return task.labels[int(answer)]
    return float(answer) if task.score_range is not None else int(answer)


def label_names(task: Task, answer: NDArray[Any]) -> list[str]:
    """Return the names of the labels that one of several labels' answers gives, in the order of the task."""
    return [name for name, given in zip(task.labels, answer, strict=True) if given == 1]


def word_labels(task: Task, answer: NDArray[Any]) -> list[str]:
    """Return the names of the labels of an example's words."""
    return [task.labels[place] for place in answer.tolist() if place != NO_WORD]


def share_names(task: Task, places: NDArray[np.int64], shares: Floats) -> dict[str, float]:
    """Return probabilities of one example by the names of the classes or the indices of the choices, rounded."""
    names = [task.labels[place] if task.labels else str(place) for place in places.tolist()]
    return {name: round(float(share), DIGITS) for name, share in zip(names, shares, strict=True)}


def wilson(right: int, count: int) -> Interval:
    """Return the 95 % interval of a share of which `right` of `count` were seen (Wilson's score interval)."""
    share, spread = right / count, _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def _resampled(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> dict[str, Interval]:
    """Return the 95 % interval of every metric but accuracy, from examples drawn with replacement."""
    names = [name for name in task.metrics if name != "accuracy"]
    if not names:
        return {}
    drawn = [scores(task, labels[chosen], answers[chosen]) for (chosen,) in resamples(len(labels))]
    return {name: interval_of([found[name] for found in drawn]) for name in names}


def resamples(*counts: int) -> Iterator[list[NDArray[np.int64]]]:
    """Yield examples drawn with replacement, of each of so many: the same ones whenever there are as many examples."""
    draws = np.random.default_rng(_SEED)
    for _ in range(RESAMPLES):
        yield [draws.integers(count, size=count) for count in counts]


def interval_of(drawn: Sequence[float]) -> Interval:
    """Return between which values the middle 95 % of those drawn lie."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def _confusion(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> Confusion:
    """Return how often each label got each answer.

    Of many classes not all pairs are told, of which there are too many, but those that were mixed up most.
    """
    classes = len(task.labels)
    pairs, counts = np.unique(labels * classes + answers, return_counts=True)
    if classes <= MOST_CONFUSED:
        table = np.zeros(classes**2, np.int64)
        table[pairs] = counts
        return Confusion(list(task.labels), table.reshape(classes, classes).tolist())
    wrong = pairs // classes != pairs % classes
    pairs, counts = pairs[wrong], counts[wrong]
    most = np.argsort(-counts, kind="stable")[:MOST_CONFUSED]
    told = [
        ConfusedPair(task.labels[pair // classes], task.labels[pair % classes], count)
        for pair, count in zip(pairs[most].tolist(), counts[most].tolist(), strict=True)
    ]
    return Confusion(pairs=told, other_pairs=len(pairs) - len(most))


def _rates(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> list[ClassRates]:
    """Return how each class was answered; of choices there are none."""
    if not task.labels:
        return []
    of = [np.bincount(found, minlength=len(task.labels)) for found in (labels[labels == answers], answers, labels)]
    return _rates_of(task.labels, *of)


def _label_rates(task: Task, labels: NDArray[Any], answers: NDArray[Any]) -> list[ClassRates]:
    """Return how each of several labels was answered."""
    return _rates_of(task.labels, (labels & answers).sum(0), answers.sum(0), labels.sum(0))


def _rates_of(names: Sequence[str], *of: NDArray[np.int64]) -> list[ClassRates]:
    """Return the rates of each label, from how often it was right, how often given, and how often there."""
    return [
        ClassRates(
            name,
            precision=hits / given if given else 0.0,
            recall=hits / support if support else 0.0,
            f1=2 * hits / (given + support) if given + support else 0.0,
            support=support,
        )
        for name, (hits, given, support) in zip(names, np.stack(of, 1).tolist(), strict=True)
    ]


def _calibration(labels: NDArray[Any], answered: Answered) -> Calibration:
    """Return whether answers of 80 % confidence are right in 80 % of the cases, and two scores of probabilities.

    The Brier score adds up the squared errors of all columns, so it lies between 0 and 2.
    """
    bins = reliability(answered.confidence, answered.answers == labels)
    return Calibration(
        ece=expected_error(bins),
        brier=float(answered.squares.mean()),
        nll=float(-np.log(np.clip(answered.of_label, _TINY, 1.0)).mean()),
        bins=bins,
    )


def reliability(confidence: Floats, right: NDArray[np.bool_]) -> list[Bin]:
    """Return answers by their confidence: how sure they are, and how often right."""
    bin_of = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # a bin holds its upper end
    bins = []
    for index in np.unique(bin_of).tolist():
        inside = bin_of == index
        bins.append(
            Bin(
                index / BINS,
                (index + 1) / BINS,
                count=int(inside.sum()),
                confidence=float(confidence[inside].mean()),
                accuracy=float(right[inside].mean()),
            )
        )
    return bins


def expected_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error: the mean distance of confidence and accuracy, weighted by the counts."""
    return sum(one.count * abs(one.confidence - one.accuracy) for one in bins) / sum(one.count for one in bins)


def _mistakes(task: Task, labels: NDArray[Any], answered: Answered) -> list[Mistake]:
    """Return the mistakes the model was surest of."""
    wrong = np.flatnonzero(~right_rows(answered.answers, labels))
    worst = wrong[np.argsort(-answered.confidence[wrong], kind="stable")[:MISTAKES]]
    return [
        Mistake(
            int(index),
            label=answer_name(task, labels[index]),
            prediction=answer_name(task, answered.answers[index]),
            probability=float(answered.confidence[index]),
        )
        for index in worst
    ]


def _residuals(errors: NDArray[Any]) -> dict[str, float]:
    return {
        "mean_absolute_error": float(np.abs(errors).mean()),
        "root_mean_squared_error": float(np.sqrt((errors**2).mean())),
    }


def _largest_errors(labels: NDArray[Any], answers: NDArray[Any]) -> list[Mistake]:
    errors = answers - labels
    worst = np.argsort(-np.abs(errors), kind="stable")[:MISTAKES]
    return [
        Mistake(int(i), label=float(labels[i]), prediction=float(answers[i]), error=float(errors[i])) for i in worst
    ]
