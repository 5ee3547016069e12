"""Runs side by side: figures and intervals that can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError
from gpt1.documents.study import verdict
from gpt1.records.ensemble import EnsembleRecord, TaskEnsemble
from gpt1.report import report
from gpt1.report.compare import Comparison, compare
from gpt1.report.gather import gather
from tests.report.tools import (
    LABELS,
    MOODS,
    PageReader,
    with_labels,
    write_finetuned,
    write_lines,
    write_pretrained,
    write_seeds,
)

RIGHT = LABELS
WRONG = [1 - label for label in LABELS]
HALF = [0] * 8


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


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({"network": 1.0}, "pre-trained, 6 labels<"),
        ({"network": 0.5, "words": 1.0}, "labels, with counted words<"),
        ({"words": 1.5}, "labels, answered by counted words alone<"),
    ],
)
def test_it_is_told_where_counted_words_answer(tmp_path: Path, weights: dict[str, float], told: str) -> None:
    run = write_finetuned(tmp_path / "run", {"dev": RIGHT})
    EnsembleRecord(8, {MOODS.name: TaskEnsemble(weights, "because")}).write(run / "ensemble.json")
    report([run], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert told.replace("6 labels", f"{gather([run])[0].record.examples[MOODS.name]['train']} labels") in page
    EnsembleRecord(8, {"other": TaskEnsemble(weights, "because")}).write(run / "ensemble.json")
    with pytest.raises(FormatError, match=r"ensemble.json is of other tasks than the run"):
        gather([run])


def test_the_difference_of_right_and_wrong_is_one_whatever_is_drawn(tmp_path: Path) -> None:
    found = one_comparison(
        write_finetuned(tmp_path / "wrong", {"dev": WRONG}), write_finetuned(tmp_path / "right", {"dev": RIGHT})
    )
    (difference,) = found.differences
    assert (difference.better, difference.other, difference.examples) == ("right", "wrong", 8)
    assert (difference.value, difference.low, difference.high) == (1.0, 1.0, 1.0)
    assert verdict(difference.low, difference.high, is_better=True) == "better, beyond chance"


def test_equal_answers_differ_by_nothing(tmp_path: Path) -> None:
    found = one_comparison(*(write_finetuned(tmp_path / name, {"dev": HALF}) for name in ("one", "two")))
    (difference,) = found.differences
    assert (difference.value, difference.low, difference.high) == (0.0, 0.0, 0.0)
    assert verdict(difference.low, difference.high, is_better=False) == "the same"
    page = report([tmp_path / "one", tmp_path / "two"], tmp_path / "page.html").read_text()
    assert "could be chance" not in PageReader(page).words


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
