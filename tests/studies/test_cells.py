"""Cells: made once, kept whole, never mixed with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.records.study import CellFigures
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, CellResult, Nobody, cell_name, find_cells, make_cell, seconds_left
from tests.records import facts_in


def cell(
    name: str = "one", row: str = "rte", column: str = "full", calls: list[Path] | None = None, **inputs: Any
) -> Cell:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        if calls is not None:
            calls.append(folder)
        (folder / "weights").mkdir(exist_ok=True)
        (folder / "weights" / "w").write_text("heavy")
        (folder / "predictions.jsonl").write_text("{}\n")
        return {"score": 0.5, "folder": folder.name}

    return Cell(name, row, column, inputs or {"seed": 1}, compute, workings=("weights",))


def test_a_cell_is_kept_with_what_it_left_but_its_workings(tmp_path: Path) -> None:
    kept = make_cell(tmp_path, cell(), Nobody())
    assert kept.result == {"score": 0.5, "folder": "one"}
    assert sorted(path.name for path in kept.folder.iterdir()) == ["cell.json", "predictions.jsonl"]
    assert find_cells(tmp_path, [cell()])["one"] == kept


def test_what_is_not_done_is_not_found(tmp_path: Path) -> None:
    assert find_cells(tmp_path, [cell()]) == {}
    (tmp_path / "cells" / "one").mkdir(parents=True)
    (tmp_path / "cells" / "one" / "predictions.jsonl").touch()
    assert find_cells(tmp_path, [cell()]) == {}


def test_workings_that_a_kill_left_are_removed_when_the_cell_is_found(tmp_path: Path) -> None:
    kept = make_cell(tmp_path, cell(), Nobody())
    (kept.folder / "weights").mkdir()
    find_cells(tmp_path, [cell()])
    assert not (kept.folder / "weights").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"seed": 1}, {"seed": 2}, "seed was 1, is 2 now"),
        ({"a": {"b": 1.5, "c": [1]}}, {"a": {"b": 1.5, "c": [1, 2]}}, r"a\.c was \[1\], is \[1, 2\] now"),
        ({"a": 1}, {"a": 1, "b": "x"}, 'b was null, is "x" now'),
        ({"examples": "ab12"}, {"examples": "cd34"}, "the rows of rte were others"),
        ({"init": {"weights": "ab12"}}, {"init": {"weights": "cd34"}}, "the weights it starts from were others"),
    ],
)
def test_a_cell_of_other_inputs_is_refused_with_what_differs(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], told: str
) -> None:
    make_cell(tmp_path, cell(**old), Nobody())
    with pytest.raises(InputError, match=rf"cells/one was made from other inputs: {told}\. Choose another folder"):
        find_cells(tmp_path, [cell(**new)])


def test_a_cell_whose_settings_were_called_otherwise_is_the_same(tmp_path: Path) -> None:
    kept = make_cell(tmp_path, cell(settings={"watching.keep": 1, "training.spike": None}), Nobody())
    today = cell(settings={"logging.keep": 1, "training.max_loss_spike": None})
    assert find_cells(tmp_path, [today]) == {"one": kept}
    with pytest.raises(InputError, match=r"settings\.training\.max_loss_spike was null, is 2\.0 now"):
        find_cells(tmp_path, [cell(settings={"logging.keep": 1, "training.max_loss_spike": 2.0})])


def test_a_cell_with_both_names_of_a_setting_is_damaged(tmp_path: Path) -> None:
    make_cell(tmp_path, cell(settings={"watching.keep": 1, "logging.keep": 1}), Nobody())
    with pytest.raises(FormatError, match=r"cell\.json is damaged: watching\.keep and logging\.keep are two names"):
        find_cells(tmp_path, [cell(settings={"logging.keep": 1})])


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    kept = make_cell(tmp_path, cell(), Nobody())
    path = kept.folder / "cell.json"
    facts = facts_in(path)
    for damaged, message in (
        ("{", r"cell.json is not a cell of a study.*; remove .*cells/one to have it made anew"),
        (json.dumps({**facts, "version": 9}), "is no cell of this version"),
        (json.dumps({**facts, "seconds": None}), "is damaged"),
    ):
        path.write_text(damaged)
        with pytest.raises(FormatError, match=message):
            find_cells(tmp_path, [cell()])


def test_what_was_spent_before_a_kill_counts(tmp_path: Path) -> None:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        return {"score": 0.5, "earlier_seconds": 1000.0}

    kept = make_cell(tmp_path, Cell("one", "rte", "full", {}, compute), Nobody())
    assert 1000 <= kept.seconds < 1100
    assert kept.result == {"score": 0.5}


def test_names_are_names_of_folders() -> None:
    assert cell_name("zeroshot", "runs/my books", "a.b", 12) == "zeroshot-runs-my-books-a.b-12"


def test_what_is_left_is_judged_by_the_nearest_that_is_done(tmp_path: Path) -> None:
    cells = [cell("a"), cell("b"), cell("c", column="lstm"), cell("d", row="cola")]

    def done(**seconds: float) -> dict[str, CellResult]:
        return {name: CellResult(tmp_path, {}, value) for name, value in seconds.items()}

    assert seconds_left(cells, {}) is None
    assert seconds_left(cells, done(a=10)) == 30
    assert seconds_left(cells, done(a=10, c=20)) == 10 + 15  # as its place, as all
    assert seconds_left(cells, done(a=1, b=1, c=1, d=1)) == 0
