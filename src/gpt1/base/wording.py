"""Numbers and lists as a person would say them; how wide a text is on a terminal, and where it may be cut."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import takewhile

JOINER = "\u200d"  # makes one sign of two, such as a family of people


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
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes: signs of East Asia two, marks on others none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(sign: str) -> int:
    if unicodedata.category(sign) != "Mc" and _belongs_to_the_one_before(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _belongs_to_the_one_before(sign: str) -> bool:
    """Whether a sign is a mark on the one before it, or a later part of its syllable."""
    is_later_jamo, is_skin = "\u1160" <= sign <= "\u11ff", "\U0001f3fb" <= sign <= "\U0001f3ff"
    return unicodedata.category(sign) in ("Mn", "Me", "Mc", "Cf") or is_later_jamo or is_skin


def shortened(text: str, most: int, end: str = "…") -> str:
    """Return a text of at most so many characters before `end`, none of them torn from the marks that are of it."""
    if len(text) <= most:
        return text
    cut = most
    while cut and _is_inside(text, cut):
        cut -= 1
    return f"{text[: cut or most]}{end}"


def _is_inside(text: str, place: int) -> bool:
    """Whether a place is inside of what a person sees as one sign."""
    if _belongs_to_the_one_before(text[place]) or text[place - 1] == JOINER:
        return True
    flags = len(list(takewhile(lambda sign: "\U0001f1e6" <= sign <= "\U0001f1ff", reversed(text[:place]))))
    return flags % 2 == 1 and "\U0001f1e6" <= text[place] <= "\U0001f1ff"


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
