"""From paths to documents: which files are read, and the documents they hold, piece by piece.

A document arrives as one or more parts of at most a million characters, so that a file of any size passes
through a few megabytes of memory. What cannot be read arrives as a fault, in its place, and reading goes on:
bad bytes cost the file, line or paragraph they stand in, a bad row costs that row, a damaged file its rest.
What to do with parts and faults, and what to tell the user, is for the caller.

Reading has two steps. The first, by one process, finds what a source holds: parts of documents, and pages as they stand
there. The second is dear and by as many processes as there are, a portion of what was found at a time: markup is taken
off, and documents are judged. Their order stays, so documents hang on the files alone.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from gpt1.base.archives import COMPRESSIONS
from gpt1.base.errors import FileError, InputError, MissingDependency, SettingError, did_you_mean, printable, unknown
from gpt1.base.files import missing
from gpt1.base.parallel import ordered_map
from gpt1.base.stores import StoreError, find_stored, is_stored
from gpt1.base.tables import (
    FORMATS,
    check_encoding,
    file_format,
    lines,
    read_rows_or_faults,
    read_text_blocks,
    undecodable,
)
from gpt1.base.wording import some
from gpt1.corpus.crawl import read_web_pages, require_extractor
from gpt1.corpus.pages import LeftOutCounts, NoDocument, RawPage
from gpt1.corpus.quality import NO_SIEVE, Sieve
from gpt1.corpus.unwrap import STRETCH, unwrap
from gpt1.corpus.wikipedia import read_wiki_pages, require_parser
from gpt1.text.pieces import LIMIT, pieces

HUB = "hub:"
TEXTS = ("txt", "md")
# What files of pages are called, before the suffix of what they are packed with. Of a large Wikipedia the dump comes in
# parts, such as `enwiki-20260901-pages-articles1.xml-p1p41242.bz2`.
PAGES = {"mediawiki": re.compile(r"\.xml(-p\d+p\d+)?"), "warc": re.compile(r"\.warc"), "wet": re.compile(r"\.wet")}
READ = f"{', '.join(FORMATS)}, .xml of MediaWiki, .warc, .wet, each also {', '.join(COMPRESSIONS)}"
REQUIRED = {"mediawiki": require_parser, "warc": require_extractor}  # calls that refuse where a library is missing
INDEX = "-multistream-index"  # in the name of a list of places in a dump, which lies beside it as a text
DOCUMENTS = ("file", "line", "blank", "field", "page")
PORTION = 1_000_000  # characters or bytes of pages that a process gets at a time
MOST_ITEMS = 100_000  # in a portion

SURROGATE = re.compile("[\ud800-\udfff]")
DAMAGE = "\ud800"  # where a text breaks off; no decoded text holds it


@dataclass(frozen=True, slots=True)
class TextSource:
    """One file or hub dataset; size and time of change tell whether it is still the one that was read.

    The name opens the file. A file system may hold names that are no text: before it is stored or shown, a name
    goes through `printable`.
    """

    name: str
    format: str
    bytes: int = 0
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder found inside a folder but not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """What some paths stand for: the sources in the order they are read, and what was left out."""

    sources: tuple[TextSource, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A piece of a document; `first` and `last` say where the document begins and ends.

    `source` counts from 0, `position` is the place in it ("line 7", "row 12", empty for a whole file), and
    `raw_bytes`, which add up over the document, are those of its text in UTF-8 before unwrapping (after it,
    where a text is split at blank lines).
    """

    text: str
    first: bool
    last: bool
    source: int
    position: str
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that could not be read; parts that came before it without a last one belong to a broken document."""

    source: int
    position: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PlacedPage:
    """A page of a source as it stands there; or, of a page or of another document, why it is left out."""

    source: int
    page: RawPage | NoDocument


Item: TypeAlias = DocumentPart | Fault | PlacedPage  # what a source holds
AnyItem = TypeVar("AnyItem", bound=Item)


@dataclass(frozen=True, slots=True)
class Losses:
    """What was read and gave no document: faults, and counts of what was left out for what it is."""

    faults: list[Fault] = dataclasses.field(default_factory=list)
    left_out: LeftOutCounts = dataclasses.field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class TextReading:
    """How the sources are read and which of their documents pass, as the user chose."""

    document: str | None = None
    field: str | None = None
    encoding: str = "utf-8"
    unwrap: bool = False
    sieve: Sieve = NO_SIEVE

    def kind(self, source: TextSource) -> str:
        """Return what a document of this source is: the choice made, else what suits the format."""
        return self.document or _possible(source)[0]


def _possible(source: TextSource) -> tuple[str, ...]:
    """Return what a document of this source can be, the usual first."""
    if source.format in TEXTS:
        return ("file", "line", "blank")
    return ("page",) if source.format in PAGES else ("field",)


# --- from paths to sources -------------------------------------------------------------------------------


def find_sources(paths: Sequence[str], *, field: str | None = None) -> Found:
    """Return what the paths stand for: files, folders with all below them, globs, and `hub:NAME[:CONFIG][@SPLIT]`.

    Files, folders and globs may be in a store: `s3://bucket/folder`.

    The order is that of the paths, sorted inside a folder or glob; a file met twice is taken once. A table beside
    texts in a folder, such as an index of them, is left out unless `field` says what to read of it.
    """
    sources: dict[Path | str, TextSource] = {}
    skipped: dict[str, Skipped] = {}
    for path in paths:
        if path.startswith(HUB):
            sources.setdefault(path, TextSource(path, "hub"))
        elif is_stored(path):
            _take(path, list(_search_store(path)), field, sources, skipped)
        elif Path(path).is_file():
            sources.setdefault(Path(path).resolve(), _source(path))
        else:
            _take(path, list(_search(path)), field, sources, skipped)
    return Found(tuple(sources.values()), tuple(skipped.values()))


def _take(
    path: str,
    found: list[TextSource | Skipped],
    field: str | None,
    sources: dict[Path | str, TextSource],
    skipped: dict[str, Skipped],
) -> None:
    """Add what stands for a folder or a glob to the sources, or to what is skipped."""
    if any(isinstance(entry, TextSource) and entry.format == "mediawiki" for entry in found):
        found = [_unless_index(entry) for entry in found]
    if field is None and any(isinstance(entry, TextSource) and entry.format in TEXTS for entry in found):
        found = [_unless_table(entry) for entry in found]
    for entry in found:
        if isinstance(entry, Skipped):
            skipped[entry.name] = Skipped(printable(entry.name), entry.reason)
        else:
            sources.setdefault(entry.name if is_stored(entry.name) else Path(entry.name).resolve(), entry)
    if all(isinstance(entry, Skipped) for entry in found):
        names = [f"{entry.name} ({entry.reason})" for entry in found if isinstance(entry, Skipped)]
        left_out = f"; left out: {some(names)}" if names else ": it is empty"
        raise InputError(f"{path} holds no file that can be read{left_out}. Read are {READ}")


def _unless_table(entry: TextSource | Skipped) -> TextSource | Skipped:
    if isinstance(entry, Skipped) or entry.format in (*TEXTS, *PAGES):
        return entry
    return Skipped(entry.name, "a table beside texts; to read it, name it")


def _unless_index(entry: TextSource | Skipped) -> TextSource | Skipped:
    return Skipped(entry.name, "an index of a dump") if INDEX in Path(entry.name).name else entry


def is_unchanged(source: TextSource) -> bool:
    """Whether a source is still as it was found; of a data set on the hub nobody knows."""
    if is_stored(source.name):
        return source in _search_store(source.name)
    return source.format == "hub" or (Path(source.name).is_file() and _source(source.name) == source)


def _source(name: str) -> TextSource:
    kind, about = _format(name), Path(name).stat()
    return TextSource(name, kind, about.st_size, about.st_mtime_ns)


def _format(name: str) -> str:
    return page_format(name) or file_format(name, READ)


def _search_store(path: str) -> Iterator[TextSource | Skipped]:
    """Yield what a file, a folder or a glob of a store stands for, in sorted order."""
    for file in find_stored(path):
        try:
            yield TextSource(file.name, _format(file.name), file.bytes, file.mtime_ns)
        except StoreError:
            raise
        except InputError:
            yield Skipped(file.name, "not a format that is read")


def page_format(name: str | Path) -> str | None:
    """Return which format of pages a file has by its name, None where it has none."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes if suffix.lower() not in COMPRESSIONS]
    return next((kind for kind, suffix in PAGES.items() if suffixes and suffix.fullmatch(suffixes[-1])), None)


def _search(path: str) -> Iterator[TextSource | Skipped]:
    """Yield what a folder or a glob stands for, in sorted order."""
    # Path.glob takes no absolute pattern, and a file's own name may hold a bracket.
    given = [path] if Path(path).exists() else glob.glob(path, recursive=True)  # noqa: PTH207
    if not given:
        raise _no_such(path)
    for name in sorted(itertools.chain.from_iterable(_files(name) for name in given)):
        if Path(name).name.startswith("."):
            yield Skipped(name, "hidden")
        elif Path(name).is_dir():
            yield Skipped(name, "a link to a folder")
        elif not Path(name).exists():
            yield Skipped(name, "a broken link")
        elif not Path(name).is_file():  # a pipe or socket: opening it could wait for ever
            yield Skipped(name, "not a regular file")
        else:
            try:
                yield _source(name)
            except InputError:
                yield Skipped(name, "not a format that is read")


def _files(name: str) -> Iterator[str]:
    """Yield the files at and below a path, and of the folders those that are hidden or links, unopened."""
    if not Path(name).is_dir():
        yield name
        return
    for folder, folders, files in os.walk(name, onerror=_unreadable):
        closed = [entry for entry in folders if entry.startswith(".") or Path(folder, entry).is_symlink()]
        folders[:] = [entry for entry in folders if entry not in closed]
        yield from (str(Path(folder, entry)) for entry in closed + files)


def _unreadable(error: OSError) -> None:
    raise InputError(f"cannot read the folder {error.filename}: {error.strerror}")


def _no_such(path: str) -> InputError:
    if glob.has_magic(path):
        return InputError(f"no file matches {path}")
    return missing(Path(path))


# --- from sources to parts -------------------------------------------------------------------------------


def read_parts(
    sources: Sequence[TextSource],
    *,
    document: str | None = None,
    field: str | None = None,
    encoding: str = "utf-8",
    unwrap: bool = False,
    workers: int = 1,
    left_out: LeftOutCounts | None = None,
) -> Iterator[DocumentPart | Fault]:
    """Yield the documents of the sources in their order, each as consecutive parts, and faults in their places.

    A document is a "file", a "line", a stretch between "blank" lines, the "field" of a table row (the column `field`,
    else "text", else the only one that holds text), or the "page" of a dump; by default what comes first for its
    format. Lines and stretches of white space alone are not documents. What is no document for what it is, such as a
    page that only leads to another, is counted in `left_out` by source and reason. Markup is taken off by `workers`
    processes. Choices that do not fit are refused at once.
    """
    reading = TextReading(document, field, encoding, unwrap)
    check_reading(sources, reading)
    found = read_sources(sources, reading)
    if any(source.format in PAGES for source in sources):
        portions = in_portions(found, PORTION)
        found = itertools.chain.from_iterable(
            ordered_map(_all_texts, portions, workers=workers, initializer=_begin, initargs=())
        )
    return counted(found, Counter() if left_out is None else left_out)


def check_reading(sources: Sequence[TextSource], reading: TextReading) -> None:
    """Refuse choices that do not fit the sources."""
    check_encoding(reading.encoding)
    reading.sieve.check()
    if reading.document is not None and reading.document not in DOCUMENTS:
        raise unknown("kind of document", reading.document, DOCUMENTS)
    if reading.document == "line" and reading.unwrap:
        raise SettingError("unwrapping joins lines, so a document cannot be a line; take 'file' or 'blank'")
    for source in sources:
        possible = _possible(source)
        if reading.kind(source) not in possible:
            which = " or ".join(f"'{kind}'" for kind in possible)
            raise SettingError(
                f"a document of {source.name} ({source.format}) can be {which}, not '{reading.document}'"
            )
        if source.format in REQUIRED:
            REQUIRED[source.format](source.name)
    if reading.field is not None and sources and all(_possible(source) != ("field",) for source in sources):
        raise SettingError(f"texts have no columns, so there is no field '{reading.field}' to read")


def read_sources(
    sources: Sequence[TextSource], reading: TextReading, begin: int = 0, end: int | None = None
) -> Iterator[Item]:
    """Yield what the sources from `begin` to before `end` hold, in order: the first step, without any text of pages.

    Of documents that do not pass the sieve those of several parts are left out here, as their parts may go to several
    processes.
    """
    found = (_read(index, source, reading) for index, source in enumerate(sources[begin:end], begin))
    return _sifted(itertools.chain.from_iterable(found), reading.sieve, only_long=True)


def _read(index: int, source: TextSource, reading: TextReading) -> Iterator[Item]:
    try:
        if source.format in PAGES:
            yield from _pages(index, source)
        elif reading.kind(source) == "field":
            yield from _row_documents(index, source, reading)
        elif reading.kind(source) == "file":
            blocks = read_text_blocks(source.name, reading.encoding)
            yield from _document(index, "", _cut(blocks, reading.unwrap))
        else:
            yield from _split_documents(index, source, reading)
    except FileError as fault:
        yield Fault(index, fault.position, fault.reason, str(fault))
    except InputError as error:
        if source.format == "hub" or isinstance(error, StoreError):  # must not pass for the end of the data
            raise
        yield Fault(index, "", "unreadable", printable(str(error)))


def _document(index: int, position: str, cuts: Iterator[tuple[str, int]]) -> Iterator[DocumentPart | Fault]:
    """Yield the parts of one document from its pieces and their raw bytes; damage ends it with a fault."""
    first = True
    try:
        text, raw_bytes = next(cuts, ("", 0))
        for following in cuts:
            yield DocumentPart(text, first, False, index, position, raw_bytes)
            first = False
            text, raw_bytes = following
    except FileError as fault:
        yield Fault(index, fault.position, fault.reason, str(fault))
    else:
        yield DocumentPart(text, first, True, index, position, raw_bytes)


def _cut(blocks: Iterable[str], unwrapped: bool) -> Iterator[tuple[str, int]]:
    """Cut one text into pieces, each with the bytes that were read for it before unwrapping."""
    if not unwrapped:
        for piece in pieces(blocks):
            yield piece, _utf8_bytes(piece)
        return
    read = done = 0

    def counted() -> Iterator[str]:
        nonlocal read
        for stretch in pieces(blocks, STRETCH):  # cut first, so that the count does not hang on the blocks
            read += _utf8_bytes(stretch)
            yield stretch

    for piece in pieces(unwrap(counted())):
        yield piece, read - done
        done = read


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _split_documents(index: int, source: TextSource, reading: TextReading) -> Iterator[DocumentPart | Fault]:
    """Yield the documents of a text whose documents are lines or stretches between blank lines."""
    # Bad bytes pass as marks here, and cost only the document they stand in; UTF-16 has no such marks.
    damage: list[FileError] = []
    blocks = _marked(read_text_blocks(source.name, reading.encoding, errors="surrogateescape"), damage)
    if reading.document == "line":
        word, fragments = "line", _lines(blocks)
    else:
        # The whole text is unwrapped before it is split: a paragraph alone shows too little of its width.
        word, fragments = "paragraph", _paragraphs(unwrap(blocks) if reading.unwrap else blocks)
    for number, group in itertools.groupby(fragments, key=lambda fragment: fragment[0]):
        position = f"{word} {number}"
        texts = _sound((text for _, text in group), source.name, position, reading.encoding, damage)
        yield from _document(index, position, _cut(texts, False))


def _marked(blocks: Iterator[str], damage: list[FileError]) -> Iterator[str]:
    """End a damaged text with a mark instead of a fault, which would also strike documents read before it."""
    try:
        yield from blocks
    except FileError as fault:
        damage.append(fault)
        yield DAMAGE


def _sound(texts: Iterable[str], name: str, position: str, encoding: str, damage: list[FileError]) -> Iterator[str]:
    for text in texts:
        if fault := undecodable(name, position, text, encoding):
            raise fault
        if damage and DAMAGE in text:
            raise damage[0]
        yield text


def _lines(blocks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) without the line end for lines with text; a very long line comes in several."""
    for number, text, _, blank in _numbered(blocks):
        if not blank:
            yield number, text


def _paragraphs(blocks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield (paragraph number, text), with the line ends inside a paragraph but not those around it."""
    paragraph, inside, line_end = 0, False, ""
    for _, text, end, blank in _numbered(blocks):
        if not blank:
            paragraph += not inside
            yield paragraph, line_end + text if inside else text
        inside, line_end = not blank, end


def _numbered(blocks: Iterable[str]) -> Iterator[tuple[int, str, str, bool]]:
    """Yield (line number, text, line end, whether the line is blank), a very long line in several."""
    number, open_line = 0, False
    for line in lines(blocks, LIMIT):
        text = line.rstrip("\r\n")
        number += not open_line
        # A line that had to be cut is not blank, whatever it holds, as the rest of it is not known yet.
        yield number, text, line[len(text) :], not open_line and len(text) <= LIMIT and not text.strip()
        open_line = len(text) == len(line)


# --- from what was found to documents ---------------------------------------------------------------------


def in_portions(found: Iterable[AnyItem], characters: int) -> Iterator[list[AnyItem]]:
    """Group what was found into portions of about so many characters, whatever the number of processes."""
    portion: list[AnyItem] = []
    size = 0
    for item in found:
        portion.append(item)
        size += size_of(item)
        if size >= characters or len(portion) >= MOST_ITEMS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def size_of(item: Item) -> int:
    """Return about how many characters are to be held for something found."""
    if isinstance(item, DocumentPart):
        return len(item.text)
    return item.page.size if isinstance(item, PlacedPage) and not isinstance(item.page, NoDocument) else 100


def with_texts(found: Iterable[Item], sieve: Sieve = NO_SIEVE) -> Iterator[Item]:
    """Yield what was found, in the place of each page its text, and of each text that does not pass why."""
    return _sifted(itertools.chain.from_iterable(map(_text, found)), sieve)


def counted(found: Iterable[Item], left_out: LeftOutCounts) -> Iterator[DocumentPart | Fault]:
    """Yield all but what is left out, and count that; pages have become texts before."""
    for item in found:
        if not isinstance(item, PlacedPage):
            yield item
        elif isinstance(item.page, NoDocument):
            left_out[item.source, item.page.reason] += 1


def _begin() -> None:
    """Begin a process that takes texts out of pages: it needs nothing beforehand."""


def _all_texts(portion: list[Item]) -> list[Item]:
    return list(with_texts(portion))


def _text(item: Item) -> Iterator[Item]:
    """Yield the parts of a page's text, or why there is none; what is no page as it is."""
    if not isinstance(item, PlacedPage) or isinstance(item.page, NoDocument):
        yield item
        return
    try:
        text = item.page.text()
    except FileError as fault:
        yield Fault(item.source, fault.position, fault.reason, str(fault))
        return
    if isinstance(text, NoDocument):
        yield PlacedPage(item.source, text)
    else:
        yield from _document(item.source, item.page.position, _cut([text], False))


def _sifted(found: Iterable[Item], sieve: Sieve, *, only_long: bool = False) -> Iterator[Item]:
    """Yield what was found, in the place of each document that does not pass why; only those of several parts, if so.

    A document is judged by its first part; an empty one is not judged.
    """
    if sieve == NO_SIEVE:
        yield from found
        return
    passes = True
    for item in found:
        if isinstance(item, DocumentPart) and item.first:
            is_judged = item.text.strip() and not (only_long and item.last)
            reason = sieve.reason(item.text) if is_judged else None
            passes = reason is None
            if reason is not None:
                yield PlacedPage(item.source, NoDocument(reason))
        if passes or not isinstance(item, DocumentPart):
            yield item


# --- pages -----------------------------------------------------------------------------------------------


def _pages(index: int, source: TextSource) -> Iterator[Fault | PlacedPage]:
    read = read_wiki_pages if source.format == "mediawiki" else read_web_pages
    for found in read(source.name):
        if isinstance(found, FileError):
            yield Fault(index, found.position, found.reason, str(found))
        else:
            yield PlacedPage(index, found)


# --- tables ----------------------------------------------------------------------------------------------


def _row_documents(index: int, source: TextSource, reading: TextReading) -> Iterator[DocumentPart | Fault]:
    rows: Iterable[tuple[int, Mapping[str, object]] | FileError]
    if source.format == "hub":
        rows = _hub_rows(source.name)
    else:
        column = reading.field or "text"
        rows = read_rows_or_faults(source.name, encoding=reading.encoding, column=column)
    varied = source.format == "jsonl"  # each row has its own columns; elsewhere the first row shows those of all
    field = reading.field
    for found in rows:
        if isinstance(found, FileError):
            yield Fault(index, found.position, found.reason, str(found))
            continue
        number, row = found
        position = f"line {number}" if varied else f"row {number}"
        if field is None:
            field = _text_field(row)
        if field is None or field not in row:
            place = f"{source.name}, {position}" if varied else source.name
            message = printable(f"{place}: {_no_field(row, field)}")
            yield Fault(index, position if varied else "", "no-field", message)
            if varied:
                continue
            return
        text = row[field]
        if (problem := _not_text(text)) or not isinstance(text, str):
            message = printable(f"{source.name}, {position}: the field '{field}' holds {problem}")
            yield Fault(index, position, "not-text", message)
        else:
            yield from _document(index, position, _cut([text], reading.unwrap))


def _text_field(row: Mapping[str, object]) -> str | None:
    """Return the column that holds the text, if a row shows it."""
    texts = ["text"] if "text" in row else [name for name, value in row.items() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _no_field(row: Mapping[str, object], field: str | None) -> str:
    """Return in words why a row has no field to read."""
    columns = f"(columns: {some(list(row), 20) or 'none'})"
    if field is None:
        return f"no column is called 'text' {columns}; call the one that holds the text so, or name it with `field`"
    return f"there is no column '{field}'{did_you_mean(field, row)} {columns}"


def _not_text(value: Any) -> str | None:
    """Return what a value is if it is no text, or None."""
    if not isinstance(value, str):
        return f"{'nothing' if value is None else type(value).__name__}, not text"
    if not value.isascii() and (half := SURROGATE.search(value)):
        return f"half a character (\\u{ord(half[0]):04x})"
    return None


def _hub_rows(name: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    try:
        import datasets
    except ImportError:
        raise MissingDependency(f"{name} needs the library datasets: pip install 'gpt1[hub]'") from None
    rest, _, split = name.removeprefix(HUB).partition("@")
    dataset, _, config = rest.partition(":")
    try:
        rows = datasets.load_dataset(dataset, config or None, split=split or "train", streaming=True)
        yield from enumerate(rows, 1)
    except Exception as error:  # the library and those below it raise errors of many families
        raise InputError(f"cannot read {name}: {error}") from error
