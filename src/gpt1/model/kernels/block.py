"""The paper's block by fused kernels: what a compiler leaves apart between two matrix products is one pass.

The twin of `Block` in `model/transformer.py`, which is its judge: the same parameters, the same masks. It works on rows
of tokens, and each half of it, a branch and the norm of the sum, writes its own gradient: a bias is added by the kernel
that comes next, and its gradient is a sum that a kernel makes on its way; where a branch leaves, its gradient is added
to that of what goes past by the product that makes it. While its matrices add to their gradients themselves
(`layers.adding_in_products`), so do its products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpt1.base.torch_internals import library_attention, library_attention_backward
from gpt1.model.accumulation import add_product
from gpt1.model.dropout import DropoutKey
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.kernels import attention, gelu, norm
from gpt1.model.kernels.attention import HEAD_WIDTHS
from gpt1.model.kernels.columns import add_parts, column_parts, pack_columns
from gpt1.model.kernels.masks import Masks, masks_at
from gpt1.model.kernels.norm import WIDEST, Norm, norm_of
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
        n_NC = _half(_AttentionHalf, x_NC, own.qkv, own.out, self.norm_1, after_1, weights, own.heads)
        return _half(_FeedForwardHalf, n_NC, wide.up, wide.down, self.norm_2, after_2)


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
        "its output matrix is not the table of tokens": not shape.tied,
        f"its heads are {width} wide, not one of {', '.join(map(str, HEAD_WIDTHS))}": width not in HEAD_WIDTHS,
        f"it is wider than {WIDEST}": shape.width > WIDEST,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


class _Layer(NamedTuple):
    """A matrix and its bias as products read them, and the gradients that theirs are added to, if they are."""

    weight: Tensor
    bias: Tensor
    totals: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, layer: Linear, dtype: torch.dtype) -> _Layer:
        """Return a layer in this type."""
        bias = cast(nn.Parameter, layer.bias)
        totals = layer.weight.grad, bias.grad
        if layer.copies is not None and layer.copies[0].dtype == dtype and all(x is not None for x in totals):
            return cls(layer.copies[0], cast(Tensor, layer.copies[1]), cast(tuple[Tensor, Tensor], totals))
        return cls(layer.weight.detach().to(dtype), bias.detach().to(dtype), None)


def _half(kind: Any, x_NC: Tensor, first: Linear, last: Linear, after: nn.Module, masks: Masks, *more: Any) -> Tensor:
    """Return the norm of `x` and what a branch makes of it, dropped; a branch begins and ends with a matrix."""
    kept = norm_of(after)
    learned = first.weight, first.bias, last.weight, last.bias, kept.gain, kept.bias
    layers = _Layer.of(first, x_NC.dtype), _Layer.of(last, x_NC.dtype)
    return cast(Tensor, kind.apply(x_NC.contiguous(), *learned, layers, kept, masks, *more))


class _AttentionHalf(torch.autograd.Function):
    """Keeps what comes in, queries, keys and values, what is gathered, and the sum."""

    @staticmethod
    def forward(ctx: Any, x_NC: Tensor, *given: Any) -> Tensor:
        *learned, (qkv, out), kept, masks, weights, heads = given
        qkv_N3HD = functional.linear(x_NC, qkv.weight, qkv.bias).unflatten(-1, (3, heads, -1))
        y_NC, of_attention = _attend(qkv_N3HD, weights)
        branch_NC = functional.linear(y_NC, out.weight)
        result_NC, sum_NC, moments_N2 = norm.forward(x_NC, branch_NC, learned[3], kept, masks)
        ctx.save_for_backward(x_NC, qkv_N3HD, y_NC, sum_NC, moments_N2, qkv.weight, out.weight, *of_attention)
        ctx.given = _Gradients(qkv.totals, out.totals, kept), masks, weights
        return result_NC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, qkv_N3HD, y_NC, sum_NC, moments_N2, qkv_weight, out_weight, *of_attention = ctx.saved_tensors
        gradients, masks, weights = ctx.given
        dx_NC, dbranch_NC, of_norm = gradients.of_norm(grad_NC, sum_NC, moments_N2, masks)
        out = gradients.of_matrix(1, dbranch_NC, y_NC)
        dqkv_NC, parts_PF = _attend_backward(dbranch_NC @ out_weight, qkv_N3HD, y_NC, of_attention, weights)
        qkv = gradients.of_matrix(0, dqkv_NC, x_NC), gradients.of_bias(parts_PF)
        dx_NC.addmm_(dqkv_NC, qkv_weight)
        return dx_NC, *qkv, out, *of_norm, *[None] * 5


class _FeedForwardHalf(torch.autograd.Function):
    """Keeps what comes in, the values before and after the activation, and the sum."""

    @staticmethod
    def forward(ctx: Any, x_NC: Tensor, *given: Any) -> Tensor:
        *learned, (up, down), kept, masks = given
        before_NF = functional.linear(x_NC, up.weight)
        y_NF = gelu.forward(before_NF, up.bias)
        branch_NC = functional.linear(y_NF, down.weight)
        result_NC, sum_NC, moments_N2 = norm.forward(x_NC, branch_NC, learned[3], kept, masks)
        ctx.save_for_backward(x_NC, before_NF, y_NF, sum_NC, moments_N2, up.weight, up.bias, down.weight)
        ctx.given = _Gradients(up.totals, down.totals, kept), masks
        return result_NC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, before_NF, y_NF, sum_NC, moments_N2, up_weight, up_bias, down_weight = ctx.saved_tensors
        gradients, masks = ctx.given
        dx_NC, dbranch_NC, of_norm = gradients.of_norm(grad_NC, sum_NC, moments_N2, masks)
        down = gradients.of_matrix(1, dbranch_NC, y_NF)
        dbefore_NF, parts_PF = gelu.backward(dbranch_NC @ down_weight, before_NF, up_bias)
        up = gradients.of_matrix(0, dbefore_NF, x_NC), gradients.of_bias(parts_PF)
        dx_NC.addmm_(dbefore_NF, up_weight)
        return dx_NC, *up, down, *of_norm, *[None] * 3


class _Gradients(NamedTuple):
    """Where the gradients of a half go: to those that are there already, or to autograd."""

    first: tuple[Tensor, Tensor] | None
    last: tuple[Tensor, Tensor] | None
    norm: Norm

    def of_matrix(self, which: int, grad_NF: Tensor, x_NC: Tensor) -> Tensor | None:
        """Return the gradient of the first matrix or the last, or add it."""
        totals = self[which]
        if totals is None:
            return grad_NF.T @ x_NC
        add_product(totals[0], grad_NF.T, x_NC)
        return None

    def of_bias(self, parts_PF: Tensor) -> Tensor | None:
        """Return the gradient of the first bias, or add it, given parts of it."""
        (found,) = add_parts(parts_PF.unsqueeze(1), None if self.first is None else [self.first[1]])
        return found if self.first is None else None

    def of_norm(
        self, grad_NC: Tensor, sum_NC: Tensor, moments_N2: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor, list[Tensor | None]]:
        """Return the gradients of `x` and the branch, and of last bias, gain and bias, unless they are added."""
        gain, bias = self.norm.gain, self.norm.bias
        saved = sum_NC, moments_N2, gain, self.norm.centred
        dx_NC, dbranch_NC, parts_P3C = norm.backward((grad_NC.contiguous(), None), saved, masks, adds=True)
        if self.last is None or bias is None:
            dgain, dbias, dlast = add_parts(parts_P3C, None)
            return dx_NC, dbranch_NC, [dlast, dgain, None if bias is None else dbias]
        add_parts(parts_P3C, [cast(Tensor, gain.grad), cast(Tensor, bias.grad), self.last[1]])
        return dx_NC, dbranch_NC, [None] * 3


def _attend(qkv_N3HD: Tensor, masks: Masks) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return what each token gathers [N, C], and what its gradient is made of besides."""
    if _in_library(qkv_N3HD, masks):
        y_BHTD, kept = library_attention(_heads(qkv_N3HD, masks), masks.rate)
        return y_BHTD.transpose(1, 2).reshape(len(qkv_N3HD), -1), kept
    words = attention.words_of(qkv_N3HD.shape[2], masks)
    y_NHD, sums_HN = attention.forward(qkv_N3HD, words, masks)
    return y_NHD.flatten(1), (sums_HN, *words)


def _attend_backward(
    grad_NC: Tensor, qkv_N3HD: Tensor, y_NC: Tensor, saved: Sequence[Tensor], masks: Masks
) -> tuple[Tensor, Tensor]:
    """Return the gradient of the projection [N, 3 C], and parts of the sums of its columns."""
    grad_NHD, y_NHD = (x_NC.view(len(x_NC), *qkv_N3HD.shape[2:]) for x_NC in (grad_NC, y_NC))
    if not _in_library(qkv_N3HD, masks):
        sums_HN, *words = saved
        dqkv_NC = attention.backward(grad_NHD, qkv_N3HD, y_NHD, sums_HN, (words[0], words[1]), masks).flatten(1)
        return dqkv_NC, column_parts(dqkv_NC)
    size = -1, masks.packing.longest
    grad_BHTD, y_BHTD = (x_NHD.unflatten(0, size).transpose(1, 2) for x_NHD in (grad_NHD, y_NHD))
    grads = library_attention_backward(grad_BHTD, _heads(qkv_N3HD, masks), y_BHTD, saved, masks.rate)
    return pack_columns(*(x_BHTD.transpose(1, 2).reshape(grad_NC.shape) for x_BHTD in grads))


def _in_library(qkv_N3HD: Tensor, masks: Masks) -> bool:
    """Whether cuDNN attends: where all sequences are equally long it is faster than our kernel."""
    return qkv_N3HD.is_cuda and qkv_N3HD.element_size() == 2 and masks.packing.is_grid


def _heads(qkv_N3HD: Tensor, masks: Masks) -> tuple[Tensor, ...]:
    """Return queries, keys and values [B, H, T, D]."""
    q_BHTD, k_BHTD, v_BHTD = qkv_N3HD.unflatten(0, (-1, masks.packing.longest)).transpose(1, 3).unbind(2)
    return q_BHTD, k_BHTD, v_BHTD
