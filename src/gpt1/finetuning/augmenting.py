"""Augmentation: what fine-tuning changes of the examples that it learns, others each time, never of those that judge.

Texts change by their words (`TextChanges`), as tokens: synonyms, words that change places (both as in EDA; Wei and Zou,
2019), a stretch that is left out. Mix-up (Zhang et al., 2018; of sentences Guo et al., 2019) mixes the vectors at
extract of two examples of a batch and their labels alike. R-Drop (Liang et al., 2021) reads each example twice, with
other dropout, and wants both answers to be alike. All draws are pure functions of seed, batch and place in the batch,
and of what is drawn; the changes of a text depend on the text too, so that it is the same in all sequences of an
example.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import SettingError
from gpt1.recipes.values import AUGMENTED, TEXT_CHANGES, Finetuning, Recipe
from gpt1.records.run import RecordedTexts
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask
from gpt1.tasks.shapes import CHOICES
from gpt1.text.synonyms import Synonyms, Tokens, WordEdges, word_edges
from gpt1.text.tokenizer import Tokenizer

_SYNONYMS, _SWAPS, _SPAN, _MIXING = range(1, 5)  # what is drawn

MOST_COUNTED = 1000  # examples of which the words are counted that a list has

Ids = NDArray[Any]
Key = tuple[int, int]  # seed and number of the batch


def draws(key: Key, place: int, name: int, what: int) -> np.random.Generator:
    """Return the random numbers of a place in a batch, the same whenever they are asked for."""
    return np.random.Generator(np.random.Philox(key=[*key], counter=[0, place, name, what]))


@dataclass(frozen=True, eq=False)
class TextChanges:
    """What is changed in the words of a text."""

    edges: WordEdges
    span_deletion: float = 0.0
    word_swaps: float = 0.0
    synonyms: float = 0.0
    listed: Mapping[Tokens, tuple[Tokens, ...]] | None = None  # what may stand for a word

    def keep_length(self) -> TextChanges:
        """Return the same without what can make a text longer."""
        return replace(self, synonyms=0.0)

    def listed_share(self, split: EncodedSplit, vocab_size: int) -> float:
        """Return how many of the words of examples, of the first ones where there are many, the list has."""
        words = have = 0
        for example in range(min(len(split), MOST_COUNTED)):
            for ids in split.sequences(example):
                text = ids[ids < vocab_size]
                own = np.split(text, self.edges.starts(text)[1:]) if len(text) else []
                words += len(own)
                have += sum(tuple(word.tolist()) in (self.listed or {}) for word in own)
        return have / max(words, 1)

    def changed(self, text: Ids, key: Key, place: int) -> Ids:
        """Return a text with its changes; something is always left of it."""
        if not len(text):
            return text
        name = zlib.crc32(text.tobytes())
        words = np.split(text, self.edges.starts(text)[1:])
        if self.synonyms and self.listed:
            words = self._replaced(words, draws(key, place, name, _SYNONYMS))
        if self.word_swaps:
            _swap(words, self.word_swaps, draws(key, place, name, _SWAPS))
        if self.span_deletion:
            words = _without_span(words, self.span_deletion, draws(key, place, name, _SPAN))
        return np.concatenate(words).astype(text.dtype)

    def _replaced(self, words: list[Ids], draw: np.random.Generator) -> list[Ids]:
        """Return the words, of those that the list has a share replaced."""
        chances, choices = draw.random((2, len(words)))
        listed, found = self.listed or {}, []
        for word, chance, choice in zip(words, chances.tolist(), choices.tolist(), strict=True):
            others = listed.get(tuple(word.tolist())) if chance < self.synonyms else None
            found.append(word if others is None else np.array(others[int(choice * len(others))]))
        return found


def _swap(words: list[Ids], share: float, draw: np.random.Generator) -> None:
    """Let two words change places, and again, as often as the share of all words says."""
    if len(words) < 2:
        return
    for _ in range(_rounded(share * len(words), draw)):
        one, other = draw.choice(len(words), 2, replace=False).tolist()
        words[one], words[other] = words[other], words[one]


def _without_span(words: list[Ids], share: float, draw: np.random.Generator) -> list[Ids]:
    """Return the words without a stretch of them."""
    length = min(_rounded(share * len(words), draw), len(words) - 1)
    start = int(draw.integers(len(words) - length + 1))
    return words[:start] + words[start + length :]


def _rounded(wanted: float, draw: np.random.Generator) -> int:
    """Return a whole number, up or down by chance so that on average it is what is wanted."""
    return int(wanted + draw.random())


# ---- mix-up ----


@dataclass(frozen=True)
class Mixing:
    """Which example of a batch each one is mixed with, and how much of itself stays."""

    partners: NDArray[np.int64]  # places in the batch
    shares: NDArray[np.float64]


def mixing(examples: int, a: float, key: Key) -> Mixing:
    """Return how the examples of a batch are mixed: in pairs of neighbours, which are in an order by chance anyway.

    The last of an odd number is mixed with the one before it; one alone stays as it is.
    """
    places = np.arange(examples)
    partners = np.where((places ^ 1) < examples, places ^ 1, np.maximum(places - 1, 0))
    shares = [float(draws(key, place, 0, _MIXING).beta(a, a)) for place in range(examples)]
    return Mixing(partners, np.array(shares))


# ---- what is asked for ----


def text_changes(settings: Finetuning, tokenizer: Tokenizer, synonyms: Synonyms | None) -> TextChanges | None:
    """Return what the settings change in texts; None where that is nothing."""
    if not any(getattr(settings, name) for name in TEXT_CHANGES):
        return None
    return TextChanges(
        word_edges(tokenizer),
        span_deletion=settings.span_deletion,
        word_swaps=settings.word_swaps,
        synonyms=settings.synonyms,
        listed=None if synonyms is None else synonyms.in_tokens(tokenizer),
    )


def check_augmentation(
    recipe: Recipe, tasks: Mapping[str, EncodedTask], synonyms: Synonyms | None, *, is_taught: bool
) -> None:
    """Refuse ways to augment that make no sense for these tasks, before anything is learned."""
    settings, shape = recipe.finetuning, recipe.shape
    if settings.synonyms and synonyms is None:
        raise SettingError(
            "finetuning.synonyms replaces words by what a list has for them, and no list is named; name one, "
            "`synonyms=FILE`, or leave the setting out"
        )
    if synonyms is not None and not settings.synonyms:
        raise SettingError(
            f"{synonyms.path} is named, and finetuning.synonyms is 0, so that nothing would be replaced; say how much, "
            f"as in `changes=['finetuning.synonyms={AUGMENTED}']`"
        )
    if settings.r_drop and not (shape.dropout or shape.layer_drop):
        raise SettingError(
            "finetuning.r_drop holds two passes with other dropout against each other, and shape.dropout is 0, so that "
            "they are the same; leave out one of the two"
        )
    for name, encoded in tasks.items() if settings.mixup else ():
        if (why := _unmixed(encoded, is_taught=is_taught) or unmixable(encoded.task)) is not None:
            raise SettingError(f"finetuning.mixup mixes the labels of two examples, and {name} {why}; leave it out")


def recorded_synonyms(synonyms: Synonyms) -> RecordedTexts:
    """Return what a run says of a list of synonyms."""
    return RecordedTexts(str(synonyms.path.resolve()), synonyms.identity, len(synonyms.words))


def require_same_synonyms(run: Path, begun: RecordedTexts | None, now: Synonyms | None) -> None:
    """Refuse to go on with a run by another list than it was begun with; the file may have been moved."""
    if (None if begun is None else begun.identity) == (None if now is None else now.identity):
        return
    was = "without a list of synonyms" if begun is None else f"with the synonyms of {begun.path}"
    is_now = "there is none" if now is None else f"those of {now.path} are others"
    raise SettingError(
        f"{run} was begun {was}, and {is_now} now: a run goes on as it was begun; name the same, `synonyms=FILE`, or "
        f"begin a new run with `init={str(run)!r}`"
    )


def unmixable(task: Task) -> str | None:
    """Return why labels of a task cannot be mixed; None where they can."""
    reasons = {
        "has scores, not classes": task.score_range is not None,
        "has choices, which are answered by texts of their own": task.shape == CHOICES,
        "has several labels a row": task.is_multilabel,
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _unmixed(encoded: EncodedTask, *, is_taught: bool) -> str | None:
    """Return why examples are not mixed here whatever their labels are; None where nothing is in the way."""
    if is_taught:
        return "is learned from teachers' answers too"
    return "reads texts in several windows" if encoded.has_windows else None
