"""How likely a network finds a text, or the end of one: the log-probabilities of its tokens, added up or their mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError
from gpt1.model import Model, Packing, token_losses
from gpt1.tasks.packed import pack_sequences

TOKENS = 8192  # at once

Scored = tuple[Sequence[int], int]  # ids, and the first of them that is scored


def mean_log_probabilities(model: Model, sequences: Sequence[Scored]) -> NDArray[np.float64]:
    """Return for each sequence the mean log-probability of its tokens from a given one on, after all before them."""
    means: NDArray[np.float64] = log_probabilities(model, sequences) / [len(ids) - first for ids, first in sequences]
    return means


@torch.no_grad()
def log_probabilities(model: Model, sequences: Sequence[Scored]) -> NDArray[np.float64]:
    """Return for each sequence the log-probability of all its tokens from a given one on, after those before them.

    The first token of a sequence has nothing before it and cannot be scored.
    """
    for ids, first in sequences:
        if not 0 < first < len(ids):
            raise InputError(f"tokens {first} to {len(ids) - 1} of a text cannot be scored: it has too few")
    found = np.zeros(len(sequences))
    # Side by side with others of their length, since attention goes over a grid as wide as the longest.
    order = sorted(range(len(sequences)), key=lambda place: len(sequences[place][0]))
    for places in _portions(sequences, order):
        found[places] = _portion(model, [sequences[place] for place in places])
    return found


def _portion(model: Model, portion: Sequence[Scored]) -> NDArray[np.float64]:
    device = next(model.parameters()).device
    row = pack_sequences([np.asarray(ids) for ids, _ in portion])
    firsts = np.array([first for _, first in portion])
    is_scored = row.position >= firsts[row.sequence]
    # The output at a token predicts the one behind it.
    targets = np.full(len(row.ids), -1, np.int64)
    targets[np.flatnonzero(is_scored) - 1] = row.ids[is_scored]
    ids, offsets, sequence, position = (torch.from_numpy(array).to(device) for array in row.arrays().values())
    hidden_NC, output_VC = model(ids.long(), None, Packing(offsets, sequence, position, row.longest))
    losses = token_losses(hidden_NC, output_VC, torch.from_numpy(targets).to(device), model.vocab_size)
    sums = np.bincount(row.sequence, weights=losses.double().cpu().numpy(), minlength=row.sequences)
    return -sums.astype(np.float64)


def _portions(sequences: Sequence[Scored], order: Sequence[int]) -> Iterator[list[int]]:
    """Yield places of sequences in this order, as many at once as have about `TOKENS` tokens."""
    portion: list[int] = []
    tokens = 0
    for place in order:
        own = len(sequences[place][0])
        if portion and tokens + own > TOKENS:
            yield portion
            portion, tokens = [], 0
        portion.append(place)
        tokens += own
    if portion:
        yield portion
