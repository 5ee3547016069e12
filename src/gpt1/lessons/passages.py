"""Passages of text, drawn from all over a collection of documents: a few sentences in a row, or a long stretch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter

import numpy as np

from gpt1.base.errors import InputError
from gpt1.base.parallel import ordered_map
from gpt1.corpus.documents import DocumentPart, Fault
from gpt1.corpus.unwrap import STRETCH, looks_wrapped

SENTENCES = 6  # in a passage
FEWEST_WORDS, MOST_WORDS = 4, 40  # of a sentence that is taken
STRETCH_LENGTH = 1_800  # characters: most of a context of 512 tokens

# A full stop after which something begins, perhaps behind a quotation mark: a capital, or a letter of a script that
# has none (that is: no small letter).
_END = re.compile(r"(?<=[.!?。！？])[\"'”’)]*\s+(?=[\"'“‘(]?([^\W\d_]))")
_TITLES = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|Capt|Col|Gen|Rev|Hon|Esq|Jr|Sr|No|Vol|[A-Z])\.$")
_PARAGRAPH = re.compile(r"\n\s*\n|\n")
_ODD = re.compile(r"[^\w\s.,;:!?'\"“”‘’()—。！？，、…~-]|_|\d{3,}")  # headings, tables, notes, rules of asterisks


@dataclass(frozen=True)
class Passage:
    """Sentences that follow each other, or the halves of a stretch, and the document they stand in."""

    document: int
    sentences: tuple[str, ...]


def sentences(text: str) -> list[list[str]]:
    """Return stretches of sentences that follow each other; a paragraph that is no prose ends a stretch."""
    stretches: list[list[str]] = [[]]
    for paragraph in _PARAGRAPH.split(text):
        for sentence in _split(paragraph):
            if _is_prose(sentence):
                stretches[-1].append(sentence)
            elif stretches[-1]:
                stretches.append([])
    return [stretch for stretch in stretches if stretch]


def _split(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; what ends in a title or an initial goes on."""
    held = ""
    start = 0
    for end in _END.finditer(paragraph):
        if end[1].islower():
            continue
        piece = paragraph[start : end.end()]
        start = end.end()
        held += piece
        if not _TITLES.search(held.rstrip()):
            yield " ".join(held.split())
            held = ""
    if last := " ".join((held + paragraph[start:]).split()):
        yield last


def has_no_capitals(letter: str) -> bool:
    """Whether this is a letter of a script that does not know capitals, such as Hangul."""
    return letter.isalpha() and letter.lower() == letter.upper()


def _is_prose(sentence: str) -> bool:
    count = sentence.count(" ") + 1
    last = sentence.rstrip("\"'”’)")[-1:]
    # Who writes in a script without capitals often leaves the full stop out at the end of a line.
    ends = last in ".!?。！？…" or has_no_capitals(last)
    return FEWEST_WORDS <= count <= MOST_WORDS and ends and not _ODD.search(sentence) and not sentence.isupper()


Find = Callable[[tuple[int, str]], list[Passage]]


def draw_passages(
    parts: Iterable[DocumentPart | Fault],
    count: int,
    seed: int,
    workers: int = 1,
    wrapped: Callable[[], None] = lambda: None,
) -> list[Passage]:
    """Draw so many of the passages of sentences of documents, in their order; all of them where there are no more.

    `wrapped` is called where the first text looks hard-wrapped.
    """
    return _drawn(_passages, _numbered(parts, wrapped), count, seed, workers)


def draw_stretches(parts: Iterable[DocumentPart | Fault], count: int, seed: int, workers: int = 1) -> list[Passage]:
    """Draw so many long stretches of documents, each in two halves, as they were written: paragraphs, talk and all."""
    return _drawn(_stretches, _numbered(parts), count, seed, workers)


def _drawn(find: Find, texts: Iterable[tuple[int, str]], count: int, seed: int, workers: int) -> list[Passage]:
    """Draw so many of what is found in texts.

    Each gets a random number, and those with the smallest are kept: no more than twice as many are in memory.
    """
    kept: list[tuple[float, int, Passage]] = []
    place = 0
    for index, passages in enumerate(ordered_map(find, texts, workers=workers, initializer=_begin_worker, initargs=())):
        numbers = np.random.default_rng([seed, index]).random(len(passages)).tolist()
        kept += [(number, place + at, passages[at]) for at, number in enumerate(numbers)]
        place += len(passages)
        if len(kept) > 2 * count:
            kept = nsmallest(count, kept)
    return [passage for _, _, passage in sorted(nsmallest(count, kept), key=itemgetter(1))]


def _numbered(
    parts: Iterable[DocumentPart | Fault], wrapped: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, str]]:
    """Yield the texts of documents with the documents' numbers."""
    document = -1
    for part in parts:
        if isinstance(part, Fault):
            raise InputError(part.message)
        if document < 0 and looks_wrapped(part.text[:STRETCH]):
            wrapped()
        document += part.first
        yield document, part.text


def _passages(numbered: tuple[int, str]) -> list[Passage]:
    document, text = numbered
    return [
        Passage(document, tuple(stretch[at : at + SENTENCES]))
        for stretch in sentences(text)
        for at in range(0, len(stretch) - SENTENCES + 1, SENTENCES)
    ]


def _stretches(numbered: tuple[int, str]) -> list[Passage]:
    document, text = numbered
    found = []
    for at in range(0, len(text) - STRETCH_LENGTH + 1, STRETCH_LENGTH):
        whole_words = text[at : at + STRETCH_LENGTH].partition(" ")[2].rpartition(" ")[0]
        first, _, second = whole_words[STRETCH_LENGTH // 2 :].partition(" ")
        halves = (whole_words[: STRETCH_LENGTH // 2] + first, second)
        if all(half.strip() for half in halves):
            found.append(Passage(document, halves))
    return found


def _begin_worker() -> None:
    """Do nothing: a worker needs only its text."""
