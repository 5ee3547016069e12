"""Figure 2 left: more and more blocks taken over."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.studies.transfer import study_transfer
from gpt1.training.runs import read_run
from tests.studies.tools import TRAINING, Remembers, source, write_tasks


def test_each_number_of_blocks_is_trained_and_all_of_them_are_the_full_model(tmp_path: Path, start: Path) -> None:
    out, watcher = tmp_path / "out", Remembers()
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    found = study_transfer(start, out, source=tasks, training=TRAINING, watcher=watcher)
    assert watcher.made == ["layers-0-sst2-0", "layers-1-sst2-0", "full-sst2-0"]
    taken = [read_run(out / "cells" / name / "run")["recipe"].finetuning.transfer_layers for name in watcher.made]
    assert taken == [0, 1, None]
    points = found["sections"]["transfer"]["tasks"]["sst2"]["points"]
    assert [point["layers"] for point in points] == [0, 1, 2]
    for point in points[:2]:
        (pair,) = point["behind_most"]
        assert pair["difference"] == pytest.approx(points[2]["median"] - point["median"])
    with (out / "transfer.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["median"]) for row in rows] == [point["median"] for point in points]


def test_some_numbers_and_several_seeds_can_be_asked_for(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    training = replace(TRAINING, seeds=2, changes=[*TRAINING.changes, "training.seed=5"])
    found = study_transfer(start, tmp_path / "out", source=tasks, training=training, layers=[2, 0])
    points = found["sections"]["transfer"]["tasks"]["sst2"]["points"]
    assert [point["layers"] for point in points] == [0, 2]
    assert all(point["seeds"].keys() == {"5", "6"} for point in points)


def test_an_lstm_has_one_block_to_take_over(tmp_path: Path, lstm: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    found = study_transfer(lstm, tmp_path / "out", source=tasks, training=TRAINING)
    assert [point["layers"] for point in found["sections"]["transfer"]["tasks"]["sst2"]["points"]] == [0, 1]


def test_blocks_that_are_not_there_are_refused(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    with pytest.raises(SettingError, match="has 2 blocks to take over; asked for 0 to 3"):
        study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[0, 3])


def test_a_task_without_rows_to_learn_from_or_to_judge_by_is_refused(tmp_path: Path, start: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2", "rte")
    (data / "sst2" / "train.jsonl").unlink()
    (data / "rte" / "dev.jsonl").unlink()
    few = (data / "rte" / "train.jsonl").read_text().splitlines(keepends=True)[:2]
    (data / "rte" / "train.jsonl").write_text("".join(few))  # too few to spare some for dev
    for task, message in (("sst2", "'sst2' has no training rows"), ("rte", "'rte' has no labelled rows for dev")):
        with pytest.raises(InputError, match=message):
            study_transfer(start, tmp_path / "out", source=source(data, task), training=TRAINING)
