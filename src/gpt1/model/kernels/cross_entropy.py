"""Softmax cross-entropy and its gradient in one Triton kernel: a program a row, the gradient written over the logits.

The twin of `plain_cross_entropy_` in `loss.py`, which is its judge. A row is read twice and written once: first its
maximum and its sum of exponentials in one sweep, then the gradient.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

BLOCK = 4096  # columns at a time
WARPS = 8


def fused_cross_entropy_(logits_NV: Tensor, targets_N: Tensor, weights_N: Tensor | None, vocab_size: int) -> Tensor:
    """Return each row's loss; with weights, overwrite the logits with the gradient of the weighted sum of losses."""
    rows, width = logits_NV.shape
    losses_N = torch.empty(rows, dtype=torch.float32, device=logits_NV.device)
    _cross_entropy[(rows,)](
        logits_NV,
        targets_N.contiguous(),
        losses_N if weights_N is None else weights_N.contiguous(),  # without weights the pointer is not followed
        losses_N,
        vocab_size,
        width,
        GRADIENT=weights_N is not None,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
    return losses_N


def fused_times(x: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `x` times a number that lies on the device, in this type."""
    y = torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)
    _times[(triton.cdiv(x.numel(), BLOCK),)](x.contiguous(), factor, y, x.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return y


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _times(x, factor, y, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < size, 0.0).to(tl.float32) * tl.load(factor).to(tl.float32)
    tl.store(y + at, value.to(y.dtype.element_ty), at < size)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _cross_entropy(  # type: ignore[no-untyped-def]
    logits, targets, weights, losses, vocab_size, width, GRADIENT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    line = logits + row.to(tl.int64) * width  # 32 bits are too few for all logits
    target = tl.load(targets + row)
    counted = target >= 0

    top = -float("inf")
    total = tl.zeros((BLOCK,), tl.float32)
    chosen = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        # Read up to the width, then cut at the vocabulary: a width that is a multiple of 128 allows wide loads.
        x = tl.load(line + column, column < width, 0.0).to(tl.float32)
        x = tl.where(column < vocab_size, x, -float("inf"))
        chosen += tl.where(column == target, x, 0.0)
        higher = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    normalizer = top + tl.log(tl.sum(total, 0))
    tl.store(losses + row, tl.where(counted, normalizer - tl.sum(chosen, 0), 0.0))

    if GRADIENT:
        weight = tl.where(counted, tl.load(weights + row), 0.0)
        for start in range(0, width, BLOCK):
            column = start + tl.arange(0, BLOCK)
            x = tl.load(line + column, column < width, 0.0).to(tl.float32)
            share = tl.where(column < vocab_size, tl.exp(x - normalizer), 0.0)
            gradient = weight * (share - tl.where(column == target, 1.0, 0.0))
            tl.store(line + column, gradient.to(logits.dtype.element_ty), column < width)
