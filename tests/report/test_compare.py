"""Runs side by side: figures and intervals that can be worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import FormatError
from gpt1.report.compare import RESAMPLES, Comparison, compare, paired_difference
from gpt1.report.gather import gather
from gpt1.tasks.metrics import pearson
from tests.report.tools import LABELS, MOODS, with_labels, write_finetuned, write_lines, write_pretrained, write_seeds

RIGHT = LABELS
WRONG = [1 - label for label in LABELS]
HALF = [0] * 8
LABELS_8 = np.array(LABELS)


def one_comparison(*folders: Path) -> Comparison:
    (found,) = compare(gather(folders))
    return found


def test_runs_of_one_task_stand_side_by_side_and_the_best_is_known(tmp_path: Path) -> None:
    read = write_finetuned(tmp_path / "read", {"dev": RIGHT, "test": HALF})
    scratch = write_finetuned(tmp_path / "scratch", {"dev": HALF})
    found = one_comparison(write_pretrained(tmp_path / "books"), read, scratch)
    assert found.columns == [("dev", "accuracy"), ("test", "accuracy")]
    assert [run.name for run, _ in found.rows] == ["read", "scratch"]
    assert [standings["dev", "accuracy"].value for _, standings in found.rows] == [1.0, 0.5]
    assert found.best(("dev", "accuracy")) == 1.0
    assert found.best(("test", "accuracy")) is None  # there is nothing to choose from
    assert ("test", "accuracy") not in found.rows[1][1]


def test_the_difference_of_right_and_wrong_is_one_whatever_is_drawn(tmp_path: Path) -> None:
    found = one_comparison(
        write_finetuned(tmp_path / "wrong", {"dev": WRONG}), write_finetuned(tmp_path / "right", {"dev": RIGHT})
    )
    (difference,) = found.differences
    assert (difference.better, difference.other, difference.examples) == ("right", "wrong", 8)
    assert (difference.value, difference.low, difference.high) == (1.0, 1.0, 1.0)
    assert difference.is_certain


def test_equal_answers_differ_by_nothing(tmp_path: Path) -> None:
    found = one_comparison(*(write_finetuned(tmp_path / name, {"dev": HALF}) for name in ("one", "two")))
    (difference,) = found.differences
    assert (difference.value, difference.low, difference.high) == (0.0, 0.0, 0.0)
    assert not difference.is_certain


def test_the_interval_is_that_of_examples_drawn_in_pairs() -> None:
    draw = np.random.default_rng(5)
    labels = draw.integers(2, size=300)
    one = np.where(draw.random(300) < 0.8, labels, 1 - labels)
    other = np.where(draw.random(300) < 0.7, labels, 1 - labels)
    value, low, high = paired_difference(MOODS, "accuracy", labels, [one], [other])
    gains = (one == labels).astype(float) - (other == labels)
    assert value == pytest.approx(gains.mean())
    # For a mean of independent gains the middle 95 % are within 1.96 standard errors.
    error = gains.std() / np.sqrt(300)
    assert low == pytest.approx(value - 1.96 * error, abs=0.25 * error)
    assert high == pytest.approx(value + 1.96 * error, abs=0.25 * error)


def test_the_same_answers_give_the_same_interval() -> None:
    answers = [np.array(HALF)], [np.array(WRONG)]
    one = paired_difference(MOODS, "accuracy", LABELS_8, *answers)
    assert one == paired_difference(MOODS, "accuracy", LABELS_8, *answers)
    assert RESAMPLES == 1000


def test_scores_are_compared_by_their_own_metric() -> None:
    task = replace(MOODS, labels=(), score_range=(0.0, 5.0), metrics=("pearson",))
    labels, good, poor = np.arange(5.0), np.array([0.1, 0.9, 2.2, 2.9, 4.0]), np.array([3.0, 1.0, 2.0, 4.0, 0.5])
    value, low, high = paired_difference(task, "pearson", labels, [good], [poor])
    assert value == pytest.approx(pearson(labels, good) - pearson(labels, poor))
    assert low <= value <= high


def test_of_several_seeds_the_median_counts() -> None:
    # Seeds with 8, 4 and 0 of 8 right have the median 4, as the other run has.
    seeds = [LABELS_8, np.array(HALF), 1 - LABELS_8]
    value, _, _ = paired_difference(MOODS, "accuracy", LABELS_8, seeds, [np.array(HALF)])
    assert value == 0.0


def test_the_standing_of_seeds_is_their_median_with_an_interval(tmp_path: Path) -> None:
    seeds = write_seeds(tmp_path / "seeds", [RIGHT, HALF, HALF])
    found = one_comparison(seeds, write_finetuned(tmp_path / "wrong", {"dev": WRONG}))
    standing = found.rows[0][1]["dev", "accuracy"]
    assert (standing.value, standing.seeds) == (0.5, 3)
    assert standing.interval is not None
    assert standing.interval[0] < 0.5 < standing.interval[1]
    assert found.differences[0].value == 0.5


def test_a_split_that_only_the_kept_seed_was_measured_on_is_of_one_seed(tmp_path: Path) -> None:
    folder = write_seeds(tmp_path / "seeds", [HALF, RIGHT])
    write_finetuned(folder / "seed-0", {"dev": HALF, "april": RIGHT})
    found = one_comparison(folder, write_finetuned(tmp_path / "wrong", {"april": WRONG}))
    standing = found.rows[0][1]["april", "accuracy"]
    assert (standing.value, standing.seeds) == (1.0, 1)
    assert [one.split for one in found.differences] == ["april"]


def test_different_examples_are_not_compared_in_pairs(tmp_path: Path) -> None:
    one = write_finetuned(tmp_path / "one", {"dev": RIGHT})
    other = write_finetuned(tmp_path / "other", {"dev": RIGHT}, labels=WRONG)
    found = one_comparison(one, other)
    assert found.differences == []
    assert found.remarks == ["one and other were measured on different examples of dev: not compared in pairs."]


def test_without_the_single_answers_the_page_says_so(tmp_path: Path) -> None:
    one, other = (write_finetuned(tmp_path / name, {"dev": RIGHT}) for name in ("one", "other"))
    (other / "predictions-moods-dev.jsonl").unlink()
    found = one_comparison(one, other)
    assert found.differences == []
    assert "the single answers of other are not there" in found.remarks[0]


def test_damaged_answers_are_named(tmp_path: Path) -> None:
    one, other = (write_finetuned(tmp_path / name, {"dev": RIGHT}) for name in ("one", "other"))
    write_lines(other / "predictions-moods-dev.jsonl", [{"label": "bad", "prediction": "so so"}])
    with pytest.raises(FormatError, match=r"other/predictions-moods-dev\.jsonl, line 1"):
        compare(gather([one, other]))


def test_examples_without_a_label_are_left_out(tmp_path: Path) -> None:
    folders = [write_finetuned(tmp_path / name, {"dev": RIGHT}) for name in ("one", "other")]
    for folder in folders:
        with (folder / "predictions-moods-dev.jsonl").open("a") as file:
            file.write(json.dumps({"index": 8, "label": None, "prediction": "bad"}) + "\n")
    assert one_comparison(*folders).differences[0].examples == 8


def test_what_merely_shares_a_name_is_not_compared(tmp_path: Path) -> None:
    one = write_finetuned(tmp_path / "one", {"dev": RIGHT})
    other = write_finetuned(tmp_path / "other", {"dev": RIGHT}, task=with_labels(MOODS, "no", "yes"))
    assert [[run.name for run, _ in found.rows] for found in compare(gather([one, other]))] == [["one"], ["other"]]


def test_every_run_is_held_against_the_best(tmp_path: Path) -> None:
    folders = [
        write_finetuned(tmp_path / name, {"dev": answers})
        for name, answers in (("a", WRONG), ("b", RIGHT), ("c", HALF))
    ]
    found = one_comparison(*folders)
    assert [(one.better, one.other, one.value) for one in found.differences] == [("b", "c", 0.5), ("b", "a", 1.0)]
