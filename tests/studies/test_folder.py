"""The folder of a study: what is written, what is refused, how it goes on."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import Busy, FormatError, InputError, Interrupted, SettingError
from gpt1.base.files import lock_folder
from gpt1.records.study import CellCounts, CellFigures, Cost, StudyRecord
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Nobody, Notebook
from gpt1.studies.folder import Done, StudySection, conduct, is_study, make_part, read_study, share
from tests.records import facts_in
from tests.studies.tools import Remembers


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


def test_finished_cells_that_are_not_asked_for_any_more_are_told_and_shown_when_asked_for_again(tmp_path: Path) -> None:
    calls: list[str] = []
    first, *others = cells(calls)
    conduct(tmp_path, "sums", {}, [first], tabulate, Notebook(Nobody()))
    found = conduct(tmp_path, "sums", {}, others, tabulate, Notebook(Nobody()))
    told = f"not asked for this time, so not shown: 1 finished cell of {tmp_path} (a); ask for all of them together"
    assert [note.startswith(told) for note in found.notes] == [True]
    assert read_study(tmp_path).notes == found.notes
    whole = conduct(tmp_path, "sums", {}, [first, *others], tabulate, Notebook(Nobody()))
    assert (whole.notes, calls) == ([], ["a", "bb", "ccc"])
    assert whole.sections["sums"] == {"scores": {"a": 1, "bb": 2, "ccc": 3}}


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


# ---- parts ----


def part(out: Path, calls: list[str], number: int, count: int = 2) -> StudyRecord:
    return conduct(out, "sums", {"asked": 1}, cells(calls), tabulate, Notebook(Nobody()), (number, count))


def test_cells_of_one_task_and_arm_are_dealt_round() -> None:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        return {"score": 0}

    planned = [
        Cell(f"{task}-{seed}-{arm}", task, arm, {}, compute)
        for task in ("rte", "cola")
        for seed in range(3)
        for arm in ("full", "words")
    ]
    for count in (1, 2, 3, 5):
        parts = [share(planned, (number + 1, count)) for number in range(count)]
        assert sorted(cell.name for own in parts for cell in own) == sorted(cell.name for cell in planned)
        for task, arm in ((task, arm) for task in ("rte", "cola") for arm in ("full", "words")):
            sizes = [sum((cell.row, cell.column) == (task, arm) for cell in own) for own in parts]
            assert max(sizes) - min(sizes) <= 1
    assert [cell.name for cell in share(planned, (1, 2))][:3] == ["rte-0-full", "rte-1-words", "rte-2-full"]


def test_parts_make_their_own_cells_and_nothing_else_and_the_whole_writes_the_tables(tmp_path: Path) -> None:
    calls: list[str] = []
    found = part(tmp_path, calls, 1)
    assert (calls, found.cells, found.sections) == (["a", "ccc"], CellCounts(2, 2), {})
    assert [path.name for path in tmp_path.iterdir()] == ["cells"]
    assert part(tmp_path, calls, 1).cells == found.cells
    assert part(tmp_path, calls, 2).cells == CellCounts(1, 1)
    assert study(tmp_path, calls) == read_study(tmp_path)
    assert read_study(tmp_path).sections["sums"] == {"scores": {"a": 1, "bb": 2, "ccc": 3}}
    assert calls == ["a", "ccc", "bb"]


def test_a_cell_that_another_command_is_making_is_refused_by_name(tmp_path: Path) -> None:
    calls: list[str] = []
    with lock_folder(tmp_path / "cells" / "bb"):
        with pytest.raises(Busy, match=r"^1 cell is being made by another command: bb; wait for it\. What is done is"):
            study(tmp_path, calls)
        assert read_study(tmp_path).cells == CellCounts(0, 3)
        part(tmp_path, calls, 1)
        with lock_folder(tmp_path / "cells" / "ccc"), pytest.raises(Busy, match=r"^1 cell is being made .*: bb; all"):
            part(tmp_path, calls, 1, 1)  # ccc is done
    assert calls == ["a", "ccc"]
    study(tmp_path, calls)
    assert calls == ["a", "ccc", "bb"]


def test_a_part_makes_what_it_can_and_then_what_was_held_at_first(tmp_path: Path) -> None:
    calls: list[str] = []
    held = ExitStack()
    held.enter_context(lock_folder(tmp_path / "cells" / "a"))

    def compute(folder: Path, listener: Listener) -> CellFigures:
        calls.append(folder.name)
        held.close()  # whoever held the other one is killed
        return {"score": 0}

    planned = [Cell(name, "row", "column", {}, compute) for name in ("a", "bb")]
    assert make_part(tmp_path, planned, Notebook(Nobody())).keys() == {"a", "bb"}
    assert calls == ["bb", "a"]


def test_a_cell_that_was_made_meanwhile_is_taken_as_it_is(tmp_path: Path) -> None:
    calls: list[str] = []

    def compute(folder: Path, listener: Listener) -> CellFigures:
        part(tmp_path, calls, 2)
        return {"score": 7}

    planned = [Cell("a", "row", "column", {}, compute), *cells(calls)[1:]]
    conduct(tmp_path, "sums", {}, planned, tabulate, Notebook(Nobody()))
    assert calls == ["bb", "ccc"]
    assert read_study(tmp_path).sections["sums"] == {"scores": {"a": 7, "bb": 2, "ccc": 3}}


def test_a_part_that_is_stopped_goes_on_and_what_a_kill_left_is_removed(tmp_path: Path) -> None:
    def stop(folder: Path, listener: Listener) -> CellFigures:
        (folder / "half.99999999.tmp").write_text("half")
        raise KeyboardInterrupt

    def compute(folder: Path, listener: Listener) -> CellFigures:
        return {"score": 0}

    with pytest.raises(Interrupted, match="stopped; 0 of 1 cell are done, and the same command goes on"):
        make_part(tmp_path, [Cell("a", "row", "column", {}, stop)], Notebook(Nobody()))
    assert (tmp_path / "cells" / "a" / "half.99999999.tmp").exists()
    make_part(tmp_path, [Cell("a", "row", "column", {}, compute)], Notebook(Nobody()))
    assert [path.name for path in (tmp_path / "cells" / "a").iterdir()] == ["cell.json"]


def test_a_part_knows_cells_that_are_only_begun_and_refuses_the_folders_of_others(tmp_path: Path) -> None:
    (tmp_path / "out" / "cells" / "bb").mkdir(parents=True)  # by another part
    part(tmp_path / "out", [], 1)
    (tmp_path / "biology" / "cells" / "nerve").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds other files \(cells\)"):
        part(tmp_path / "biology", [], 1)
    study(tmp_path / "transfer", [], kind="transfer")
    with pytest.raises(InputError, match=r"holds a study of another kind \(transfer, not sums\)"):
        part(tmp_path / "transfer", [], 1)
    for number in (0, 3):
        with pytest.raises(SettingError, match=f"such as 2/8, not {number}/2"):
            part(tmp_path / "out", [], number)


def test_cells_for_which_a_library_is_not_installed_are_left_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    calls: list[str] = []
    planned = [replace(cell, counts_words=cell.name != "bb") for cell in cells(calls)]
    watcher = Remembers()
    found = conduct(tmp_path, "sums", {}, planned, tabulate, Notebook(watcher), (1, 1))
    assert watcher.lines == ["for later: 2 cells with counted words, since scikit-learn is not installed"]
    assert (calls, found.cells) == (["bb"], CellCounts(1, 3))
    assert conduct(tmp_path, "sums", {}, planned, tabulate, Notebook(watcher)).cells == CellCounts(1, 3)
    monkeypatch.undo()
    assert conduct(tmp_path, "sums", {}, planned, tabulate, Notebook(watcher)).cells == CellCounts(3, 3)
