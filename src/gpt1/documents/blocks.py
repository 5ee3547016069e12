"""What a document is made of, as values; how each kind looks is known to the page (`html.py`) and to `terminal.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpt1.tasks.assessment import Bin

MOST_POINTS = 300  # of a curve; more are averaged in groups
SCORE_SPAN = 5.0  # points that an axis of scores (x 100) shows at least


@dataclass(frozen=True)
class Note:
    """A sentence; one that `leads` is what a person is to know first."""

    text: str
    leads: bool = False


@dataclass(frozen=True)
class Heading:
    """A title inside a section."""

    text: str
    level: int = 3


@dataclass(frozen=True)
class Facts:
    """Names and what is to be said of them."""

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
    """A table whose first column names the rows; how cells are marked is said by whoever shows it."""

    caption: str
    header: list[str]
    rows: list[TableRow]
    over: str = ""  # a line over all columns but the first, which then have the names of the rows

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The header's names, and whether numbers stand below them."""
        numbers = [cell.is_number for cell in self.rows[0].cells] if self.rows else [False] * (len(self.header) - 1)
        return list(zip(self.header, [False, *numbers], strict=True))

    @property
    def has_best(self) -> bool:
        """Whether a cell is the best of several."""
        return any(cell.is_best for row in self.rows for cell in row.cells)


@dataclass(frozen=True)
class Curve:
    """A figure along the way; what was no number is left out."""

    steps: list[int]
    values: list[float]

    @property
    def neighbours(self) -> int:
        """How many points are drawn as one."""
        return -(-len(self.steps) // MOST_POINTS)

    def thinned(self) -> Curve:
        """Return a curve of at most `MOST_POINTS` points: means over groups of neighbours, each at its last step."""
        size = self.neighbours
        if size <= 1:
            return self
        starts = range(0, len(self.steps), size)
        groups = [self.values[start : start + size] for start in starts]
        ends = [min(start + size, len(self.steps)) - 1 for start in starts]
        return Curve([self.steps[end] for end in ends], [sum(group) / len(group) for group in groups])


@dataclass(frozen=True)
class Point:
    """A value at a place, and between which others it lies, where there are several."""

    x: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, where that is known."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class CurvePlot:
    """Curves over the updates, named where there are several; their axis spans `least_span` or more."""

    curves: dict[str, Curve]
    value: str
    least_span: float = 0


@dataclass(frozen=True)
class LinePlot:
    """Lines with the spread of their values around them; `levels` are dashed from side to side."""

    lines: dict[str, list[Point]]
    x: str
    value: str
    log: bool = False
    levels: Sequence[float] = ()
    least_span: float = 0


@dataclass(frozen=True)
class BarPlot:
    """A row of bars for each name, one bar a group, with whiskers for the intervals."""

    rows: dict[str, dict[str, Estimate]]
    value: str


@dataclass(frozen=True)
class ReliabilityPlot:
    """How often answers of each confidence were right: on the dashed line they are as sure as they may be."""

    bins: Sequence[Bin]


Plot = CurvePlot | LinePlot | BarPlot | ReliabilityPlot


@dataclass(frozen=True)
class Picture:
    """A plot, or a picture that is drawn already (SVG), with its text for those who do not see it."""

    plot: Plot | str
    alternative: str
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Plots side by side, as far as the page is wide, and what is to be said of all."""

    pictures: list[Picture]
    note: str = ""


@dataclass(frozen=True)
class Heads:
    """A large plot, and beside it small ones of its parts."""

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

    quotes: list[Quote]


@dataclass(frozen=True)
class Lines:
    """Sentences one below the other."""

    lines: list[str]


@dataclass(frozen=True)
class Beside:
    """Blocks side by side, as far as the page is wide."""

    columns: list[list[Block]]


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown when asked for."""

    summary: str
    blocks: list[Block]


Block = Note | Heading | Facts | Table | Pictures | Heads | Quotes | Lines | Beside | Folded


@dataclass(frozen=True)
class Section:
    """A part of the page with a title of its own; of one that is folded the title is shown till it is asked for."""

    anchor: str
    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)
    is_folded: bool = False
