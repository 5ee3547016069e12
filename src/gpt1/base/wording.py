"""Numbers and lists as a person would say them."""

from __future__ import annotations

from collections.abc import Sequence


def many(count: int, noun: str) -> str:
    """Return `1 line`, `2,000 lines`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def some(names: Sequence[str], most: int = 5) -> str:
    """Return the first few names of a list, and how many more there are."""
    more = [f"{len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def x100(score: float) -> float:
    """Return a score (0 to 1) on the scale on which people read it, that of the paper's tables; JSON has fractions."""
    return 100 * score


def hundred(score: float) -> str:
    """Return a score (0 to 1) as the paper's tables have it: `61.3`."""
    return f"{x100(score):z.1f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines whose columns stand below each other, each as wide as it must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def duration(seconds: float) -> str:
    """Return a time as a person would say it, in its two largest units: `40 s`, `3 h 20 min`, `12 days 4 h`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days:,} days {hours} h" if hours else f"{days:,} days"
