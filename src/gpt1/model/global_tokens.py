"""Global tokens of a network with a sliding window, as Longformer has them, for a network that reads left to right.

A global token looks at all tokens before it, and all tokens behind it look at it. Of pre-training they are the first
`shape.global_tokens` of each sequence. Fine-tuning adds the special tokens: start, which is a first one, delimiter and
extract; so the token that answers has the whole text before it. Their number is bounded, and so the cost stays linear.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpt1.model.packing import Packing
from gpt1.recipes.values import Shape

# B sequences, T positions, G global tokens of a sequence at most; in a packed row, N tokens for B and T.

SPECIALS_BEHIND = 2  # special tokens behind the first one that are global: delimiter and extract


class GlobalTokens(NamedTuple):
    """Where the global tokens of each sequence stand."""

    places: Tensor  # [B, G] positions, ascending; of those that a sequence does not have, beyond its end


def find_global(ids: Tensor, packing: Packing | None, shape: Shape, first_special: int | None) -> GlobalTokens:
    """Return the global tokens of sequences [B, T], or of a packed row's [N].

    Of special tokens (from the id `first_special` on; None: there are none) no more than two are global that do not
    stand among the first ones: the earliest.
    """
    first = shape.global_tokens
    ids_BT = ids if packing is None else packing.to_grid(ids)
    B, T = ids_BT.shape
    positions_T = torch.arange(T, device=ids.device)
    first_BN = torch.arange(first, device=ids.device).expand(B, -1)
    if first_special is None:
        return GlobalTokens(first_BN)
    special_BT = (ids_BT >= first_special) & (positions_T >= first)
    rank_BT = special_BT.cumsum(1)  # from 1 on
    slot_BT = torch.where(special_BT, rank_BT, 0).clamp(max=SPECIALS_BEHIND + 1)
    # A slot before and one behind for all that are not asked for.
    slots = torch.full((B, SPECIALS_BEHIND + 2), shape.context, device=ids.device)
    behind = slots.scatter(1, slot_BT, positions_T.expand(B, -1))[:, 1:-1]
    return GlobalTokens(torch.cat((first_BN, behind), dim=1))
