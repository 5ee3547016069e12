"""A text that does not fit the context, read in several windows: which stretch of each part stands in which of them.

    single    start WINDOW extract                     windows of context - 2 tokens
    pair      start a delimiter WINDOW extract         the shorter part whole in each, the longer one in windows
    pair      start WINDOW delimiter WINDOW extract    neither in half of the room: half each, side by side
    both      as a pair, each window in both orders

So each window is a sequence as the paper lays it out. A window shares at least a quarter of its tokens with the one
before it, so that what stands at an edge stands whole in a neighbour; windows are spread evenly, and all of a text's
are equally long. Two long parts go through their windows together, each from its beginning to its end: what stands at
the same place of both is read at once, what stands at the beginning of one and the end of the other is not. A text of
more than `MOST_WINDOWS` windows loses its end. Choices are not read so: which of their windows would answer?
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import SettingError
from gpt1.tasks.shapes import CHOICES, SINGLE, Ids, sequences_of

MOST_WINDOWS = 32  # of an example: 12,000 tokens of a context of 512
SHARED = 4  # a window shares this part of its tokens with the one before it, at least
ENOUGH_LONG = 0.1  # of the texts to learn from: where as many do not fit, they are read in windows unless one decides
SMALLEST_CONTEXT = 8  # in which a pair's windows have two tokens of each part
NOT_OF_CHOICES = (
    "long texts are not read in windows where there are answers to choose from; leave `finetuning.windows` off"
)

Stretch = tuple[int, int]  # from a token of a part to another
Window = tuple[Stretch, ...]  # of each part


@dataclass(frozen=True)
class LaidOutWindows:
    """The sequences of one example, window after window; how many tokens it lost; and what windows have in common."""

    sequences: list[list[int]]
    cut: int
    windows: int
    again: list[int]  # of each part of each window, how many of its tokens the window before it has too


def call_for_windows(shapes: Set[str], cut: NDArray[np.int64], context: int) -> bool:
    """Whether so many texts to learn from do not fit, by the tokens that each would lose, that they are read so."""
    can_be = CHOICES not in shapes and context >= SMALLEST_CONTEXT and len(cut) > 0
    return can_be and float((cut > 0).mean()) >= ENOUGH_LONG


def windows_of(shape: str, lengths: Sequence[int], context: int) -> list[Window]:
    """Return for each window of an example which stretch of each of its parts stands there."""
    if shape == CHOICES:
        raise SettingError(NOT_OF_CHOICES)
    if context < SMALLEST_CONTEXT:
        raise SettingError(f"a context of {context} has no room for windows; the smallest is {SMALLEST_CONTEXT}")
    rooms = [context - 2] if shape == SINGLE else _rooms(lengths, context - 3)
    sizes = list(zip(lengths, rooms, strict=True))
    count = min(MOST_WINDOWS, max(_count(*size) for size in sizes))
    return list(zip(*(_spread(*size, count) for size in sizes), strict=True))


def lay_out_windows(shape: str, parts: Sequence[Ids], windows: Sequence[Window], *, vocab_size: int) -> LaidOutWindows:
    """Return the sequences of one example that is read in these windows."""
    sequences, again, before = [], [], [0] * len(parts)
    for window in windows:
        kept = [part[start:end] for part, (start, end) in zip(parts, window, strict=True)]
        sequences += sequences_of(shape, kept, vocab_size=vocab_size)
        again += [max(0, past - start) for past, (start, _) in zip(before, window, strict=True)]
        before = [end for _, end in window]
    cut = sum(map(len, parts)) - sum(before)
    return LaidOutWindows(sequences, cut, len(windows), again)


def without_stretch(windows: Sequence[Window], place: int, first: int, tokens: int) -> list[Window]:
    """Return windows of which part `place` lacks so many tokens from `first` on: nothing moves into their room."""

    def moved(end: int) -> int:
        return end if end <= first else max(first, end - tokens)

    return [
        tuple((moved(start), moved(end)) if part == place else (start, end) for part, (start, end) in enumerate(window))
        for window in windows
    ]


def _rooms(lengths: Sequence[int], room: int) -> list[int]:
    """Return how long the windows of two parts are: the shorter part's whole length, at most half of the room."""
    first, second = lengths
    if first + second <= room:
        return [first, second]
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]


def _count(length: int, room: int) -> int:
    """Return how many windows of so many tokens a text needs."""
    return 1 if length <= room else 1 + -(-(length - room) // _stride(room))


def _spread(length: int, room: int, count: int) -> list[Stretch]:
    """Return the stretches of so many windows, spread evenly over a text, or over what they reach of it."""
    if length <= room:
        return [(0, length)] * count
    past = min(length - room, (count - 1) * _stride(room))
    starts = [place * past // (count - 1) for place in range(count)]
    return [(start, start + room) for start in starts]


def _stride(room: int) -> int:
    return room - -(-room // SHARED)
