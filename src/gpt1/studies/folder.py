"""The folder of a study: its cells, and what they come to, as JSON for programs and as CSV for people.

study.json    what was asked, how many cells are done, and the sections: plain values that a report draws
NAME.csv      the rows of a section
cells/        cells.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import is_temporary, lock_folder, read_json, remove_temporaries, require_own_folder, write_json
from gpt1.base.wording import many
from gpt1.inference.rows import write_rows
from gpt1.studies.cells import Cell, Kept, Watcher, find_cells, make_cell
from gpt1.training.session import Interrupted

STUDY_FILE = "study.json"
FORMAT, VERSION = "gpt1-study", 1

Done = Mapping[str, Kept]  # by the names of cells


@dataclass(frozen=True)
class Section:
    """A part of what a study found: values for a program, and the same as the rows of a table."""

    name: str
    content: dict[str, Any]
    rows: list[dict[str, Any]]


Tabulate = Callable[[Done], list[Section]]


def conduct(
    out: Path, kind: str, about: Mapping[str, Any], cells: Sequence[Cell], tabulate: Tabulate, watcher: Watcher
) -> dict[str, Any]:
    """Make all cells that are not done, write what they come to, and return it.

    Whatever ends a study before its end, what is done then is written, and the same call goes on.
    """
    with lock_folder(out):
        _require_own(out, kind)
        remove_temporaries(out)
        done = find_cells(out, cells)
        # Written before the first cell, so that the folder is known as ours.
        _write(out, kind, about, [], done, cells)
        watcher.planned(cells, done)
        try:
            for cell in cells:
                if cell.name not in done:
                    done[cell.name] = make_cell(out, cell, watcher)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; {len(done):,} of {many(len(cells), 'cell')} are done, and the same command goes on"
            ) from None
        finally:
            found = _write(out, kind, about, tabulate(done), done, cells)
    return found


def is_study(folder: Path) -> bool:
    """Whether a folder holds a study."""
    return (folder / STUDY_FILE).is_file()


def read_study(folder: Path) -> dict[str, Any]:
    """Return what a study found."""
    facts = read_json(folder / STUDY_FILE, "a study")
    if (facts.get("format"), facts.get("version")) != (FORMAT, VERSION):
        raise FormatError(f"{folder / STUDY_FILE} is no study of this version of gpt1; run the study again")
    return facts


def _require_own(out: Path, kind: str) -> None:
    if not is_study(out):
        require_own_folder(out, is_temporary)
        return
    found = read_study(out).get("kind")
    if found != kind:
        raise InputError(f"{out} holds a study of another kind ({found}, not {kind}); choose another folder")


def _write(
    out: Path, kind: str, about: Mapping[str, Any], sections: Sequence[Section], done: Done, cells: Sequence[Cell]
) -> dict[str, Any]:
    for section in sections:
        if section.rows:
            write_rows(iter(section.rows), out / f"{section.name}.csv", ())
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "about": dict(about),
        "cells": {"done": sum(cell.name in done for cell in cells), "planned": len(cells)},
        "sections": {section.name: section.content for section in sections},
    }
    write_json(out / STUDY_FILE, facts)
    return facts
