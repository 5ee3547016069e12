"""How likely a network finds a text: the log-probability of each token after those before it, and their mean.

A text that does not fit in the context is read by windows, each half over the one before: every token but those of the
first half has at least half a context before it, and is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, RuinedWeights
from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Model, require_causal, token_losses
from gpt1.tasks.packed import pack_sequences
from gpt1.text.tokenizer import Tokenizer

Scored = tuple[Sequence[int], int]  # ids, and the first of them that is scored
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredText:
    """A text's ids and the natural logarithms of their probabilities; one with nothing before it has none."""

    ids: list[int]
    log_probabilities: list[float | None]

    @property
    def mean(self) -> float | None:
        """The mean of those there are; the exponential of minus it is the text's perplexity."""
        known = [value for value in self.log_probabilities if value is not None]
        return float(np.mean(known)) if known else None


def score_texts(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], after: str = "", pause: Pause = go_on
) -> list[ScoredText]:
    """Return the log-probability of each token of each text, given those before it and a text before them all."""
    before, *encoded = tokenizer.encode_batch([after, *texts])
    context, first = model.shape.context, max(len(before), 1)
    parts = [
        (place, window) for place, ids in enumerate(encoded) for window in _windows([*before, *ids], first, context)
    ]
    found: list[list[float | None]] = [[None] if ids and not before else [] for ids in encoded]
    scored = log_probabilities(model, [window for _, window in parts], pause)
    if not all(np.isfinite(values).all() for values in scored):
        raise RuinedWeights("the network's scores are no numbers: its weights are ruined; use another checkpoint")
    for (place, _), values in zip(parts, scored, strict=True):
        found[place] += values.tolist()
    return [ScoredText(ids, values) for ids, values in zip(encoded, found, strict=True)]


def mean_log_probabilities(model: Model, sequences: Sequence[Scored]) -> Floats:
    """Return for each sequence the mean log-probability of its tokens from a given one on, after all before them."""
    return np.array([values.mean() for values in log_probabilities(model, sequences)])


def total_log_probabilities(model: Model, sequences: Sequence[Scored]) -> Floats:
    """Return for each sequence the log-probability of all its tokens from a given one on, after those before them."""
    return np.array([values.sum() for values in log_probabilities(model, sequences)])


def log_probabilities(model: Model, sequences: Sequence[Scored], pause: Pause = go_on) -> list[Floats]:
    """Return for each sequence the log-probabilities of its tokens from a given one on, after all before them.

    The first token of a sequence has nothing before it and cannot be scored.
    """
    require_causal(model)
    for ids, first in sequences:
        if not 0 < first < len(ids):
            raise InputError(f"tokens {first} to {len(ids) - 1} of a text cannot be scored: it has too few")
    # Side by side with others of their length, since attention goes over a grid as wide as the longest.
    order = sorted(range(len(sequences)), key=lambda place: len(sequences[place][0]))
    found: dict[int, Floats] = {}
    device = next(model.parameters()).device
    for portion in portions((len(sequences[place][0]) for place in order), device, pause):
        places = order[portion]
        found |= zip(places, _portion(model, [sequences[place] for place in places]), strict=True)
    return [found[place] for place in range(len(sequences))]


@torch.no_grad()
def _portion(model: Model, portion: Sequence[Scored]) -> list[Floats]:
    row = pack_sequences([np.asarray(ids) for ids, _ in portion])
    firsts = np.array([first for _, first in portion])
    is_scored = row.position >= firsts[row.sequence]
    # The output at a token predicts the one behind it.
    predicting = np.flatnonzero(is_scored) - 1
    targets = np.full(len(row.ids), -1, np.int64)
    targets[predicting] = row.ids[is_scored]
    ids_N, packing = on_device(row, next(model.parameters()).device)
    hidden_NC, output_VC = model(ids_N, None, packing)
    losses = token_losses(hidden_NC, output_VC, torch.from_numpy(targets).to(hidden_NC.device), model.vocab_size)
    values: Floats = -losses.double().cpu().numpy()[predicting]
    return np.split(values, np.cumsum(np.bincount(row.sequence[is_scored]))[:-1])


def _windows(ids: Sequence[int], scored: int, context: int) -> Iterator[Scored]:
    """Cut a text that does not fit into windows, each with what is scored there for the first time."""
    while scored < len(ids):
        start = 0 if scored < context else scored - context // 2
        yield ids[start : start + context], scored - start
        scored = start + context
