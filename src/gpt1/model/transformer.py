"""The Transformer decoder's blocks (sections 3.1 and 4.1 of the paper) and their modern variants.

A variant is a choice of parts when a block is made; `forward` is the equations.
"""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor, nn

from gpt1.base.errors import SettingError
from gpt1.model.attention import Attention
from gpt1.model.dropout import DropoutKey, Place, dropout, layer_site
from gpt1.model.fusing import fuses
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.kv_cache import LayerCache
from gpt1.model.layers import ACTIVATIONS, Learning, Linear, make_norm
from gpt1.model.packing import Packing
from gpt1.recipes.values import Shape

# B sequences, T positions, C width, F width inside the feed-forward part; in a packed row, N tokens for B and T.


class FeedForward(nn.Module):
    """Up to a wider layer, an activation, down again: at each position for itself."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.dropout, self.branch_site = shape.dropout, layer_site(layer, Place.BRANCH_2)
        self.activation = ACTIVATIONS[shape.activation]
        self.up = Linear(shape.width, shape.feed_forward, shape.bias)
        self.down = Linear(shape.feed_forward, shape.width, shape.bias)

    def forward(self, x_BTC: Tensor, noise: DropoutKey | None, packing: Packing | None = None) -> Tensor:
        """Return what the two layers make of each position."""
        y_BTF = self.activation(self.up(x_BTC))
        return dropout(self.down(y_BTF), self.dropout, noise, self.branch_site, packing)


class Block(Learning):
    """Attention and a feed-forward part, each added to its input, and the sum normalised: the paper's post-norm."""

    WRITTEN_WHOLE = "attention.qkv.weight", "attention.out.weight", "feed_forward.up.weight", "feed_forward.down.weight"

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.attention = Attention(shape, layer)
        self.norm_1 = make_norm(shape.norm, shape.width, shape.bias)
        self.feed_forward = FeedForward(shape, layer)
        self.norm_2 = make_norm(shape.norm, shape.width, shape.bias)
        self._shape = shape

    def can_add(self) -> bool:
        """Whether it is the paper's block, and on a GPU that has kernels for it."""
        if type(self) is not Block or not fuses(self.attention.out.weight):
            return False
        from gpt1.model.kernels.block import why_not

        learns = all(weight.requires_grad for weight in self.parameters())
        return learns and self._shape.norm == "layer" and why_not(self._shape) is None

    def forward(
        self,
        x_BTC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None = None,
        past: LayerCache | None = None,
        everywhere: GlobalTokens | None = None,
        bidirectional: bool = False,
    ) -> Tensor:
        """Return the block's output."""
        if (
            self.additions is not None
            and packing is not None
            and past is None
            and not bidirectional
            and torch.is_grad_enabled()
        ):
            from gpt1.model.kernels.learning import learning_block

            return learning_block(self, x_BTC, noise, packing, self.additions)
        n_BTC: Tensor = self.norm_1(x_BTC + self.attention(x_BTC, noise, packing, past, everywhere, bidirectional))
        y_BTC: Tensor = self.norm_2(n_BTC + self.feed_forward(n_BTC, noise, packing))
        return y_BTC


class PreNormBlock(Block):
    """The same parts, but what enters a branch is normalised and the sum is left alone."""

    def forward(
        self,
        x_BTC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None = None,
        past: LayerCache | None = None,
        everywhere: GlobalTokens | None = None,
        bidirectional: bool = False,
    ) -> Tensor:
        """Return the block's output."""
        x_BTC = x_BTC + self.attention(self.norm_1(x_BTC), noise, packing, past, everywhere, bidirectional)
        y_BTC: Tensor = x_BTC + self.feed_forward(self.norm_2(x_BTC), noise, packing)
        return y_BTC


def transformer_blocks(shape: Shape, *, fused: bool = False) -> list[nn.Module]:
    """Return a network's blocks, first to last; `fused` ones have kernels of our own."""
    kind = _fused_block(shape) if fused else PreNormBlock if shape.norm_first else Block
    return [kind(shape, layer) for layer in range(shape.layers)]


def why_not_fused(shape: Shape) -> str | None:
    """Return why blocks of this shape cannot have kernels of our own here; None: they can."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    from gpt1.model.kernels.block import why_not

    return why_not(shape)


def _fused_block(shape: Shape) -> type[Block]:
    if (reason := why_not_fused(shape)) is not None:
        raise SettingError(f"blocks cannot be fused: {reason}; leave them as they are")
    from gpt1.model.kernels.block import FusedBlock

    return FusedBlock
