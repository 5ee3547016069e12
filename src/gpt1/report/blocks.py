"""What a page is made of, as values: the template knows how each kind looks, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Note:
    """A sentence."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Heading:
    """A title inside a section."""

    kind: ClassVar[str] = "heading"
    text: str
    level: int = 3


@dataclass(frozen=True)
class Facts:
    """Names and what is to be said of them."""

    kind: ClassVar[str] = "facts"
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class TableCell:
    """A cell of a table; `share` (0 to 100) shades it, as right or as wrong."""

    text: str
    note: str = ""  # in small letters below
    is_best: bool = False
    is_number: bool = True
    share: int | None = None
    is_wrong: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its name, in small letters below what is to be said of it, and its cells."""

    name: str
    cells: list[TableCell]
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows."""

    kind: ClassVar[str] = "table"
    caption: str
    header: list[str]
    rows: list[TableRow]
    over: str = ""  # a line over all columns but the first

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The header's names, and whether numbers stand below them."""
        numbers = [cell.is_number for cell in self.rows[0].cells] if self.rows else [False] * (len(self.header) - 1)
        return list(zip(self.header, [False, *numbers], strict=True))


@dataclass(frozen=True)
class Picture:
    """A plot, with its text for those who do not see it."""

    kind: ClassVar[str] = "picture"
    svg: str
    alternative: str
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Plots side by side, as far as the page is wide."""

    kind: ClassVar[str] = "pictures"
    pictures: list[Picture]


@dataclass(frozen=True)
class Heads:
    """A large plot, and beside it small ones of its parts."""

    kind: ClassVar[str] = "heads"
    whole: Picture
    parts: list[Picture]


@dataclass(frozen=True)
class Quote:
    """A text of the user's or the model's, with what is to be said of it."""

    head: str
    text: str
    before: str = ""  # what the text goes on from
    after: str = ""  # what should have been


@dataclass(frozen=True)
class Quotes:
    """Several texts."""

    kind: ClassVar[str] = "quotes"
    quotes: list[Quote]


@dataclass(frozen=True)
class Lines:
    """Sentences one below the other."""

    kind: ClassVar[str] = "lines"
    lines: list[str]


@dataclass(frozen=True)
class Beside:
    """Blocks side by side, as far as the page is wide."""

    kind: ClassVar[str] = "beside"
    columns: list[list[Block]]


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when asked for."""

    kind: ClassVar[str] = "folded"
    summary: str
    blocks: list[Block]


Block = Note | Heading | Facts | Table | Pictures | Heads | Quotes | Lines | Beside | Folded


@dataclass(frozen=True)
class Section:
    """A part of the page with a title of its own."""

    anchor: str
    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)
