"""A text as a vector: the last block's output, its mean over all tokens or what stands at the last one.

A text that does not fit in the context is read by windows side by side; the mean is over all of them, the last token is
read with what its window has before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, RuinedWeights, unknown
from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Model
from gpt1.tasks.packed import pack_sequences
from gpt1.text.tokenizer import Tokenizer

MEAN, LAST = "mean", "last"
POOLINGS = MEAN, LAST


def text_ids(tokenizer: Tokenizer, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
    """Return the ids of each text; one that is given as ids has exactly those."""
    encoded = iter(tokenizer.encode_batch([text for text in texts if isinstance(text, str)]))
    return [next(encoded) if isinstance(text, str) else list(text) for text in texts]


@torch.no_grad()
def embeddings(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str | Sequence[int]], pooling: str, pause: Pause = go_on
) -> NDArray[np.float32]:
    """Return a vector for each text [texts, width], which may be given as ids."""
    if pooling not in POOLINGS:
        raise unknown("pooling", pooling, POOLINGS)
    context = model.shape.context
    windows: list[NDArray[np.int64]] = []
    owners: list[int] = []
    for place, ids in enumerate(text_ids(tokenizer, texts)):
        if not ids:
            raise InputError(f"text {place + 1} has no tokens, so it has no vector; leave it out")
        if wrong := [id for id in ids if not 0 <= id < model.vocab_size]:
            raise InputError(f"text {place + 1} has the id {wrong[0]}, the vocabulary has {model.vocab_size:,} tokens")
        windows += [np.array(ids[start : start + context]) for start in range(0, len(ids), context)]
        owners += [place] * (len(windows) - len(owners))
    found = np.zeros((len(texts), model.shape.width), np.float64)
    for portion in portions(map(len, windows), next(model.parameters()).device, pause):
        _add(model, windows[portion], np.array(owners[portion]), pooling, found)
    if not np.isfinite(found).all():
        raise RuinedWeights("the network's outputs are no numbers: its weights are ruined; use another checkpoint")
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
