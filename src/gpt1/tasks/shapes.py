"""How the texts of an example become token sequences (section 3.3 and figure 1 of the paper).

    single    start text extract
    pair      start a delimiter b extract
    both      start a delimiter b extract   and   start b delimiter a extract
    choices   start context question delimiter answer extract   for each answer
    tokens    start text delimiter text extract                 a label for each word of the text
    tokens-once    start text extract                           the same, without what follows

The parts of an example are encoded apart and arrive here as lists of ids. The paper says nothing of texts that
do not fit the context, and the released code halves a pair whatever its parts measure. Here the longest part
loses its end first (the earlier one of two equal ones); of choices the context gives way alone, question and
answers only when nothing of it is left. The cuts are made once an example, so that all its sequences, and both
orders, show the same texts. Special tokens are never cut.

The last two are ours. A word's label is read at its last token, and a network that reads from left to right knows
nothing there of what follows: so the text stands twice, and labels are read where it stands for the second time, when
all of it has been seen (as Springer et al., 2024, embed texts: "Repetition improves language model embeddings"). A
text that does not fit is read in windows of whole words, each of which begins with words that the one before it has
answered; nothing is lost but the end of a word that alone is longer than a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpt1.base.errors import SettingError
from gpt1.text.specials import special_ids

SINGLE, PAIR, BOTH, CHOICES = "single", "pair", "both", "choices"
TOKENS, TOKENS_ONCE = "tokens", "tokens-once"
WORD_SHAPES = (TOKENS, TOKENS_ONCE)
SHAPES = (SINGLE, PAIR, BOTH, CHOICES, *WORD_SHAPES)
KNOWN_BEFORE = 4  # a window of words begins with at most this part of it that was answered in the one before

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


@dataclass(frozen=True)
class LaidOutWords:
    """The windows of one text, where the label of each word is read, and how many tokens its words lost to fit.

    A place counts the tokens of all windows, one after the other; `again` has how many tokens of each window the one
    before it has answered.
    """

    sequences: list[list[int]]
    places: list[int]
    cut: int
    again: list[int]


def lay_out_words(shape: str, words: Sequence[Ids], *, vocab_size: int, context: int = CONTEXT) -> LaidOutWords:
    """Return the windows of one text, given the tokens of each of its words.

    A word of no token, such as a sign that a tokenizer leaves out, is read at the token before it.
    """
    special = special_ids(vocab_size)
    start, delimiter, extract = special["start"], special["delimiter"], special["extract"]
    room = _room_for_words(shape, context)
    kept = [word[:room] for word in words]
    sequences, places, again, before = [], [], [], 0
    for known, first, end in _word_windows([len(word) for word in kept], room):
        text = [token for word in kept[known:end] for token in word]
        head = [start, *text, delimiter] if shape == TOKENS else [start]
        at = before + len(head) - 1 + sum(map(len, kept[known:first]))
        for word in kept[first:end]:
            at += len(word)
            places.append(at)
        sequences.append([*head, *text, extract])
        again.append(sum(map(len, kept[known:first])))
        before += len(sequences[-1])
    return LaidOutWords(sequences, places, sum(map(len, words)) - sum(map(len, kept)), again)


def _room_for_words(shape: str, context: int) -> int:
    """Return how many tokens of a text a window has."""
    if context < SMALLEST_CONTEXT + 1:
        raise SettingError(f"a context of {context} has no room for words; the smallest is {SMALLEST_CONTEXT + 1}")
    return (context - 3) // 2 if shape == TOKENS else context - 2


def _word_windows(lengths: Sequence[int], room: int) -> Iterator[tuple[int, int, int]]:
    """Yield the windows of words of these lengths: the first that is shown, the first that is new, the one behind all.

    Each has one new word at least, and before it as many known ones as a part of the room holds.
    """
    first = 0
    while first < len(lengths) or first == 0:
        known, used = first, 0
        spare = min(room // KNOWN_BEFORE, room - (lengths[first] if lengths else 0))
        while known > 0 and used + lengths[known - 1] <= spare:
            known -= 1
            used += lengths[known]
        end = first
        while end < len(lengths) and used + lengths[end] <= room:
            used += lengths[end]
            end += 1
        yield known, first, end
        if not lengths:
            return
        first = end
