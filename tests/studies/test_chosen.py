"""What fine-tuning chooses, from answers that were kept: as if the network had been trained again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError
from gpt1.finetuning.ensembling import ENOUGH
from gpt1.records.ensemble import ENSEMBLE_FILE, EnsembleRecord
from gpt1.records.study import CellRecord
from gpt1.studies.labels import study_labels
from tests.studies.tools import TRAINING, Remembers, rows_of, source

CELL = "chosen-{}-16-0"


def rows(task: str, count: int) -> list[dict[str, Any]]:
    if task != "stsb":
        return rows_of(task, count)
    return [{**row, "label": place * 7 % 11 / 2.2} for place, row in enumerate(rows_of("rte", count))]


def write(folder: Path, task: str, dev: int = ENOUGH) -> Path:
    (folder / task).mkdir(parents=True)
    for split, count in (("train", 16), ("dev", dev)):
        (folder / task / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(task, count)))
    return folder


def study(start: Path, tmp_path: Path, out: str, task: str, *arms: str) -> Path:
    folder, watcher = tmp_path / out, Remembers()
    tasks = source(tmp_path / "tasks", task)
    study_labels(start, folder, source=tasks, training=TRAINING, counts=["all"], arms=arms, watcher=watcher)
    assert watcher.made[-1] == CELL.format(task)
    return folder / "cells" / CELL.format(task)


def answers(folder: Path, task: str) -> list[Any]:
    lines = (folder / f"predictions-{task}-dev.jsonl").read_text().splitlines()
    return [json.loads(line)["prediction"] for line in lines]


@pytest.mark.parametrize("task", ["sst2", "stsb", "storycloze"])
def test_what_is_chosen_by_kept_answers_is_what_a_fine_tuning_chooses(tmp_path: Path, start: Path, task: str) -> None:
    write(tmp_path / "tasks", task)
    kept = study(start, tmp_path, "with", task, "pre-trained", "chosen")
    trained = study(start, tmp_path, "alone", task, "chosen")
    assert not (kept / "run").exists()
    ours, theirs = (EnsembleRecord.read(path / ENSEMBLE_FILE) for path in (kept, trained / "run"))
    assert (ours.step, ours.tasks[task].why) == (theirs.step, theirs.tasks[task].why)
    assert ours.tasks[task].weights == pytest.approx(theirs.tasks[task].weights, abs=1e-3)
    assert ours.tasks[task].examples == ENOUGH
    one, other = (CellRecord.read(path / "cell.json") for path in (kept, trained))
    assert one.inputs == other.inputs
    assert one.result["scores"]["dev"] == pytest.approx(other.result["scores"]["dev"], abs=1e-4)
    if task == "stsb":
        assert answers(kept, task) == pytest.approx(answers(trained / "run", task), abs=1e-3)
    else:
        assert answers(kept, task) == answers(trained / "run", task)


def test_with_few_rows_for_dev_the_network_is_trained_on_parts(tmp_path: Path, start: Path) -> None:
    write(tmp_path / "tasks", "sst2", ENOUGH - 1)
    cell = study(start, tmp_path, "out", "sst2", "pre-trained", "chosen")
    found = EnsembleRecord.read(cell / "run" / ENSEMBLE_FILE).tasks["sst2"]
    assert "16 rows cross-validated" in found.why


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ('{"label": "0", "prediction": "1"}\n', "lacks answers to some examples of dev"),
        ('{"label": "0", "prediction": "1"}\n' * ENOUGH, "is damaged: it lacks probabilities"),
    ],
)
def test_answers_that_were_lost_name_the_cell_to_make_anew(
    tmp_path: Path, start: Path, left: str, message: str
) -> None:
    write(tmp_path / "tasks", "sst2")
    cell = study(start, tmp_path, "out", "sst2", "pre-trained", "chosen")
    (cell / "cell.json").unlink()
    network = cell.parent / "full-sst2-16-0"
    (network / "run" / "predictions-sst2-dev.jsonl").write_text(left)
    with pytest.raises(FormatError, match=rf"{message}; remove {network} to have it made anew"):
        study(start, tmp_path, "out", "sst2", "pre-trained", "chosen")
