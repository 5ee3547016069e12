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
