"""Attention maps, where a network looks: how much each token of a text takes from those before it, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, RuinedWeights, SettingError
from gpt1.model import Model, attention_weights
from gpt1.recipes.values import TRANSFORMER, Shape
from gpt1.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Looks:
    """A text's ids and a layer's attention [heads, tokens, tokens]: row t is what token t takes, and adds up to 1."""

    ids: list[int]
    weights: NDArray[np.float32]


def looks_everywhere(model: Model, ids: Sequence[int]) -> list[NDArray[np.float32]]:
    """Return how each layer of a Transformer looks at tokens that fit in its context."""
    ids_T = torch.tensor(ids, device=next(model.parameters()).device)
    return [attention_weights(model, ids_T, layer).cpu().numpy() for layer in range(model.shape.layers)]


def as_rows(weights: NDArray[np.float32], digits: int) -> list[list[list[float]]]:
    """Return a layer's attention as plain numbers, head by head; what lies behind a token is 0, and is left out."""
    return [[row[: t + 1].round(digits).tolist() for t, row in enumerate(head)] for head in weights.astype(float)]


def looks(model: Model, tokenizer: Tokenizer, text: str, layer: int) -> Looks:
    """Return how a layer of a network, counted from 1, looks at a text that fits in its context."""
    ids = tokenizer.encode(text)
    check_layer(model.shape, layer)
    if model.bidirectional:
        raise SettingError("attention is shown of networks that look back alone, and this one looks both ways")
    if not 1 <= len(ids) <= model.shape.context:
        raise InputError(f"the text has {len(ids):,} tokens; attention is shown of 1 to {model.shape.context:,}")
    ids_T = torch.tensor(ids, device=next(model.parameters()).device)
    weights = attention_weights(model, ids_T, layer - 1).cpu().numpy()
    if not np.isfinite(weights).all():
        raise RuinedWeights("the network's attention is no numbers: its weights are ruined; use another checkpoint")
    return Looks(ids, weights)


def check_layer(shape: Shape, layer: int) -> None:
    """Refuse a layer that is not there, or that does not look."""
    if shape.kind != TRANSFORMER:
        raise SettingError("an LSTM has no attention to show: it carries one state from token to token")
    if not 1 <= layer <= shape.layers:
        raise SettingError(f"there are layers 1 to {shape.layers}, not {layer}")
