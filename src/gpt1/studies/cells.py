"""A study is made of cells: named computations, each kept whole when it ends, so that none is made twice.

    STUDY/cells/NAME/cell.json    what decided the result, the result, and how long it took; written last
    STUDY/cells/NAME/             what else it left, such as predictions-TASK-SPLIT.jsonl

A cell without cell.json was killed, or never begun; its computation goes on from what lies in its folder, which is held
while it is made, so that several commands can make cells of one study side by side. A cell that was made from other
inputs is refused by name, never mixed in.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from gpt1.base.errors import Busy, FormatError, InputError
from gpt1.base.files import is_temporary, lock_folder, remove_folder, remove_temporaries_below
from gpt1.base.records import differing
from gpt1.recipes.changes import todays_names
from gpt1.records.study import CellFigures, CellRecord
from gpt1.runs.events import Event, Listener

CELLS, CELL_FILE = "cells", "cell.json"

Compute = Callable[[Path, Listener], CellFigures]  # into a folder of its own, telling a listener what happens


@dataclass(frozen=True)
class Cell:
    """One computation, and where it stands in the table that a person watches."""

    name: str
    row: str
    column: str
    inputs: Mapping[str, object]  # all that decides the result, as JSON holds it
    compute: Compute
    workings: tuple[str, ...] = ()  # folders in the cell's that are not needed when it is done
    counts_words: bool = False  # which needs scikit-learn
    which: str = ""  # of those that share a place in the table

    @property
    def title(self) -> str:
        """What a person reads for it."""
        return ", ".join(filter(None, [self.row, self.column, self.which]))

    @property
    def can_be_made(self) -> bool:
        """Whether all that it needs is installed here; what trains a network is."""
        return not self.counts_words or find_spec("sklearn") is not None


@dataclass(frozen=True)
class CellResult:
    """A cell that is done."""

    folder: Path
    result: CellFigures
    seconds: float


class Watcher(Protocol):
    """Somebody who watches a study."""

    def say(self, line: str) -> None:
        """Hear one fact."""

    def planned(self, cells: Sequence[Cell], done: Mapping[str, CellResult]) -> None:
        """Hear what is to be done, and what is done already."""

    def begun(self, cell: Cell) -> None:
        """Hear which cell comes now."""

    def heard(self, event: Event) -> None:
        """Hear what happens inside a cell."""

    def ended(self, cell: Cell, kept: CellResult) -> None:
        """Hear that a cell is done."""


class Nobody:
    """Watches nothing."""

    def say(self, line: str) -> None:
        """Hear nothing."""

    def planned(self, cells: Sequence[Cell], done: Mapping[str, CellResult]) -> None:
        """Hear nothing."""

    def begun(self, cell: Cell) -> None:
        """Hear nothing."""

    def heard(self, event: Event) -> None:
        """Hear nothing."""

    def ended(self, cell: Cell, kept: CellResult) -> None:
        """Hear nothing."""


class Notebook:
    """Passes all on to a watcher, and keeps the facts that belong to what is found."""

    def __init__(self, watcher: Watcher | None) -> None:
        self._watcher = watcher or Nobody()
        self.notes: list[str] = []
        self.planned = self._watcher.planned
        self.begun = self._watcher.begun
        self.heard = self._watcher.heard
        self.ended = self._watcher.ended

    def say(self, line: str) -> None:
        """Tell one fact, and keep it."""
        self.notes.append(line)
        self._watcher.say(line)

    def tell(self, line: str) -> None:
        """Tell one fact that is of this sitting alone."""
        self._watcher.say(line)


def cell_name(*parts: object) -> str:
    """Return a name for a cell that can be the name of a folder."""
    return "-".join(re.sub(r"[^\w.]+", "-", str(part)).strip("-") for part in parts)


def is_cells_folder(path: Path) -> bool:
    """Whether a path is where the cells of a study lie."""
    return path.name == CELLS and path.is_dir()


def has_cells(study: Path) -> bool:
    """Whether any cell of a study is done."""
    return any((study / CELLS).glob(f"*/{CELL_FILE}"))


def has_only(study: Path, cells: Sequence[Cell]) -> bool:
    """Whether a study holds a folder of cells, and there nothing but these, done or not."""
    names = {cell.name for cell in cells}
    folder = study / CELLS
    return folder.is_dir() and all(entry.name in names or is_temporary(entry) for entry in folder.iterdir())


def other_cells(study: Path, cells: Sequence[Cell]) -> list[str]:
    """Return the names of finished cells that lie in a study's folder and are not among these."""
    names = {cell.name for cell in cells}
    return sorted({path.parent.name for path in (study / CELLS).glob(f"*/{CELL_FILE}")} - names)


def find_cells(study: Path, cells: Sequence[Cell]) -> dict[str, CellResult]:
    """Return the cells that are done, by name; refuse where one was made from other inputs, before any work."""
    found = {}
    for cell in cells:
        if (kept := _find(study, cell)) is not None:
            found[cell.name] = kept
            with suppress(Busy), lock_folder(kept.folder):  # who has made it just now does the same
                remove_temporaries_below(kept.folder)
                _remove_workings(kept.folder, cell)
    return found


def held_cells(study: Path, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that another command is making; of the others, what killed writers left is removed."""
    found = []
    for cell in cells:
        if (folder := _folder(study, cell)).is_dir():
            try:
                with lock_folder(folder):
                    remove_temporaries_below(folder)
            except Busy:
                found.append(cell)
    return found


def make_cell(study: Path, cell: Cell, watcher: Watcher) -> CellResult:
    """Compute a cell and keep it, unless another command has done so meanwhile; one that is still at it is Busy."""
    folder = _folder(study, cell)
    with lock_folder(folder):
        if (kept := _find(study, cell)) is None:
            remove_temporaries_below(folder)
            watcher.begun(cell)
            began = time.monotonic()
            result = cell.compute(folder, watcher.heard)
            kept = CellResult(folder, result, time.monotonic() - began + result.pop("earlier_seconds", 0.0))
            CellRecord(cell.name, {**cell.inputs}, result, kept.seconds).write(folder / CELL_FILE)
            _remove_workings(folder, cell)
    watcher.ended(cell, kept)
    return kept


def seconds_left(cells: Sequence[Cell], done: Mapping[str, CellResult]) -> float | None:
    """Return how long the cells that are not done will take; None where nothing is known.

    A cell takes as long as those in its place of the table did on average, else as those of its row, else as all.
    """
    known: dict[tuple[str, ...], list[float]] = {}
    for cell in cells:
        for place in _places(cell) if cell.name in done else ():
            known.setdefault(place, []).append(done[cell.name].seconds)
    if not known:
        return None
    nearest = (next(place for place in _places(cell) if place in known) for cell in cells if cell.name not in done)
    return sum(fmean(known[place]) for place in nearest)


def _places(cell: Cell) -> tuple[tuple[str, ...], ...]:
    return (cell.row, cell.column), (cell.row,), ()


def _folder(study: Path, cell: Cell) -> Path:
    return study / CELLS / cell.name


def _find(study: Path, cell: Cell) -> CellResult | None:
    folder = _folder(study, cell)
    path = folder / CELL_FILE
    if not path.is_file():
        return None
    remedy = f"remove {folder} to have it made anew"
    found = CellRecord.read(path, remedy)
    wanted = json.loads(json.dumps(cell.inputs))
    if changed := _changed(_inputs(found, path, remedy), wanted, cell.row):
        raise InputError(
            f"{folder} was made from other inputs: {changed}. Choose another folder for this study, or remove "
            f"{folder} to have it made anew"
        )
    return CellResult(folder, found.result, found.seconds)


def _inputs(found: CellRecord, path: Path, remedy: str) -> Mapping[str, object]:
    """Return what a cell was made from; what settings were called before is today's name."""
    if not isinstance(settings := found.inputs.get("settings"), dict):
        return found.inputs
    try:
        return {**found.inputs, "settings": todays_names(settings)}
    except FormatError as error:
        raise FormatError(f"{path} is damaged: {error}; {remedy}") from None


# Inputs that are kept as what tells them from all others, which says nothing to a person.
_FINGERPRINTS = {
    "examples": "the rows of {row} were others",
    "weights": "the weights it starts from were others",
    "tokenizer": "the tokenizer was another",
    "synonyms": "the list of synonyms was another",
}


def _changed(old: Any, new: Any, row: str) -> str:
    """Return the first of the inputs that differs, in words; nothing if they are the same."""
    for name, before, now in differing(old, new):
        if (words := _FINGERPRINTS.get(name.rpartition(".")[2])) is not None:
            return words.format(row=row)
        return f"{name or 'all of it'} was {json.dumps(before)}, is {json.dumps(now)} now"
    return ""


def _remove_workings(folder: Path, cell: Cell) -> None:
    for name in cell.workings:
        if (folder / name).is_dir():
            remove_folder(folder / name)
