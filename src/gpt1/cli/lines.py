"""What a person sees of a training and of a study: a live line or table, and a line for each thing that happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from gpt1.base.errors import NoRoom
from gpt1.base.progress import Bar, Progress, Terminal, clock
from gpt1.base.wording import hundred, many
from gpt1.cli.words import CommandTerminal
from gpt1.runs.events import Evaluated, Event, Fold, Noticed, RolledBack, Sampled, Saved, Stepped
from gpt1.runs.files import in_words

if TYPE_CHECKING:
    from gpt1.studies.cells import Cell, CellResult

REFRESH_SECONDS = 0.5


@contextmanager
def shown_training() -> Iterator[TrainingLines]:
    """Show a training on the terminal while it lasts; one that a full disk ends can go on, which is told."""
    terminal = CommandTerminal()
    try:
        yield TrainingLines(terminal)
    except NoRoom as error:
        raise NoRoom(error.problem, "make room, then the same again with `resume=True` goes on") from error
    finally:
        terminal.done()


class TrainingLines:
    """Listens to a training and tells a person."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: Bar | None = None  # begun with the first step: of several processes only one speaks
        self._fold: int | None = None  # of a cross-validation, of which the bar is

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        match event:
            case Stepped():
                self._bar_of(event.fold).show(event.step / event.steps, step_line(event))
            case Evaluated():
                self._progress.say(f"update {event.step}: {score_line(event.scores)}")
            case Sampled():
                for sample in event.samples:
                    self._progress.say(
                        f"update {event.step}: “{_one_line(sample['prompt'])}” … {_one_line(sample['text'])}"
                    )
            case RolledBack() | Noticed():
                self._progress.say(in_words(event))
            case Saved():
                pass  # often, and as it should be: the log file has it

    def _bar_of(self, fold: Fold | None) -> Bar:
        """Return the bar of the training itself, or of a training of its cross-validation."""
        number = None if fold is None else fold.number
        if self._bar is None or number != self._fold:
            self._bar, self._fold = self._progress.bar("training" if fold is None else "cross-validation"), number
        return self._bar


def step_line(event: Stepped) -> str:
    """Return a line such as `update 120/1000  loss 4.3121  lr 2.4e-04  31.2k tokens/s  3.0 GiB  1:20 left`."""
    parts = [
        event.where,
        f"loss {event.loss:.4f}",
        f"lr {event.learning_rate:.1e}",
        f"{event.tokens_per_second / 1e3:.1f}k tokens/s",
    ]
    if event.utilisation is not None:
        parts.append(f"MFU {100 * event.utilisation:.0f} %")
    left = f"{clock(event.seconds_left)} left"
    if event.fold is not None and event.fold.number < event.fold.of:
        left += f", {clock(event.fold.seconds_left)} with the folds after it"
    return "  ".join([*parts, f"{event.memory_bytes / 2**30:.1f} GiB", left])


def score_line(scores: dict[str, float], name: str = "validation loss") -> str:
    """Return scores in words: those of text, or of tasks as they are called."""
    if "perplexity" not in scores:
        return ", ".join(f"{name.replace('_', ' ')} {_figure(name, value)}" for name, value in scores.items())
    masked = f", masked loss {scores['masked_loss']:.4f}" if "masked_loss" in scores else ""
    old = f"; of the old text {scores['old_bits_per_byte']:.3f}" if "old_bits_per_byte" in scores else ""
    return (
        f"{name} {scores['valid_loss']:.4f}, perplexity {scores['perplexity']:.2f}, "
        f"{scores['bits_per_byte']:.3f} bits per byte{masked}{old}"
    )


def _figure(name: str, value: float) -> str:
    """Return a loss as it is, and a score x 100."""
    return f"{value:.4f}" if name.endswith("loss") else hundred(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ---- of a study ----


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
            self._inside = f"{event.where}, loss {event.loss:.4f}"
            if time.monotonic() - self._shown >= REFRESH_SECONDS:
                self._show()

    def ended(self, cell: Cell, kept: CellResult) -> None:
        """Say what a cell gave."""
        self._done[cell.name] = kept
        self._began = time.monotonic()
        self.say(f"{cell.title}: {hundred(kept.result['score'])} in {clock(kept.seconds)}  ({self._left()})")

    def _show(self) -> None:
        self._shown = time.monotonic()
        assert self._current is not None
        line = "  ".join(filter(None, [self._current.title, self._inside, self._left()]))
        self._terminal.table(*table_of(self._cells, self._done), line)

    def _left(self) -> str:
        """Return such as `12 of 40 cells done, 5:20 left`."""
        line = f"{len(self._done):,} of {many(len(self._cells), 'cell')} done"
        from gpt1.studies.cells import seconds_left

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
    return f"{len(scores)}/{len(cells)}" + (f"  {hundred(median(scores))}" if scores else "")
