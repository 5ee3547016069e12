"""Paired bootstrap: is one set of answers really better than another, by what `predictions-TASK-SPLIT.jsonl` hold.

The figure of several seeds is their median; of several splits, as MNLI has, that of their mean. A difference is judged
in pairs: both sides answered the same examples, so these are drawn with replacement, the same for both, and the middle
95 % of the differences are told. Seeds are not drawn: the interval is about other examples, not about other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError
from gpt1.base.files import read_lines
from gpt1.base.records import check_record
from gpt1.records.evaluation import Prediction
from gpt1.tasks.assessment import interval_of, resamples
from gpt1.tasks.catalog import Task
from gpt1.tasks.metrics import scores

EVALUATE = "gpt1 evaluate writes it anew"

Answers = NDArray[Any]


@dataclass(frozen=True)
class Sheet:
    """The labels of a split, and the answers of each seed to its examples."""

    labels: Answers
    answers: list[Answers]


def read_sheet(files: Sequence[Path], task: Task, remedy: str = EVALUATE) -> Sheet | None:
    """Return the answers of several seeds, a file each; None where any are missing or of other examples.

    `remedy` is what helps where a file is damaged.
    """
    found = [_read_answers(path, task, remedy) for path in files]
    whole = [one for one in found if one is not None]
    if not whole or len(whole) < len(found) or any(not np.array_equal(labels, whole[0][0]) for labels, _ in whole):
        return None
    return Sheet(whole[0][0], [answers for _, answers in whole])


def _read_answers(path: Path, task: Task, remedy: str) -> tuple[Answers, Answers] | None:
    if not path.is_file():
        return None
    labels, answers = [], []
    for number, line in read_lines(path, remedy):
        place = f"{path}, line {number}"
        found = check_record(line, Prediction, place, remedy)
        try:
            if found.label is not None:
                labels.append(_as_numbers(task, found.label))
                answers.append(_as_numbers(task, found.prediction))
        except ValueError as error:
            raise FormatError(f"{place} is damaged: {error}; {remedy}") from None
    if not labels:
        return None
    kind = np.float64 if task.score_range is not None else np.int64
    return np.array(labels, kind), np.array(answers, kind)


def _as_numbers(task: Task, answer: str | float) -> float | list[float]:
    """Return an answer as a number; of several labels one for each, 1 where it is given."""
    if not task.is_multilabel:
        return _as_number(task, answer)
    given = {_as_number(task, name) for name in str(answer).split(task.labels_sep) if name}
    return [float(place in given) for place in range(len(task.labels))]


def _as_number(task: Task, answer: str | float) -> float:
    if task.labels and str(answer) not in task.label_places:
        raise ValueError(f"'{answer}' is no label of {task.name}")
    if task.labels:
        return task.label_places[str(answer)]
    number = float(answer)
    if not math.isfinite(number) or (task.choices and not 0 <= number < task.choices):
        raise ValueError(f"{answer} is no answer of {task.name}")
    return number


# ---- drawing examples ----


def paired_difference(
    task: Task, metric: str, one: Sequence[Sheet], other: Sequence[Sheet]
) -> tuple[float, float, float]:
    """Return by how much `one` (a sheet for each split) is better than `other`, and the 95 % interval."""
    value = _figure(task, metric, one) - _figure(task, metric, other)
    draws = resamples(*(len(sheet.labels) for sheet in one))
    drawn = [_figure(task, metric, one, rows) - _figure(task, metric, other, rows) for rows in draws]
    return value, *interval_of(drawn)


def resampled_interval(task: Task, metric: str, sheet: Sheet) -> tuple[float, float]:
    """Return the 95 % interval of the median of several seeds."""
    drawn = [_figure(task, metric, [sheet], rows) for rows in resamples(len(sheet.labels))]
    return interval_of(drawn)


def _figure(task: Task, metric: str, sheets: Sequence[Sheet], rows: Sequence[Any] | None = None) -> float:
    """Return the median over seeds of a metric's mean over splits, on all examples or those drawn."""
    judged = replace(task, metrics=(metric,))
    chosen = rows or [slice(None)] * len(sheets)
    found = [
        [scores(judged, sheet.labels[own], answers[own])[metric] for answers in sheet.answers]
        for sheet, own in zip(sheets, chosen, strict=True)
    ]
    return float(np.median(np.mean(found, axis=0)))
