"""Progress of long work: a live line on a terminal, a plain line now and then elsewhere, nothing in a library.

Rooms report through a `Progress`; only the command line hands them one that speaks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

PLAIN_SECONDS = 10.0


class Bar(Protocol):
    """What work under way tells: how far it is, and how much text went through."""

    def update(self, share: float, bytes_done: int) -> None:
        """Say that `share` (0 to 1) of the work is done, `bytes_done` bytes of text in all."""

    def show(self, share: float, line: str) -> None:
        """Say that `share` of the work is done, in words of one's own."""


class Progress(Protocol):
    """Somebody to report to."""

    def say(self, line: str) -> None:
        """Tell one fact."""

    def bar(self, label: str) -> Bar:
        """Begin a stage of the work; the one before has ended."""

    def done(self) -> None:
        """End the last stage."""


class Silent:
    """Reports to nobody."""

    def say(self, line: str) -> None:
        """Tell nobody."""

    def bar(self, label: str) -> Silent:
        """Begin a stage that nobody watches."""
        return self

    def update(self, share: float, bytes_done: int) -> None:
        """Note nothing."""

    def show(self, share: float, line: str) -> None:
        """Show nothing."""

    def done(self) -> None:
        """End nothing."""


class Terminal:
    """Reports to a person on standard error: a live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console

        class Steadfast(Console):
            def on_broken_pipe(self) -> None:  # whoever listened has gone; the work goes on
                self.quiet = True

        self._console = Steadfast(stderr=True)
        self._live: Any = None
        self._label = ""
        self._began = self._told = 0.0

    def say(self, line: str) -> None:
        """Print one fact on a line of its own."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def bar(self, label: str) -> Terminal:
        """Begin a stage of the work."""
        self.done()
        self._label = label
        self._began = self._told = time.monotonic()
        if self._console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[line]}")
            self._live = Progress(*columns, console=self._console, transient=True)
            self._live.add_task(label, total=1.0, line="")
            self._live.start()
        return self

    def update(self, share: float, bytes_done: int) -> None:
        """Show how far the stage is and how fast text goes through."""
        self.show(share, speed_line(share, bytes_done, time.monotonic() - self._began))

    def show(self, share: float, line: str) -> None:
        """Show how far the stage is, not more often than is good to read."""
        now = time.monotonic()
        if self._live is not None:
            self._live.update(0, completed=share, line=line)
        elif now - self._told >= PLAIN_SECONDS:
            self._told = now
            self.say(f"{self._label}  {line}")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], line: str) -> None:
        """Show a live table with a line below it; where there is no terminal, the line alone, now and then."""
        if not self._console.is_terminal:
            if time.monotonic() - self._told >= PLAIN_SECONDS:
                self._told = time.monotonic()
                self.say(line)
            return
        from rich.console import Group
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, box=None, header_style="bold")
        for row in rows:
            table.add_row(*map(Text, row))
        if not isinstance(self._live, Live):
            self.done()
            self._live = Live(console=self._console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Group(table, Text(line)), refresh=True)

    def done(self) -> None:
        """End the stage and clear its live line."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def speed_line(share: float, bytes_done: int, seconds: float) -> str:
    """Return a line such as `45 %  12.3 MB  4.1 MB/s  1:20 left` for work under way."""
    parts = [f"{100 * share:3.0f} %"]
    if bytes_done:
        parts += [f"{bytes_done / 1e6:,.1f} MB", f"{bytes_done / 1e6 / max(seconds, 1e-9):.1f} MB/s"]
    if 0 < share < 1 and seconds > 1:
        parts.append(f"{clock(seconds * (1 - share) / share)} left")
    return "  ".join(parts)


def clock(seconds: float) -> str:
    """Return a length of time such as `1:20` or `2:03:20`."""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"


@contextmanager
def stage(progress: Progress, label: str) -> Iterator[Bar]:
    """Report one stage of work, ended also when it fails."""
    try:
        yield progress.bar(label)
    finally:
        progress.done()
