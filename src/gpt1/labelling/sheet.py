"""What the sheets about labels have in common: which tasks they are for, and rows as they stand in their table.

A sheet is written as the table is, with all its columns, so that it can be laid beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import file_hash
from gpt1.inference.predicting import free_names
from gpt1.inference.rows import file_chunks
from gpt1.inference.sheets import columns_beside, kinds_of, write_as_table
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.examples import Example, Row
from gpt1.tasks.shapes import CHOICES


def require_one_label(task: Task) -> None:
    """Refuse a task whose rows have scores, or several labels: there is no one class that a row is taken for."""
    refuse_words(task, "judging labels")
    if task.score_range is not None:
        raise SettingError(
            f"'{task.name}' has scores, and this is for labels; gpt1 evaluate shows the rows whose scores are furthest "
            "from the answers"
        )
    if task.is_multilabel:
        raise SettingError(
            f"'{task.name}' has several labels a row, and this is for one; make a table for a label (has it, has it "
            "not), and a run of that one"
        )


def text_cells(task: Task, example: Example) -> dict[str, object]:
    """Return the texts of a row by the names of their columns."""
    if task.shape != CHOICES:
        return dict(zip(task.fields, example.texts, strict=True))
    *asked, answers = task.fields
    return {**dict(zip(asked, example.texts, strict=False)), answers: list(example.texts[2:])}


@dataclass(frozen=True)
class TableCells:
    """All cells of a table, as they stand there."""

    path: Path
    encoding: str
    rows: Mapping[int, Mapping[str, object]]  # by their numbers in the file
    columns: Sequence[str]

    def write(
        self,
        file: IO[bytes],
        out: Path,
        added: Mapping[str, type],
        told: Mapping[int, Sequence[object]],
        notice: Callable[[str], None],
        *,
        blank: Sequence[str] = (),
    ) -> None:
        """Write the rows of which something is told, in that order, to the file that is to be `out`.

        The first of the columns that are `added` says where a row stands. `blank` ones are there to be filled in, and
        come after those of the table where it has none of the name.
        """
        names = free_names(added, {*self.columns, *blank}, notice)
        place, *others = names.values()
        new = {name: str for name in blank if name not in self.columns}
        kinds = kinds_of(self.rows.values())
        columns = columns_beside(
            self.path,
            {name: kinds.get(name, set()) for name in self.columns},
            {place: int, **new, **{name: added[own] for own, name in names.items() if name != place}},
        )

        def rows() -> list[dict[str, object]]:
            return [
                {place: number, **dict.fromkeys(new), **self.rows[number], **dict(zip(others, values, strict=True))}
                for number, values in told.items()
            ]

        write_as_table(file, out, self.path, self.encoding, rows, columns, notice)


def hash_before(path: Path) -> str:
    """Return what tells a table from all others, before its rows are looked at; "" where it is no file to read."""
    return file_hash(path) if path.is_file() else ""


def read_cells(path: Path, encoding: str, before: str) -> TableCells:
    """Return all cells of a table, or refuse one that is another by its hash than `before` its rows were looked at.

    Rows that cannot be read are none of a sheet's.
    """
    found = (row for row in chain.from_iterable(file_chunks(path, encoding)) if isinstance(row, Row))
    rows = {row.number: row.cells for row in found}
    if hash_before(path) != before:  # after the cells are read: what changes now is none of theirs
        raise InputError(
            f"{path} was changed while its rows were answered, so what is found may be of other rows; bring it back as "
            "it was and say the same again, or name the table as it is now with another `out`"
        )
    return TableCells(path, encoding, rows, list(dict.fromkeys(name for cells in rows.values() for name in cells)))
