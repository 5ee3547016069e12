"""Rows on their way in to be answered: tables and streams, by chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from gpt1.base.archives import BLOCK_BYTES
from gpt1.base.errors import FileError
from gpt1.base.tables import (
    LONGEST_RECORD,
    BadRow,
    file_format,
    lines_of,
    parse_object,
    read_rows_or_faults,
    too_long,
)
from gpt1.tasks.examples import Row
from gpt1.tasks.sentences import WordFile, is_column_file
from gpt1.tasks.tagging import WORDS_FIELDS

CHUNK = 1024  # rows
EXPLAINED = 16  # rows at once of which it is told why: each takes as long as a hundred others
STANDARD_INPUT = "standard input"
_LONGEST_BYTES = 4 * LONGEST_RECORD  # the most that so many characters take

Found = Row | FileError  # a row, or why there is none
Item = TypeVar("Item")


class ByteStream(Protocol):
    """Bytes that arrive."""

    def read1(self, size: int, /) -> bytes:
        """Return what has arrived, at most `size` bytes; nothing at the end."""


def rows_at_once(*, explained: bool) -> int:
    """Return how many rows are answered before it is told how far it is, and before what is answered is kept."""
    return EXPLAINED if explained else CHUNK


def by_chunks(items: Iterable[Item], size: int | None = None) -> Iterator[list[Item]]:
    """Yield the items some at a time."""
    source = iter(items)
    while chunk := list(islice(source, size or CHUNK)):
        yield chunk


def file_chunks(
    path: str | Path, encoding: str, size: int | None = None, *, of_words: bool = False
) -> Iterator[list[Found]]:
    """Yield the rows of a table by chunks, with the fault in the place of each row that cannot be read.

    Where words are to be labelled (`of_words`) each line of a text is a row, and each sentence of a column file.
    """
    if of_words and is_column_file(path):
        return by_chunks(_sentences(Path(path), encoding), size)
    if of_words and file_format(path) in ("txt", "md"):
        return by_chunks(_text_lines(path, encoding), size)
    found = read_rows_or_faults(path, encoding=encoding)
    return by_chunks((one if isinstance(one, FileError) else Row(one[1], str(path), one[0]) for one in found), size)


def _sentences(path: Path, encoding: str) -> Iterator[Found]:
    for one in WordFile(path, encoding).sentences():
        if isinstance(one, FileError):
            yield one
        else:
            yield Row({WORDS_FIELDS[1]: list(one.words)}, str(path), one.lines[0])


def _text_lines(path: str | Path, encoding: str) -> Iterator[Found]:
    for number, line in enumerate(lines_of(path, encoding), 1):
        if text := line.strip():
            yield Row({"text": text}, str(path), number)


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
