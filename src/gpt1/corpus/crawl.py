"""Pages of the web as crawlers keep them: WARC files, of whose HTML the main text is taken, and WET files, of text.

The files are read record by record. Of those that are packed as gzip, as nearly all are, each record is a member of its
own, so that a damaged one costs itself alone: reading goes on at the next member. The place that is told of a record is
where that member begins, which is the offset that indexes of a crawl give too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpt1.base.archives import byte_position, open_bytes, open_packed
from gpt1.base.errors import DamagedFile, FileError, MissingDependency
from gpt1.base.tables import ENCODING, LONGEST_RECORD, BadRow, Undecodable
from gpt1.corpus.pages import NoDocument

LONGEST_HEAD = 1 << 16  # bytes of a record's header
CHUNK_BYTES = 1 << 16  # read at a time, packed or not
NO_ANSWER, NOT_OK, NO_HTML = "an answer that cannot be read", "no answer of the status 200", "not HTML"
TEXT, ANSWER = b"conversion", b"response"  # records of pages, in WET and in WARC files; others are about them
GZIP = zlib.MAX_WBITS | 16

_MAGIC = b"\x1f\x8b\x08"  # a gzip member begins so
_FIRST_LINE = b"WARC/"
_TYPE = re.compile(rb"^WARC-Type:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
_LENGTH = re.compile(rb"^Content-Length:[ \t]*(\d{1,15})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class PlainPage:
    """A page whose text was taken out before, as WET files have it."""

    path: str
    position: str
    block: bytes

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.block)

    def text(self) -> str:
        """Return its text."""
        try:
            return self.block.decode().strip()
        except UnicodeDecodeError as error:
            message = f"the byte 0x{error.object[error.start]:02x} of its text is not UTF-8"
            raise Undecodable(self.path, self.position, message) from None


@dataclass(frozen=True, slots=True)
class WebPage:
    """What a server answered, as WARC files have it: the record, from its first line on."""

    path: str
    position: str
    record: bytes

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.record)

    def text(self) -> str | NoDocument:
        """Return the main text of its HTML."""
        from fastwarc.warc import WarcRecord
        from resiliparse.extract.html2text import extract_plain_text

        try:
            record = WarcRecord.from_bytes(self.record)
            record.parse_http(auto_decode="all")
            if record.http_headers is None:
                return NoDocument(NO_ANSWER)
            if record.http_headers.status_code != 200:
                return NoDocument(NOT_OK)
            if (record.http_content_type or "").lower() not in _HTML:
                return NoDocument(NO_HTML)
            page = record.reader.read(LONGEST_RECORD + 1)
        except OSError:  # the server's own fault, not one of the file: headers without end, parts of wrong lengths
            return NoDocument(NO_ANSWER)
        if len(page) > LONGEST_RECORD:
            raise _too_long(self.path, self.position)
        html = _decoded(page, record.http_charset)
        text = extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False, comments=False)
        return str(text).strip()


def _decoded(page: bytes, named: str | None) -> str:
    """Return the text of a page in the encoding that its server names, else its HTML, else its bytes."""
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    try:
        return str(bytes_to_str(page, named or detect_encoding(page, from_html_meta=True) or ENCODING))
    except (LookupError, ValueError):  # there is none of that name
        return str(bytes_to_str(page, ENCODING))


def require_extractor(name: str) -> None:
    """Refuse to read HTML where what takes its text out is not installed."""
    try:
        import fastwarc  # noqa: F401
        import resiliparse  # noqa: F401
    except ImportError:
        raise MissingDependency(f"reading {name} needs the library resiliparse: pip install 'gpt1[crawl]'") from None


def read_web_pages(path: str | Path) -> Iterator[PlainPage | WebPage | FileError]:
    """Yield the pages of a WARC or WET file, and faults in the places of records that cannot be read."""
    with closing(_Archive(path)) as archive:
        while True:
            try:
                record = archive.next_record()
            except DamagedFile as fault:
                yield fault
                if not archive.find_next():
                    return
                continue
            if record is None:
                return
            found = _page(str(path), *record)
            if found is not None:
                yield found


def _page(path: str, position: str, head: bytes, block: bytes | None) -> PlainPage | WebPage | BadRow | None:
    """Return the page of a record, None where it has none; a block that is too long to be held is None."""
    kind = _TYPE.search(head)
    if kind is None or kind[1].lower() not in (TEXT, ANSWER):
        return None
    if block is None:
        return _too_long(path, position)
    return PlainPage(path, position, block) if kind[1].lower() == TEXT else WebPage(path, position, head + block)


def _too_long(path: str, position: str) -> BadRow:
    return BadRow(path, position, f"more than {LONGEST_RECORD:,} bytes, the most that a page may have")


# --- from a file to records ---------------------------------------------------------------------------------------


class _Archive:
    """The records of a file, one after another."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._is_gzip = Path(path).suffix.lower() == ".gz"
        self._file = open_packed(path) if self._is_gzip else open_bytes(path)
        self._held, self._at = b"", 0  # bytes that are next, and how many came before them
        self._begin(0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def next_record(self) -> tuple[str, bytes, bytes | None] | None:
        """Return where the next record stands, its head, and its block, None if it is too long; None at the end."""
        line, position = b"\n", ""
        while line and not line.strip():  # two such lines end a record
            position = self._position()
            line = self._line()
        if not line:
            return None
        lines = [line]
        while line.strip():
            line = self._line()
            lines.append(line)
            if not line or sum(map(len, lines)) > LONGEST_HEAD:
                raise self._damaged(position, "the header of a record does not end")
        head = b"".join(lines)
        length = _LENGTH.search(head)
        if not head.startswith(_FIRST_LINE) or length is None:
            raise self._damaged(position, "no record begins there")
        size = int(length[1])
        block = self._take(size)
        if block is not None and len(block) < size:
            raise self._damaged(position, "it ends before its last record does")
        return position, head, block

    def find_next(self) -> bool:
        """Go on behind damage, at the next member or the next line that begins a record; whether there is one."""
        if self._is_gzip:
            at = _next_member(self._file, self._member + 1)
            if at is not None:
                self._begin(at)
            return at is not None
        try:
            while line := self._line():
                if line.startswith(_FIRST_LINE):
                    self._held, self._at = line + self._held, self._at - len(line)
                    return True
        except DamagedFile:  # of what it is packed in, which was told of
            pass
        return False

    def _begin(self, at: int) -> None:
        self._chunks = self._unpacked(at) if self._is_gzip else self._plain()
        self._member = at  # where the gzip member begins that is read
        self._held, self._at = b"", 0
        self._is_whole = False  # what is held: a member begins with it

    def _position(self) -> str:
        if not self._held:
            self._fill()
        return f"byte {self._member}" if self._is_whole else byte_position(self._path, self._at)

    def _damaged(self, position: str, problem: str) -> DamagedFile:
        return DamagedFile(self._path, position, f"the file is damaged or cut short ({problem}); fetch it again")

    def _line(self) -> bytes:
        """Return the next line with its end, or so much of it as a header may have; nothing at the end."""
        while (end := self._held.find(b"\n")) < 0 and len(self._held) <= LONGEST_HEAD and self._fill():
            pass
        return self._cut(end + 1 if end >= 0 else len(self._held))

    def _take(self, size: int) -> bytes | None:
        """Return so many bytes, fewer at the end; None where they are more than a page may have, which are passed."""
        parts: list[bytes] = []
        left = size
        while left and (self._held or self._fill()):
            part = self._cut(min(left, len(self._held)))
            left -= len(part)
            if size <= LONGEST_RECORD:
                parts.append(part)
        return b"".join(parts) if size <= LONGEST_RECORD or left else None

    def _cut(self, size: int) -> bytes:
        found, self._held = self._held[:size], self._held[size:]
        self._at += size
        self._is_whole = self._is_whole and not size
        return found

    def _fill(self) -> bool:
        """Hold more; whether there was any."""
        begins, chunk = next(self._chunks, (False, b""))
        self._is_whole = begins and not self._held
        self._held += chunk
        return bool(chunk)

    def _plain(self) -> Iterator[tuple[bool, bytes]]:
        while block := self._file.read1(CHUNK_BYTES):  # read() would lose what stands just before damage
            yield False, block

    def _unpacked(self, at: int) -> Iterator[tuple[bool, bytes]]:
        """Yield what the gzip members from a place on hold, in chunks, each with whether a member begins with it."""
        self._file.seek(at)
        packed = self._file.read(CHUNK_BYTES)
        if not packed:
            raise self._damaged("byte 0", "the file is empty")
        while packed:
            self._member, begins = at, True
            unpacking = zlib.decompressobj(GZIP)
            chunk = last = b""  # the last one of a member is given when the member has ended well
            while not unpacking.eof:
                if not packed and len(chunk) < CHUNK_BYTES:  # else there may be more of what was given
                    packed = self._file.read(CHUNK_BYTES)
                    if not packed:
                        raise self._damaged(f"byte {self._member}", "it ends within a gzip member")
                try:
                    chunk = unpacking.decompress(packed, CHUNK_BYTES)
                except zlib.error as error:
                    raise self._damaged(f"byte {self._member}", str(error)) from None
                rest = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
                at += len(packed) - len(rest)
                packed = rest
                if chunk and last:
                    yield begins, last
                    begins = False
                last = chunk or last
            if last:
                yield begins, last
            packed = packed or self._file.read(CHUNK_BYTES)


def _next_member(file: IO[bytes], at: int) -> int | None:
    """Return where, from a place on, the next gzip member begins that holds a record."""
    while True:
        file.seek(at)
        block = file.read(CHUNK_BYTES)
        found = block.find(_MAGIC)
        if found >= 0:
            at += found
            if _begins_record(file, at):
                return at
            at += 1
        elif len(block) < len(_MAGIC):
            return None
        else:
            at += len(block) - len(_MAGIC) + 1


def _begins_record(file: IO[bytes], at: int) -> bool:
    file.seek(at)
    try:
        return zlib.decompressobj(GZIP).decompress(file.read(CHUNK_BYTES), len(_FIRST_LINE)) == _FIRST_LINE
    except zlib.error:  # the magic number stands in packed bytes by chance
        return False
