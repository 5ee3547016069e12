"""A text as a vector: the last block's output, its mean over all tokens or what stands at the last one.

A text that does not fit in the context is read by windows side by side; the mean is over all of them, the last token is
read with what its window has before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, unknown
from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Model
from gpt1.tasks.packed import pack_sequences
from gpt1.text.tokenizer import Tokenizer

MEAN, LAST = "mean", "last"
POOLINGS = MEAN, LAST


@torch.no_grad()
def embeddings(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str], pooling: str, pause: Pause = go_on
) -> NDArray[np.float32]:
    """Return a vector for each text [texts, width]."""
    if pooling not in POOLINGS:
        raise unknown("pooling", pooling, POOLINGS)
    context = model.shape.context
    windows: list[NDArray[np.int64]] = []
    owners: list[int] = []
    for place, ids in enumerate(tokenizer.encode_batch(texts)):
        if not ids:
            raise InputError(f"text {place} has no tokens, so it has no vector; leave it out")
        windows += [np.array(ids[start : start + context]) for start in range(0, len(ids), context)]
        owners += [place] * (len(windows) - len(owners))
    found = np.zeros((len(texts), model.shape.width), np.float64)
    for portion in portions(map(len, windows), next(model.parameters()).device, pause):
        _add(model, windows[portion], np.array(owners[portion]), pooling, found)
    if pooling == MEAN:
        found /= np.bincount(owners, [len(window) for window in windows], len(texts))[:, None]
    return found.astype(np.float32)


def _add(
    model: Model,
    windows: Sequence[NDArray[np.int64]],
    owners: NDArray[np.int64],
    pooling: str,
    found: NDArray[np.float64],
) -> None:
    """Add what windows say to the vectors of their texts: the sum of their tokens, or in place of all, the last one."""
    row = pack_sequences(windows)
    ids_N, packing = on_device(row, next(model.parameters()).device)
    hidden_NC = model(ids_N, None, packing)[0].double().cpu().numpy()
    if pooling == MEAN:
        np.add.at(found, owners[row.sequence], hidden_NC)
    else:
        found[owners] = hidden_NC[row.offsets[1:] - 1]  # of several windows of a text the last one stays
