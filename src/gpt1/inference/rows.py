"""Rows in and out for answering: tables and streams by chunks, results as JSON lines, csv or tsv."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from gpt1.base.archives import BLOCK_BYTES
from gpt1.base.errors import FileError, InputError, SettingError
from gpt1.base.files import require_absent, result_file
from gpt1.base.strict_json import to_json
from gpt1.base.tables import LONGEST_RECORD, BadRow, parse_object, read_rows_or_faults, too_long
from gpt1.tasks.examples import Row

CHUNK = 1024  # rows
STANDARD_INPUT = "standard input"
_LONGEST_BYTES = 4 * LONGEST_RECORD  # the most that so many characters take
WRITTEN = {".jsonl": None, ".csv": ",", ".tsv": "\t"}  # suffix -> what parts the cells

Found = Row | FileError  # a row, or why there is none
Item = TypeVar("Item")


class ByteStream(Protocol):
    """Bytes that arrive."""

    def read1(self, size: int, /) -> bytes:
        """Return what has arrived, at most `size` bytes; nothing at the end."""


def by_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the items some at a time."""
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


def file_chunks(path: str | Path, encoding: str) -> Iterator[list[Found]]:
    """Yield the rows of a table by chunks, with the fault in the place of each row that cannot be read."""
    found = read_rows_or_faults(path, encoding=encoding)
    return by_chunks(one if isinstance(one, FileError) else Row(one[1], str(path), one[0]) for one in found)


def stream_chunks(stream: ByteStream) -> Iterator[list[Found]]:
    """Yield rows of JSON lines as they arrive: who writes slowly is answered at once, who writes fast by chunks."""
    number = 0
    for lines in _arrived_lines(stream):
        numbered = list(enumerate(lines, number + 1))
        number += len(lines)
        yield from by_chunks(_parse(line, place) for place, line in numbered if line.strip())


def _arrived_lines(stream: ByteStream) -> Iterator[list[bytes]]:
    """Yield lines as they arrive; of one that is too long, as much as shows that."""
    begun: list[bytes] = []  # the blocks of a line that has not ended
    size = 0
    while block := stream.read1(BLOCK_BYTES):
        first, *rest = block.split(b"\n")
        if size <= _LONGEST_BYTES:
            begun.append(first)
        size += len(first)
        if rest:
            yield [b"".join(begun), *rest[:-1]]
            begun, size = [rest[-1]], len(rest[-1])
    yield [b"".join(begun)]


def _parse(line: bytes, number: int) -> Found:
    position = f"line {number}"
    try:
        if len(line) > _LONGEST_BYTES or len(text := line.decode("utf-8-sig")) > LONGEST_RECORD:
            return too_long(STANDARD_INPUT, position, "is there a line end after each {...}? ")
        return Row(parse_object(text, STANDARD_INPUT, number), STANDARD_INPUT, number)
    except UnicodeDecodeError as error:
        return BadRow(STANDARD_INPUT, position, f"the byte 0x{line[error.start]:02x} is not utf-8 text; write UTF-8")
    except BadRow as bad:
        return bad


def json_line(row: Mapping[str, object]) -> bytes:
    """Return a row as a line of JSON; what JSON cannot hold, such as a date, is written as text."""
    # A half character, which UTF-8 cannot hold, becomes an escape that JSON readers give back.
    return to_json(row, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace") + b"\n"


def check_target(out: Path, *, overwrite: bool) -> None:
    """Refuse a file for results that is there, or whose name does not say how they are to be written."""
    if out.suffix.lower() not in WRITTEN:
        raise SettingError(f"how is {out} to be written? Give it a name that ends in {', '.join(WRITTEN)}")
    require_absent(out, overwrite)


def write_rows(
    rows: Iterator[Mapping[str, object]], out: Path, added: Sequence[str], *, overwrite: bool = False
) -> None:
    """Write rows as JSON lines, csv or tsv; the file appears when all of them are in it.

    The columns of a csv or tsv file are those of the first rows, then the `added` ones.
    """
    check_target(out, overwrite=overwrite)
    delimiter = WRITTEN[out.suffix.lower()]
    with result_file(out, overwrite=overwrite) as file:
        if delimiter is None:
            file.writelines(map(json_line, rows))
        else:
            _write_cells(rows, file, delimiter, added)


def _write_cells(rows: Iterator[Mapping[str, object]], file: IO[bytes], delimiter: str, added: Sequence[str]) -> None:
    first = list(islice(rows, CHUNK))
    header = [name for name in dict.fromkeys(name for row in first for name in row) if name not in added]
    known = {*header, *added}
    # Lines end in CR LF, the library's own: only then does it quote a cell that holds either.
    writer = csv.DictWriter(_Utf8(file), [*header, *added], delimiter=delimiter)
    writer.writeheader()
    for number, row in enumerate(chain(first, rows), 1):
        if new := [name for name in row if name not in known]:
            raise InputError(
                f"row {number} has a column '{new[0]}' that the first rows do not have; write .jsonl instead"
            )
        writer.writerow({name: _cell(value) for name, value in row.items()})


class _Utf8:
    """Takes text and writes its bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(text.encode("utf-8", "backslashreplace"))


def _cell(value: Any) -> Any:
    """Return a value as a cell shows it: lists and mappings as JSON."""
    return to_json(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value
