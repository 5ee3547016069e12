"""Opening any text or table: txt, md, csv, tsv, jsonl, parquet, each also as gz, bz2, xz or zst.

Nothing here reads a whole file: text comes in blocks and tables come row by row, so memory stays small
whatever the size, except that one row of a csv or jsonl file must fit in memory.
A fault names the file and the place in it; which rows or documents are worth keeping is for others to say.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from gpt1.base.errors import InputError, SettingError, did_you_mean
from gpt1.base.files import missing
from gpt1.base.records import parse_json

FORMATS = {
    ".txt": "txt",
    ".md": "md",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
READ = f"{', '.join(FORMATS)}, each also {', '.join(COMPRESSIONS)}"
BLOCK_BYTES = 1 << 20
COMMON_ENCODINGS = ("utf-8", "cp1252", "latin-1", "utf-16")
# What Python can encode text with, though no file is written so: host names, source code, and one that always fails.
NO_FILE_ENCODINGS = ("charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
LONGEST_CELL = 1 << 26  # characters; beyond it a csv quote was opened and never closed
PARQUET_ROWS = 128  # rows decoded at a time: few, as a row may be a whole book
# What pyarrow raises for a value that Python cannot hold: bad UTF-8, a date after the year 9999, an unknown time zone.
UNCONVERTIBLE = (ArithmeticError, LookupError, NotImplementedError, ValueError)

# A byte that cannot be decoded, as Python's "surrogateescape" carries it through a text.
BAD_BYTE = re.compile("[\udc80-\udcff]")

Row = tuple[int, dict[str, Any]]


class FileError(InputError):
    """A fault at a known place of a file: `position` in words, `reason` as a short key for counting."""

    reason = "unreadable"

    def __init__(self, path: str | Path, position: str, message: str) -> None:
        super().__init__(printable(f"{path}, {position}: {message}"))
        self.position = position
        self._given = (str(path), position, message)

    def __reduce__(self) -> tuple[type[FileError], tuple[str, str, str]]:  # told across processes
        return type(self), self._given


class DamagedFile(FileError):
    """An archive or table that is cut short, corrupt, or not what its name says."""

    reason = "damaged"


class Undecodable(FileError):
    """Bytes that are not text in the encoding they were read with."""

    reason = "undecodable"


class BadRow(FileError):
    """A row of a table that cannot be read, though others can."""

    reason = "bad-row"


OnFault = Callable[[FileError], None]


def printable(text: str) -> str:
    """Return a text that UTF-8 can hold: half characters, as in names that are no text, become escapes."""
    return text.encode(errors="backslashreplace").decode()


def undecodable(path: str | Path, position: str, text: str, encoding: str) -> Undecodable | None:
    """Return the fault of a text that carries a byte which could not be decoded, or None."""
    if text.isascii() or not (bad := BAD_BYTE.search(text)):
        return None
    return _bad_byte(path, position, ord(bad[0]) - 0xDC00, encoding)


def _bad_byte(path: str | Path, position: str, byte: int, encoding: str) -> Undecodable:
    other = "latin-1" if encoding.lower() in ("cp1252", "windows-1252") else "cp1252"
    advice = f"say which encoding the file has, for example --encoding {other}"
    return Undecodable(path, position, f"the byte 0x{byte:02x} is not {encoding} text; {advice}")


def _byte_position(path: str | Path, at: int) -> str:
    packed = Path(path).suffix.lower() in COMPRESSIONS
    return f"byte {at} of the unpacked file" if packed else f"byte {at}"


def file_format(path: str | Path) -> str:
    """Return what a file holds by its name: txt, md, jsonl, csv, tsv or parquet."""
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        what = f"of the kind '{suffix}'{did_you_mean(suffix, FORMATS)}" if suffix else "without a suffix"
        raise InputError(f"{path} is a {'folder' if path.is_dir() else f'file {what}'}; read are {READ}")
    if suffix == ".json" and not _holds_json_lines(path):
        raise InputError(f"{path} is not JSON lines; write one JSON object a line and name the file .jsonl")
    return FORMATS[suffix]


def open_bytes(path: str | Path) -> io.BufferedReader:
    """Open a file for reading its bytes, unpacked as its suffix says, whatever the number of archive members."""
    path = Path(path)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise missing(path) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if path.suffix.lower() not in COMPRESSIONS:
        return file
    return io.BufferedReader(_Unpacked(path, file), BLOCK_BYTES)


def check_encoding(encoding: str) -> None:
    """Refuse the name of an encoding that Python does not have, or has for other things than text files."""
    try:
        "x".encode(encoding)  # not empty, for which Python does not look at the name
        known = codecs.lookup(encoding).name not in NO_FILE_ENCODINGS
    except (LookupError, ValueError):
        known = False
    if not known:
        near = did_you_mean(encoding, COMMON_ENCODINGS)
        raise SettingError(f"unknown encoding '{encoding}'{near} (common ones: {', '.join(COMMON_ENCODINGS)})")


def read_text_blocks(
    path: str | Path, encoding: str = "utf-8", block_bytes: int = BLOCK_BYTES, errors: str = "strict"
) -> Iterator[str]:
    """Yield the text of a file in blocks, line ends untouched; a byte order mark outranks `encoding`.

    All text before a fault is yielded before it is raised. With `errors="surrogateescape"` bad bytes come
    through as `BAD_BYTE` characters, in encodings that can do so, and it is for the caller to find them.
    """
    check_encoding(encoding)
    with open_bytes(path) as file:
        block = file.read(4)
        mark = _byte_order_mark(block)
        name = codecs.lookup(encoding).name
        if block and mark is None and name in ("utf-16", "utf-32"):
            message = f"{name} text begins with a byte order mark; without one, say --encoding {name}-le or {name}-be"
            raise Undecodable(path, "byte 0", message)
        encoding, at = mark or (encoding, 0)
        block, final = block[at:], False
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        while True:
            state = decoder.getstate()
            try:
                text = decoder.decode(block, final)
            except UnicodeDecodeError as error:
                pending = len(state[0])  # bytes of a character begun in the block before
                decoder.setstate(state)
                yield decoder.decode(block[: max(0, error.start - pending)])
                position = _byte_position(path, at - pending + error.start)
                raise _bad_byte(path, position, error.object[error.start], encoding) from None
            if text:
                yield text
            if final:
                return
            at += len(block)
            block = file.read1(block_bytes)  # read() would lose the text just before damage
            final = not block


def lines(blocks: Iterable[str], longest: int | None = None) -> Iterator[str]:
    """Yield the lines that the blocks spell out, with their ends, which are newline, return or both together.

    A line over `longest` characters comes in several strings, of which only the last has the line end.
    """
    held: list[str] = []
    size = 0
    for block in _whole_line_ends(blocks):
        for line in io.StringIO(block, newline=""):
            held.append(line)
            size += len(line)
            if line.endswith(("\n", "\r")) or (longest is not None and size > longest):
                yield held[0] if len(held) == 1 else "".join(held)
                held, size = [], 0
    if held:
        yield "".join(held)


def read_rows(
    path: str | Path, *, encoding: str = "utf-8", on_fault: OnFault | None = None, column: str | None = None
) -> Iterator[Row]:
    """Yield the rows of a table as (number as a person counts, values by column); one row must fit in memory.

    Rows of csv, tsv and parquet count from 1 after the header, those of jsonl by line. A row that cannot be
    read goes to `on_fault`, after which reading goes on; without `on_fault` it is raised, as damage always is.
    A parquet file that has the column `column` is read for it alone; elsewhere all columns come at one price.
    """
    kind = file_format(path)
    report = _raise if on_fault is None else on_fault
    if kind == "jsonl":
        yield from _jsonl_rows(path, encoding, report)
    elif kind == "parquet":
        yield from _parquet_rows(path, report, column)
    elif kind in ("csv", "tsv"):
        yield from _csv_rows(path, encoding, "\t" if kind == "tsv" else None, report)
    else:
        raise SettingError(f"{path} is a text, not a table; tables are csv, tsv, jsonl and parquet")


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of an archive; a fault names the archive and how far it could be read."""

    def __init__(self, path: Path, packed: IO[bytes]) -> None:
        self._path, self._packed, self._at = path, packed, 0
        self._kind = path.suffix.lower()
        self._stream = _unpacker(self._kind, packed)
        # Python's gzip takes an empty file for an empty archive; no packer writes one.
        self._empty = path.stat().st_size == 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._empty:
                raise EOFError("the file is empty")
            data = self._stream.read1(len(buffer))
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            what = "is damaged or cut short" if self._at else f"is no {self._kind} archive, or damaged at its beginning"
            message = f"the file {what} ({error}); fetch it again, or rename it if it is not packed"
            position = _byte_position(self._path, self._at) if self._at else "byte 0"
            raise DamagedFile(self._path, position, message) from None
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._packed.close()
        super().close()


def _unpacker(kind: str, packed: IO[bytes]) -> Any:
    if kind == ".gz":
        return gzip.GzipFile(fileobj=packed)
    if kind == ".bz2":
        return bz2.BZ2File(packed)
    if kind == ".xz":
        return lzma.LZMAFile(packed)
    import pyarrow  # the zstandard library takes a file that is cut short for a whole one

    return pyarrow.CompressedInputStream(packed, "zstd")


def _byte_order_mark(head: bytes) -> tuple[str, int] | None:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8", 3
    if head.startswith(codecs.BOM_UTF32_LE):  # before UTF-16, whose mark is the first half of this one
        return "utf-32-le", 4
    if head.startswith(codecs.BOM_UTF32_BE):
        return "utf-32-be", 4
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", 2
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    return None


def _whole_line_ends(blocks: Iterable[str]) -> Iterator[str]:
    held = ""  # a return at the end of a block, whose newline may open the next
    for block in blocks:
        block = held + block
        held = "\r" if block.endswith("\r") else ""
        yield block[: len(block) - len(held)]
    yield held


def _holds_json_lines(path: Path) -> bool:
    try:
        with open_bytes(path) as file:
            head = file.read(1 << 16)
    except InputError:
        return True  # damage must not pass for another format: whoever reads the file will meet it
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    line, newline, _ = text.partition(b"\n")
    return not text or (line.startswith(b"{") and (line.rstrip().endswith(b"}") or not newline))


def _raise(fault: FileError) -> None:
    raise fault


def _jsonl_rows(path: str | Path, encoding: str, report: OnFault) -> Iterator[Row]:
    for number, line in enumerate(lines(read_text_blocks(path, encoding, errors="surrogateescape")), 1):
        if line.isspace():
            continue
        position = f"line {number}"
        if fault := undecodable(path, position, line, encoding):
            report(fault)
            continue
        try:
            value = parse_json(line)
        except json.JSONDecodeError as error:
            what = error.msg.removesuffix(" at").removesuffix(" starting")  # the place stands before it
            message = f"the line is not JSON ({what}); write one whole {{...}} a line, with line ends in it as \\n"
            report(BadRow(path, f"{position}, column {error.colno}", message))
        except ValueError as error:  # a number of thousands of digits, brackets by the thousand
            report(BadRow(path, position, f"the line cannot be read as JSON ({error})"))
        else:
            if isinstance(value, dict):
                yield number, value
            else:
                report(BadRow(path, position, "the line holds no JSON object; expected one {...} a line"))


def _csv_rows(path: str | Path, encoding: str, delimiter: str | None, report: OnFault) -> Iterator[Row]:
    file_lines = lines(read_text_blocks(path, encoding, errors="surrogateescape"))
    first = next((line for line in file_lines if not line.isspace()), None)
    if first is None:
        return
    delimiter = delimiter or _delimiter(first)
    records = csv.reader(itertools.chain([first], file_lines), delimiter=delimiter, strict=True)
    header = _header(path, records, encoding)
    for number in itertools.count(1):
        position = f"row {number}"
        try:
            cells = _next_record(records)
        except csv.Error as error:
            report(BadRow(path, position, f"the quotes do not match, up to line {records.line_num} ({error})"))
            continue
        if cells is None:
            return
        fault: FileError | None = undecodable(path, position, "".join(cells), encoding)
        if len(cells) != len(header):
            advice = f"a cell that holds {delimiter!r} or a line end needs quotes around it"
            fault = BadRow(path, position, f"{len(cells)} cells where the header has {len(header)}; {advice}")
        if fault:
            report(fault)
        else:
            yield number, dict(zip(header, cells, strict=True))


def _next_record(records: Any) -> list[str] | None:
    # The limit is a global of Python's csv: it is ours only while a record is read.
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        return next((cells for cells in records if cells), None)
    finally:
        csv.field_size_limit(limit)


def _delimiter(header: str) -> str:
    outside_quotes = re.sub(r'"[^"]*"?', "", header)
    return max(",;\t|", key=outside_quotes.count)


def _header(path: str | Path, records: Any, encoding: str) -> list[str]:
    try:
        header = _next_record(records) or []
    except csv.Error as error:
        raise BadRow(path, "header", f"the quotes do not match ({error})") from None
    # A column without a name is usually the index that pandas writes.
    header = [name if name.strip() else f"column {column}" for column, name in enumerate(header, 1)]
    for column, name in enumerate(header, 1):
        if fault := undecodable(path, "header", name, encoding):
            raise fault
        if name in header[: column - 1]:
            raise BadRow(path, "header", f"two columns are named '{name}'; rename one, or is there no header?")
    return header


def _parquet_rows(path: str | Path, report: OnFault, column: str | None) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    number = 0
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(open_bytes(path))
        if not file.seekable():  # parquet is read from its end
            packed, file = file, stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(packed, file, BLOCK_BYTES)
        try:
            # Without pre-buffering a column comes page by page, not a whole row group at once.
            table = stack.enter_context(parquet.ParquetFile(file, pre_buffer=False, buffer_size=BLOCK_BYTES))
            columns = [column] if column in table.schema_arrow.names else None
            for batch in table.iter_batches(batch_size=PARQUET_ROWS, columns=columns):
                yield from _batch_rows(path, batch, number, report)
                number += batch.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            message = f"the parquet file is damaged or cut short ({error}); write or fetch it again"
            raise DamagedFile(path, f"row {number + 1}", message) from None


def _batch_rows(path: str | Path, batch: Any, before: int, report: OnFault) -> Iterator[Row]:
    try:
        rows = batch.to_pylist()
    except UNCONVERTIBLE:
        yield from _sound_rows(path, batch, before, report)
    else:
        yield from enumerate(rows, before + 1)


def _sound_rows(path: str | Path, batch: Any, before: int, report: OnFault) -> Iterator[Row]:
    """Yield the rows of a batch that can be converted, and report those that cannot."""
    for index in range(batch.num_rows):
        row = {}
        try:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                row[name] = column[index].as_py()
        except UnicodeDecodeError as error:
            report(_bad_byte(path, f"row {before + index + 1}", error.object[error.start], "utf-8"))
        except UNCONVERTIBLE as error:
            message = f"the value in column '{name}' cannot be read ({error}); mend it or leave the column out"
            report(BadRow(path, f"row {before + index + 1}", message))
        else:
            yield before + index + 1, row
