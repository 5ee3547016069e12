"""Figure 2 left: more and more blocks taken over."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.finetuning.finetune import finetune
from gpt1.runs.checkpoints import Checkpoint, list_checkpoints, newest_checkpoint
from gpt1.runs.folder import read_run
from gpt1.studies.transfer import study_transfer
from tests.studies.tools import CONTEXT, TRAINING, Remembers, rows_of, source, write_tasks


def test_each_number_of_blocks_is_trained_and_all_of_them_are_the_full_model(tmp_path: Path, start: Path) -> None:
    out, watcher = tmp_path / "out", Remembers()
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    found = study_transfer(start, out, source=tasks, training=TRAINING, watcher=watcher)
    assert watcher.made == ["layers-0-sst2-0", "layers-1-sst2-0", "full-sst2-0"]
    taken = [read_run(out / "cells" / name / "run").recipe.finetuning.transfer_layers for name in watcher.made]
    assert taken == [0, 1, None]
    points = found.sections["transfer"]["tasks"]["sst2"]["points"]
    assert [point["layers"] for point in points] == [0, 1, 2]
    for point in points[:2]:
        assert point["behind_most"]["difference"] == pytest.approx(points[2]["median"] - point["median"])
    with (out / "transfer.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["median"]) for row in rows] == [point["median"] for point in points]
    assert [float(row["train_median"]) for row in rows] == [point["train"]["median"] for point in points]


def test_how_well_rows_are_answered_that_were_learned_is_told_where_all_seeds_know_it(
    tmp_path: Path, start: Path
) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"

    def points() -> list[Any]:
        training = replace(TRAINING, seeds=2)
        found = study_transfer(start, out, source=tasks, training=training, layers=[0, 2])
        return list(found.sections["transfer"]["tasks"]["sst2"]["points"])

    before = points()
    assert all(0 <= point["train"]["worst"] <= point["train"]["best"] <= 1 for point in before)
    path = out / "cells" / "layers-0-sst2-1" / "cell.json"
    facts = json.loads(path.read_text())
    del facts["result"]["train"], facts["sha256"]  # as an earlier version wrote it
    path.write_text(json.dumps(facts))
    assert [point.get("train") for point in points()] == [None, before[1]["train"]]


def test_of_mnli_the_gain_is_that_of_the_mean_that_stands_beside_it(tmp_path: Path, start: Path) -> None:
    data = tmp_path / "tasks" / "mnli"
    data.mkdir(parents=True)
    labels = ("entailment", "neutral", "contradiction")
    for split, count in (("train", 12), ("dev_matched", 9), ("dev_mismatched", 7)):
        rows = [{**row, "label": labels[place % 3]} for place, row in enumerate(rows_of("rte", count))]
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = replace(TRAINING, seeds=3)
    tasks = source(tmp_path / "tasks", "mnli")
    found = study_transfer(start, tmp_path / "out", source=tasks, training=training, layers=[0, 2])
    few, most = found.sections["transfer"]["tasks"]["mnli"]["points"]
    gain = few["behind_most"]
    assert gain["difference"] == pytest.approx(most["median"] - few["median"])
    assert gain["low"] <= gain["difference"] <= gain["high"]
    assert (gain["split"], gain["examples"]) == ("dev_matched and dev_mismatched", 16)


@pytest.mark.parametrize(
    ("left", "message"),
    [
        (None, "is not there, or holds no answer"),
        ('{"label": "x", "prediction": "1"}\n', "line 1 is damaged: 'x' is no label of sst2"),
        ('{"label": "0", "prediction": "1"}\n', "lacks answers to some examples of dev"),
    ],
)
def test_answers_that_were_lost_name_the_cell_to_make_anew(
    tmp_path: Path, start: Path, left: str | None, message: str
) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")

    def study() -> dict[str, Any]:
        return study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[0, 2]).sections

    found = study()
    cell = tmp_path / "out" / "cells" / "layers-0-sst2-0"
    answers = cell / "run" / "predictions-sst2-dev.jsonl"
    answers.unlink()
    if left is not None:
        answers.write_text(left)
    with pytest.raises(FormatError, match=rf"{message}.*; remove {cell} to have it made anew"):
        study()
    shutil.rmtree(cell)
    assert study() == found


def test_a_fine_tuning_that_lost_its_file_is_made_anew(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")

    def study() -> dict[str, Any]:
        return study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[0]).sections

    found = study()
    (tmp_path / "out" / "cells" / "layers-0-sst2-0" / "cell.json").unlink()
    assert study() == found


def test_texts_that_were_cut_are_noted(tmp_path: Path, start: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2")
    with (data / "sst2" / "dev.jsonl").open("a") as file:
        file.write(json.dumps({"text": "long " * 100, "label": "1"}) + "\n")
    found = study_transfer(start, tmp_path / "out", source=source(data, "sst2"), training=TRAINING, layers=[0, 2])
    (told,) = (note for note in found.notes if "longer than" in note)
    assert told.startswith(f"sst2 dev: 1 of 10 examples are longer than {CONTEXT} tokens")


def test_the_time_of_a_cell_is_that_of_all_its_sittings(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")

    def study(**watched: Any) -> dict[str, Any]:
        return study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[0], **watched)

    def patient(run: Path, refused: Callable[[str], None]) -> Checkpoint | None:
        found = newest_checkpoint(run, refused)
        return found and replace(found, seconds=1000.0)

    monkeypatch.setattr("gpt1.studies.finetuned.newest_checkpoint", patient)
    with pytest.raises(KeyboardInterrupt):
        study(watcher=Remembers(stop_after=4))
    assert list_checkpoints(tmp_path / "out" / "cells" / "layers-0-sst2-0" / "run")
    assert 1000 <= study().cost.seconds < 1100


@pytest.mark.parametrize("kind", ["lstm", "fine-tuned"])
def test_a_start_that_is_not_the_papers_is_told(tmp_path: Path, start: Path, lstm: Path, kind: str) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2")
    told = f"{lstm} is an LSTM, not the paper's Transformer"
    init = lstm
    if kind == "fine-tuned":
        changes, init = [*TRAINING.changes, "training.steps=1"], tmp_path / "taught"
        finetune(start, init, task=["sst2"], data=data, changes=changes, device="cpu")
        told = f"{init} is fine-tuned: it has seen labels of sst2"
    watcher = Remembers()
    found = study_transfer(
        init, tmp_path / "out", source=source(data, "sst2"), training=TRAINING, layers=[0], watcher=watcher
    )
    assert watcher.lines == found.notes
    assert watcher.lines[0] == told


def test_some_numbers_and_several_seeds_can_be_asked_for(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    training = replace(TRAINING, seeds=2, changes=[*TRAINING.changes, "training.seed=5"])
    found = study_transfer(start, tmp_path / "out", source=tasks, training=training, layers=[2, 0])
    points = found.sections["transfer"]["tasks"]["sst2"]["points"]
    assert [point["layers"] for point in points] == [0, 2]
    assert all(point["seeds"].keys() == {"5", "6"} for point in points)


def test_an_lstm_has_one_block_to_take_over(tmp_path: Path, lstm: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    found = study_transfer(lstm, tmp_path / "out", source=tasks, training=TRAINING)
    assert [point["layers"] for point in found.sections["transfer"]["tasks"]["sst2"]["points"]] == [0, 1]


def test_blocks_that_are_not_there_are_refused(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    with pytest.raises(SettingError, match="has 2 blocks to take over; asked for 0 to 3"):
        study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[0, 3])
    with pytest.raises(SettingError, match=r"asked for 9$"):
        study_transfer(start, tmp_path / "out", source=tasks, training=TRAINING, layers=[9])


def test_a_task_without_rows_to_learn_from_or_to_judge_by_is_refused(tmp_path: Path, start: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2", "rte")
    (data / "sst2" / "train.jsonl").unlink()
    (data / "rte" / "dev.jsonl").unlink()
    few = (data / "rte" / "train.jsonl").read_text().splitlines(keepends=True)[:2]
    (data / "rte" / "train.jsonl").write_text("".join(few))  # too few to spare some for dev
    for task, message in (("sst2", "'sst2' has no training rows"), ("rte", "'rte' has no labelled rows for dev")):
        with pytest.raises(InputError, match=message):
            study_transfer(start, tmp_path / "out", source=source(data, task), training=TRAINING)
