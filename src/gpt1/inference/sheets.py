"""Rows on their way out: JSON lines, parquet, and csv or tsv that a spreadsheet opens without running what is in it."""

from __future__ import annotations

import codecs
import csv
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import require_absent, result_file
from gpt1.base.strict_json import to_json
from gpt1.base.tables import CellForm, cell_form, file_format, parquet_schema
from gpt1.base.wording import many
from gpt1.inference.rows import CHUNK
from gpt1.tasks.sentences import is_column_file

FORMS = {".csv": CellForm(","), ".tsv": CellForm("\t")}
PARQUET = ".parquet"
WRITTEN = (".jsonl", *FORMS, PARQUET)
COLUMNS = ".conll"

# What a spreadsheet takes for a formula by its first character, and what it takes for a number all the same.
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d[\d.,'\s]*|[.,]\d+)([eE][+-]?\d+)?\s*%?|[+-]")

Rows = Iterable[Mapping[str, object]]
Notice = Callable[[str], None]


@dataclass(frozen=True)
class SheetColumns:
    """The columns of a file of rows, in their order, and what kind of values each holds (of parquet alone)."""

    names: Sequence[str]
    kinds: Mapping[str, set[type]] = field(default_factory=dict)
    schema: Any = None  # of the parquet file that the rows are from


def json_line(row: Mapping[str, object]) -> bytes:
    """Return a row as a line of JSON; what JSON cannot hold, such as a date, is written as text."""
    # A half character, which UTF-8 cannot hold, becomes an escape that JSON readers give back.
    return to_json(row, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"


def has_cells(out: Path) -> bool:
    """Whether a file for results has a cell for each value: JSON lines hold objects instead."""
    return out.suffix.lower() in (*FORMS, PARQUET)


def check_target(out: Path, *, overwrite: bool, of_words: bool = False) -> None:
    """Refuse a file for results that is there, or whose name does not say how they are to be written.

    Labels of words may be written as a column file too.
    """
    written = (*WRITTEN, COLUMNS) if of_words else WRITTEN
    if out.suffix.lower() not in written:
        raise SettingError(f"how is {out} to be written? Give it a name that ends in {', '.join(written)}")
    require_absent(out, overwrite)


def write_rows(
    rows: Iterator[Mapping[str, object]],
    out: Path,
    added: Sequence[str],
    *,
    overwrite: bool = False,
    notice: Notice = warnings.warn,
) -> None:
    """Write rows that come once; the file appears when all of them are in it.

    The columns of what has cells are those of the first rows, then the `added` ones.
    """
    check_target(out, overwrite=overwrite)
    with result_file(out, overwrite=overwrite) as file:
        first = list(islice(rows, CHUNK)) if has_cells(out) else []
        names = [name for name in dict.fromkeys(name for row in first for name in row) if name not in added]
        columns = SheetColumns([*names, *added], kinds_of(first))
        write_to(file, out, chain(first, rows), columns, FORMS.get(out.suffix.lower()), notice)


def write_to(
    file: IO[bytes], out: Path, rows: Rows, columns: SheetColumns, form: CellForm | None, notice: Notice = warnings.warn
) -> None:
    """Write rows to the file that is to be `out`, cells in this form; told is of cells that were made harmless."""
    suffix = out.suffix.lower()
    if suffix == PARQUET:
        _write_parquet(rows, file, columns)
    elif form is None or suffix not in FORMS:
        file.writelines(map(json_line, rows))
    elif defused := _write_cells(rows, file, form, columns.names):
        notice(
            f"{out}: {many(defused, 'cell')} would be a formula to a spreadsheet (=, +, - or @ comes first): an "
            "apostrophe stands before it now"
        )


def columns_beside(table: str | Path, kinds: Mapping[str, set[type]], added: Mapping[str, type]) -> SheetColumns:
    """Return the columns of a table with what is `added`: the first of it, where a row stands, before them."""
    place, *others = added
    is_parquet = not is_column_file(table) and file_format(table) == "parquet"
    schema = parquet_schema(table) if is_parquet else None
    return SheetColumns([place, *kinds, *others], {**kinds, **{name: {kind} for name, kind in added.items()}}, schema)


def write_as_table(
    file: IO[bytes],
    out: Path,
    table: str | Path,
    encoding: str,
    rows: Callable[[], Rows],
    columns: SheetColumns,
    notice: Notice = warnings.warn,
) -> None:
    """Write rows of a table, with what is added to them, to the file that is to be `out`: cells as in the table.

    Where its encoding lacks a letter of what is added, it becomes UTF-8 with a byte order mark, and that is told.
    """
    form = form_for(out, table, encoding)
    try:
        write_to(file, out, rows(), columns, form, notice)
    except UnicodeEncodeError as error:  # a label or an error in letters that the table's encoding lacks
        assert form is not None  # all other files are UTF-8
        lacks = f"{form.encoding} lacks '{error.object[error.start]}'"
        notice(f"{table} is {form.encoding}, and {out} is UTF-8 with a byte order mark: {lacks}")
        file.seek(0)
        file.truncate()
        write_to(file, out, rows(), columns, replace(form, encoding="utf-8", has_mark=True), notice)


def form_for(out: Path, table: str | Path, encoding: str) -> CellForm | None:
    """Return how the cells of a result are to be written: as those of the table it is of, as far as its name lets."""
    own = FORMS.get(out.suffix.lower())
    theirs = None if is_column_file(table) else cell_form(table, encoding)
    if own is None or theirs is None:
        return own
    is_alike = file_format(table) == file_format(out)  # a tsv has tabs, whatever parted the cells of a csv
    return replace(theirs, delimiter=theirs.delimiter if is_alike else own.delimiter)


def kinds_of(rows: Rows) -> dict[str, set[type]]:
    """Return what kinds of values each column holds; an integer that parquet has no room for counts as text."""
    found: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                found.setdefault(name, set()).add(_kind(value))
    return found


def _kind(value: object) -> type:
    return str if isinstance(value, int) and not -(2**63) <= value < 2**63 else type(value)


def harmless(text: str) -> str:
    """Return a text as a cell that no spreadsheet runs: where it looks like a formula, with an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA_BEGINS) and not _NUMBER.fullmatch(text) else text


def _write_cells(rows: Rows, file: IO[bytes], form: CellForm, names: Sequence[str]) -> int:
    """Write cells, and return how many were made harmless."""
    defused = 0

    def cell(value: object) -> object:
        nonlocal defused
        text = _as_text(value)
        if not isinstance(value, str):  # a number of ours, or JSON
            return text
        safe = harmless(value)
        defused += safe != value
        return safe

    text = _Encoded(file, form)
    # Lines end in CR LF, the library's own: only then does it quote a cell that holds either.
    writer = csv.writer(text, delimiter=form.delimiter)
    writer.writerow([cell(name) for name in names])
    known = set(names)
    for number, row in enumerate(rows, 1):
        _require_known(row, known, number)
        writer.writerow([cell(row.get(name)) for name in names])
    text.end()
    return defused


def _require_known(row: Mapping[str, object], known: set[str], number: int) -> None:
    if new := [name for name in row if name not in known]:
        raise InputError(f"row {number} has a column '{new[0]}' that the first rows do not have; write .jsonl instead")


class _Encoded:
    """Takes text and writes its bytes."""

    def __init__(self, file: IO[bytes], form: CellForm) -> None:
        # UTF-8 lacks half characters alone, which become escapes; what another encoding lacks is for the caller.
        errors = "backslashreplace" if codecs.lookup(form.encoding).name.startswith("utf") else "strict"
        self._file = file
        self._encoder = codecs.getincrementalencoder(form.encoding)(errors)
        if form.has_mark:
            self.write("\ufeff")

    def write(self, text: str) -> int:
        return self._file.write(self._encoder.encode(text))

    def end(self) -> None:
        """Write what brings an encoding that shifts back to where it began."""
        self._file.write(self._encoder.encode("", True))


def _as_text(value: object) -> object:
    """Return a value as a cell shows it: lists and mappings as JSON, None as nothing."""
    return to_json(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _write_parquet(rows: Rows, file: IO[bytes], columns: SheetColumns) -> None:
    import pyarrow
    from pyarrow import parquet

    types = {name: _arrow_type(columns.kinds.get(name, set())) for name in columns.names}
    if columns.schema is not None:
        types |= {one.name: one.type for one in columns.schema if one.name in types}
    schema = pyarrow.schema(list(types.items()))
    texts = {name for name, kind in types.items() if kind == pyarrow.string()}
    source, done = iter(rows), 0
    with parquet.ParquetWriter(file, schema) as writer:
        while chunk := list(islice(source, CHUNK)):
            for number, row in enumerate(chunk, done + 1):
                _require_known(row, set(types), number)
            done += len(chunk)
            cells = [{name: _parquet_cell(value, name in texts) for name, value in row.items()} for row in chunk]
            try:
                writer.write_table(pyarrow.Table.from_pylist(cells, schema=schema))
            except (pyarrow.ArrowException, TypeError, OverflowError) as error:
                raise InputError(
                    f"rows to {done:,} have other values than the first ({error}); write .jsonl instead"
                ) from None


def _parquet_cell(value: object, is_text: bool) -> object:
    if not is_text or value is None:
        return value
    text = value if isinstance(value, str) else to_json(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()


def _arrow_type(kinds: set[type]) -> Any:
    """Return the type of a column of parquet that holds these kinds of values; mixed ones are text."""
    import pyarrow

    if kinds == {bool}:
        return pyarrow.bool_()
    if kinds == {int}:
        return pyarrow.int64()
    return pyarrow.float64() if kinds and kinds <= {int, float} else pyarrow.string()
