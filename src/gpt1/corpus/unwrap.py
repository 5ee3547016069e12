"""Undoing hard wrapping: books whose paragraphs were broken into lines of some seventy characters.

A text counts as wrapped when two fifths of its line breaks or more come where a line was full and the next
goes on in lower case. Only in such text, a break becomes one blank when the line before it was full, which is
when the first word of the next would have taken it past three quarters of the usual width. So these stay as
they are: blank lines; short lines (verse, headings, addresses, the ends of paragraphs); a break before an
indented line or a list item, or beside a table row. A line that ends in a hyphen or dash is joined without a blank.
Where every line is followed by a blank one, that one blank line is taken for the line break.

The width is measured afresh in every stretch of some 64,000 characters, so memory is bounded, an anthology
may change its width, and how the text arrives in blocks changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpt1.text.pieces import pieces

STRETCH = 1 << 16  # characters
FULL = 0.75  # of the width; some books break lines at clauses, well before the margin
NARROWEST = 45  # characters; narrower lines are verse, lists or columns
FEWEST_BREAKS = 3  # fewer prove nothing
ENOUGH = 0.4  # share of the breaks that look wrapped; in books it is 0.52 or more, in all else near 0

HARD_WRAPPED = "the text looks hard-wrapped; `unwrap=True` would join its lines"

GAP = re.compile(r"([\r\n](?:[ \t\r\n]*[\r\n])?)")  # from the end of one line to the start of the next with text
LIST_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)]|(?!I\.)[IVXLC]+\.) ")  # "I. " is more often the end of a sentence
COLUMNS = re.compile(r"\w {3,}\S")  # two words far apart; after a full stop it is a wide blank
OPENING = "\"'“‘«_*([-—"


class Wrapping(NamedTuple):
    """How a text was wrapped: its usual width, and how many line ends make one line break."""

    width: int
    line_ends: int


def looks_wrapped(text: str) -> bool:
    """Say whether a text is hard-wrapped, so that `unwrap` would change it; a few pages of it are enough."""
    return _wrapping(GAP.split(text), None) is not None


def unwrap(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the text of the blocks with the line breaks of hard wrapping turned into blanks."""
    held = ""  # the last line and the gap after it: the line that follows is in the next stretch
    wrapping = None
    for stretch in pieces(blocks, STRETCH):
        parts = GAP.split(held + stretch)  # line, gap, line, gap, ... line
        wrapping = _wrapping(parts, wrapping)
        last = len(parts) - (1 if parts[-1] else 3)
        text, held = _joined(parts, last, wrapping), "".join(parts[last:])
        if len(held) > STRETCH:  # an endless line is not a wrapped one
            text, held = text + held, ""
        if text:
            yield text
    if held:
        yield held


def _joined(parts: list[str], last: int, wrapping: Wrapping | None) -> str:
    """Return the text before the line `parts[last]`, with wrapped breaks turned into blanks."""
    if wrapping is None:
        return "".join(parts[:last])
    out: list[str] = []
    for index in range(0, last, 2):
        line, gap, following = parts[index : index + 3]
        if _line_ends(gap) == wrapping.line_ends and _continues(line.rstrip(), following, wrapping.width):
            line = line.rstrip()
            gap = "" if line.endswith(("-", "—")) else " "
        out += (line, gap)
    return "".join(out)


def _continues(line: str, following: str, width: int) -> bool:
    if following[:1].isspace() or not following or not _is_full(line, following, width):
        return False
    return not (LIST_ITEM.match(following) or _is_table_row(line) or _is_table_row(following))


def _is_full(line: str, following: str, width: int) -> bool:
    return len(line) + 1 + len(following.partition(" ")[0]) > FULL * width


def _is_table_row(line: str) -> bool:
    if "\t" in line or "....." in line or ". . . . ." in line:
        return True
    return "   " in line and COLUMNS.search(line) is not None


def _line_ends(gap: str) -> int:
    return gap.count("\n") or gap.count("\r")


def _wrapping(parts: list[str], before: Wrapping | None) -> Wrapping | None:
    """Measure how a stretch is wrapped; where it has too few lines to tell, it is as the one before."""
    breaks: dict[int, list[tuple[str, str]]] = {1: [], 2: []}
    for line, gap, following in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        if line and following and (line_ends := _line_ends(gap)) in breaks:
            breaks[line_ends].append((line.rstrip(), following))
    line_ends = 2 if len(breaks[2]) > 20 * len(breaks[1]) else 1
    lines = breaks[line_ends]
    if len(lines) < FEWEST_BREAKS:
        return before
    lengths = sorted(len(line) for line, _ in lines)
    width = lengths[int(0.95 * (len(lengths) - 1))]  # not the longest, which may be a slip
    wrapped = sum(
        following.lstrip(OPENING)[:1].islower() and _continues(line, following, width) for line, following in lines
    )
    return Wrapping(width, line_ends) if width >= NARROWEST and wrapped >= ENOUGH * len(lines) else None
