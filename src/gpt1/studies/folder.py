"""The folder of a study: its cells, and what they come to, as JSON for programs and as CSV for people.

study.json    what was asked, how many cells are done, what a person was told, and the sections: plain values that a
              report draws; all of it comes from the cells, so that a lost or damaged one is written anew
NAME.csv      the rows of a section
claims.md     of a reproduction: what the paper claims, and whether it holds
cells/        cells.py

A part of a study makes some of its cells and writes nothing else, beside others that make the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gpt1.base.errors import Busy, FormatError, InputError, Interrupted
from gpt1.base.files import is_temporary, lock_folder, remove_temporaries, require_own_folder
from gpt1.base.parts import Part, check_part
from gpt1.base.wording import many, some
from gpt1.inference.sheets import write_rows
from gpt1.records.study import AskedOfStudy, CellCounts, Cost, StudyRecord, StudySections
from gpt1.studies.cells import (
    Cell,
    CellResult,
    Notebook,
    find_cells,
    has_cells,
    has_only,
    held_cells,
    is_cells_folder,
    make_cell,
    other_cells,
)

STUDY_FILE, CLAIMS_FILE = "study.json", "claims.md"
TABLES_EVERY = 60  # seconds; drawing examples for a table takes some

Done = Mapping[str, CellResult]  # by the names of cells


@dataclass(frozen=True)
class StudySection:
    """A part of what a study found: values for a program, and the same as the rows of a table."""

    name: str
    content: Mapping[str, object]
    rows: Sequence[Mapping[str, object]]


Tabulate = Callable[[Done], list[StudySection]]


def conduct(
    out: Path,
    kind: str,
    about: AskedOfStudy,
    cells: Sequence[Cell],
    tabulate: Tabulate,
    watcher: Notebook,
    part: Part | None = None,
    wanted: Sequence[Cell] | None = None,
) -> StudyRecord:
    """Make all cells that are not done, write what they come to, and return it; of a part, see `make_part`.

    Only those that are `wanted` are made, if it is said which; what is done of the others is told all the same.
    Whatever ends a study before its end, what is done then is written, and the same call goes on. A kill leaves the
    true number of cells, and tables that are at most a cell and a minute old.
    """
    to_make = cells if wanted is None else wanted
    if part is not None:
        own = share(to_make, part)
        _require_own(out, kind, cells, watcher)
        return _record(kind, about, [], make_part(out, own, watcher), own, watcher)
    with lock_folder(out):
        _require_own(out, kind, cells, watcher)
        remove_temporaries(out)
        done = find_cells(out, cells)
        _tell_of_others(out, cells, watcher)

        def write(sections: Sequence[StudySection]) -> StudyRecord:
            return _write(out, kind, about, sections, done, cells, watcher)

        # Written before the first cell, so that the folder is known as ours.
        write(sections := tabulate(done))
        tabulated = time.monotonic()
        watcher.planned(cells, done)
        missing = _to_make(to_make, done, watcher)
        if held := held_cells(out, missing):
            raise Busy(f"{_are_made(held)}; wait for it. What is done is in {out / STUDY_FILE}")
        already = len(done)
        try:
            for cell in missing:
                done[cell.name] = make_cell(out, cell, watcher)
                if time.monotonic() - tabulated >= TABLES_EVERY:
                    sections, tabulated = tabulate(done), time.monotonic()
                write(sections)
        except KeyboardInterrupt:
            raise _stopped(cells, done) from None
        finally:
            found = write(tabulate(done) if len(done) > already else sections)
    return found


def _tell_of_others(out: Path, cells: Sequence[Cell], watcher: Notebook) -> None:
    """Tell of finished cells that earlier calls asked for and this one does not: the tables are without them."""
    if others := other_cells(out, cells):
        watcher.say(
            f"not asked for this time, so not shown: {many(len(others), 'finished cell')} of {out} ({some(others)}); "
            "ask for all of them together and all are shown, none is made twice"
        )


def _to_make(cells: Sequence[Cell], done: Done, watcher: Notebook) -> list[Cell]:
    """Return the cells that are not done, less those for which something is not installed here, of which it tells."""
    missing = [cell for cell in cells if cell.name not in done]
    if left := [cell for cell in missing if not cell.can_be_made]:
        watcher.tell(f"for later: {many(len(left), 'cell')} with counted words, since scikit-learn is not installed")
    return [cell for cell in missing if cell.can_be_made]


def _are_made(cells: Sequence[Cell]) -> str:
    verb = "is" if len(cells) == 1 else "are"
    return f"{many(len(cells), 'cell')} {verb} being made by another command: {some([cell.name for cell in cells])}"


def _stopped(cells: Sequence[Cell], done: Done) -> Interrupted:
    return Interrupted(f"stopped; {len(done):,} of {many(len(cells), 'cell')} are done, and the same command goes on")


# ---- a part, beside others ----


def share(cells: Sequence[Cell], part: Part) -> list[Cell]:
    """Return the cells of a part: those that take alike long, of one task and arm, are dealt round to all parts."""
    number, count = check_part(part)
    alike = sorted(cells, key=lambda cell: (cell.row, cell.column))
    own = {cell.name for cell in alike[number - 1 :: count]}
    return [cell for cell in cells if cell.name in own]


def make_part(out: Path, cells: Sequence[Cell], watcher: Notebook) -> dict[str, CellResult]:
    """Make those of the cells that are not done, and return all; one that another command is making is refused last.

    No file of the study is written but the cells, and nothing is held but the one that is being made.
    """
    done = find_cells(out, cells)
    watcher.planned(cells, done)
    missing = _to_make(cells, done, watcher)
    try:
        for cell in [*missing, *missing]:  # twice: who held one at first may have gone
            if cell.name not in done:
                with suppress(Busy):
                    done[cell.name] = make_cell(out, cell, watcher)
    except KeyboardInterrupt:
        raise _stopped(cells, done) from None
    if held := [cell for cell in missing if cell.name not in done]:
        raise Busy(f"{_are_made(held)}; all else of this part is done")
    return done


def is_study(folder: Path) -> bool:
    """Whether a folder holds a study."""
    return (folder / STUDY_FILE).is_file()


def read_study(folder: Path) -> StudyRecord:
    """Return what a study found."""
    return StudyRecord.read(folder / STUDY_FILE)


def _require_own(out: Path, kind: str, cells: Sequence[Cell], watcher: Notebook) -> None:
    """Refuse a folder of others, and a study of another kind; what is known by its cells is ours."""
    if not is_study(out):
        require_own_folder(out, _is_of_cells if has_cells(out) or has_only(out, cells) else is_temporary)
        return
    try:
        found = read_study(out).kind
    except FormatError as error:
        if not has_cells(out):
            raise FormatError(f"{error}, into another folder or when this file is removed") from None
        watcher.tell(f"{error}, from its cells")
        return
    if found != kind:
        raise InputError(f"{out} holds a study of another kind ({found}, not {kind}); choose another folder")


def _is_of_cells(entry: Path) -> bool:
    """Whether an entry is what a study that lost its file leaves."""
    is_table = entry.is_file() and (entry.suffix == ".csv" or entry.name == CLAIMS_FILE)
    return is_temporary(entry) or is_cells_folder(entry) or is_table


def _write(
    out: Path,
    kind: str,
    about: AskedOfStudy,
    sections: Sequence[StudySection],
    done: Done,
    cells: Sequence[Cell],
    watcher: Notebook,
) -> StudyRecord:
    for section in sections:
        if section.rows:
            write_rows((dict(row) for row in section.rows), out / f"{section.name}.csv", (), overwrite=True)
    record = _record(kind, about, sections, done, cells, watcher)
    record.write(out / STUDY_FILE)
    return record


def _record(
    kind: str,
    about: AskedOfStudy,
    sections: Sequence[StudySection],
    done: Done,
    cells: Sequence[Cell],
    watcher: Notebook,
) -> StudyRecord:
    made = [done[cell.name] for cell in cells if cell.name in done]
    noted = [note for kept in made for note in kept.result.get("notes", [])]
    devices = sorted({kept.result["device"] for kept in made if "device" in kept.result})
    return StudyRecord(
        kind,
        about=about,
        cells=CellCounts(len(made), len(cells)),
        cost=Cost(sum(kept.seconds for kept in made), devices),
        notes=list(dict.fromkeys([*watcher.notes, *noted])),
        sections=cast(StudySections, {section.name: section.content for section in sections}),
    )
