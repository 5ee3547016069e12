"""Pages as dumps and archives of the web hold them: what every reader of such files gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

LeftOutCounts: TypeAlias = Counter[tuple[int, str]]  # by the number of the source, and the reason


@dataclass(frozen=True, slots=True)
class NoDocument:
    """A page that is no document, though nothing is wrong with it, and why in a few words."""

    reason: str


class RawPage(Protocol):
    """A page as it stands in a file, with its markup, which is dearer to take off than the page is to find."""

    @property
    def position(self) -> str:
        """Where in its file it stands."""

    @property
    def size(self) -> int:
        """How many characters or bytes it has."""

    def text(self) -> str | NoDocument:
        """Return its text without markup, or why it is no document; raise a `FileError` where it cannot be read."""


def by_reason(counts: LeftOutCounts) -> Counter[str]:
    """Return how many pages of all sources were left out, by reason."""
    reasons: Counter[str] = Counter()
    for (_, reason), count in counts.items():
        reasons[reason] += count
    return reasons


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts by reason in a line."""
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items())
