"""Opening any text or table: txt, md, csv, tsv, jsonl, parquet, each also packed (`archives.py`).

Nothing here reads a whole file: text comes in blocks and tables come row by row, each of at most `LONGEST_RECORD`
characters, so memory stays small whatever the size, and whatever a small archive unpacks to.
A fault names the file and the place in it; which rows or documents are worth keeping is for others to say.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpt1.base.archives import BLOCK_BYTES, COMPRESSIONS, byte_position, open_bytes
from gpt1.base.errors import DamagedFile, FileError, InputError, SettingError, did_you_mean
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
SPREADSHEETS = (".xlsx", ".xls", ".ods")
COLUMN_FILES = (".conll", ".conllu", ".iob", ".iob2", ".bio")  # a line a word, which only some commands read
READ = f"{', '.join(FORMATS)}, each also {', '.join(COMPRESSIONS)}"
ENCODING = "utf-8"  # of text files, where none is named
COMMON_ENCODINGS = ("utf-8", "cp1252", "latin-1", "utf-16", "cp949", "cp932")
# The 2,350 syllables of KS X 1001, which are nearly all of written Korean. The other 8,822 of cp949 are not looked at:
# one of them has the bytes of a curly apostrophe and an "s" in cp1252, as Word writes "it's".
_SYLLABLES = bytes(byte for lead in range(0xB0, 0xC9) for trail in range(0xA1, 0xFF) for byte in (lead, trail))
_SYLLABLE = f"[{_SYLLABLES.decode('cp949')}]"
# Encodings known by what they spell: the language, its letters, their least share of all that is not ASCII, and what
# stands there at least once. Japanese is first: most of it can be read as Korean too, of syllables that nobody writes.
_KNOWN_BY_LETTERS = {
    "cp932": ("Japanese", re.compile("[ぁ-ヺ]"), 0.3, re.compile("[ぁ-ヺ]")),
    "cp949": ("Korean", re.compile(_SYLLABLE), 0.8, re.compile(_SYLLABLE * 2)),
}
FEWEST_KNOWN = 2  # such letters
# What Python can encode text with, though no file is written so: host names, source code, and one that always fails.
NO_FILE_ENCODINGS = ("charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
LONGEST_RECORD = 1 << 25  # characters of a row, thirty thick novels; the worst JSON makes 0.8 GB of so many
MOST_COLUMNS = 10_000  # of a table
DELIMITERS = ",;\t|"  # that part the cells of a csv file
LOOKED_AT = 1 << 16  # characters, for what parts them
PARQUET_ROWS = 128  # rows decoded at a time: few, as a row may be a whole book
PARQUET_BYTES = 1 << 27  # decoded at a time, as far as the mean row of a row group tells
# What pyarrow raises for a value that Python cannot hold: bad UTF-8, a date after the year 9999, an unknown time zone.
UNCONVERTIBLE = (ArithmeticError, LookupError, NotImplementedError, ValueError)

# A byte that cannot be decoded, as Python's "surrogateescape" carries it through a text.
BAD_BYTE = re.compile("[\udc80-\udcff]")

Row = tuple[int, dict[str, object]]


class Undecodable(FileError):
    """Bytes that are not text in the encoding they were read with."""

    reason = "undecodable"


class BadRow(FileError):
    """A row of a table that cannot be read, though others can."""

    reason = "bad-row"


def undecodable(path: str | Path, position: str, text: str, encoding: str) -> Undecodable | None:
    """Return the fault of a text that carries a byte which could not be decoded, or None."""
    if text.isascii() or not (bad := BAD_BYTE.search(text)):
        return None
    try:
        raw = text[bad.start() :].encode(encoding, "surrogateescape")
    except UnicodeEncodeError:  # a mark outranked the encoding
        raw = b""
    return _bad_byte(path, position, ord(bad[0]) - 0xDC00, encoding, raw)


def _bad_byte(path: str | Path, position: str, byte: int, encoding: str, raw: bytes) -> Undecodable:
    """Return the fault of a byte; the bytes from it on may tell which encoding they have."""
    other = "latin-1" if encoding.lower() in ("cp1252", "windows-1252") else "cp1252"
    advice = f"save the file as UTF-8, or say which encoding it has, for example `encoding={other!r}`"
    if (known := known_encoding(raw)) is not None:
        name, language = known
        advice = f"it is probably {language} in {name}: say `encoding={name!r}`, or save the file as UTF-8"
    return Undecodable(path, position, f"the byte 0x{byte:02x} is not {encoding} text; {advice}")


def known_encoding(raw: bytes) -> tuple[str, str] | None:
    """Return in which encoding of a whole language bytes probably are, and which language; the last may be cut."""
    for name, (language, letters, least, needed) in _KNOWN_BY_LETTERS.items():
        try:
            text = codecs.getincrementaldecoder(name)().decode(raw)
        except UnicodeDecodeError:
            continue
        own = len(letters.findall(text))
        if needed.search(text) and own >= max(FEWEST_KNOWN, least * sum(sign > "\x7f" for sign in text)):
            return name, language
    return None


def file_format(path: str | Path, known: str = READ) -> str:
    """Return what a file holds by its name: txt, md, jsonl, csv, tsv or parquet; `known` is named where it is none."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        if suffix in SPREADSHEETS:
            raise InputError(f"{path} is a spreadsheet; save it there as CSV (UTF-8), and name that file")
        if suffix in COLUMN_FILES:
            raise InputError(
                f"{path} has a label for each word; gpt1 check, finetune, evaluate and predict read such files, and "
                f"here are read {known}"
            )
        what = f"of the kind '{suffix}'{did_you_mean(suffix, FORMATS)}" if suffix else "without a suffix"
        raise InputError(f"{path} is a {'folder' if Path(path).is_dir() else f'file {what}'}; read are {known}")
    if suffix == ".json" and not _holds_json_lines(path):
        raise InputError(f"{path} is not JSON lines; write one JSON object a line and name the file .jsonl")
    return FORMATS[suffix]


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
    path: str | Path, encoding: str = ENCODING, block_bytes: int = BLOCK_BYTES, errors: str = "strict"
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
            message = f"{name} text begins with a byte order mark; without one, say `encoding={name + '-le'!r}`, or -be"
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
                block = b""
                position = byte_position(path, at - pending + error.start)
                with contextlib.suppress(InputError):  # damage further on is not what is told
                    block = file.read(LOOKED_AT)
                bad = error.object[error.start :]
                raise _bad_byte(path, position, bad[0], encoding, bad + block) from None
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


def lines_of(path: str | Path, encoding: str = ENCODING) -> Iterator[str]:
    """Yield the lines of a text, which may be compressed, with their ends; one that is too long is a fault."""
    for number, line in enumerate(lines(read_text_blocks(path, encoding), LONGEST_RECORD), 1):
        if len(line) > LONGEST_RECORD:
            raise too_long(path, f"line {number}")
        yield line


def read_rows(path: str | Path, *, encoding: str = ENCODING) -> Iterator[Row]:
    """Yield the rows of a table as (number as a person counts, values by column); one that cannot be read is raised.

    Rows of csv and tsv count as a spreadsheet counts them: blank lines too, and the header is row 1. Those of jsonl
    count by line, and those of parquet from 1.
    """
    for found in read_rows_or_faults(path, encoding=encoding):
        if isinstance(found, FileError):
            raise found
        yield found


def read_rows_or_faults(
    path: str | Path, *, encoding: str = ENCODING, column: str | None = None
) -> Iterator[Row | FileError]:
    """Yield the rows of a table, and in the place of each that cannot be read its fault; damage is raised.

    A parquet file that has the column `column` is read for it alone; elsewhere all columns come at one price.
    """
    kind = file_format(path)
    if kind == "jsonl":
        return _jsonl_rows(path, encoding)
    if kind == "parquet":
        return _parquet_rows(path, column)
    if kind in ("csv", "tsv"):
        return _csv_rows(path, encoding, "\t" if kind == "tsv" else None)
    raise SettingError(f"{path} is a text, not a table; tables are csv, tsv, jsonl and parquet")


@dataclass(frozen=True)
class CellForm:
    """How the cells of a csv or tsv file are written: what parts them, and as what bytes."""

    delimiter: str
    encoding: str = ENCODING
    has_mark: bool = False  # a byte order mark, by which spreadsheets know the encoding


def cell_form(path: str | Path, encoding: str = ENCODING) -> CellForm | None:
    """Return how a csv or tsv file is written; None for tables of other kinds, and for one without a header."""
    kind = file_format(path)
    if kind not in ("csv", "tsv"):
        return None
    with open_bytes(path) as file:
        mark = _byte_order_mark(file.read(4))
    _, first = _first_line(path, _Lines(path, encoding))
    if first is None:
        return None
    delimiter = "\t" if kind == "tsv" else _delimiter(path, encoding, first)
    return CellForm(delimiter, encoding if mark is None else mark[0], mark is not None)


def parquet_schema(path: str | Path) -> Any:
    """Return the names and types of the columns of a parquet file, as pyarrow has them."""
    with _open_parquet(path) as table:
        return table.schema_arrow


def too_long(path: str | Path, position: str, hint: str = "") -> BadRow:
    """Return the fault of a row of more than `LONGEST_RECORD` characters."""
    what = f"more than {LONGEST_RECORD:,} characters, the most that a row may have"
    return BadRow(path, position, f"{what}; {hint}cut it into several rows, or write long texts as .txt files")


def parse_object(line: str | bytes, path: str | Path, number: int) -> dict[str, object]:
    """Return the JSON object that a line holds, or raise what is wrong with it; a key may stand in it once."""
    position = f"line {number}"
    try:
        value = parse_json(line, object_pairs_hook=_with_own_keys)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at").removesuffix(" starting")  # the place stands before it
        message = f"the line is not JSON ({what}); write one whole {{...}} a line, with line ends in it as \\n"
        raise BadRow(path, f"{position}, column {error.colno}", message) from None
    except _KeyTwice as error:
        message = f"the key '{error}' stands twice in one {{...}}; keep one of them"
        raise BadRow(path, position, message) from None
    except ValueError as error:  # a number of thousands of digits, brackets by the thousand
        raise BadRow(path, position, f"the line cannot be read as JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadRow(path, position, "the line holds no JSON object; expected one {...} a line")
    return value


class _KeyTwice(Exception):
    """A key that stands twice in a JSON object, where readers would silently take the last."""


def _with_own_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _KeyTwice(_first_twice(name for name, _ in pairs))
    return found


def _first_twice(names: Iterable[str]) -> str | None:
    """Return the first name that has stood before, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


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


def _holds_json_lines(path: str | Path) -> bool:
    try:
        with open_bytes(path) as file:
            head = file.read(1 << 16)
    except InputError:
        return True  # damage must not pass for another format: whoever reads the file will meet it
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    line, newline, _ = text.partition(b"\n")
    return not text or (line.startswith(b"{") and (line.rstrip().endswith(b"}") or not newline))


class _TooLong(Exception):
    """A record that has grown beyond `LONGEST_RECORD` characters before its end."""


class _Lines(Iterator[str]):
    """The lines of a file as records are made of them: none, nor all of a record together, may grow without bounds.

    Where one does, `_TooLong` is raised; what follows is the next line, as of the long one nothing is kept.
    """

    def __init__(self, path: str | Path, encoding: str) -> None:
        blocks = read_text_blocks(path, encoding, errors="surrogateescape")
        self._parts = lines(blocks, LONGEST_RECORD)
        self._inside = False  # a line of which the beginning was too long
        self._size = 0

    def begin_record(self) -> None:
        """Count anew: the next line begins a record."""
        self._size = 0

    def __next__(self) -> str:
        line = next(self._parts)
        while self._inside:
            self._inside = not line.endswith(("\n", "\r"))
            line = next(self._parts)
        self._size += len(line)
        if self._size > LONGEST_RECORD:
            self._inside = not line.endswith(("\n", "\r"))
            raise _TooLong
        return line


def _jsonl_rows(path: str | Path, encoding: str) -> Iterator[Row | FileError]:
    file_lines = _Lines(path, encoding)
    for number in itertools.count(1):
        position = f"line {number}"
        file_lines.begin_record()
        try:
            line = next(file_lines)
        except StopIteration:
            return
        except _TooLong:
            yield too_long(path, position, "is there a line end after each {...}? ")
            continue
        if line.isspace():
            continue
        if fault := undecodable(path, position, line, encoding):
            yield fault
            continue
        try:
            value = parse_object(line, path, number)
        except BadRow as bad:
            yield bad
        else:
            yield number, value


def _csv_rows(path: str | Path, encoding: str, delimiter: str | None) -> Iterator[Row | FileError]:
    file_lines = _Lines(path, encoding)
    blank, first = _first_line(path, file_lines)
    if first is None:
        return
    delimiter = delimiter or _delimiter(path, encoding, first)
    records = csv.reader(itertools.chain([first], file_lines), delimiter=delimiter, strict=True)
    header = _header(path, records, encoding)
    for number in itertools.count(blank + 2):
        position = f"row {number}"
        file_lines.begin_record()
        try:
            cells = _next_record(records)
        except csv.Error as error:
            yield BadRow(path, position, f"the quotes do not match, up to line {records.line_num} ({error})")
            continue
        except _TooLong:
            yield too_long(path, position, f"is a quote opened and not closed before line {records.line_num + 1}? ")
            continue
        if cells is None:
            return
        if not cells:  # a blank line, which a spreadsheet counts
            continue
        fault: FileError | None = undecodable(path, position, "".join(cells), encoding)
        if len(cells) != len(header):
            advice = f"a cell that holds {delimiter!r} or a line end needs quotes around it"
            fault = BadRow(path, position, f"{len(cells)} cells where the header has {len(header)}; {advice}")
        if fault:
            yield fault
        else:
            yield number, dict(zip(header, cells, strict=True))


def _first_line(path: str | Path, file_lines: _Lines) -> tuple[int, str | None]:
    """Return the first line of a table that is not blank, which its header begins with, and how many are before it."""
    try:
        for blank, line in enumerate(file_lines):
            if not line.isspace():
                return blank, line
    except _TooLong:
        raise too_long(path, "header", "is it a table? ") from None
    return 0, None


def _next_record(records: Any) -> list[str] | None:
    # The limit is a global of Python's csv: it is ours only while a record is read.
    limit = csv.field_size_limit(LONGEST_RECORD)
    try:
        return next(records, None)
    finally:
        csv.field_size_limit(limit)


def _delimiter(path: str | Path, encoding: str, header: str) -> str:
    """Return what parts cells: of several signs in the header the one that parts rows into as many cells as that.

    Of two that both do, it is not the comma, which numbers have too; else the one that stands there oftenest.
    """
    outside_quotes = re.sub(r'"[^"]*"?', "", header)
    signs = [sign for sign in DELIMITERS if sign in outside_quotes]
    if len(signs) < 2:
        return signs[0] if signs else DELIMITERS[0]
    head = _first_lines(path, encoding)
    return max(signs, key=lambda sign: (_agreement(head, sign), outside_quotes.count(sign), sign != ","))


def _first_lines(path: str | Path, encoding: str) -> list[str]:
    """Return the lines that a table begins with from its header on, as far as they come whole and undamaged."""
    text = ""
    with contextlib.suppress(FileError):  # whoever reads on will meet it
        for block in read_text_blocks(path, encoding, errors="surrogateescape"):
            text += block
            if len(text) > LOOKED_AT:
                text = text[:LOOKED_AT].rpartition("\n")[0]
                break
    return list(itertools.dropwhile(str.isspace, io.StringIO(text, newline="")))


def _agreement(head: Sequence[str], delimiter: str) -> float:
    """Return the share of rows that a sign parts into as many cells as the header."""
    widths = []
    with contextlib.suppress(csv.Error):
        widths += [len(cells) for cells in csv.reader(head, delimiter=delimiter) if cells]
    return sum(width == widths[0] for width in widths[1:]) / max(1, len(widths) - 1)


def _header(path: str | Path, records: Any, encoding: str) -> list[str]:
    try:
        header = _next_record(records) or []
    except csv.Error as error:
        raise BadRow(path, "header", f"the quotes do not match ({error})") from None
    except _TooLong:
        raise too_long(path, "header", "is a quote opened and not closed? ") from None
    # A column without a name is usually the index that pandas writes.
    header = [name if name.strip() else f"column {column}" for column, name in enumerate(header, 1)]
    if fault := undecodable(path, "header", "".join(header), encoding):
        raise fault
    _check_columns(path, header, ", or is there no header?")
    return header


def _check_columns(path: str | Path, names: Sequence[str], advice: str = "") -> None:
    """Refuse a table of which two columns have one name, or which is wider than any table of texts."""
    if len(names) > MOST_COLUMNS:
        message = f"{len(names):,} columns where a table may have {MOST_COLUMNS:,}; keep those with texts and labels"
        raise BadRow(path, "header", message)
    if (twice := _first_twice(names)) is not None:
        raise BadRow(path, "header", f"two columns are named '{twice}'; rename one{advice}")


def _parquet_rows(path: str | Path, column: str | None) -> Iterator[Row | FileError]:
    import pyarrow

    number = 0
    with _open_parquet(path) as table:
        try:
            columns = [column] if column is not None and column in table.schema_arrow.names else None
            for group in range(table.num_row_groups):
                rows = _rows_at_once(path, table.metadata.row_group(group), columns, number)
                for batch in table.iter_batches(batch_size=rows, row_groups=[group], columns=columns):
                    yield from _batch_rows(path, batch, number)
                    number += batch.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            raise _damaged_parquet(path, number, error) from None


@contextlib.contextmanager
def _open_parquet(path: str | Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    with contextlib.ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(open_bytes(path))
        if not file.seekable():  # parquet is read from its end
            packed, file = file, stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(packed, file, BLOCK_BYTES)
        try:
            # Without pre-buffering a column comes page by page, not a whole row group at once.
            table = stack.enter_context(parquet.ParquetFile(file, pre_buffer=False, buffer_size=BLOCK_BYTES))
            _check_columns(path, table.schema_arrow.names)
        except (pyarrow.ArrowException, OSError) as error:
            raise _damaged_parquet(path, 0, error) from None
        yield table


def _damaged_parquet(path: str | Path, before: int, error: Exception) -> DamagedFile:
    message = f"the parquet file is damaged or cut short ({error}); write or fetch it again"
    return DamagedFile(path, f"row {before + 1}", message)


def _rows_at_once(path: str | Path, group: Any, columns: Sequence[str] | None, before: int) -> int:
    """Return how many rows of a row group to decode at a time, or refuse one whose mean row is too long."""
    parts = [group.column(index) for index in range(group.num_columns)]
    wanted = [part for part in parts if columns is None or part.path_in_schema.split(".")[0] in columns]
    mean = int(sum(part.total_uncompressed_size for part in wanted)) // max(1, int(group.num_rows))
    if mean > 4 * LONGEST_RECORD:  # the most bytes that so many characters take
        raise too_long(path, f"rows from {before + 1} on")
    return max(1, min(PARQUET_ROWS, PARQUET_BYTES // max(1, mean)))


def _batch_rows(path: str | Path, batch: Any, before: int) -> Iterator[Row | FileError]:
    from pyarrow.types import is_dictionary

    # Values that share memory in arrow do not as Python's strings.
    if batch.nbytes <= LONGEST_RECORD and not any(is_dictionary(field.type) for field in batch.schema):
        try:
            rows = batch.to_pylist()
        except UNCONVERTIBLE:
            pass  # row by row it is seen which
        else:
            yield from enumerate(rows, before + 1)
            return
    for index in range(batch.num_rows):
        yield _sound_row(path, batch, index, before + index + 1)


def _sound_row(path: str | Path, batch: Any, index: int, number: int) -> Row | FileError:
    """Return a row of a batch, or why it cannot be converted."""
    row: dict[str, object] = {}
    try:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            row[name] = column[index].as_py()
    except UnicodeDecodeError as error:
        return _bad_byte(path, f"row {number}", error.object[error.start], "utf-8", error.object[error.start :])
    except UNCONVERTIBLE as error:
        message = f"the value in column '{name}' cannot be read ({error}); mend it or leave the column out"
        return BadRow(path, f"row {number}", message)
    if sum(len(value) for value in row.values() if isinstance(value, str | bytes)) > LONGEST_RECORD:
        return too_long(path, f"row {number}")
    return number, row
