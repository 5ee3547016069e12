"""How likely a network finds a text, or the end of one: the mean log-probability of its tokens."""

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


@torch.no_grad()
def mean_log_probabilities(model: Model, sequences: Sequence[Scored]) -> NDArray[np.float64]:
    """Return for each sequence the mean log-probability of its tokens from a given one on, after all before them.

    The first token of a sequence has nothing before it and cannot be scored.
    """
    for ids, first in sequences:
        if not 0 < first < len(ids):
            raise InputError(f"tokens {first} to {len(ids) - 1} of a text cannot be scored: it has too few")
    found = [_portion(model, portion) for portion in _portions(sequences)]
    return np.concatenate(found) if found else np.zeros(0)


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
    means: NDArray[np.float64] = -sums / np.bincount(row.sequence[is_scored], minlength=row.sequences)
    return means


def _portions(sequences: Sequence[Scored]) -> Iterator[list[Scored]]:
    portion: list[Scored] = []
    tokens = 0
    for scored in sequences:
        if portion and tokens + len(scored[0]) > TOKENS:
            yield portion
            portion, tokens = [], 0
        portion.append(scored)
        tokens += len(scored[0])
    if portion:
        yield portion
