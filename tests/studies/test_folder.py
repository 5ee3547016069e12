"""The folder of a study: what is written, what is refused, how it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import lock_folder
from gpt1.records.study import CellCounts, CellFigures, Cost
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Nobody, Notebook
from gpt1.studies.folder import Done, StudySection, conduct, is_study, read_study
from tests.records import facts_in


def tabulate(done: Done) -> list[StudySection]:
    scores = {name: kept.result["score"] for name, kept in sorted(done.items())}
    return [
        StudySection("sums", {"scores": scores}, [{"cell": name, "score": score} for name, score in scores.items()])
    ]


def cells(calls: list[str], fails: str = "") -> list[Cell]:
    def make(name: str) -> Cell:
        def compute(folder: Path, listener: Listener) -> CellFigures:
            calls.append(name)
            if name == fails:
                raise InputError("no luck")
            return {"score": len(name)}

        return Cell(name, "row", "column", {}, compute)

    return [make(name) for name in ("a", "bb", "ccc")]


def study(out: Path, calls: list[str], kind: str = "sums", fails: str = "") -> dict[str, object]:
    return conduct(out, kind, {"asked": 1}, cells(calls, fails), tabulate, Notebook(Nobody()))


def test_what_was_found_is_written_for_programs_and_for_people(tmp_path: Path) -> None:
    out = tmp_path / "study"
    found = study(out, [])
    assert found == read_study(out)
    assert found.as_json() == facts_in(out / "study.json")
    assert found.cells == CellCounts(3, 3)
    assert found.sections == {"sums": {"scores": {"a": 1, "bb": 2, "ccc": 3}}}
    assert (out / "sums.csv").read_text().split() == ["cell,score", "a,1", "bb,2", "ccc,3"]
    assert is_study(out)


def test_a_study_goes_on_where_it_was_and_makes_nothing_twice(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(InputError, match="no luck"):
        study(tmp_path, calls, fails="bb")
    assert read_study(tmp_path).sections["sums"] == {"scores": {"a": 1}}
    assert read_study(tmp_path).cells == CellCounts(1, 3)
    found = study(tmp_path, calls)
    assert calls == ["a", "bb", "bb", "ccc"]
    assert found == study(tmp_path, calls)
    assert calls == ["a", "bb", "bb", "ccc"]


def test_a_study_that_is_killed_leaves_the_true_number_of_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, object]] = []

    def look(folder: Path, listener: Listener) -> CellFigures:
        found = read_study(tmp_path)  # what a kill in the midst of this cell would leave
        seen.append((found.cells.done, found.sections["sums"]["scores"]))
        return {"score": 0}

    planned = [Cell(name, "row", "column", {}, look) for name in ("a", "bb")]
    conduct(tmp_path, "sums", {}, planned[:1], tabulate, Notebook(Nobody()))
    monkeypatch.setattr("gpt1.studies.folder.TABLES_EVERY", 0)
    conduct(tmp_path, "sums", {}, [*planned, Cell("ccc", "row", "column", {}, look)], tabulate, Notebook(Nobody()))
    assert seen == [(0, {}), (1, {"a": 0}), (2, {"a": 0, "bb": 0})]


@pytest.mark.parametrize("left", [None, "{", '{"format": "gpt1-study", "version": 1}'])
def test_a_study_whose_file_is_lost_or_damaged_is_known_by_its_cells(tmp_path: Path, left: str | None) -> None:
    calls: list[str] = []
    found = study(tmp_path, calls)
    (tmp_path / "study.json").unlink()
    if left is not None:
        (tmp_path / "study.json").write_text(left)
    assert study(tmp_path, calls) == found == read_study(tmp_path)
    assert calls == ["a", "bb", "ccc"]


def test_a_file_that_is_no_study_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(FormatError, match=r"no study of this version .* into another folder"):
        study(tmp_path, [])
    assert (tmp_path / "study.json").read_text() == "{}"


def test_what_a_person_is_told_and_what_it_cost_is_kept(tmp_path: Path) -> None:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        return {"score": 1, "device": "abacus", "notes": ["said before", "beads are missing"]}

    def once() -> dict[str, object]:
        notebook = Notebook(Nobody())
        notebook.say("said before")
        return conduct(tmp_path, "sums", {}, [Cell("a", "row", "column", {}, compute)], tabulate, notebook)

    found = once()
    assert found.notes == ["said before", "beads are missing"]
    cost = json.loads((tmp_path / "cells" / "a" / "cell.json").read_text())["seconds"]
    assert found.cost == Cost(cost, ["abacus"])
    assert once() == found  # though nothing was computed


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(diary.txt\)"):
        study(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_study_of_another_kind_is_not_gone_on_with(tmp_path: Path) -> None:
    study(tmp_path, [])
    with pytest.raises(InputError, match=r"holds a study of another kind \(sums, not labels\)"):
        study(tmp_path, [], kind="labels")


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(InputError, match="another command is at work"):
        study(tmp_path, [])


def test_another_version_is_told(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"format": "gpt1-study", "version": 9}')
    with pytest.raises(FormatError, match="no study of this version"):
        read_study(tmp_path)
