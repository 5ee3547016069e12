"""Which documents are worth reading: in which language a text is, and whether it is prose at all.

The rules of quality are those that were published for Gopher (Rae et al., 2021) and C4 (Raffel et al., 2020), as far as
they look at one document and need no list of words. They are made for languages that put blanks between words. A text
is judged by its first million characters, its language by the first ten thousand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpt1.base.errors import MissingDependency, unknown

LANGUAGE_CHARACTERS = 10_000
OTHER_LANGUAGE = "another language"
STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
STOP_WORDS_OF = "en"
FILLER = "lorem ipsum"

_BULLET = re.compile(r"[•*\-–‣▪●]\s")
_ELLIPSIS = re.compile(r"\.\.\.|…")
_ELLIPSIS_AT_END = re.compile(r"(\.\.\.|…)$")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class QualityRule:
    """What is measured of a text, and between which bounds it is to be."""

    reason: str
    measure: Callable[[_Text], float]
    least: float = 0.0
    most: float = float("inf")

    def breaks(self, text: _Text) -> bool:
        """Whether a text is beyond the bounds."""
        return not self.least <= self.measure(text) <= self.most


class _Text:
    """A text cut into words and lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = text.split()
        self.lines = [line for part in text.splitlines() if (line := part.strip())]


def _share(items: Sequence[str], has: Callable[[str], object]) -> float:
    return sum(1 for item in items if has(item)) / len(items) if items else 0.0


def _mean_length(text: _Text) -> float:
    return sum(map(len, text.words)) / len(text.words) if text.words else 0.0


def _symbols(text: _Text) -> float:
    found = text.text.count("#") + len(_ELLIPSIS.findall(text.text))
    return found / len(text.words) if text.words else 0.0


def _repeated(text: _Text) -> list[str]:
    """Return the lines that have stood before."""
    return [line for line, count in Counter(text.lines).items() for _ in range(count - 1)]


def _repeated_lines(text: _Text) -> float:
    return len(_repeated(text)) / len(text.lines) if text.lines else 0.0


def _repeated_characters(text: _Text) -> float:
    return sum(map(len, _repeated(text))) / sum(map(len, text.lines)) if text.lines else 0.0


def _stop_words(text: _Text) -> float:
    return len(STOP_WORDS & {word.lower().strip('.,;:!?"()') for word in text.words})


# In this order: the first that a text breaks is the reason that is counted. docs/corpora.md has them as a table.
RULES = (
    QualityRule("few words", lambda text: len(text.words), least=50),
    QualityRule("word length", _mean_length, least=3, most=10),
    QualityRule("few letters", lambda text: _share(text.words, _LETTER.search), least=0.8),
    QualityRule("symbols", _symbols, most=0.1),
    QualityRule("bullets", lambda text: _share(text.lines, _BULLET.match), most=0.9),
    QualityRule("broken-off lines", lambda text: _share(text.lines, _ELLIPSIS_AT_END.search), most=0.3),
    QualityRule("repeated lines", _repeated_lines, most=0.3),
    QualityRule("repeated text", _repeated_characters, most=0.2),
    QualityRule("filler", lambda text: FILLER in text.text.lower(), most=0),
)
ENGLISH_RULES = (QualityRule("no stop words", _stop_words, least=2),)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which documents pass: those of a language, if one is named, and those that break no rule of quality."""

    language: str | None = None
    quality: bool = False

    def check(self) -> None:
        """Refuse a language that is not known, and do so where what knows them is not installed."""
        if self.language is not None and self.language not in _identifier().labels:
            raise unknown("language", self.language, sorted(_identifier().labels))

    def reason(self, text: str) -> str | None:
        """Return why a text does not pass; None where it does."""
        if self.language is not None and _identifier().classify(text[:LANGUAGE_CHARACTERS])[0] != self.language:
            return OTHER_LANGUAGE
        if not self.quality:
            return None
        cut = _Text(text)
        rules = RULES + (ENGLISH_RULES if self.language == STOP_WORDS_OF else ())
        return next((rule.reason for rule in rules if rule.breaks(cut)), None)


NO_SIEVE = Sieve()


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise MissingDependency("telling languages needs the library py3langid: pip install 'gpt1[crawl]'") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE)
