"""Labels of words: which spans they spell, in which scheme, and how answers are scored against them.

    BIO      B-PER I-PER O       each span begins with B
    IOB1     I-PER I-PER O       B only where a span follows another of its kind at once
    BIOES    B-PER E-PER S-LOC   a span of one word has a sign of its own; L and U are other names for E and S

Whatever the scheme, spans are found as conlleval finds them (the script of the CoNLL tasks, with S beside its signs):
one begins at B or S, behind O, E or S, and wherever the kind changes; it ends where the next begins, or at O. So an I
that follows nothing begins a span. A span that is answered is right where its kind and both its ends are. Labels that
are no such signs (parts of speech) spell no spans, and each word counts by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OUTSIDE = "O"
BIO, IOB1, BIOES = "BIO", "IOB1", "BIOES"
SPAN_METRICS = ("span_f1", "span_precision", "span_recall", "accuracy")
PLAIN_METRICS = ("accuracy",)
LONGEST_SENTENCE = 5_000  # words, beyond which empty lines are missing
WORDS_FIELDS = ("tokens", "words")  # columns that hold lists of words
NO_WORD = -1  # in the place of a label where a sentence has no such word, or it is not known

_LABEL = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_SAME = {"L": "E", "U": "S"}

Integers = NDArray[np.int64]


class WordSpan(NamedTuple):
    """Which words are a span, from the first to behind the last, and of what kind."""

    kind: str
    first: int
    end: int


def sign_and_kind(label: str) -> tuple[str, str]:
    """Return such as B and PER of a label, with the signs of BIOES; a label outside of spans has the sign O."""
    found = _LABEL.fullmatch(label)
    return (OUTSIDE, "") if found is None else (_SAME.get(found[1], found[1]), found[2])


def spell_spans(labels: Sequence[str]) -> bool:
    """Whether labels are those of spans: each is O or a sign with a kind."""
    marked = [label for label in labels if label != OUTSIDE]
    return bool(marked) and all(_LABEL.fullmatch(label) for label in marked)


def kinds_of(labels: Sequence[str]) -> list[str]:
    """Return the kinds of spans that labels have, in the order of letters."""
    return sorted({kind for sign, kind in map(sign_and_kind, labels) if sign != OUTSIDE})


def scheme_of(sentences: Sequence[Sequence[str]]) -> str:
    """Return the scheme of labels that spell spans: BIOES by its signs, IOB1 where B stands only between neighbours."""
    has_loose_i = False
    needs_b = True  # whether each B parts two spans of a kind
    for labels in sentences:
        before = (OUTSIDE, "")
        for sign, kind in map(sign_and_kind, labels):
            if sign in "ES":
                return BIOES
            has_loose_i |= sign == "I" and before[1] != kind
            needs_b &= sign != "B" or before[1] == kind
            before = (sign, kind)
    return IOB1 if has_loose_i and needs_b else BIO


def loose(labels: Sequence[str], scheme: str) -> list[int]:
    """Return the words whose sign follows nothing that it can follow; each begins a span all the same.

    I and E go on with a span of their kind. In BIOES a span that has begun is to be ended too, before another begins.
    """
    if scheme == IOB1:
        return []
    found, before = [], (OUTSIDE, "")
    for word, (sign, kind) in enumerate(map(sign_and_kind, labels)):
        goes_on = before[0] in ("B", "I") and before[1] == kind
        is_open = scheme == BIOES and before[0] in ("B", "I")
        if (sign in ("I", "E") and not goes_on) or (sign in ("B", "S", OUTSIDE) and is_open):
            found.append(word)
        before = (sign, kind)
    if scheme == BIOES and before[0] in ("B", "I"):
        found.append(len(labels) - 1)
    return found


def spans_of(labels: Sequence[str]) -> list[WordSpan]:
    """Return the spans that the labels of a sentence spell."""
    found: list[WordSpan] = []
    begun: tuple[str, int] | None = None
    before = (OUTSIDE, "")
    for word, (sign, kind) in enumerate(map(sign_and_kind, labels)):
        begins = sign != OUTSIDE and (sign in "BS" or before[0] in (OUTSIDE, "E", "S") or before[1] != kind)
        if begun is not None and (begins or sign == OUTSIDE):
            found.append(WordSpan(*begun, word))
            begun = None
        if begins:
            begun = (kind, word)
        before = (sign, kind)
    return found if begun is None else [*found, WordSpan(*begun, len(labels))]


@dataclass(frozen=True, eq=False)
class SpanCounts:
    """How many spans were right, given and there, by sentence and kind [sentences, kinds]."""

    hits: Integers
    given: Integers
    there: Integers

    @cached_property
    def by_kind(self) -> tuple[Integers, Integers, Integers]:
        """The counts of each kind over all sentences."""
        return self.hits.sum(0), self.given.sum(0), self.there.sum(0)

    @cached_property
    def by_sentence(self) -> Integers:
        """The counts of each sentence over all kinds [sentences, 3]."""
        return np.stack([counts.sum(1) for counts in (self.hits, self.given, self.there)], 1)


def count_spans(names: Sequence[str], labels: Integers, answers: Integers) -> SpanCounts:
    """Return how spans were answered: labels and answers are places among `names` [sentences, words], or `NO_WORD`.

    A word whose label is not known counts as outside of spans on both sides.
    """
    kinds = len(kinds_of(names))
    there = _span_keys(names, labels)
    given = _span_keys(names, np.where(labels == NO_WORD, NO_WORD, answers))
    right = np.intersect1d(there, given)
    shape = len(labels), kinds

    def counted(keys: Integers) -> Integers:
        per_sentence = (labels.shape[1] + 1) * labels.shape[1] * kinds
        cells = keys // per_sentence * kinds + keys % kinds
        return np.bincount(cells, minlength=shape[0] * kinds).reshape(shape).astype(np.int64)

    return SpanCounts(counted(right), counted(given), counted(there))


def _span_keys(names: Sequence[str], labels: Integers) -> Integers:
    """Return a number for each span, by its sentence, its first word, the one behind its last, and its kind."""
    kinds = kinds_of(names)
    signs = np.array([OUTSIDE if one == OUTSIDE else one for one, _ in map(sign_and_kind, names)] + [OUTSIDE])
    places = np.array([kinds.index(kind) if kind else -1 for _, kind in map(sign_and_kind, names)] + [-1])
    sentences, words = labels.shape
    sign, kind = signs[labels], places[labels]  # the last one is for words that are not there
    sign_before = np.concatenate((np.full((sentences, 1), OUTSIDE), sign[:, :-1]), 1)
    kind_before = np.concatenate((np.full((sentences, 1), -1), kind[:, :-1]), 1)
    inside = sign != OUTSIDE
    begins = inside & (np.isin(sign, ("B", "S")) | np.isin(sign_before, (OUTSIDE, "E", "S")) | (kind_before != kind))
    sentence, first = np.nonzero(begins)
    # A span ends at the next word that begins one or stands outside, or behind the sentence.
    stops = np.where(begins | ~inside, np.arange(words), words)
    ahead = np.minimum.accumulate(stops[:, ::-1], 1)[:, ::-1]
    ends = np.concatenate((ahead[:, 1:], np.full((sentences, 1), words)), 1)[sentence, first]
    keys = ((sentence * words + first) * (words + 1) + ends) * len(kinds) + kind[sentence, first]
    return np.asarray(keys, np.int64)


def rates(hits: float, given: float, there: float) -> dict[str, float]:
    """Return F1, precision and recall of spans; 0 where there is nothing to divide by."""
    return {
        "span_f1": 2 * hits / (given + there) if given + there else 0.0,
        "span_precision": hits / given if given else 0.0,
        "span_recall": hits / there if there else 0.0,
    }


def word_scores(metrics: Sequence[str], names: Sequence[str], labels: Integers, answers: Integers) -> dict[str, float]:
    """Return the metrics of answers to words [sentences, words]; words without a label do not count."""
    known = labels != NO_WORD
    found = {"accuracy": float((labels == answers)[known].mean()) if known.any() else 0.0}
    if "span_f1" in metrics:
        found |= rates(*count_spans(names, labels, answers).by_sentence.sum(0).tolist())
    return {metric: found[metric] for metric in metrics}


def drawn_scores(
    metrics: Sequence[str],
    names: Sequence[str],
    labels: Integers,
    answers: Integers,
    draws: Iterator[list[Integers]],
) -> list[dict[str, float]]:
    """Return the metrics on each draw of sentences: what was counted of a sentence is counted once."""
    known = labels != NO_WORD
    words = np.stack((((labels == answers) & known).sum(1), known.sum(1)), 1)
    spans = count_spans(names, labels, answers).by_sentence if "span_f1" in metrics else None
    found = []
    for (chosen,) in draws:
        right, count = words[chosen].sum(0).tolist()
        own = {"accuracy": right / count if count else 0.0}
        if spans is not None:
            own |= rates(*spans[chosen].sum(0).tolist())
        found.append({metric: own[metric] for metric in metrics})
    return found
