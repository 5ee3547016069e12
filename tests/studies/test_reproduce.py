"""All tables and figures in one go: what is found is made, and made once."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.documents.study import study_blocks
from gpt1.documents.terminal import render
from gpt1.studies.cells import Cell, CellResult
from gpt1.studies.claims import CLAIMS
from gpt1.studies.material import TaskData
from gpt1.studies.reproduce import Scope, better_than_before, glue_section, reproduce
from gpt1.tasks.catalog import CATALOGUE, GLUE, Task
from gpt1.tasks.examples import Example, Labelled
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
    page = (out / "claims.md").read_text()
    assert page.startswith("# What the paper claims, and what was found here\n")
    assert page.count("| cannot be told here (") == len(CLAIMS)  # with one seed nothing can
    assert row["low"] <= row["median"] <= row["high"]
    told = " ".join(render(study_blocks(found), width=100, is_terminal=False).split())
    parts = (
        "Table 3: question answering",
        "Table 4: classification",
        "Better than the best before the paper on",
        "cola, mrpc, stsb, qqp, mnli, qnli, rte, wnli missing",
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


def write_mnli(folder: Path) -> Path:
    data = write_tasks(folder, "rte")
    (data / "rte").rename(data / "mnli")
    for split in ("train", "dev"):
        lines = (data / "mnli" / f"{split}.jsonl").read_text().replace("not_entailment", "neutral")
        (data / "mnli" / f"{split}.jsonl").unlink()
        for name in ["train"] if split == "train" else ["dev_matched", "dev_mismatched"]:
            (data / "mnli" / f"{name}.jsonl").write_text(lines)
    return data


def write_race(folder: Path) -> None:
    write_tasks(folder, "storycloze")
    (folder / "storycloze").rename(folder / "race")
    for path in (folder / "race").iterdir():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        more = [{"question": "who?", "level": ("middle", "high")[place % 2]} for place in range(len(rows))]
        rows = [row | one | {"choices": row["choices"] * 2} for row, one in zip(rows, more, strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class StopsBeforeLayers(Remembers):
    """Stops a reproduction where only the full model is done of what figure 2 left needs."""

    def begun(self, cell: Cell) -> None:
        if cell.name.startswith("layers-"):
            raise KeyboardInterrupt


def test_what_each_block_adds_is_told_in_pairs_once_each_number_of_blocks_was_learned(
    tmp_path: Path, start: Path
) -> None:
    data, out = write_mnli(tmp_path / "tasks"), tmp_path / "out"
    write_race(data)
    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        reproduce(start, out, data=data, training=TRAINING, watcher=StopsBeforeLayers())
    assert "not learned with each number of blocks: mnli, race" in (out / "study.json").read_text()
    sections = reproduce(start, out, data=data, training=TRAINING).sections
    (told,) = (one for one in sections["claims"]["claims"] if one["claim"].startswith("Each block"))
    medians = [[point["median"] for point in task["points"]] for task in sections["transfer"]["tasks"].values()]
    assert [len(task) for task in medians] == [3, 3]
    steps = [after - before for task in medians for before, after in pairwise(task)]
    assert any(told["value"] == pytest.approx(step) for step in steps)
    assert (told["why"], told["seeds"]) == ("fewer than 3 seeds", 1)


def test_layers_are_transferred_on_the_tasks_of_the_figure(tmp_path: Path, start: Path) -> None:
    data = write_mnli(tmp_path / "tasks")
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


def test_a_scope_makes_some_cells_and_tells_what_is_done_of_all(tmp_path: Path, start: Path, lstm: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "sst2", "rte"), tmp_path / "out"

    def made(scope: Scope, **more: Any) -> list[str]:
        watcher = Remembers()
        found = reproduce(start, out, data=data, training=TRAINING, lstm=lstm, scope=scope, watcher=watcher, **more)
        if scope.part is None:
            assert found.cells.planned == 2 * 4 + 3
        return watcher.made

    assert made(Scope(["ablations"], ["rte"])) == ["full-rte-0", "scratch-rte-0", "no-lm-rte-0", "lstm-rte-0"]
    page = (out / "claims.md").read_text()
    assert "4 of 11 cells are done" in page
    assert made(Scope(["zeroshot"], ["rte"])) == []
    assert made(Scope(["zeroshot", "tables"], part=(1, 1))) == [
        *(f"zeroshot-{run}-sst2-{step}" for run, steps in (("books", (1, 3)), ("lstm", (3,))) for step in steps),
        "full-sst2-0",
    ]
    assert made(Scope([])) == []
    assert "8 of 11 cells are done" in (out / "claims.md").read_text()
    with pytest.raises(InputError, match="tasks has no rows of race"):
        made(Scope(tasks=["race"]))
    with pytest.raises(SettingError, match="unknown part 'ablation'; did you mean 'ablations'"):
        Scope(["ablation"])


def test_the_auxiliary_loss_is_tried_from_several_numbers_of_labels(tmp_path: Path, start: Path) -> None:
    data, out = write_mnli(tmp_path / "tasks"), tmp_path / "out"
    scope = Scope(["labels"])
    found = reproduce(
        start, out, data=data, training=TRAINING, counts=[6, "all"], rates={"no-lm": 0.01}, scope=scope
    ).sections
    assert found["labels"]["arms"].keys() == {"full", "no-lm"}
    points = found["labels"]["tasks"]["mnli"]["arms"]
    assert {arm: [point["labels"] for point in each] for arm, each in points.items()} == {
        "full": [6, 16],
        "no-lm": [6, 16],
    }
    cell = json.loads((out / "cells" / "no-lm-mnli-6-0" / "cell.json").read_text())
    assert [cell["inputs"]["settings"][name] for name in ("finetuning.lm_weight", "optimizer.lr")] == [0, 0.01]
    (told,) = (one for one in found["claims"]["claims"] if "more labels" in one["claim"])
    assert told["why"] == "not learned from several numbers of labels: snli, qqp"


def labelled_for(task: Task) -> TaskData:
    splits = {split: [Example(("a",), 0, 1)] * 5 for split in task.dev_splits}
    return TaskData(Labelled(task, splits))


def made_up(task: Task, score: float) -> CellResult:
    scores = {split: dict.fromkeys(task.metrics, score) for split in task.dev_splits}
    return CellResult(Path("nowhere"), {"score": score, "scores": scores}, 1.0)


def test_the_score_of_glue_is_the_mean_of_its_nine_tasks_seed_by_seed() -> None:
    labelled = {name: labelled_for(CATALOGUE[name]) for name in GLUE}
    found = {name: {seed: made_up(CATALOGUE[name], 0.5 + seed / 10) for seed in (0, 1, 2)} for name in GLUE}
    scores = found["mrpc"][2].result["scores"]["dev"]
    scores["f1"], scores["accuracy"] = 0.9, 0.5  # which are one task's
    content = glue_section(labelled, found).content
    assert content["missing"] == []
    assert content["score"]["seeds"] == pytest.approx({"0": 0.5, "1": 0.6, "2": 0.7})
    assert (content["score"]["median"], content["score"]["examples"]) == (pytest.approx(0.6), 50)
    assert (content["paper_percent"], content["previous_percent"]) == (72.8, 68.9)
    del found["wnli"]
    without = glue_section(labelled, found).content
    assert (without["score"], without["missing"], len(without["tasks"])) == (None, ["wnli"], 8)


def row(task: str, metric: str, ours: float, before: float) -> dict[str, object]:
    return {"task": task, "metric": metric, "median": ours, "previous_percent": before}


def test_a_task_is_better_than_before_where_all_its_rows_are_and_what_is_not_comparable_is_not_counted() -> None:
    tables: Any = {
        "table-2": [
            row("mnli", "accuracy", 0.81, 80.6),
            row("mnli", "accuracy", 0.80, 80.1),
            row("qnli", "accuracy", 0.99, 82.3),
        ],
        "table-3": [row("race", "accuracy/middle", 0.1, 60.2), row("race", "accuracy", 0.54, 53.3)],
    }
    assert better_than_before(tables) == {"mnli": False, "qnli": None, "race": True}


def test_a_folder_without_any_task_is_refused(tmp_path: Path, start: Path) -> None:
    (tmp_path / "tasks").mkdir()
    with pytest.raises(InputError, match=r"tasks has none of the paper's tasks \(cola, sst2,"):
        reproduce(start, tmp_path / "out", data=tmp_path / "tasks", training=TRAINING)
