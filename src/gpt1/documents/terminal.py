"""A document as text: for a terminal with bold and dim letters, for logs and pipes without.

Pictures are left out. Of folded parts the head is shown, and tables in them; long tables are cut with a line that says
how many more rows there are. In logs and pipes a sentence is one line, however long, so that it can be searched for,
unless a width was asked for.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpt1.documents.blocks import Beside, Block, Facts, Folded, Heading, Heads, Lines, Note, Pictures, Quotes, Table
from gpt1.documents.figures import MINUS, without_controls

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

MOST_ROWS = 50  # of a table
FOLDED_ROWS = 20  # of one in a fold
MOST_COLUMNS = 20
PLAIN = str.maketrans({MINUS: "-", "–": "-"})  # as programs write them, and as every encoding has them


def render(
    blocks: Sequence[Block],
    *,
    width: int,
    is_terminal: bool,
    folds: bool | None = None,
    worded: Callable[[str], str] = lambda text: text,
) -> str:
    """Return blocks as lines; `worded` is told each sentence, and returns it in the reader's words.

    Sentences are folded at the width where it `folds`, by default on a terminal alone.
    """
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=is_terminal,
        color_system="auto" if is_terminal else None,  # whatever the environment says of colours
        legacy_windows=False,
    )
    before: Block | None = None
    for block in _without_bare_headings(list(_flat(blocks))):
        if before is not None and not _follows(before, block):
            console.print()
        whole = not (is_terminal if folds is None else folds) and isinstance(block, Note | Lines)
        for shown in _shown(block, worded, width):
            console.print(shown, soft_wrap=whole)
        before = block
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _flat(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks one below the other, without pictures; of a fold its head and its tables."""
    for block in blocks:
        if isinstance(block, Beside):
            for column in block.columns:
                yield from _flat(column)
        elif isinstance(block, Folded):
            tables = [_cut(one, FOLDED_ROWS) for one in block.blocks if isinstance(one, Table)]
            yield Heading(block.summary, level=4) if tables else Note(block.summary)
            yield from tables
        elif isinstance(block, Table):
            yield _cut(block, MOST_ROWS)
        elif not isinstance(block, Pictures | Heads):
            yield block


def _without_bare_headings(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks without the headings below which there were pictures alone."""
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        deeper = isinstance(block, Heading) and isinstance(after, Heading) and after.level > block.level
        if not isinstance(block, Heading) or deeper or not (after is None or isinstance(after, Heading)):
            yield block


def _cut(table: Table, most: int) -> Table:
    """Return a table with as many rows as can be looked through."""
    more = len(table.rows) - most
    if more <= 0:
        return table
    return replace(table, caption=f"and {more:,} more. {table.caption}", rows=table.rows[:most])


def _follows(before: Block, block: Block) -> bool:
    """Whether a block belongs to the one before it."""
    return isinstance(before, Heading) or (isinstance(before, Note) and isinstance(block, Note))


def _shown(block: Block, worded: Callable[[str], str], width: int) -> Iterator[RenderableType]:
    match block:
        case Note():
            yield _text(worded(block.text))
        case Heading():
            yield _text(block.text, "bold")
        case Lines():
            yield from (_text(worded(line)) for line in block.lines)
        case Facts():
            yield _facts(block)
        case Table():
            yield _table(block, width)
            if caption := _caption(block):
                yield _text(caption, "dim")
        case Quotes():
            yield from _quotes(block)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(without_controls(text).translate(PLAIN), style)


def _facts(facts: Facts) -> RenderableType:
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 2, 0, 0))
    for name, text in facts.pairs:
        grid.add_row(_text(name, "dim"), _text(text))
    return grid


def _widths(table: Table, width: int) -> list[int]:
    """Return how wide columns are: their names stand in as few lines as the table needs to fit, and few are folded."""
    names = table.header[1:MOST_COLUMNS]
    first = _widest([table.header[0], *(text for row in table.rows for text in (row.name, row.note))])
    texts = [_widest(_texts(table, place)) for place in range(len(names))]
    found: list[int] = []
    for lines in range(1, max([1, *(len(name.split()) for name in names)]) + 1):
        found = [max(own, _narrowest(name, lines)) for own, name in zip(texts, names, strict=True)]
        if (room := width - first - sum(2 + own for own in found)) >= 0:
            break
    for place, name in enumerate(names):
        more = max(0, _widest([name]) - found[place])
        if more <= room:
            found[place], room = found[place] + more, room - more
    return [first, *found]


def _narrowest(name: str, lines: int) -> int:
    """Return how wide a column is whose name stands in at most so many lines; no word is cut."""
    for width in range(max(map(len, name.split()), default=1), len(name) + 1):
        folded = textwrap.wrap(name, width, break_long_words=False, break_on_hyphens=False)
        if len(folded) <= lines:
            return _widest(folded)
    return 0


def _texts(table: Table, place: int) -> list[str]:
    """Return what stands in a column below its name."""
    cells = [row.cells[place] for row in table.rows]
    return [text for cell in cells for text in ("*" * cell.is_best + cell.text, cell.note)]


def _widest(texts: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _numbered(table: Table) -> Table:
    """Return a table whose columns have the names of its rows with numbers in their place."""
    rows = [replace(row, name=f"{number}: {row.name}") for number, row in enumerate(table.rows, 1)]
    return replace(table, header=[table.header[0], *(str(number) for number in range(1, len(rows) + 1))], rows=rows)


def _table(table: Table, width: int) -> RenderableType:
    """Return a table; of a crowded one the names of the columns are folded first."""
    from rich.table import Table as Grid

    widths = _widths(table, width)
    if table.over and any(own < _widest([name]) for own, name in zip(widths, table.header, strict=False)):
        table = _numbered(table)
        widths = _widths(table, width)
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for place, (name, is_number) in enumerate(table.columns[:MOST_COLUMNS]):
        shown = f"{name}, {table.over}:" if table.over and not place else name
        widest = widths[place] if place else None
        grid.add_column(_text(shown), justify="right" if is_number else "left", overflow="fold", max_width=widest)
    for row in table.rows:
        cells = [_with_note("*" * cell.is_best + cell.text, cell.note, cell.is_best) for cell in row.cells]
        grid.add_row(*[_with_note(row.name, row.note), *cells][:MOST_COLUMNS])
    return grid


def _with_note(text: str, note: str, is_best: bool = False) -> Text:
    shown = _text(" ".join(text.split()), "bold" if is_best else "")
    return shown.append("\n").append_text(_text(" ".join(note.split()), "dim")) if note else shown


def _caption(table: Table) -> str:
    more = len(table.header) - MOST_COLUMNS
    columns = f"{more:,} more columns are not shown." if more > 0 else ""
    return " ".join(filter(None, [table.caption, "Best with *." if table.has_best else "", columns]))


def _quotes(quotes: Quotes) -> Iterator[RenderableType]:
    from rich.padding import Padding

    for quote in quotes.quotes:
        yield _text(quote.head, "dim")
        yield Padding(_text(" ".join(f"{quote.before} {quote.text}".split())), (0, 0, 0, 4))
        if quote.after:
            yield _text("Right would have been", "dim")
            yield Padding(_text(" ".join(quote.after.split())), (0, 0, 0, 4))
