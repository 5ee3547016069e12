"""Which rows of a labelled table cannot be used, and why: to refuse the first of them, to leave all out, or to tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpt1.base.errors import FileError, InputError
from gpt1.base.tables import BadRow, Undecodable, read_rows_or_faults
from gpt1.base.wording import many, some
from gpt1.tasks.examples import (
    EMPTY_LABEL,
    EMPTY_ROW,
    EMPTY_TEXT,
    NO_COLUMN,
    OTHER_LABEL,
    SEVERAL_LABELS,
    UNUSABLE,
    Row,
    RowFault,
)

Used = TypeVar("Used")

# What a person reads for the rows of each reason, in the order in which they are told.
REASONS = {
    Undecodable.reason: "{rows} in another encoding",
    BadRow.reason: "{rows} that cannot be read",
    EMPTY_ROW: "empty {rows}",
    EMPTY_TEXT: "{rows} without a text",
    EMPTY_LABEL: "{rows} without a label",
    SEVERAL_LABELS: "{rows} with a list of labels",
    OTHER_LABEL: "{rows} with a label that train does not have",
    NO_COLUMN: "{rows} without a column that is read",
    UNUSABLE: "{rows} that cannot be used",
}


@dataclass(frozen=True)
class SkippedRow:
    """A row that cannot be used, and why."""

    row: int
    reason: str
    why: str


@dataclass(frozen=True)
class Sifted(Generic[Used]):
    """The rows of a table that can be used, or what was made of them, and those that cannot."""

    rows: list[Used]
    left_out: list[SkippedRow] = field(default_factory=list)


def read_sifted(path: Path, encoding: str) -> Sifted[Row]:
    """Read a table; a row that cannot be read, or in which nothing stands, is left out."""
    found: Sifted[Row] = Sifted([])
    read_into(found, path, encoding)
    return found


def read_into(found: Sifted[Row], path: Path, encoding: str) -> None:
    """Read a table into what was found so far, which keeps the rows before damage."""
    for one in read_rows_or_faults(path, encoding=encoding):
        if isinstance(one, FileError):
            found.left_out.append(unreadable(one))
        elif (row := Row(one[1], str(path), one[0])).is_empty:
            found.left_out.append(SkippedRow(row.number, EMPTY_ROW, "all its cells are empty"))
        else:
            found.rows.append(row)


def unreadable(fault: FileError) -> SkippedRow:
    """Return a fault of a file as a row that is left out."""
    place = re.search(r"\d+", fault.position)
    return SkippedRow(int(place[0]) if place else 0, fault.reason, fault.message)


def sift(table: Sifted[Row], use: Callable[[Row], Used]) -> Sifted[Used]:
    """Return what `use` makes of the rows that it does not refuse, and all others."""
    found: Sifted[Used] = Sifted([], list(table.left_out))
    for row in table.rows:
        try:
            found.rows.append(use(row))
        except RowFault as fault:
            found.left_out.append(SkippedRow(row.number, fault.reason, fault.message))
    return found


def require_rows(sifted: Sifted[Any], path: Path) -> None:
    """Refuse a table of which nothing is left."""
    if not sifted.rows:
        why = f": {in_words(sifted.left_out)}" if sifted.left_out else ""
        raise InputError(f"{path} has no rows{' that can be used' if why else ''}{why}")


def notices(sifted: Sifted[Any], path: Path) -> list[str]:
    """Tell how many rows of a table were left out, which, and why."""
    if not (left_out := sifted.left_out):
        return []
    of = len(sifted.rows) + len(left_out)
    return [f"{path}: {len(left_out):,} of {many(of, 'row')} left out: {in_words(left_out)}"]


def in_words(left_out: Sequence[SkippedRow]) -> str:
    """Return how many rows there are of each reason, and where the first of them are."""
    return ", ".join(f"{counted(len(rows), why)} ({row_numbers(rows)})" for why, rows in by_reason(left_out).items())


def counted(count: int, reason: str) -> str:
    """Return such as `2 empty rows`."""
    return f"{count:,} {REASONS[reason].format(rows='row' if count == 1 else 'rows')}"


def by_reason(left_out: Iterable[SkippedRow]) -> dict[str, list[int]]:
    """Return the numbers of rows for each reason that there is."""
    found: dict[str, list[int]] = {}
    for one in sorted(left_out, key=lambda one: one.row):
        found.setdefault(one.reason, []).append(one.row)
    return {reason: found[reason] for reason in REASONS if reason in found}


def row_numbers(rows: Sequence[int]) -> str:
    """Return the first few numbers of rows."""
    return f"row{'' if len(rows) == 1 else 's'} {some([str(row) for row in rows])}"
