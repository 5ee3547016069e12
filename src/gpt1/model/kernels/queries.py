"""What queries and keys go through before they meet, in one Triton kernel: rotated by position, root mean square 1.

The twin of `UnitRMS` after `Rotary` (`model/layers.py`), which are its judges. Backwards one kernel writes the gradient
of the whole projection, that of the values among it; the rotation leaves lengths alone, so that nothing is kept but
what came in.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.layers import RMS_EPSILON

VECTORS, WARPS = 16, 4  # of a program


def fused_queries_keys(
    qkv_N3HD: Tensor, position_N: Tensor, cosines: Tensor, sines: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries and keys as they meet, and values, each [N, H, D]; `cosines` and `sines` are by position."""
    results = _QueriesKeys.apply(qkv_N3HD, position_N, cosines, sines)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor, Tensor], results)


class _QueriesKeys(torch.autograd.Function):
    """Keeps what comes in."""

    @staticmethod
    def forward(
        ctx: Any, qkv_N3HD: Tensor, position_N: Tensor, cosines: Tensor, sines: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        qkv_N3HD = qkv_N3HD.contiguous()
        ctx.save_for_backward(qkv_N3HD, position_N, cosines, sines)
        N, _, H, D = qkv_N3HD.shape
        ready_3NHD = qkv_N3HD.new_empty(3, N, H, D)
        _prepare[(triton.cdiv(N * 3 * H, VECTORS),)](
            *(qkv_N3HD, position_N, cosines, sines, *ready_3NHD, N, H, RMS_EPSILON),
            **_constants(D),
        )
        q_NHD, k_NHD, v_NHD = ready_3NHD
        return q_NHD, k_NHD, v_NHD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dq_NHD: Tensor, dk_NHD: Tensor, dv_NHD: Tensor) -> tuple[Tensor | None, ...]:
        qkv_N3HD, position_N, cosines, sines = ctx.saved_tensors
        N, _, H, D = qkv_N3HD.shape
        grad_N3HD = torch.empty_like(qkv_N3HD)
        grads = (grad.contiguous() for grad in (dq_NHD, dk_NHD, dv_NHD))
        _prepare_backward[(triton.cdiv(N * 3 * H, VECTORS),)](
            *(qkv_N3HD, position_N, cosines, sines, *grads, grad_N3HD, N, H, RMS_EPSILON),
            **_constants(D),
        )
        return grad_N3HD, None, None, None


def _constants(width: int) -> dict[str, int]:
    half = width // 2
    return {"HALF": half, "BLOCK": triton.next_power_of_2(half), "VECTORS": VECTORS, "num_warps": WARPS}


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _prepare(  # type: ignore[no-untyped-def]
    qkv,
    position,
    cosines,
    sines,
    q,
    k,
    v,
    tokens,
    heads,
    epsilon,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTORS: tl.constexpr,
):
    vector = (tl.program_id(0).to(tl.int64) * VECTORS + tl.arange(0, VECTORS))[:, None]
    feature = tl.arange(0, BLOCK)[None, :]
    token, place = vector // (3 * heads), vector % (3 * heads)  # queries of all heads, then keys, then values
    inside = (token < tokens) & (feature < HALF)
    at = vector * 2 * HALF + feature
    a, b = tl.load(qkv + at, inside, 0.0).to(tl.float32), tl.load(qkv + at + HALF, inside, 0.0).to(tl.float32)
    angle = tl.load(position + token, token < tokens, 0) * HALF + feature
    cosine, sine = tl.load(cosines + angle, inside, 0.0), tl.load(sines + angle, inside, 0.0)
    inverse = tl.rsqrt(tl.sum(a * a + b * b, 1, keep_dims=True) / (2 * HALF) + epsilon)
    first = ((a * cosine - b * sine) * inverse).to(q.dtype.element_ty)
    second = ((a * sine + b * cosine) * inverse).to(q.dtype.element_ty)
    into = (token * heads + place % heads) * 2 * HALF + feature
    is_query, is_key = inside & (place < heads), inside & (place >= heads) & (place < 2 * heads)
    tl.store(q + into, first, is_query)
    tl.store(q + into + HALF, second, is_query)
    tl.store(k + into, first, is_key)
    tl.store(k + into + HALF, second, is_key)
    is_value = inside & (place >= 2 * heads)
    tl.store(v + into, a.to(v.dtype.element_ty), is_value)
    tl.store(v + into + HALF, b.to(v.dtype.element_ty), is_value)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _prepare_backward(  # type: ignore[no-untyped-def]
    qkv,
    position,
    cosines,
    sines,
    dq,
    dk,
    dv,
    grad,
    tokens,
    heads,
    epsilon,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTORS: tl.constexpr,
):
    vector = (tl.program_id(0).to(tl.int64) * VECTORS + tl.arange(0, VECTORS))[:, None]
    feature = tl.arange(0, BLOCK)[None, :]
    token, place = vector // (3 * heads), vector % (3 * heads)
    inside = (token < tokens) & (feature < HALF)
    at = vector * 2 * HALF + feature
    a, b = tl.load(qkv + at, inside, 0.0).to(tl.float32), tl.load(qkv + at + HALF, inside, 0.0).to(tl.float32)
    angle = tl.load(position + token, token < tokens, 0) * HALF + feature
    cosine, sine = tl.load(cosines + angle, inside, 0.0), tl.load(sines + angle, inside, 0.0)
    inverse = tl.rsqrt(tl.sum(a * a + b * b, 1, keep_dims=True) / (2 * HALF) + epsilon)
    into = (token * heads + place % heads) * 2 * HALF + feature
    is_query, is_key = inside & (place < heads), inside & (place >= heads) & (place < 2 * heads)
    is_value = inside & (place >= 2 * heads)
    first = tl.load(dq + into, is_query, 0.0).to(tl.float32) + tl.load(dk + into, is_key, 0.0).to(tl.float32)
    second = tl.load(dq + into + HALF, is_query, 0.0).to(tl.float32)
    second += tl.load(dk + into + HALF, is_key, 0.0).to(tl.float32)
    # Turned back, then through the norm.
    da, db = first * cosine + second * sine, second * cosine - first * sine
    along = tl.sum(da * a + db * b, 1, keep_dims=True) / (2 * HALF) * inverse * inverse
    da, db = (da - a * along) * inverse, (db - b * along) * inverse
    da = tl.where(is_value, tl.load(dv + into, is_value, 0.0).to(tl.float32), da)
    db = tl.where(is_value, tl.load(dv + into + HALF, is_value, 0.0).to(tl.float32), db)
    tl.store(grad + at, da.to(grad.dtype.element_ty), inside)
    tl.store(grad + at + HALF, db.to(grad.dtype.element_ty), inside)
