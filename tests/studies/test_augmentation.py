"""Does augmentation help: arms that learn the same rows, differences in pairs, and what is refused and left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.documents.blocks import Lines, Table
from gpt1.documents.study import study_blocks
from gpt1.documents.terminal import render
from gpt1.finetuning.data import Source
from gpt1.records.study import AugmentationSection, StudyRecord
from gpt1.runs.folder import read_run
from gpt1.studies.augmentation import STRENGTHS, study_augmentation
from gpt1.studies.comparison import read_sheet
from gpt1.studies.folder import read_study
from gpt1.tasks.catalog import CATALOGUE
from tests.finetuning.tools import make_examples, make_task, write_table
from tests.studies.tools import TRAINING, Remembers, source, write_tasks

TWO = replace(TRAINING, seeds=2)
WAYS = ("word-dropout", "span-deletion", "swaps", "mixup", "r-drop")


@pytest.fixture
def synonyms(tmp_path: Path) -> Path:
    (path := tmp_path / "synonyms.tsv").write_text("Ann\tsomebody\nlamp\tgirl\n")
    return path


def study(start: Path, out: Path, tasks: Source, **given: Any) -> StudyRecord:
    return study_augmentation(start, out, source=tasks, **{"training": TRAINING, "counts": [4], **given})


def section_of(found: StudyRecord) -> AugmentationSection:
    return found.sections["augmentation"]


def test_every_arm_learns_the_same_rows_in_its_own_way_and_none_is_there_anyway(
    tmp_path: Path, start: Path, synonyms: Path
) -> None:
    tasks, out, watcher = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out", Remembers()
    found = study(start, out, tasks, counts=[8, 4], synonyms=synonyms, watcher=watcher)
    arms = ["none", "word-dropout", "span-deletion", "swaps", "synonyms", "mixup", "r-drop"]
    assert watcher.made == [f"{arm}-sst2-{count}-0" for count in (4, 8) for arm in arms]
    runs = {arm: read_run(out / "cells" / f"{arm}-sst2-4-0" / "run") for arm in arms}
    assert len({run.identity for run in runs.values()}) == 1
    assert {run.tasks["sst2"].test_splits for run in runs.values()} == {("dev",)}  # decides nothing
    on = {
        arm: {
            name: value
            for name in ("word_dropout", "span_deletion", "word_swaps", "synonyms", "mixup", "r_drop")
            if (value := getattr(run.recipe.finetuning, name))
        }
        for arm, run in runs.items()
    }
    assert on == {
        "none": {},
        "word-dropout": {"word_dropout": 0.1},
        "span-deletion": {"span_deletion": 0.1},
        "swaps": {"word_swaps": 0.1},
        "synonyms": {"synonyms": 0.1},
        "mixup": {"mixup": 0.2},
        "r-drop": {"r_drop": 1.0},
    }
    facts = section_of(found)["tasks"]["sst2"]
    assert {arm: [point["labels"] for point in points] for arm, points in facts["arms"].items()} == {
        arm: [4, 8] for arm in arms
    }
    assert [(one["labels"], one["arm"], one["over"]) for one in facts["differences"]] == [
        (count, arm, "none") for count in (4, 8) for arm in arms[1:]
    ]
    assert read_study(out) == found
    head, *rows = (out / "augmentation.csv").read_text().splitlines()
    assert len(rows) == 14
    assert {"difference", "low", "high", "better", "worse"} <= set(head.split(","))


def test_differences_are_those_of_the_answers_in_pairs_and_draws_are_counted(tmp_path: Path, start: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    strong = {"span-deletion": 0.9, "mixup": 8.0}
    long = replace(TWO, changes=[*TWO.changes, "training.steps=12"])
    found = study(start, out, tasks, arms=["span-deletion", "mixup"], strengths=strong, training=long)
    facts = section_of(found)["tasks"]["sst2"]
    for one in facts["differences"]:
        rights = {}
        for arm in (one["arm"], "none"):
            files = [out / "cells" / f"{arm}-sst2-4-{seed}/run/predictions-sst2-dev.jsonl" for seed in (0, 1)]
            sheet = read_sheet(files, CATALOGUE["sst2"])
            assert sheet is not None
            rights[arm] = [float(np.mean(answers == sheet.labels)) for answers in sheet.answers]
        gains = np.array(rights[one["arm"]]) - np.array(rights["none"])
        assert one["difference"] == pytest.approx(np.median(rights[one["arm"]]) - np.median(rights["none"]))
        assert (one["better"], one["worse"]) == ((gains > 0).sum(), (gains < 0).sum())
        assert one["low"] <= one["difference"] <= one["high"]
    assert section_of(found)["arms"]["mixup"] == "finetuning.mixup=8"


def test_a_study_that_is_stopped_goes_on_and_parts_come_to_the_same(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    given: dict[str, Any] = {"arms": ["swaps", "r-drop"], "training": TWO}
    whole = study(start, tmp_path / "whole", tasks, **given)
    with pytest.raises(KeyboardInterrupt):
        study(start, tmp_path / "halted", tasks, watcher=Remembers(stop_after=20), **given)
    watcher = Remembers()
    again = study(start, tmp_path / "halted", tasks, watcher=watcher, **given)
    assert 0 < len(watcher.already) < 6
    for number in (1, 2):
        study(start, tmp_path / "parts", tasks, part=(number, 2), **given)
    parts = study(start, tmp_path / "parts", tasks, **given)
    assert section_of(again) == section_of(whole) == section_of(parts)


def test_labels_that_cannot_be_mixed_are_left_out_of_that_arm_alone_and_told(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "storycloze", "rte"), "storycloze", "rte")
    watcher = Remembers()
    found = study(start, tmp_path / "out", tasks, arms=["mixup", "r-drop"], watcher=watcher)
    assert list(section_of(found)["tasks"]["storycloze"]["arms"]) == ["none", "r-drop"]
    assert list(section_of(found)["tasks"]["rte"]["arms"]) == ["none", "mixup", "r-drop"]
    assert "storycloze has choices, which are answered by texts of their own: there is no mix-up of it" in watcher.lines


def test_another_list_of_synonyms_is_another_cell(tmp_path: Path, start: Path, synonyms: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    study(start, out, tasks, arms=["synonyms"], synonyms=synonyms)
    synonyms.write_text("Ann\tTom\n")
    with pytest.raises(InputError, match=r"synonyms-sst2-4-0 was made from other inputs: the list of synonyms was ano"):
        study(start, out, tasks, arms=["synonyms"], synonyms=synonyms)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"arms": ["spans"]}, "unknown arm 'spans'"),
        ({"arms": []}, "name at least one way to augment"),
        ({"arms": ["none"]}, "name at least one way to augment"),
        ({"counts": []}, "name at least one of `counts`"),
        ({"arms": ["synonyms"]}, "the arm 'synonyms' needs a list of them"),
        ({"arms": ["swaps"], "synonyms": "LIST"}, "a list of synonyms is named, and the arm 'synonyms' is not"),
        ({"arms": ["swaps"], "strengths": {"mixup": 1.0}}, "a strength of 'mixup' is named, and the arm is not"),
        ({"strengths": {"swaps": 0.0}}, "the strength of 'swaps' is above 0, not 0; 0 is the arm 'none'"),
        ({"strengths": {"swaps": 2.0}}, r"word_swaps is at least 0 and below 1, not 2\.0"),
        ({"strengths": {"none": 2.0}}, "unknown arm 'none'"),
        (
            {"training": replace(TRAINING, changes=[*TRAINING.changes, "finetuning.mixup=1"])},
            r"finetuning\.mixup is set for all arms, also for the one without augmentation",
        ),
        (
            {"training": replace(TRAINING, changes=[*TRAINING.changes, "shape.dropout=0"])},
            r"shape\.dropout is 0, with which R-Drop's two passes are the same",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    given: dict[str, Any], said: str, tmp_path: Path, start: Path, synonyms: Path
) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    given = {**given} | ({"synonyms": synonyms} if "synonyms" in given else {})
    with pytest.raises(SettingError, match=said):
        study(start, tmp_path / "out", tasks, **given)
    assert not (tmp_path / "out").exists()


# ---- what a person reads ----


def difference(arm: str, task: str, value: float, low: float, high: float, **given: Any) -> dict[str, Any]:
    return {
        "labels": 200,
        "arm": arm,
        "over": "none",
        "split": "dev",
        "metric": "accuracy",
        "difference": value,
        "low": low,
        "high": high,
        "examples": 900,
        "better": 3,
        "worse": 2,
        **given,
    }


def point(value: float) -> dict[str, Any]:
    summary = dict.fromkeys(("median", "mean", "worst", "best"), value) | {"sd": 0.0}
    seeds = {str(seed): value for seed in range(5)}
    return {"labels": 200, "metric": "accuracy", "splits": ["dev"], "examples": 900, "seeds": seeds, **summary}


def test_what_hurts_is_said_plainly_and_so_is_what_chance_does(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    found = study(start, tmp_path / "out", tasks, arms=["swaps"])
    facts: Any = section_of(found)
    facts["arms"] = {"none": "as it is", "swaps": "finetuning.word_swaps=0.1", "r-drop": "finetuning.r_drop=1"}
    for task, swaps, drop in (
        ("cola", (-0.08, -0.12, -0.03), (0.02, -0.01, 0.05)),
        ("mrpc", (0.01, -0.02, 0.03), (0.05, 0.02, 0.09)),
    ):
        facts["tasks"][task] = {
            "metric": "accuracy",
            "arms": {arm: [point(0.7 + gain)] for arm, gain in (("none", 0), ("swaps", swaps[0]), ("r-drop", drop[0]))},
            "differences": [difference("swaps", task, *swaps), difference("r-drop", task, *drop)],
        }
    del facts["tasks"]["sst2"]
    blocks = study_blocks(found)
    (lines,) = [block.lines for block in blocks if isinstance(block, Lines)]
    assert lines == [
        "word swaps: hurts, beyond chance, on cola, 200 labels, dev, could be chance in 1 of 2; −3.5 on average, "
        "better in 6 and worse in 4 draws.",
        "R-Drop: helps, beyond chance, on mrpc, 200 labels, dev, could be chance in 1 of 2; +3.5 on average, better in "
        "6 and worse in 4 draws.",
        "Of 4 comparisons one in twenty is beyond chance by chance alone; of 2 ways the best one flatters.",
    ]
    (table,) = [block for block in blocks if isinstance(block, Table)]
    assert table.header == ["", "cola, 200 labels", "mrpc, 200 labels"]
    best = [(row.name, cell.text) for row in table.rows for cell in row.cells if cell.is_best]
    assert best == [("R-Drop", "72.0"), ("R-Drop", "75.0")]
    assert "worse, beyond chance" in render(blocks, width=160, is_terminal=False)


def test_a_table_of_one_s_own_is_studied_with_every_way(tmp_path: Path, start: Path) -> None:
    task = make_task("mails")
    rows = make_examples(task, 32)
    tables = Source(
        train=write_table(tmp_path / "train.csv", task, rows[:20]),
        test=write_table(tmp_path / "test.csv", task, rows[20:]),
    )
    found = study(start, tmp_path / "out", tables, counts=["all"])
    ((_, facts),) = section_of(found)["tasks"].items()
    assert list(facts["arms"]) == ["none", *WAYS]
    assert set(WAYS) | {"synonyms"} == set(STRENGTHS)
    assert {point["labels"] for points in facts["arms"].values() for point in points} == {18}  # a tenth is held out
