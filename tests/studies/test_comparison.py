"""Whether one set of answers is better: differences and intervals that can be worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpt1.studies.comparison import Sheet, paired_difference, read_sheet
from gpt1.tasks.assessment import RESAMPLES
from gpt1.tasks.metrics import pearson
from tests.report.tools import LABELS, MOODS

HALF = [0] * 8
WRONG = [1 - label for label in LABELS]
LABELS_8 = np.array(LABELS)


def test_the_interval_is_that_of_examples_drawn_in_pairs() -> None:
    draw = np.random.default_rng(5)
    labels = draw.integers(2, size=300)
    one = np.where(draw.random(300) < 0.8, labels, 1 - labels)
    other = np.where(draw.random(300) < 0.7, labels, 1 - labels)
    value, low, high = paired_difference(MOODS, "accuracy", [Sheet(labels, [one])], [Sheet(labels, [other])])
    gains = (one == labels).astype(float) - (other == labels)
    assert value == pytest.approx(gains.mean())
    # For a mean of independent gains the middle 95 % are within 1.96 standard errors.
    error = gains.std() / np.sqrt(300)
    assert low == pytest.approx(value - 1.96 * error, abs=0.25 * error)
    assert high == pytest.approx(value + 1.96 * error, abs=0.25 * error)


def test_the_same_answers_give_the_same_interval() -> None:
    sheets = [[Sheet(LABELS_8, [np.array(answers)])] for answers in (HALF, WRONG)]
    one = paired_difference(MOODS, "accuracy", *sheets)
    assert one == paired_difference(MOODS, "accuracy", *sheets)
    assert RESAMPLES == 1000


def test_scores_are_compared_by_their_own_metric() -> None:
    task = replace(MOODS, labels=(), score_range=(0.0, 5.0), metrics=("pearson",))
    labels, good, poor = np.arange(5.0), np.array([0.1, 0.9, 2.2, 2.9, 4.0]), np.array([3.0, 1.0, 2.0, 4.0, 0.5])
    value, low, high = paired_difference(task, "pearson", [Sheet(labels, [good])], [Sheet(labels, [poor])])
    assert value == pytest.approx(pearson(labels, good) - pearson(labels, poor))
    assert low <= value <= high


def test_of_several_seeds_the_median_counts() -> None:
    # Seeds with 8, 4 and 0 of 8 right have the median 4, as the other run has.
    seeds = [LABELS_8, np.array(HALF), 1 - LABELS_8]
    value, _, _ = paired_difference(MOODS, "accuracy", [Sheet(LABELS_8, seeds)], [Sheet(LABELS_8, [np.array(HALF)])])
    assert value == 0.0


def test_of_several_splits_the_median_of_their_means_counts() -> None:
    right, wrong = LABELS_8, 1 - LABELS_8
    one = [Sheet(LABELS_8, [right, wrong, right]), Sheet(LABELS_8, [right, right, wrong])]  # means 1, 1/2, 1/2
    other = [Sheet(LABELS_8, [wrong, wrong, wrong])] * 2
    assert paired_difference(MOODS, "accuracy", one, other) == (0.5, 0.5, 0.5)


def write_answers(path: Path, labels: list[int], answers: list[int]) -> Path:
    lines = [
        json.dumps({"label": MOODS.labels[label], "prediction": MOODS.labels[answer]})
        for label, answer in zip(labels, answers, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_sheet_holds_the_answers_of_all_seeds_to_the_same_examples(tmp_path: Path) -> None:
    files = [write_answers(tmp_path / name, LABELS, answers) for name, answers in (("a", HALF), ("b", WRONG))]
    sheet = read_sheet(files, MOODS)
    assert sheet is not None
    assert sheet.labels.tolist() == LABELS
    assert [one.tolist() for one in sheet.answers] == [HALF, WRONG]
    other = write_answers(tmp_path / "c", WRONG, HALF)
    assert read_sheet([files[0], other], MOODS) is None
    assert read_sheet([files[0], tmp_path / "absent"], MOODS) is None
    assert read_sheet([], MOODS) is None
