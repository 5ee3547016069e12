"""The words of a text as a person reads them: where each stands in the text as it is, and which tokens are of it.

Letters and digits with what joins them (don't, well-known, 3.50) are a word, with all their accents; so is each sign of
Chinese and Japanese, which have no blanks; so are signs of punctuation side by side, and symbols. Tokenizers cut
elsewhere, and some rewrite a text before: so tokens are told by how each word is encoded behind the one before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from gpt1.text.tokenizer import Tokenizer

# Of each character its kind: w a letter, d a digit, c a sign that is a word, j and o what may join letters and digits,
# m a mark that belongs to what it follows, s a symbol such as an emoji, p any other sign, or a blank.
_WORD = re.compile(r"[wd](?:[wdm]|j(?=[wd])|(?<=d)o(?=d))*|cm*|(?:[jop]m*)+|(?:sm*)+|m+")
_JOINTS = {"'": "j", "’": "j", "-": "j", "‐": "j", ".": "o", ",": "o", "_": "w"}
_ALONE = ("CJK", "HIRAGANA", "KATAKANA")
_SLACK = 64  # tokens that words may have more, each encoded for itself


class Span(NamedTuple):
    """Where a stretch of a text begins and ends, in characters."""

    start: int
    end: int


def word_spans(text: str) -> list[Span]:
    """Return where the words of a text stand, in their order."""
    return [Span(*found.span()) for found in _WORD.finditer("".join(map(kind_of, text)))]


@cache
def kind_of(character: str) -> str:
    """Return which kind of character one is, as `_WORD` names them."""
    if character.isspace():
        return " "
    if known := _JOINTS.get(character):
        return known
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf":
        return "m"
    if category[0] == "L":
        return "c" if unicodedata.name(character, "").startswith(_ALONE) else "w"
    return "d" if character.isalnum() else "s" if category in ("So", "Sk") else "p"


def without(text: str, span: Span) -> str:
    """Return a text without a stretch of it, and without one of the two blanks that would then be neighbours."""
    start, end = span
    before, after = text[:start], text[end:]
    if after[:1].isspace() and (not before or before[-1].isspace()):
        after = after[1:]
    elif not after and before[-1:].isspace():
        before = before[:-1]
    return before + after


def owners(tokenizer: Tokenizer, text: str, spans: Sequence[Span], most: int) -> list[int]:
    """Return for each of a text's first tokens, at most so many, of which word it is; behind the last one: len(spans).

    Blanks before a word are of it.
    """
    ends = [0, *(span.end for span in spans)]
    parts = tokenizer.encode_batch([text[start:end] for start, end in pairwise([*ends, len(text)])])
    ids = tokenizer.encode(text)[:most]
    alone = [id for part in parts for id in part][: most + _SLACK]
    own = [word for word, part in enumerate(parts) for _ in part][: most + _SLACK]
    return own[: len(ids)] if alone[: len(ids)] == ids else _aligned(ids, alone, own)


def _aligned(ids: Sequence[int], alone: Sequence[int], own: Sequence[int]) -> list[int]:
    """Return whose the ids are, where some words are encoded otherwise beside others than alone."""
    found: list[int] = []
    for _, start, end, begins, ends in SequenceMatcher(None, alone, ids, autojunk=False).get_opcodes():
        last = min(max(end - 1, start), len(own) - 1)
        found += [own[min(start + place, last)] for place in range(ends - begins)]
    return found


def split_words(text: str) -> list[Span]:
    """Return where the words of a text stand that are to have labels: as above, but signs of punctuation by themselves.

    The same sign several times side by side, such as three dots, is one word.
    """
    found: list[Span] = []
    for span in word_spans(text):
        if text[span.start].isalnum() or "p" not in map(kind_of, text[span.start : span.end]):
            found.append(span)
            continue
        start = span.start
        for place in range(span.start + 1, span.end + 1):
            if place == span.end or (text[place] != text[place - 1] and kind_of(text[place]) != "m"):
                found.append(Span(start, place))
                start = place
    return found
