"""Attention in a sliding window, with global tokens, within each sequence of a packed row, in Triton kernels.

The twin of `attend` in `model/attention.py` by blocks, which is its judge: the same tokens are looked at, and the same
weights are dropped. It works as `kernels/attention.py` does: no score is stored, and nobody adds to what another one
wrote. A block of queries goes along the keys of its windows and then over the global ones, gathered in tiles; one that
has a global token itself goes along all keys before it. Backwards keys meet queries in the same way. So the work grows
with the length; only the few blocks that have global tokens go along whole sequences.

Every pair is met once: along the keys where it is in the window or the one who goes along is global, else in a tile.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from gpt1.model.dropout import DropoutKey
from gpt1.model.kernels.attention import TOKENS, put_rows, row_dots, tile_of, words_of
from gpt1.model.kernels.dropout import keeps
from gpt1.model.kernels.masks import Masks, masks_at
from gpt1.model.packing import Packing

# Queries and keys at a time, warps, stages of the pipeline. A block of keys must hold a whole number of queries' ones.
FORWARD, BACKWARD = (64, 64, 4, 3), (32, 64, 4, 3)
TILE = 16  # global tokens at a time: the least that a product of tiles takes


def window_attention(
    q_NHD: Tensor,
    k_NHD: Tensor,
    v_NHD: Tensor,
    *,
    packing: Packing,
    window: int,
    places_BG: Tensor | None,
    rate: float,
    noise: DropoutKey | None,
    site: int,
) -> Tensor:
    """Return what each token gathers [N, H, D] from its window and from global tokens, which gather from all."""
    masks = masks_at(rate, noise, site, packing)
    B = len(packing.offsets) - 1
    places_BG = packing.offsets.new_empty(B, 0) if places_BG is None else places_BG.int().expand(B, -1).contiguous()
    masking = masks.word, masks.numbers, masks.rate, masks.site
    y_NHD: Tensor = _attention(q_NHD, k_NHD, v_NHD, *packing, places_BG, *masking, window)[0]
    return y_NHD


# An operation of the library's own kind, which a compiler takes as it is.
@torch.library.custom_op("gpt1::window_attention", mutates_args=())
def _attention(
    q_NHD: Tensor,
    k_NHD: Tensor,
    v_NHD: Tensor,
    offsets: Tensor,
    sequence: Tensor,
    position: Tensor,
    longest: int,
    places_BG: Tensor,
    word: Tensor,
    numbers: Tensor,
    rate: float,
    site: int,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Return what is gathered [N, H, D] and, of each row, the logarithm of the sum of exponentials [H, N]."""
    N, H, D = q_NHD.shape
    masks = Masks(rate, word, numbers, site, Packing(offsets, sequence, position, longest))
    q, k, v = (_in_heads(x) for x in (q_NHD, k_NHD, v_NHD))
    y_NHD, sums_HN = q.new_empty(N, H, D), q.new_empty(H, N, dtype=torch.float32)
    queries, keys, warps, stages = FORWARD
    _attend[(triton.cdiv(longest, queries), H, len(offsets) - 1)](
        *(q, k, v, y_NHD, sums_HN, offsets, *words_of(H, masks), places_BG, N),
        *(q.stride(0), k.stride(0), v.stride(0), places_BG.shape[1], window),
        *(math.log2(math.e) / math.sqrt(D), masks.limit, masks.scale),
        HEADS=H,
        D=D,
        DROP=rate > 0,
        GLOBAL=TILE if places_BG.shape[1] else 0,
        BM=queries,
        BN=keys,
        num_warps=warps,
        num_stages=stages,
    )
    return y_NHD, sums_HN


@torch.library.custom_op("gpt1::window_attention_backward", mutates_args=())
def _attention_backward(
    grad_NHD: Tensor,
    y_NHD: Tensor,
    sums_HN: Tensor,
    q_NHD: Tensor,
    k_NHD: Tensor,
    v_NHD: Tensor,
    offsets: Tensor,
    sequence: Tensor,
    position: Tensor,
    longest: int,
    places_BG: Tensor,
    word: Tensor,
    numbers: Tensor,
    rate: float,
    site: int,
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values."""
    N, H, D = q_NHD.shape
    masks = Masks(rate, word, numbers, site, Packing(offsets, sequence, position, longest))
    q, k, v, dy = (_in_heads(x) for x in (q_NHD, k_NHD, v_NHD, grad_NHD.contiguous()))
    dq, dk, dv = (torch.empty_like(y_NHD) for _ in range(3))
    dots_HN = torch.empty_like(sums_HN)
    row_dots[(triton.cdiv(N, TOKENS), H)](y_NHD, dy, dots_HN, N, D=D, BLOCK=TOKENS)
    queries, keys, warps, stages = BACKWARD
    _attend_backward[(triton.cdiv(longest, keys), H, len(offsets) - 1)](
        *(q, k, v, dy, sums_HN, dots_HN, dq, dk, dv, offsets, *words_of(H, masks), places_BG, N),
        *(q.stride(0), k.stride(0), v.stride(0), places_BG.shape[1], window),
        *(1 / math.sqrt(D), math.log2(math.e) / math.sqrt(D), masks.limit, masks.scale),
        HEADS=H,
        D=D,
        DROP=rate > 0,
        GLOBAL=TILE if places_BG.shape[1] else 0,
        BM=queries,
        BN=keys,
        num_warps=warps,
        num_stages=stages,
    )
    return dq, dk, dv


@_attention.register_fake
def _(q_NHD: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    N, H, D = q_NHD.shape
    return q_NHD.new_empty(N, H, D), q_NHD.new_empty(H, N, dtype=torch.float32)


@_attention_backward.register_fake
def _(grad_NHD: Tensor, y_NHD: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(y_NHD), torch.empty_like(y_NHD), torch.empty_like(y_NHD)


def _keep_for_gradient(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, offsets, sequence, position, longest, places, word, numbers, *masking = inputs
    ctx.save_for_backward(*output, q, k, v, offsets, sequence, position, places, word, numbers)
    ctx.settings = longest, masking


def _gradient(ctx: Any, grad_NHD: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *found, offsets, sequence, position, places, word, numbers = ctx.saved_tensors
    longest, masking = ctx.settings
    grads = _attention_backward(grad_NHD, *found, offsets, sequence, position, longest, places, word, numbers, *masking)
    return *grads, *[None] * 10


_attention.register_autograd(_gradient, setup_context=_keep_for_gradient)


def _in_heads(x_NHD: Tensor) -> Tensor:
    """Return tokens whose heads lie side by side, however far the tokens are apart."""
    return x_NHD if x_NHD.stride(2) == 1 and x_NHD.stride(1) == x_NHD.shape[2] else x_NHD.contiguous()


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _which(at, places, count, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """1 where a position is global, else 0."""
    found = tl.zeros_like(at)
    for start in range(0, count, TILE):
        slot = start + tl.arange(0, TILE)
        place = tl.load(places + slot, slot < count, -1)
        found = tl.maximum(found, tl.max((at[:, None] == place[None, :]).to(tl.int32), 1))
    return found


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _gather(  # type: ignore[no-untyped-def]
    q, k, v, allowed, top, total, gathered, row, column, factor, limit, DROP: tl.constexpr
):
    """Go on with some keys: the highest score so far, the sum of exponentials below it, what is gathered by them."""
    x = tl.dot(q, tl.trans(k), input_precision="ieee") * factor
    x = tl.where(allowed, x, -float("inf"))
    higher = tl.maximum(top, tl.max(x, 1))
    level = tl.where(higher == -float("inf"), 0.0, higher)  # of a row that has seen no key yet
    p = tl.exp2(x - level[:, None])
    shrink = tl.exp2(top - level)
    total = total * shrink + tl.sum(p, 1)
    if DROP:
        p = tl.where(keeps(row[:, None], column[None, :], limit), p, 0.0)
    gathered = tl.dot(p.to(v.dtype), v, gathered * shrink[:, None], input_precision="ieee")
    return higher, total, gathered


@triton.jit(do_not_specialize=["limit", "window"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    q_all,
    k_all,
    v_all,
    y,
    sums,
    offsets,
    rows,
    columns,
    places,
    tokens,
    q_step,
    k_step,
    v_step,
    count,
    window,
    factor,
    limit,
    scale,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    DROP: tl.constexpr,
    GLOBAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(offsets + sequence)
    size = tl.load(offsets + sequence + 1) - first
    if block * BM < size:
        C: tl.constexpr = HEADS * D
        token = first.to(tl.int64)  # 32 bits are too few for all elements
        q_own, k_own, v_own = (
            q_all + token * q_step + head * D,
            k_all + token * k_step + head * D,
            v_all + token * v_step + head * D,
        )
        line = head.to(tl.int64) * tokens + token
        own = places + sequence * count
        m = block * BM + tl.arange(0, BM)
        q = tile_of(q_own, m, q_step, size, D)
        row = m
        if DROP:
            row = tl.load(rows + line + m, m < size, 0)
        top = tl.full((BM,), -float("inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        gathered = tl.zeros((BM, D), tl.float32)
        is_global = tl.zeros_like(m)
        begin = tl.maximum(block * BM - window + 1, 0) // BN * BN
        if GLOBAL:
            is_global = _which(m, own, count, GLOBAL)
            begin = tl.where(tl.max(is_global, 0) > 0, 0, begin)
        for start in range(begin, tl.minimum((block + 1) * BM, size), BN):
            n = start + tl.arange(0, BN)
            k, v = tile_of(k_own, n, k_step, size, D), tile_of(v_own, n, v_step, size, D)
            distance = m[:, None] - n[None, :]
            allowed = (distance >= 0) & ((distance < window) | (is_global[:, None] > 0))
            column = n
            if DROP:
                column = tl.load(columns + n, n < size, 0)
            top, total, gathered = _gather(q, k, v, allowed, top, total, gathered, row, column, factor, limit, DROP)
        if GLOBAL:
            for start in range(0, count, GLOBAL):
                slot = start + tl.arange(0, GLOBAL)
                n_2 = tl.load(own + slot, slot < count, size)
                k_2, v_2 = tile_of(k_own, n_2, k_step, size, D), tile_of(v_own, n_2, v_step, size, D)
                allowed = (m[:, None] - n_2[None, :] >= window) & (is_global[:, None] == 0)
                column = n_2
                if DROP:
                    column = tl.load(columns + n_2, n_2 < size, 0)
                top, total, gathered = _gather(
                    q, k_2, v_2, allowed, top, total, gathered, row, column, factor, limit, DROP
                )
        tl.store(sums + line + m, top + tl.log2(total), m < size)
        if DROP:
            gathered *= scale
        put_rows(y + token * C + head * D, m, C, size, gathered / total[:, None], D)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _meet_queries(  # type: ignore[no-untyped-def]
    k, v, q, dy, allowed, sum, dot, row, column, dk, dv, factor, limit, scale, DROP: tl.constexpr
):
    """Add what some queries do to the gradients of keys and values; what meets is [keys, queries]."""
    x = tl.dot(k, tl.trans(q), input_precision="ieee") * factor - sum[None, :]
    p = tl.exp2(tl.where(allowed, x, -float("inf")))
    dp = tl.dot(v, tl.trans(dy), input_precision="ieee")
    kept = p
    if DROP:
        keep = keeps(row[None, :], column[:, None], limit)
        dp = tl.where(keep, dp, 0.0)
        kept = tl.where(keep, p, 0.0)
    dv = tl.dot(kept.to(dy.dtype), dy, dv, input_precision="ieee")
    dx = p * (dp * scale - dot[None, :])
    dk = tl.dot(dx.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _meet_keys(  # type: ignore[no-untyped-def]
    q, dy, k, v, allowed, sum, dot, row, column, dq, factor, limit, scale, DROP: tl.constexpr
):
    """Add what some keys do to the gradients of queries; what meets is [queries, keys]."""
    x = tl.dot(q, tl.trans(k), input_precision="ieee") * factor - sum[:, None]
    p = tl.exp2(tl.where(allowed, x, -float("inf")))
    dp = tl.dot(dy, tl.trans(v), input_precision="ieee")
    if DROP:
        dp = tl.where(keeps(row[:, None], column[None, :], limit), dp, 0.0)
    dx = p * (dp * scale - dot[:, None])
    return tl.dot(dx.to(k.dtype), k, dq, input_precision="ieee")


@triton.jit(do_not_specialize=["limit", "window"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _attend_backward(  # type: ignore[no-untyped-def]
    q_all,
    k_all,
    v_all,
    grad,
    sums,
    dots,
    dq_all,
    dk_all,
    dv_all,
    offsets,
    rows,
    columns,
    places,
    tokens,
    q_step,
    k_step,
    v_step,
    count,
    window,
    factor,
    factor_2,
    limit,
    scale,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    DROP: tl.constexpr,
    GLOBAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    block, head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(offsets + sequence)
    size = tl.load(offsets + sequence + 1) - first
    if block * BN < size:
        C: tl.constexpr = HEADS * D
        token = first.to(tl.int64)
        q_own, k_own, v_own = (
            q_all + token * q_step + head * D,
            k_all + token * k_step + head * D,
            v_all + token * v_step + head * D,
        )
        come, into = grad + token * C + head * D, token * C + head * D
        line = head.to(tl.int64) * tokens + token
        own = places + sequence * count

        # This block as keys and values, met by the queries of their windows, and by global ones or, global, by all.
        n = block * BN + tl.arange(0, BN)
        k, v = tile_of(k_own, n, k_step, size, D), tile_of(v_own, n, v_step, size, D)
        column = n
        if DROP:
            column = tl.load(columns + n, n < size, 0)
        is_global = tl.zeros_like(n)
        end = tl.minimum((block + 1) * BN + window - 1, size)
        if GLOBAL:
            is_global = _which(n, own, count, GLOBAL)
            end = tl.where(tl.max(is_global, 0) > 0, size, end)
        dk = tl.zeros((BN, D), tl.float32)
        dv = tl.zeros((BN, D), tl.float32)
        for start in range(block * BN, end, BM):
            m = start + tl.arange(0, BM)
            q, dy = tile_of(q_own, m, q_step, size, D), tile_of(come, m, C, size, D)
            sum = tl.load(sums + line + m, m < size, float("inf"))  # beyond the sequence: weight 0
            dot = tl.load(dots + line + m, m < size, 0.0)
            row = m
            if DROP:
                row = tl.load(rows + line + m, m < size, 0)
            distance = m[None, :] - n[:, None]
            allowed = (distance >= 0) & ((distance < window) | (is_global[:, None] > 0))
            dk, dv = _meet_queries(k, v, q, dy, allowed, sum, dot, row, column, dk, dv, factor_2, limit, scale, DROP)
        if GLOBAL:
            for start in range(0, count, GLOBAL):
                slot = start + tl.arange(0, GLOBAL)
                m_2 = tl.load(own + slot, slot < count, size)
                q_2, dy_2 = tile_of(q_own, m_2, q_step, size, D), tile_of(come, m_2, C, size, D)
                sum_2 = tl.load(sums + line + m_2, m_2 < size, float("inf"))
                dot_2 = tl.load(dots + line + m_2, m_2 < size, 0.0)
                row_2 = m_2
                if DROP:
                    row_2 = tl.load(rows + line + m_2, m_2 < size, 0)
                allowed = (m_2[None, :] - n[:, None] >= window) & (is_global[:, None] == 0)
                dk, dv = _meet_queries(
                    k, v, q_2, dy_2, allowed, sum_2, dot_2, row_2, column, dk, dv, factor_2, limit, scale, DROP
                )
        if DROP:
            dv *= scale
        put_rows(dk_all + into, n, C, size, dk * factor, D)
        put_rows(dv_all + into, n, C, size, dv, D)

        # This block as queries, who meet the keys of their windows, and global ones or, global, all before them.
        q_3, dy_3 = tile_of(q_own, n, q_step, size, D), tile_of(come, n, C, size, D)
        sum_3 = tl.load(sums + line + n, n < size, float("inf"))
        dot_3 = tl.load(dots + line + n, n < size, 0.0)
        row_3 = n
        if DROP:
            row_3 = tl.load(rows + line + n, n < size, 0)
        begin = tl.maximum(block * BN - window + 1, 0) // BM * BM
        if GLOBAL:
            begin = tl.where(tl.max(is_global, 0) > 0, 0, begin)
        dq = tl.zeros((BN, D), tl.float32)
        for start in range(begin, tl.minimum((block + 1) * BN, size), BM):
            n_3 = start + tl.arange(0, BM)
            k_3, v_3 = tile_of(k_own, n_3, k_step, size, D), tile_of(v_own, n_3, v_step, size, D)
            column_3 = n_3
            if DROP:
                column_3 = tl.load(columns + n_3, n_3 < size, 0)
            distance_3 = n[:, None] - n_3[None, :]
            allowed_3 = (distance_3 >= 0) & ((distance_3 < window) | (is_global[:, None] > 0))
            dq = _meet_keys(
                q_3, dy_3, k_3, v_3, allowed_3, sum_3, dot_3, row_3, column_3, dq, factor_2, limit, scale, DROP
            )
        if GLOBAL:
            for start in range(0, count, GLOBAL):
                slot_4 = start + tl.arange(0, GLOBAL)
                n_4 = tl.load(own + slot_4, slot_4 < count, size)
                k_4, v_4 = tile_of(k_own, n_4, k_step, size, D), tile_of(v_own, n_4, v_step, size, D)
                column_4 = n_4
                if DROP:
                    column_4 = tl.load(columns + n_4, n_4 < size, 0)
                allowed_4 = (n[:, None] - n_4[None, :] >= window) & (is_global[:, None] == 0)
                dq = _meet_keys(
                    q_3, dy_3, k_4, v_4, allowed_4, sum_3, dot_3, row_3, column_4, dq, factor_2, limit, scale, DROP
                )
        put_rows(dq_all + into, n, C, size, dq * factor, D)
