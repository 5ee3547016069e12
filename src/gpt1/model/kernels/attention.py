"""Causal attention within each sequence of a packed row, with dropout whose masks are our own, in Triton kernels.

The twin of `attend_packed` in `model/attention.py` where its weights are written out, which is its judge: the same
weights are dropped. No score is ever stored: the forward pass keeps a number a row and head (the logarithm of the sum
of exponentials), the backward pass makes scores and masks anew. In it a program takes the gradients of a block of keys
and values and then of the block of queries at the same place: nobody adds to what another one wrote, so sums are taken
in one order, and early and late blocks have about the same work together.

Queries, keys and values stand side by side as their projection leaves them [N, 3, H, D], and so do their gradients.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.kernels.dropout import keeps, mix
from gpt1.model.kernels.masks import Masks

HEAD_WIDTHS = 16, 32, 64, 128  # of which the kernels can make tiles

# Queries and keys at a time, warps, stages of the pipeline. Swept on an H200 for heads of 64 with a cheaper hash; a
# block of keys must hold a whole number of blocks of queries, in the forward pass the other way round.
SHORT = 64  # tokens: one block
FORWARD, FORWARD_SHORT = (64, 64, 4, 3), (64, 64, 4, 2)
BACKWARD, BACKWARD_SHORT = (32, 128, 4, 3), (32, 64, 4, 3)
TOKENS = 128  # of a head, at a time, where nothing is multiplied


def fused_attention(qkv_N3HD: Tensor, masks: Masks) -> Tensor:
    """Return what each token gathers [N, H, D] from itself and those of its sequence before it."""
    return cast(Tensor, _Attention.apply(qkv_N3HD, masks))  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    """Keeps what comes in, what goes out, the words of the masks and a number a row."""

    @staticmethod
    def forward(ctx: Any, qkv_N3HD: Tensor, masks: Masks) -> Tensor:
        qkv_N3HD = qkv_N3HD.contiguous()
        words = mask_words(qkv_N3HD.shape[2], masks)
        y_NHD, sums_HN = forward(qkv_N3HD, words, masks)
        ctx.save_for_backward(qkv_N3HD, y_NHD, sums_HN, *words)
        ctx.masks = masks
        return y_NHD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NHD: Tensor) -> tuple[Tensor, None]:
        qkv_N3HD, y_NHD, sums_HN, *words = ctx.saved_tensors
        return backward(grad_NHD.contiguous(), qkv_N3HD, y_NHD, sums_HN, (words[0], words[1]), ctx.masks), None


def mask_words(heads: int, masks: Masks) -> tuple[Tensor, Tensor]:
    """Return the word of each query in each head [H, N], and of each key's position [longest]."""
    packing, N = masks.packing, len(masks.packing.sequence)
    rows_HN = torch.empty((heads, N), dtype=torch.int32, device=masks.word.device)
    columns_T = torch.empty(packing.longest, dtype=torch.int32, device=masks.word.device)
    if masks.rate:
        programs = triton.cdiv(max(N, packing.longest), TOKENS), heads
        _word[programs](rows_HN, columns_T, *masks.pointers, masks.site, N, packing.longest, BLOCK=TOKENS)
    return rows_HN, columns_T


def forward(qkv_N3HD: Tensor, words: tuple[Tensor, Tensor], masks: Masks) -> tuple[Tensor, Tensor]:
    """Return what each token gathers [N, H, D], and of each row the logarithm of its sum [H, N]."""
    N, _, H, D = qkv_N3HD.shape
    packing = masks.packing
    y_NHD = qkv_N3HD.new_empty(N, H, D)
    sums_HN = qkv_N3HD.new_empty(H, N, dtype=torch.float32)
    queries, keys, warps, stages = FORWARD if packing.longest > SHORT else FORWARD_SHORT
    programs = triton.cdiv(packing.longest, queries), H, len(packing.offsets) - 1
    _attend[programs](
        *(qkv_N3HD, y_NHD, sums_HN, packing.offsets, *words, N),
        *(math.log2(math.e) / math.sqrt(D), masks.limit, masks.scale),
        HEADS=H,
        D=D,
        DROP=masks.rate > 0,
        BM=queries,
        BN=keys,
        num_warps=warps,
        num_stages=stages,
    )
    return y_NHD, sums_HN


def backward(
    grad_NHD: Tensor, qkv_N3HD: Tensor, y_NHD: Tensor, sums_HN: Tensor, words: tuple[Tensor, Tensor], masks: Masks
) -> Tensor:
    """Return the gradient of queries, keys and values [N, 3, H, D]."""
    N, _, H, D = qkv_N3HD.shape
    packing = masks.packing
    grads_N3HD, dots_HN = torch.empty_like(qkv_N3HD), torch.empty_like(sums_HN)
    _dot[(triton.cdiv(N, TOKENS), H)](y_NHD, grad_NHD, dots_HN, N, D=D, BLOCK=TOKENS)
    queries, keys, warps, stages = BACKWARD if packing.longest > SHORT else BACKWARD_SHORT
    programs = triton.cdiv(packing.longest, keys), H, len(packing.offsets) - 1
    _attend_backward[programs](
        *(qkv_N3HD, grad_NHD, sums_HN, dots_HN, grads_N3HD, packing.offsets, *words, N),
        *(1 / math.sqrt(D), math.log2(math.e) / math.sqrt(D), masks.limit, masks.scale),
        HEADS=H,
        D=D,
        DROP=masks.rate > 0,
        BM=queries,
        BN=keys,
        num_warps=warps,
        num_stages=stages,
    )
    return grads_N3HD


@triton.jit(do_not_specialize=["site"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _word(  # type: ignore[no-untyped-def]
    rows, columns, word, numbers, sequence, position, site, tokens, longest, BLOCK: tl.constexpr
):
    head = tl.program_id(1)
    key = mix(tl.load(word) ^ site)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < tokens
    number = tl.load(numbers + tl.load(sequence + at, inside, 0), inside, 0).to(tl.int32)
    row = mix(mix(mix(key ^ number) ^ head) ^ tl.load(position + at, inside, 0).to(tl.int32))
    tl.store(rows + head.to(tl.int64) * tokens + at, row, inside)
    if head == 0:
        tl.store(columns + at, mix(mix(key ^ -1) ^ at), at < longest)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _tile(base, row, stride, size, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """Read a head's vectors of these tokens; those beyond the sequence are 0."""
    return tl.load(base + row[:, None] * stride + tl.arange(0, D)[None, :], row[:, None] < size, 0.0)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _put(base, row, stride, size, x, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write a head's vectors of these tokens, but not of those beyond the sequence."""
    at = base + row[:, None] * stride + tl.arange(0, D)[None, :]
    tl.store(at, x.to(base.dtype.element_ty), row[:, None] < size)


@triton.jit(do_not_specialize=["limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    qkv,
    y,
    sums,
    offsets,
    rows,
    columns,
    tokens,
    factor,
    limit,
    scale,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    DROP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(offsets + sequence)
    size = tl.load(offsets + sequence + 1) - first
    if block * BM < size:
        C: tl.constexpr = HEADS * D
        token = first.to(tl.int64)  # 32 bits are too few for all elements
        base = qkv + token * (3 * C) + head * D
        line = head.to(tl.int64) * tokens + token
        m = block * BM + tl.arange(0, BM)
        q = _tile(base, m, 3 * C, size, D)
        if DROP:
            row = tl.load(rows + line + m, m < size, 0)
        top = tl.full((BM,), -float("inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        gathered = tl.zeros((BM, D), tl.float32)
        for diagonal in tl.static_range(2):  # blocks of which every query sees every key, then those that need a look
            for start in range(diagonal * block * BM, tl.minimum((block + diagonal) * BM, size), BN):
                n = start + tl.arange(0, BN)
                k = _tile(base + C, n, 3 * C, size, D)
                v = _tile(base + 2 * C, n, 3 * C, size, D)
                x = tl.dot(q, tl.trans(k), input_precision="ieee") * factor
                if diagonal:
                    x = tl.where(m[:, None] >= n[None, :], x, -float("inf"))
                higher = tl.maximum(top, tl.max(x, 1))
                p = tl.exp2(x - higher[:, None])
                shrink = tl.exp2(top - higher)
                top = higher
                total = total * shrink + tl.sum(p, 1)
                if DROP:
                    column = tl.load(columns + n, n < size, 0)
                    p = tl.where(keeps(row[:, None], column[None, :], limit), p, 0.0)
                gathered = tl.dot(p.to(v.dtype), v, gathered * shrink[:, None], input_precision="ieee")
        tl.store(sums + line + m, top + tl.log2(total), m < size)
        if DROP:
            gathered *= scale
        _put(y + token * C + head * D, m, C, size, gathered / total[:, None], D)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _dot(x, y, dots, tokens, D: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    head, heads = tl.program_id(1), tl.num_programs(1)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = n.to(tl.int64)
    a = _tile(x + head * D, n, heads * D, tokens, D).to(tl.float32)
    b = _tile(y + head * D, n, heads * D, tokens, D).to(tl.float32)
    tl.store(dots + head.to(tl.int64) * tokens + n, tl.sum(a * b, 1), n < tokens)


@triton.jit(do_not_specialize=["limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _attend_backward(  # type: ignore[no-untyped-def]
    qkv,
    grad,
    sums,
    dots,
    grads,
    offsets,
    rows,
    columns,
    tokens,
    factor,
    factor_2,
    limit,
    scale,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    DROP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(offsets + sequence)
    size = tl.load(offsets + sequence + 1) - first
    if block * BN < size:
        C: tl.constexpr = HEADS * D
        token = first.to(tl.int64)
        base, into = qkv + token * (3 * C) + head * D, grads + token * (3 * C) + head * D
        come = grad + token * C + head * D
        line = head.to(tl.int64) * tokens + token

        # Keys and values of this block, met by the queries from here on; what meets is [keys, queries].
        n = block * BN + tl.arange(0, BN)
        k = _tile(base + C, n, 3 * C, size, D)
        v = _tile(base + 2 * C, n, 3 * C, size, D)
        if DROP:
            column = tl.load(columns + n, n < size, 0)
        dk = tl.zeros((BN, D), tl.float32)
        dv = tl.zeros((BN, D), tl.float32)
        for diagonal in tl.static_range(2):
            begin = (block + 1 - diagonal) * BN
            end = tl.minimum(begin + BN, size) if diagonal else size
            for start in range(begin, end, BM):
                m = start + tl.arange(0, BM)
                q = _tile(base, m, 3 * C, size, D)
                dy = _tile(come, m, C, size, D)
                normalizer = tl.load(sums + line + m, m < size, float("inf"))  # beyond the sequence: weight 0
                dot = tl.load(dots + line + m, m < size, 0.0)
                x = tl.dot(k, tl.trans(q), input_precision="ieee") * factor_2 - normalizer[None, :]
                if diagonal:
                    x = tl.where(m[None, :] >= n[:, None], x, -float("inf"))
                p = tl.exp2(x)
                dp = tl.dot(v, tl.trans(dy), input_precision="ieee")
                kept = p
                if DROP:
                    row = tl.load(rows + line + m, m < size, 0)
                    keep = keeps(row[None, :], column[:, None], limit)
                    dp = tl.where(keep, dp, 0.0)
                    kept = tl.where(keep, p, 0.0)
                dv = tl.dot(kept.to(dy.dtype), dy, dv, input_precision="ieee")
                dx = p * (dp * scale - dot[None, :])
                dk = tl.dot(dx.to(q.dtype), q, dk, input_precision="ieee")
        if DROP:
            dv *= scale
        _put(into + C, n, 3 * C, size, dk * factor, D)
        _put(into + 2 * C, n, 3 * C, size, dv, D)

        # Queries of this block, who meet the keys up to here; what meets is [queries, keys].
        m_2 = block * BN + tl.arange(0, BN)
        q_2 = _tile(base, m_2, 3 * C, size, D)
        dy_2 = _tile(come, m_2, C, size, D)
        normalizer_2 = tl.load(sums + line + m_2, m_2 < size, float("inf"))
        dot_2 = tl.load(dots + line + m_2, m_2 < size, 0.0)
        if DROP:
            row_2 = tl.load(rows + line + m_2, m_2 < size, 0)
        dq = tl.zeros((BN, D), tl.float32)
        for diagonal in tl.static_range(2):
            for start_2 in range(diagonal * block * BN, tl.minimum((block + diagonal) * BN, size), BM):
                n_2 = start_2 + tl.arange(0, BM)
                k_2 = _tile(base + C, n_2, 3 * C, size, D)
                v_2 = _tile(base + 2 * C, n_2, 3 * C, size, D)
                x_2 = tl.dot(q_2, tl.trans(k_2), input_precision="ieee") * factor_2 - normalizer_2[:, None]
                if diagonal:
                    x_2 = tl.where(m_2[:, None] >= n_2[None, :], x_2, -float("inf"))
                p_2 = tl.exp2(x_2)
                dp_2 = tl.dot(dy_2, tl.trans(v_2), input_precision="ieee")
                if DROP:
                    column_2 = tl.load(columns + n_2, n_2 < size, 0)
                    dp_2 = tl.where(keeps(row_2[:, None], column_2[None, :], limit), dp_2, 0.0)
                dx_2 = p_2 * (dp_2 * scale - dot_2[:, None])
                dq = tl.dot(dx_2.to(k_2.dtype), k_2, dq, input_precision="ieee")
        _put(into, m_2, 3 * C, size, dq * factor, D)
