"""In which script texts are written, and whether they read like English: by letters and common words, and no more.

It is a rough look, made to notice that a table is in another language than a base has read. Which language it is
cannot be told so, and little text is not judged at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import NamedTuple

from gpt1.base.wording import many, some

LATIN = "Latin"
ENGLISH_SHARE = 0.05  # of words that are common ones of English, from here on it is; novels have 0.2 and more
FOREIGN_SHARE = 0.01  # and below this it is not
FEWEST_WORDS = 200  # that are judged by their kinds
FEWEST_LETTERS = 50
FULL_LETTERS = 150  # about thirty words: a text of so many counts in full, however short the others are
SEEN_SHARE = 0.01  # of all letters, below which a script is not told

# Common in English and in no other large language: not such as "in", "is" and "was", which others have.
_COMMON = """
    the and that it with this not but from they which you were she there would their been has when who more what your
    its than these those into about could them just very my our how where because it's
"""
_ENGLISH = frozenset(_COMMON.split())
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LETTERS = "L"  # Unicode's categories of letters begin so
_OTHER_NAMES = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "FULLWIDTH": "LATIN"}
_NO_SCRIPT = ("MODIFIER", "MASCULINE", "FEMININE", "MICRO", "MATHEMATICAL", "SCRIPT", "DOUBLE-STRUCK", "HALFWIDTH")


@dataclass(frozen=True)
class Language:
    """What letters and words say of texts: scripts with their shares of all letters, and the share of English words."""

    scripts: dict[str, float]
    words: int
    judged_words: float  # of which very long texts have not more than others
    english_words: float
    strays: list[int]  # places of texts that are in another script than most

    @property
    def script(self) -> str:
        """The script of most letters, or nothing where there are next to none."""
        return next(iter(self.scripts), "")

    @property
    def is_english(self) -> bool | None:
        """Whether it reads like English; None where that cannot be said."""
        if self.script not in ("", LATIN):
            return False
        if not self.script or self.judged_words < FEWEST_WORDS or FOREIGN_SHARE <= self.english_words < ENGLISH_SHARE:
            return None
        return self.english_words >= ENGLISH_SHARE

    def in_words(self) -> str:
        """Return what was seen, in a line."""
        if not self.script:
            return "too few letters to tell"
        scripts = some([f"{name} {100 * share:.0f} %" for name, share in self.scripts.items()])
        letters = f"; letters: {scripts}" if len(self.scripts) > 1 else ""
        if self.script != LATIN:
            return f"not English{letters or f': {self.script} letters'}"
        if self.judged_words < FEWEST_WORDS:
            few = (
                f"{many(self.words, 'word')} are"
                if self.words < FEWEST_WORDS
                else "the words beside very long texts are"
            )
            return f"{self.script} letters; {few} too few to tell the language{letters}"
        share = f"{100 * self.english_words:.1f} % of its words are common ones of English"
        judged = {True: "reads like English", False: "does not read like English", None: "perhaps English"}
        return f"{judged[self.is_english]}: {share}{letters}"


def look_at_language(texts: Iterable[str]) -> Language:
    """Return what the letters and the common words of texts say of their language.

    A text counts as much as the median one or as thirty words at most, or one long row would decide for a table.
    """
    by_text = [_seen(text) for text in texts]
    sizes = [one.size for one in by_text if one.size]
    most = max(FULL_LETTERS, median(sizes or [0]))
    letters: dict[str, float] = {}
    words = english = 0.0
    for one in by_text:
        part = min(1.0, most / one.size) if one.size else 1.0
        for script, count in one.letters.items():
            letters[script] = letters.get(script, 0.0) + part * count
        words += part * one.words
        english += part * one.english
    total = sum(letters.values())
    ordered = sorted(letters.items(), key=lambda one: -one[1])
    told = {name: count / total for name, count in ordered if count >= SEEN_SHARE * total}
    scripts = told if total >= FEWEST_LETTERS else {}
    main = next(iter(scripts), "")
    strays = [place for place, one in enumerate(by_text) if main and one.script not in ("", main)]
    found = sum(one.words for one in by_text)
    return Language(scripts, found, words, english / words if words else 0.0, strays)


class _Seen(NamedTuple):
    """What was counted in a text."""

    letters: Counter[str]  # by script
    words: int
    english: int

    @property
    def size(self) -> int:
        return self.letters.total()

    @property
    def script(self) -> str:
        return max(self.letters, key=self.letters.__getitem__) if self.letters else ""


def _seen(text: str) -> _Seen:
    found = _WORD.findall(text.lower())
    return _Seen(_letters(text), len(found), sum(word in _ENGLISH for word in found))


def _letters(text: str) -> Counter[str]:
    """Return how many letters of each script a text has."""
    found: Counter[str] = Counter()
    for sign, count in Counter(text).items():
        if script := _script(sign):
            found[script] += count
    return found


@cache
def _script(sign: str) -> str:
    """Return the script of a letter, nothing for any other sign."""
    if not unicodedata.category(sign).startswith(_LETTERS):
        return ""
    name = unicodedata.name(sign, "").split(" ")[0].split("-")[0]
    name = _OTHER_NAMES.get(name, name)
    return "" if name in _NO_SCRIPT else name if name == "CJK" else name.capitalize()
