"""A MediaWiki dump, as Wikipedia publishes them (`pages-articles`): its articles, and their text without markup.

Expat reads the dump as a stream, so that one page at a time is held. A dump declares no document type and no entities;
one that does is refused, as a few such lines can spell out more text than any memory holds. What stands in a template,
a table, a reference or a picture's caption is not part of the running text, and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from gpt1.base.archives import byte_position, open_bytes
from gpt1.base.errors import DamagedFile, FileError, MissingDependency
from gpt1.base.tables import LONGEST_RECORD, BadRow
from gpt1.corpus.pages import NoDocument

BLOCK_BYTES = 1 << 18  # of the dump at a time
DEEPEST = 50  # tags in tags; a dump has five
ARTICLES = "0"  # the namespace of articles
# Namespaces of which a link stands for no words: pictures, and categories, which are listed below a page.
UNSEEN = {"6": ("file", "image"), "14": ("category",)}
REDIRECT, NO_ARTICLE, NO_WIKITEXT = "redirect", "not an article", "not wikitext"

# Tags of whose content a reader sees a picture, a formula, a footnote, or nothing.
_NO_WORDS = frozenset(
    ("categorytree", "ce", "chem", "gallery", "graph", "hiero", "imagemap", "indicator", "inputbox", "mapframe",
     "maplink", "math", "ref", "references", "score", "section", "source", "syntaxhighlight", "table", "templatedata",
     "templatestyles", "timeline")
)  # fmt: skip
_OWN_LINE = frozenset(("blockquote", "br", "dd", "div", "dt", "hr", "li", "p", "poem"))
# XML has no such characters, so no page has: where something was dropped, and how deep a heading is.
_HOLE, _HEADING = "\x01", "\0"
_UNSEEN_BEGINS = re.compile(r"<!--|<ref\b[^>]{0,1000}>", re.IGNORECASE)
_UNSEEN_ENDS = {"<!--": re.compile("-->"), "<ref": re.compile(r"</ref\s*>", re.IGNORECASE)}
_SWITCH = re.compile("__[A-Z]+__")  # such as __NOTOC__
_HOLLOW_BRACKETS = re.compile(r" ?\([\s,;:/]*\x01[\s,;:/\x01]*\)")
_HOLE_AFTER_BRACKET = re.compile(r"\((?:[\s,;:]*\x01)+[\s,;:]*")
_HOLES = re.compile(r"[ \t]*(?:\x01[ \t]*)+([,.;:)]?)")
_BLANKS = re.compile(r"[ \t]+")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class WikiPage:
    """An article as it stands in a dump; links into the namespaces `unseen` are no words of it."""

    path: str
    position: str
    title: str
    markup: str
    unseen: frozenset[str]

    @property
    def size(self) -> int:
        """How many characters of markup it has."""
        return len(self.markup)

    def text(self) -> str:
        """Return its title, a blank line and its text; nothing where it has no text."""
        try:
            text = plain_text(self.markup, self.unseen)
        except Exception as error:  # the parser has a few of its own for markup that it does not understand
            raise FileError(self.path, self.position, f"its markup cannot be read ({error})") from None
        return f"{self.title}\n\n{text}" if text else ""


# --- from a dump to pages -------------------------------------------------------------------------------------


def read_wiki_pages(path: str | Path) -> Iterator[WikiPage | NoDocument | FileError]:
    """Yield the articles of a dump, in the place of any other page why it is left out, and faults; damage is raised."""
    dump = _Dump(str(path))
    read = 0
    with open_bytes(path) as file:
        while True:
            block = file.read1(BLOCK_BYTES)
            try:
                dump.parser.Parse(block, not block)
            except expat.ExpatError as error:
                yield from dump.take()
                what = expat.ErrorString(error.code)
                message = f"the dump is damaged or cut short ({what}); fetch it again"
                raise DamagedFile(path, byte_position(path, dump.parser.ErrorByteIndex), message) from None
            yield from dump.take()
            if not block:
                return
            read += len(block)
            if read - dump.parser.CurrentByteIndex > LONGEST_RECORD:
                position = byte_position(path, dump.parser.CurrentByteIndex)
                raise DamagedFile(path, position, f"a tag of more than {LONGEST_RECORD:,} bytes; fetch the dump again")


class _Dump:
    """What expat tells of a dump, put together to pages."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tags: list[str] = []
        self._found: list[WikiPage | NoDocument | FileError] = []
        self._unseen = {name for names in UNSEEN.values() for name in names}
        self._begin_page()
        self._words: list[str] = []  # of the tag that is open
        self._wanted = False
        self._length = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.buffer_size = 1 << 16
        self.parser.StartDoctypeDeclHandler = self._refuse_entities
        self.parser.EntityDeclHandler = self._refuse_entities
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add

    def take(self) -> list[WikiPage | NoDocument | FileError]:
        """Return what was found since this was asked last."""
        found, self._found = self._found, []
        return found

    def _begin_page(self) -> None:
        self._facts: dict[str, str] = {}
        self._is_redirect = self._is_too_long = False

    def _damaged(self, message: str) -> DamagedFile:
        return DamagedFile(self._path, byte_position(self._path, self.parser.CurrentByteIndex), message)

    def _refuse_entities(self, *_: object) -> None:
        raise self._damaged("it declares a document type or entities, as no dump does; it is not read")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._tags.append(tag)
        if self._tags[0] != "mediawiki":
            raise self._damaged(f"its outermost tag is <{self._tags[0][:40]}>, so it is no MediaWiki dump")
        if len(self._tags) > DEEPEST:
            raise self._damaged(f"more than {DEEPEST} tags in one another, as no dump has; it is not read")
        if tag == "page":
            self._begin_page()
        elif tag == "redirect":
            self._is_redirect = True
        self._wanted = tag == "namespace" or (tag in ("title", "ns", "id", "text", "model") and self._in_page())
        self._namespace = attributes.get("key", "") if tag == "namespace" else ""
        self._words, self._length = [], 0

    def _in_page(self) -> bool:
        # The page's own id and the texts of its revisions: an id of a revision or of its author is another.
        return self._tags[1:-1] == ["page"] or (self._tags[1:-1] == ["page", "revision"] and self._tags[-1] != "id")

    def _add(self, words: str) -> None:
        if not self._wanted or self._is_too_long:
            return
        self._length += len(words)
        if self._length > LONGEST_RECORD:
            self._is_too_long = True
            self._words = []
        else:
            self._words.append(words)

    def _end(self, tag: str) -> None:
        if self._wanted:
            words = "".join(self._words)
            if tag == "namespace":
                if self._namespace in UNSEEN:
                    self._unseen.add(words.lower())
            else:
                self._facts[tag] = words  # of several revisions the last one stays
            self._wanted = False
        self._tags.pop()
        if tag == "page" and len(self._tags) == 1:
            self._found.append(self._page())

    def _page(self) -> WikiPage | NoDocument | FileError:
        facts = self._facts
        position = f"page {facts.get('id', '?')}"
        if facts.get("ns", ARTICLES) != ARTICLES:
            return NoDocument(NO_ARTICLE)
        if self._is_redirect:
            return NoDocument(REDIRECT)
        if facts.get("model", "wikitext") != "wikitext":
            return NoDocument(NO_WIKITEXT)
        if self._is_too_long:
            return BadRow(self._path, position, f"more than {LONGEST_RECORD:,} characters, the most a page may have")
        return WikiPage(self._path, position, facts.get("title", ""), facts.get("text", ""), frozenset(self._unseen))


# --- from markup to text --------------------------------------------------------------------------------------


def require_parser(name: str) -> None:
    """Refuse to read a dump where what takes the markup off is not installed."""
    try:
        import mwparserfromhell  # noqa: F401
    except ImportError:
        raise MissingDependency(
            f"reading {name} needs the library mwparserfromhell: pip install 'gpt1[wikipedia]'"
        ) from None


def plain_text(markup: str, unseen: frozenset[str] = frozenset()) -> str:
    """Return the running text of wikitext: its words, a line for each heading and each entry of a list."""
    import mwparserfromhell

    words = "".join(_words(mwparserfromhell.parse(_without_footnotes(markup)), unseen))
    lines = [_without_holes(line) for line in _SWITCH.sub("", words).split("\n")]
    return _BLANK_LINES.sub("\n\n", "\n".join(_without_empty_headings(lines))).strip()


def _without_footnotes(markup: str) -> str:
    """Return wikitext without comments and footnotes: they are most of its markup, and the parser is slow."""
    kept: list[str] = []
    at = 0
    while begin := _UNSEEN_BEGINS.search(markup, at):
        end: re.Match[str] | None = begin
        if not begin[0].endswith("/>"):
            end = _UNSEEN_ENDS[begin[0][:4].lower()].search(markup, begin.end())
        if end is None:  # the rest is for the parser, which knows what to make of it
            break
        kept += [markup[at : begin.start()], "" if begin[0] == "<!--" else _HOLE]
        at = end.end()
    return "".join(kept) + markup[at:]


def _words(code: Any, unseen: frozenset[str]) -> Iterator[str]:
    """Yield what a reader sees of parsed wikitext, with marks for holes and headings."""
    from mwparserfromhell import nodes

    for node in code.nodes:
        if isinstance(node, nodes.Text):
            yield str(node)
        elif isinstance(node, nodes.Wikilink):
            yield from _link_words(node, unseen)
        elif isinstance(node, nodes.ExternalLink):
            if node.title is not None:
                yield from _words(node.title, unseen)
            else:
                yield _HOLE if node.brackets else str(node.url)
        elif isinstance(node, nodes.Heading):
            title = "".join(_words(node.title, unseen)).replace("\n", " ")
            yield f"\n\n{_HEADING * node.level}{title}\n"
        elif isinstance(node, nodes.HTMLEntity):
            sign = node.normalize()
            yield sign if sign > _HOLE else ""
        elif isinstance(node, nodes.Tag):
            yield from _tag_words(node, unseen)
        elif not isinstance(node, nodes.Comment):
            yield _HOLE


def _link_words(link: Any, unseen: frozenset[str]) -> Iterator[str]:
    title = str(link.title).strip()
    if title.partition(":")[0].replace("_", " ").strip().lower() in unseen:
        yield _HOLE
    elif link.text:
        yield from _words(link.text, unseen)
    else:
        yield title.removeprefix(":")


def _tag_words(tag: Any, unseen: frozenset[str]) -> Iterator[str]:
    name = str(tag.tag).strip().lower()
    if name in _NO_WORDS:
        yield _HOLE
        return
    own_line = name in _OWN_LINE and not tag.wiki_markup  # written as `*` or `:` it begins a line anyway
    if own_line:
        yield "\n"
    if tag.contents:
        yield from _words(tag.contents, unseen)
        if own_line:
            yield "\n"


def _without_holes(line: str) -> str:
    """Close the holes of a line: brackets that held nothing else, and the blanks on both sides."""
    if _HOLE in line:
        line = _HOLE_AFTER_BRACKET.sub("(", _HOLLOW_BRACKETS.sub("", line))
        line = _HOLES.sub(lambda hole: hole[1] or (" " if " " in hole[0] else ""), line)
    return _BLANKS.sub(" ", line).strip()


def _without_empty_headings(lines: Sequence[str]) -> list[str]:
    """Leave out headings with no text before the next one of their level or above, and the marks of the others."""
    kept = []
    deepest = 0  # level of the headings that what stands below fills: those above it
    for line in reversed(lines):
        words = line.lstrip(_HEADING)
        level = len(line) - len(words)
        if not level:
            kept.append(line)
            if line:
                deepest = DEEPEST
        elif level < deepest:
            kept.append(words.strip())
            deepest = level
    return kept[::-1]
