"""A document as Markdown, for a model card: tables and sentences; pictures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpt1.documents.blocks import Beside, Block, Facts, Folded, Heading, Lines, Note, Quotes, Table, TableCell
from gpt1.documents.figures import without_controls

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#])")  # what Markdown or HTML would take for its own


def render(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown, in which whatever they say is text."""
    return "\n\n".join(part for block in blocks for part in _parts(block)) + "\n"


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Note():
            yield plain(block.text)
        case Heading():
            yield f"{'#' * (block.level - 1)} {plain(block.text)}"
        case Lines():
            yield "\n".join(f"- {plain(line)}" for line in block.lines)
        case Facts():
            yield _table(["", ""], [[plain(name), plain(text)] for name, text in block.pairs])
        case Table():
            yield _table([plain(name) for name in block.header], [_row(row.name, row.cells) for row in block.rows])
            yield plain(block.caption)
        case Quotes():
            yield from (f"> {plain(quote.head)}: {plain(quote.text)}" for quote in block.quotes)
        case Beside():
            yield from (part for column in block.columns for one in column for part in _parts(one))
        case Folded():
            yield from (part for one in block.blocks for part in _parts(one))


def plain(text: str) -> str:
    """Return a text in one line that means nothing to Markdown."""
    return _MARKUP.sub(r"\\\1", " ".join(without_controls(text).split()))


def _row(name: str, cells: Sequence[TableCell]) -> list[str]:
    return [plain(name), *map(_cell, cells)]


def _cell(cell: TableCell) -> str:
    text = f"**{plain(cell.text)}**" if cell.is_best else plain(cell.text)
    return f"{text} ({plain(cell.note)})" if cell.note else text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])
