"""All tables and figures in one go: what is found is made, and made once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.base.errors import InputError
from gpt1.documents.study import study_blocks
from gpt1.documents.terminal import render
from gpt1.studies.reproduce import reproduce
from tests.studies.tools import TRAINING, Remembers, write_tasks


def test_every_task_that_is_there_goes_into_its_tables(tmp_path: Path, start: Path, lstm: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2", "storycloze", "rte")
    (data / "rte" / "train.jsonl").unlink()
    watcher, out = Remembers(), tmp_path / "out"
    found = reproduce(start, out, data=data, training=TRAINING, lstm=lstm, watcher=watcher)
    sections = found.sections
    assert {name: [row["task"] for row in rows] for name, rows in sections["tables"]["tables"].items()} == {
        "table-2": [],
        "table-3": ["storycloze"],
        "table-4": ["sst2"],
    }
    (row,) = sections["tables"]["tables"]["table-4"]
    assert (row["paper_percent"], row["previous_percent"], row["split"]) == (91.3, 93.2, "dev")
    assert list(sections["ablations"]["tasks"]) == ["sst2"]
    assert row["median"] == sections["ablations"]["tasks"]["sst2"]["full"]["median"]
    assert list(sections["zeroshot"]["tasks"]) == ["sst2", "storycloze"]
    assert len(watcher.made) == len(set(watcher.made)) == 2 + 3 + 2 * 3  # full, other arms, three checkpoints
    assert watcher.made[:2] == ["full-sst2-0", "full-storycloze-0"]  # what all tables need comes first
    assert any(line.startswith("not there, so left out: cola, mrpc") for line in watcher.lines)
    assert "rte has no training rows, so it is not learned" in watcher.lines
    told = " ".join(render(study_blocks(found), width=100, is_terminal=False).split())
    parts = (
        "Table 3: question answering",
        "Table 4: classification",
        "Without learning the task",
        "paper 91.3",
        "In pairs",
    )
    for part in parts:
        assert part in told


def test_what_was_told_is_noted_in_one_order_though_a_later_sitting_makes_no_cell(tmp_path: Path, start: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "sst2"), tmp_path / "out"
    dev = data / "sst2" / "dev.jsonl"
    dev.write_text(dev.read_text() + json.dumps({"text": "the cat lost the map " * 20, "label": "1"}) + "\n")
    once, again = (reproduce(start, out, data=data, training=TRAINING).notes for _ in range(2))
    assert sum("longer than" in note or "cut" in note for note in once) >= 2  # of a fine-tuning and of zero-shot
    assert once == again


def test_layers_are_transferred_on_the_tasks_of_the_figure(tmp_path: Path, start: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "rte")
    (data / "rte").rename(data / "mnli")
    for split in ("train", "dev"):
        lines = (data / "mnli" / f"{split}.jsonl").read_text().replace("not_entailment", "neutral")
        (data / "mnli" / f"{split}.jsonl").unlink()
        for name in ["train"] if split == "train" else ["dev_matched", "dev_mismatched"]:
            (data / "mnli" / f"{name}.jsonl").write_text(lines)
    watcher = Remembers()
    found = reproduce(start, tmp_path / "out", data=data, training=TRAINING, watcher=watcher)
    points = found.sections["transfer"]["tasks"]["mnli"]["points"]
    assert [point["layers"] for point in points] == [0, 1, 2]
    assert watcher.made.count("full-mnli-0") == 1
    rows = found.sections["tables"]["tables"]["table-2"]
    assert [(row["split"], row["paper_percent"]) for row in rows] == [("dev_matched", 82.1), ("dev_mismatched", 81.4)]
    assert points[2]["median"] == pytest.approx(sum(row["median"] for row in rows) / 2)
    cell = json.loads((tmp_path / "out" / "cells" / "full-mnli-0" / "cell.json").read_text())
    assert cell["result"]["scores"].keys() == {"dev_matched", "dev_mismatched"}


def test_a_folder_without_any_task_is_refused(tmp_path: Path, start: Path) -> None:
    (tmp_path / "tasks").mkdir()
    with pytest.raises(InputError, match=r"tasks has none of the paper's tasks \(cola, sst2,"):
        reproduce(start, tmp_path / "out", data=tmp_path / "tasks", training=TRAINING)
