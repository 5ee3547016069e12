"""What a run says of the words of a text: a label for each, and the stretches of the text that the labels spell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import Floats
from gpt1.tasks.assessment import DIGITS, word_labels
from gpt1.tasks.catalog import Task
from gpt1.tasks.tagging import NO_WORD, WordSpan, spans_of, spell_spans

TOKENS, LABELS = "tokens", "labels"


class LabelledStretch(TypedDict):
    """A stretch of a text that has a label: of several words, or where labels spell no spans, each word."""

    label: str
    text: str
    start: int  # characters of the text, the first and the one behind the last
    end: int
    confidence: float  # of the least sure of its words


def answered_words(probabilities: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the likeliest label of each word and how likely it is [examples, words]; behind the last word none."""
    there = probabilities.any(-1)
    return np.where(there, probabilities.argmax(-1), NO_WORD), np.where(there, probabilities.max(-1), 1.0)


def stretches(
    task: Task, text: str, words: Sequence[str], answer: NDArray[np.int64], sure: Floats
) -> list[LabelledStretch]:
    """Return the stretches of a text that the answers to its words spell, in their order."""
    labels, places = word_labels(task, answer), _places(text, words)
    spans = (
        spans_of(labels)
        if spell_spans(task.labels)
        else [WordSpan(label, word, word + 1) for word, label in enumerate(labels)]
    )
    found: list[LabelledStretch] = []
    for kind, first, last in spans:
        start, end = places[first][0], places[last - 1][1]
        confidence = round(float(sure[first:last].min()), DIGITS)
        found.append({"label": kind, "text": text[start:end], "start": start, "end": end, "confidence": confidence})
    return found


def _places(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each word stands in the text that it is of."""
    found, at = [], 0
    for word in words:
        start = text.index(word, at)
        at = start + len(word)
        found.append((start, at))
    return found


def column_lines(rows: Iterator[dict[str, object]], tokens: str, labels: str) -> Iterator[bytes]:
    """Yield answers as a column file has them: a word and its label a line, and an empty line behind each text."""
    for row in rows:
        words, names = row.get(tokens), row.get(labels)
        if isinstance(words, list) and isinstance(names, list):
            lines = (f"{word}\t{name}\n" for word, name in zip(words, names, strict=True))
            yield "".join(chain(lines, ["\n"])).encode("utf-8", "backslashreplace")
