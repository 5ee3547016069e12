"""What a person sees of a study: a live table of what is done and left, or a line for each cell."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median

from gpt1.base.progress import Terminal, clock
from gpt1.base.wording import many
from gpt1.runs.events import Event, Noticed, RolledBack, Stepped
from gpt1.runs.files import in_words
from gpt1.studies.cells import Cell, CellResult, seconds_left

REFRESH_SECONDS = 0.5


class StudyLines:
    """Watches a study and tells a person."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._cells: Sequence[Cell] = ()
        self._done: dict[str, CellResult] = {}
        self._current: Cell | None = None
        self._inside = ""
        self._said: set[str] = set()
        self._began = self._shown = 0.0

    def say(self, line: str) -> None:
        """Print one fact."""
        self._terminal.say(line)

    def planned(self, cells: Sequence[Cell], done: Mapping[str, CellResult]) -> None:
        """Say what is to be done."""
        self._cells, self._done = cells, dict(done)
        already = f", {len(done):,} done already" if done else ""
        self.say(f"{many(len(cells), 'cell')}{already}")

    def begun(self, cell: Cell) -> None:
        """Show which cell comes now."""
        self._current, self._inside, self._began = cell, "", time.monotonic()
        self._show()

    def heard(self, event: Event) -> None:
        """Show how far the training of a cell is; what is to be known of several cells is said once."""
        if isinstance(event, RolledBack | Noticed) and (line := in_words(event)) not in self._said:
            self._said.add(line)
            self.say(line)
        if isinstance(event, Stepped):
            self._inside = f"step {event.step}/{event.steps}, loss {event.loss:.4f}"
            if time.monotonic() - self._shown >= REFRESH_SECONDS:
                self._show()

    def ended(self, cell: Cell, kept: CellResult) -> None:
        """Say what a cell gave."""
        self._done[cell.name] = kept
        self._began = time.monotonic()
        self.say(f"{cell.name}: {kept.result['score']:.4f} in {clock(kept.seconds)}  ({self._left()})")

    def _show(self) -> None:
        self._shown = time.monotonic()
        assert self._current is not None
        line = "  ".join(filter(None, [self._current.name, self._inside, self._left()]))
        self._terminal.table(*table_of(self._cells, self._done), line)

    def _left(self) -> str:
        """Return such as `12 of 40 cells done, 5:20 left`."""
        line = f"{len(self._done):,} of {many(len(self._cells), 'cell')} done"
        left = seconds_left(self._cells, self._done)
        if not left:
            return line
        return f"{line}, {clock(max(0.0, left - (time.monotonic() - self._began)))} left"


def table_of(cells: Sequence[Cell], done: Mapping[str, CellResult]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of what is done: in each place how many cells, and the median of their scores x 100."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    places: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.row, cell.column), []).append(cell)
    return ["", *columns], [[row, *(_place(places.get((row, column), []), done) for column in columns)] for row in rows]


def _place(cells: Sequence[Cell], done: Mapping[str, CellResult]) -> str:
    if not cells:
        return ""
    scores = [done[cell.name].result["score"] for cell in cells if cell.name in done]
    return f"{len(scores)}/{len(cells)}" + (f"  {100 * median(scores):.1f}" if scores else "")
