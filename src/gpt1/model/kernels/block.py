"""The paper's block by fused kernels: what a compiler leaves apart between two matrix products is one pass.

The twin of `Block` in `model/transformer.py`, which is its judge: the same parameters, the same masks. It works on rows
of tokens; a bias before a kernel is added by that kernel, and its gradient is a sum that the kernel makes on its way.
Where a branch leaves, its gradient is added to that of what goes past by the product that makes it.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpt1.model.dropout import DropoutKey
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.kernels.attention import HEAD_WIDTHS, fused_attention
from gpt1.model.kernels.gelu import column_sums, fused_bias_gelu
from gpt1.model.kernels.masks import Masks, masks_at
from gpt1.model.kernels.norm import WIDEST, fused_drop_add_norm, norm_of
from gpt1.model.kv_cache import LayerCache
from gpt1.model.layers import Linear
from gpt1.model.packing import Packing
from gpt1.model.transformer import Block
from gpt1.recipes.values import LSTM, Shape


class FusedBlock(Block):
    """A block with the kernels' arithmetic where it is given a packed row; with a past it is the plain one.

    So it is where it looks both ways: the kernels of attention are causal.
    """

    def forward(
        self,
        x_NC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None = None,
        past: LayerCache | None = None,
        everywhere: GlobalTokens | None = None,
        bidirectional: bool = False,
    ) -> Tensor:
        """Return the block's output."""
        if packing is None or past is not None or bidirectional:
            return super().forward(x_NC, noise, packing, past, everywhere, bidirectional)
        own, wide = self.attention, self.feed_forward
        weights, after_1, after_2 = (
            masks_at(own.dropout, noise, site, packing)
            for site in (own.weights_site, own.branch_site, wide.branch_site)
        )
        qkv_NC, x_NC = branch_off(x_NC, own.qkv.weight, own.qkv.bias)
        y_NHD = fused_attention(qkv_NC.unflatten(-1, (3, own.heads, -1)), weights)
        n_NC = _add(x_NC, y_NHD.flatten(-2), own.out, self.norm_1, after_1)
        up_NF, n_NC = branch_off(n_NC, wide.up.weight, None)
        return _add(n_NC, fused_bias_gelu(up_NF, cast(Tensor, wide.up.bias)), wide.down, self.norm_2, after_2)


def why_not(shape: Shape) -> str | None:
    """Return why the blocks of a shape cannot be fused here; None: they can."""
    width = shape.width // shape.heads
    reasons = {
        "there is no GPU": not torch.cuda.is_available() and not triton.knobs.runtime.interpret,
        "the network is an LSTM": shape.kind == LSTM,
        "what enters a branch is normalised (norm_first)": shape.norm_first,
        f"its activation is {shape.activation}": shape.activation != "gelu",
        f"its positions are {shape.positions}": shape.positions != "learned",
        "queries and keys are normalised (qk_norm)": shape.qk_norm,
        "it has a window": shape.window is not None,
        "it has no biases": not shape.bias,
        f"its heads are {width} wide, not one of {', '.join(map(str, HEAD_WIDTHS))}": width not in HEAD_WIDTHS,
        f"it is wider than {WIDEST}": shape.width > WIDEST,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def branch_off(x_NC: Tensor, weight_FC: Tensor, bias_F: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return x W^T + b, and x to go past it: what adds x to the branch must be the only one that uses it."""
    bias_F = None if bias_F is None else bias_F.to(x_NC.dtype)
    results = _BranchOff.apply(x_NC, weight_FC.to(x_NC.dtype), bias_F)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor], results)


class _BranchOff(torch.autograd.Function):
    """The gradient of what went past is new and nobody else's: the product is added to it in place."""

    @staticmethod
    def forward(ctx: Any, x_NC: Tensor, weight_FC: Tensor, bias_F: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x_NC, weight_FC)
        ctx.has_bias = bias_F is not None
        return functional.linear(x_NC, weight_FC, bias_F), x_NC.view_as(x_NC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NF: Tensor, grad_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, weight_FC = ctx.saved_tensors
        grad_bias = column_sums(grad_NF).to(weight_FC.dtype) if ctx.has_bias else None
        return grad_NC.addmm_(grad_NF, weight_FC), grad_NF.T @ x_NC, grad_bias


def _add(x_NC: Tensor, y_NF: Tensor, last: Linear, norm: nn.Module, masks: Masks) -> Tensor:
    """Return the norm of `x` and what a branch's last layer makes, dropped."""
    branch_NC = functional.linear(y_NF, last.weight.to(y_NF.dtype))
    return fused_drop_add_norm(x_NC, branch_NC, last.bias, norm_of(norm), masks)[0]
