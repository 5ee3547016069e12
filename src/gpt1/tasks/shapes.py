"""How the texts of an example become token sequences (section 3.3 and figure 1 of the paper).

    single    start text extract
    pair      start a delimiter b extract
    both      start a delimiter b extract   and   start b delimiter a extract
    choices   start context question delimiter answer extract   for each answer

The parts of an example are encoded apart and arrive here as lists of ids. The paper says nothing of texts that
do not fit the context, and the released code halves a pair whatever its parts measure. Here the longest part
loses its end first (the earlier one of two equal ones); of choices the context gives way alone, question and
answers only when nothing of it is left. The cuts are made once an example, so that all its sequences, and both
orders, show the same texts. Special tokens are never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.errors import SettingError
from gpt1.text.specials import special_ids

SINGLE, PAIR, BOTH, CHOICES = "single", "pair", "both", "choices"
SHAPES = (SINGLE, PAIR, BOTH, CHOICES)

CONTEXT = 512  # positions of the paper's model
SMALLEST_CONTEXT = 4  # start, delimiter, extract and one token of text

Ids = Sequence[int]


@dataclass(frozen=True)
class LaidOut:
    """The sequences of one example, and how many tokens its parts lost to make them fit (each part counted once)."""

    sequences: list[list[int]]
    cut: int


def lay_out(shape: str, parts: Sequence[Ids], *, vocab_size: int, context: int = CONTEXT) -> LaidOut:
    """Return the sequences of one example; the parts of choices are context, question (may be empty), answers."""
    kept = trim(shape, parts, context)
    cut = sum(map(len, parts)) - sum(map(len, kept))
    return LaidOut(sequences_of(shape, kept, vocab_size=vocab_size), cut)


def sequences_of(shape: str, parts: Sequence[Ids], *, vocab_size: int) -> list[list[int]]:
    """Return the sequences of parts that fit the context."""
    special = special_ids(vocab_size)
    start, delimiter, extract = special["start"], special["delimiter"], special["extract"]
    if shape == SINGLE:
        return [[start, *parts[0], extract]]
    if shape == CHOICES:
        passage, question, *answers = parts
        pairs: list[tuple[Ids, Ids]] = [([*passage, *question], answer) for answer in answers]
    else:
        a, b = parts
        pairs = [(a, b)] if shape == PAIR else [(a, b), (b, a)]
    return [[start, *first, delimiter, *second, extract] for first, second in pairs]


def trim(shape: str, parts: Sequence[Ids], context: int) -> list[Ids]:
    """Cut the ends of the parts so that every sequence of the example fits the context."""
    if context < SMALLEST_CONTEXT:
        raise SettingError(f"a context of {context} has no room for text; the smallest is {SMALLEST_CONTEXT}")
    if shape == SINGLE:
        (text,) = parts
        return [text[: context - 2]]
    room = context - 3
    if shape in (PAIR, BOTH):
        a, b = parts
        room_a, room_b = _share(len(a), len(b), room)
        return [a[:room_a], b[:room_b]]
    passage, question, *answers = parts
    # The longest answer decides for all: a shorter one would leave room for more context, but not the same context.
    longest = max(map(len, answers))
    room_question, room_answer = _share(len(question), longest, room)
    room_passage = max(0, room - len(question) - longest)
    return [passage[:room_passage], question[:room_question], *(answer[:room_answer] for answer in answers)]


def _share(first: int, second: int, room: int) -> tuple[int, int]:
    """Return what two lengths keep of `room` when the longer always gives one token, the first of two equal ones."""
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    if 2 * shorter > room:  # they meet above half of the room and go down in turn
        return room // 2, room - room // 2
    return (room - shorter, shorter) if first > second else (shorter, room - shorter)
