"""The paper's block while it learns: one pass forwards, one backwards that adds to the gradients of weights itself.

The twin of `Block` in `model/transformer.py` under autograd, which is its judge: the same parameters, the same masks.
Between products it has the kernels of `block.py`; its own backward pass is written out. What leads to the gradient of
the block's input goes one step after another, each with few rows and half of the device idle; the gradients of weights
wait for none of that, and are made beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpt1.model.accumulation import Additions
from gpt1.model.dropout import DropoutKey
from gpt1.model.kernels import attention, gelu, norm
from gpt1.model.kernels.columns import add_parts, column_parts
from gpt1.model.kernels.masks import Masks, masks_at
from gpt1.model.packing import Packing


class Copies(NamedTuple):
    """A block's matrices, and the bias that a product adds, in the type that is computed in."""

    qkv: Tensor
    out: Tensor
    up: Tensor
    down: Tensor
    qkv_bias: Tensor


def learning_block(
    block: Any, x_NC: Tensor, noise: DropoutKey | None, packing: Packing, additions: Additions
) -> Tensor:
    """Return the block's output; backwards, add to the `grad` of its parameters."""
    own, wide = block.attention, block.feed_forward
    masks = tuple(
        masks_at(own.dropout, noise, site, packing) for site in (own.weights_site, own.branch_site, wide.branch_site)
    )
    (qkv, qkv_bias), (out, _), (up, _), (down, _) = (layer.copies for layer in (own.qkv, own.out, wide.up, wide.down))
    copies = Copies(qkv, out, up, down, qkv_bias)
    return cast(Tensor, _LearningBlock.apply(x_NC, own.qkv.weight, block, copies, masks, additions))  # type: ignore[no-untyped-call]


class _LearningBlock(torch.autograd.Function):
    """Keeps what products and kernels read."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NC: Tensor,
        any_weight: Tensor,
        block: Any,
        copies: Copies,
        masks: tuple[Masks, Masks, Masks],
        additions: Additions,
    ) -> Tensor:
        x_NC = x_NC.contiguous()
        own, wide = block.attention, block.feed_forward
        qkv_N3HD = functional.linear(x_NC, copies.qkv, copies.qkv_bias).unflatten(-1, (3, own.heads, -1))
        words = attention.words_of(own.heads, masks[0])
        y_NHD, sums_HN = attention.forward(qkv_N3HD, words, masks[0])
        branch_NC = functional.linear(y_NHD.flatten(-2), copies.out)
        n_NC, sum_1, moments_1 = norm.forward(x_NC, branch_NC, own.out.bias, norm.norm_of(block.norm_1), masks[1])
        up_NF = functional.linear(n_NC, copies.up)
        a_NF = gelu.forward(up_NF, wide.up.bias)
        branch_NC = functional.linear(a_NF, copies.down)
        z_NC, sum_2, moments_2 = norm.forward(n_NC, branch_NC, wide.down.bias, norm.norm_of(block.norm_2), masks[2])
        ctx.save_for_backward(
            *(x_NC, qkv_N3HD, y_NHD, sums_HN, *words, sum_1, moments_1, n_NC, up_NF, a_NF, sum_2, moments_2)
        )
        ctx.settings = block, copies, masks, additions
        return z_NC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, qkv_N3HD, y_NHD, sums_HN, rows, columns, sum_1, moments_1, n_NC, up_NF, a_NF, sum_2, moments_2 = (
            ctx.saved_tensors
        )
        block, copies, masks, additions = ctx.settings
        own, wide = block.attention, block.feed_forward

        dn_NC, branch_NC, parts = _norm_parts(grad_NC, block.norm_2, sum_2, moments_2, masks[2])
        with additions.beside(branch_NC, a_NF, parts):
            add_parts(parts, _grads(block.norm_2, wide.down))
            additions.put_product(wide.down.weight.grad, branch_NC.T, a_NF)
        up_grad_NF, up_parts = gelu.backward(branch_NC @ copies.down, up_NF, wide.up.bias)
        with additions.beside(up_grad_NF, n_NC, up_parts):
            add_parts(up_parts.unsqueeze(1), [wide.up.bias.grad])
            additions.put_product(wide.up.weight.grad, up_grad_NF.T, n_NC)
        dn_NC.addmm_(up_grad_NF, copies.up)

        dx_NC, branch_NC, parts = _norm_parts(dn_NC, block.norm_1, sum_1, moments_1, masks[1])
        with additions.beside(branch_NC, y_NHD, parts):
            add_parts(parts, _grads(block.norm_1, own.out))
            additions.put_product(own.out.weight.grad, branch_NC.T, y_NHD.flatten(-2))
        dy_NHD = (branch_NC @ copies.out).view_as(y_NHD)
        dqkv_NF = attention.backward(dy_NHD, qkv_N3HD, y_NHD, sums_HN, (rows, columns), masks[0]).flatten(1)
        with additions.beside(dqkv_NF, x_NC):
            add_parts(column_parts(dqkv_NF).unsqueeze(1), [own.qkv.bias.grad])
            additions.put_product(own.qkv.weight.grad, dqkv_NF.T, x_NC)
        return dx_NC.addmm_(dqkv_NF, copies.qkv), None, None, None, None, None


def _norm_parts(
    grad_NC: Tensor, layer: nn.Module, sum_NC: Tensor, moments_N2: Tensor, masks: Masks
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the terms of a sum that was normalised, and parts of those of gain and biases."""
    of = norm.norm_of(layer)
    return norm.backward((grad_NC.contiguous(), None), (sum_NC, moments_N2, of.gain, of.centred), masks, adds=True)


def _grads(after: nn.Module, last: nn.Module) -> list[Tensor]:
    """Return where the gradients of a norm's gain and bias and of the bias before it are added up."""
    return [cast(Any, after).gain.grad, cast(Any, after).bias.grad, cast(Any, last).bias.grad]
