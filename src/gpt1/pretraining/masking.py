"""Masked next-token prediction, mixed in (GPT-BERT: Charpentier and Samuel 2024, arXiv 2410.24159).

A share of the batches is read both ways, each position seeing the whole of its window, with a random part of the tokens
masked. What is masked at position i is predicted from the output at i - 1, as every next token is, so that the network,
its output matrix and the shift are the same for both objectives. The first token of a window has nothing before it and
is never masked. A window that is not whole (an epoch has two at most) is asked nothing in such a batch: looking both
ways, it would see what fills it up.

Which batches these are is a pure function of (seed, k); which tokens, of (seed, k, place in the batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import SettingError
from gpt1.base.shuffle import draw
from gpt1.pretraining.stream import TokenStream
from gpt1.recipes.values import Recipe
from gpt1.training.batches import NO_TARGET, Batch, Batches

LM, MASKED = "lm", "masked"  # terms of the loss
IS_MASKED = "masked"  # the array that says which tokens are
FINE = 2**32  # of so many numbers one is drawn for each batch
VALIDATION_SEED = 0  # of the tokens that are masked there: the same whenever and however a run looks


class MixedBatches:
    """Batches of text, a share of them masked."""

    def __init__(self, batches: Batches, *, share: float, rate: float, seed: int) -> None:
        self._batches, self._share, self._rate, self._seed = batches, share, rate, seed

    def batch(self, k: int) -> Batch:
        """Return batch `k`; one in which nothing could be masked is read from left to right."""
        batch = self._batches.batch(k)
        assert isinstance(batch, Batch), "text comes in rows of equal length"
        if is_masked(k, share=self._share, seed=self._seed):
            masked = mask(batch, rate=self._rate, seed=self._seed, k=k)
            if masked.counts[MASKED]:
                return masked
        return replace(batch, counts={**batch.counts, MASKED: 0.0})


def is_masked(k: int, *, share: float, seed: int) -> bool:
    """Whether batch `k` is one of those that are masked."""
    return draw(FINE, (seed, k, 0)) < share * FINE


def mask(batch: Batch, *, rate: float, seed: int, k: int, first: int = 0) -> Batch:
    """Return a batch with some of its tokens masked, whose rows have the places from `first` on."""
    ids, targets = batch.arrays["ids"], batch.arrays["targets"]
    is_whole = (targets != NO_TARGET).all(1)
    masked = np.stack([_draws(ids.shape[1], seed, k, first + row) for row in range(len(ids))]) < rate
    masked[:, 0] = False
    masked[~is_whole] = False
    asked = np.full_like(targets, NO_TARGET)
    asked[:, :-1] = np.where(masked[:, 1:], ids[:, 1:], np.int32(NO_TARGET))
    return Batch({"ids": ids, "targets": asked, IS_MASKED: masked}, {LM: 0.0, MASKED: float(masked.sum())})


def _draws(count: int, seed: int, k: int, place: int) -> NDArray[Any]:
    # The lowest word counts what is drawn: two rows never share a number.
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, place, k, 0])).random(count)


def mask_validation(batches: Iterable[Batch], rate: float) -> Iterator[Batch]:
    """Yield batches of validation text with some tokens masked, the same ones however many rows a batch has."""
    first = 0
    for batch in batches:
        yield mask(batch, rate=rate, seed=VALIDATION_SEED, k=0, first=first)
        first += len(batch)


def mixed(windows: Batches, recipe: Recipe) -> Batches:
    """Return the batches of a recipe: as they are, or a share of them masked."""
    training = recipe.training
    if not training.masked_share:
        return windows
    return MixedBatches(windows, share=training.masked_share, rate=training.mask_rate, seed=training.seed)


def require_whole_windows(text: TokenStream, context: int) -> None:
    """Refuse a text in which an epoch need not have a single whole window, so that nothing could be masked."""
    if len(text) <= 2 * context:
        raise SettingError(
            f"the text has {len(text):,} tokens, and `training.masked_share` wants more than two windows of "
            f"shape.context={context}: prepare more text, or set a shorter context"
        )
