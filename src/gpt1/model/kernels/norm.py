"""Dropout of a branch, its addition and the norm of the sum in one Triton kernel, forwards and backwards.

The twin of `norm(x + dropout(branch + bias))`, which is its judge; the sum itself is a result too, for blocks that
normalise what enters a branch. Sums are taken in float32 and the sum is kept in the type of what comes in, as the
norm then sees it: what the backward pass reads is what the forward pass normalised. The gradients of gain and biases
are summed by each program over its rows, and then over the programs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.kernels.dropout import keeps, mix
from gpt1.model.kernels.masks import Masks

WIDEST = 8192  # elements of a row that a program holds
ROWS, WARPS = 4, 4  # at a time
BACKWARD_SHAPE = 4, 8, 528  # the same, and programs at most: four for each multiprocessor of an H200


class Norm(NamedTuple):
    """A norm: with a mean taken off (LayerNorm) or without (RMSNorm)."""

    gain: Tensor
    bias: Tensor | None
    epsilon: float
    centred: bool


def fused_drop_add_norm(
    x_NC: Tensor, branch_NC: Tensor, branch_bias: Tensor | None, norm: Norm, masks: Masks
) -> tuple[Tensor, Tensor]:
    """Return the norm of `x + dropout(branch + branch_bias)`, and that sum [N, C]."""
    results = _DropAddNorm.apply(x_NC, branch_NC, branch_bias, norm.gain, norm.bias, norm, masks)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor], results)


class _DropAddNorm(torch.autograd.Function):
    """Keeps the sum, and of each row its mean and the inverse of its deviation."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NC: Tensor,
        branch_NC: Tensor,
        branch_bias: Tensor | None,
        gain: Tensor,
        bias: Tensor | None,
        norm: Norm,
        masks: Masks,
    ) -> tuple[Tensor, Tensor]:
        y_NC, sum_NC, moments_N2 = _forward(x_NC.contiguous(), branch_NC.contiguous(), branch_bias, norm, masks)
        ctx.save_for_backward(sum_NC, moments_N2, gain)
        ctx.settings = masks, norm.centred, branch_bias is not None, bias is not None
        ctx.set_materialize_grads(False)
        return y_NC, sum_NC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor | None, grad_sum_NC: Tensor | None) -> tuple[Tensor | None, ...]:
        masks, centred, has_branch_bias, has_bias = ctx.settings
        sum_NC, moments_N2, gain = ctx.saved_tensors
        grad_NC = torch.zeros_like(sum_NC) if grad_NC is None else grad_NC.contiguous()
        dx_NC, dbranch_NC, dgain, dbias, dbranch_bias = _backward(
            (grad_NC, None if grad_sum_NC is None else grad_sum_NC.contiguous()),
            (sum_NC, moments_N2, gain, centred),
            masks,
        )
        biases = dbranch_bias if has_branch_bias else None, dgain, dbias if has_bias else None
        return dx_NC, dbranch_NC, *biases, None, None


def _forward(
    x_NC: Tensor, branch_NC: Tensor, branch_bias: Tensor | None, norm: Norm, masks: Masks
) -> tuple[Tensor, Tensor, Tensor]:
    N, C = x_NC.shape
    y_NC, sum_NC = torch.empty_like(x_NC), torch.empty_like(x_NC)
    moments_N2 = x_NC.new_empty(N, 2, dtype=torch.float32)
    biases = (norm.gain if bias is None else bias for bias in (branch_bias, norm.bias))  # pointers not followed
    _drop_add_norm[(triton.cdiv(N, ROWS),)](
        *(x_NC, branch_NC, y_NC, sum_NC, moments_N2, norm.gain, *biases),
        *(*masks.pointers, masks.site, N, C, masks.limit, masks.scale, norm.epsilon),
        BRANCH_BIAS=branch_bias is not None,
        BIAS=norm.bias is not None,
        **_constants(C, ROWS, WARPS, norm.centred, masks),
    )
    return y_NC, sum_NC, moments_N2


def _backward(
    grads: tuple[Tensor, Tensor | None], saved: tuple[Tensor, Tensor, Tensor, bool], masks: Masks
) -> tuple[Tensor, ...]:
    """Return the gradients of both terms [N, C], and of gain, bias and the branch's bias [C] in float32."""
    (grad_NC, grad_sum_NC), (sum_NC, moments_N2, gain, centred) = grads, saved
    N, C = sum_NC.shape
    dx_NC, dbranch_NC = torch.empty_like(sum_NC), torch.empty_like(sum_NC)
    rows, warps, most = BACKWARD_SHAPE
    programs = min(most, triton.cdiv(N, rows))
    parts_P3C = sum_NC.new_empty(programs, 3, C, dtype=torch.float32)
    _drop_add_norm_backward[(programs,)](
        *(grad_NC, grad_NC if grad_sum_NC is None else grad_sum_NC),
        *(sum_NC, moments_N2, gain, dx_NC, dbranch_NC, parts_P3C),
        *(*masks.pointers, masks.site, N, C, masks.limit, masks.scale),
        SUM=grad_sum_NC is not None,
        **_constants(C, rows, warps, centred, masks),
    )
    return dx_NC, dbranch_NC, *parts_P3C.sum(0)


def _constants(columns: int, rows: int, warps: int, centred: bool, masks: Masks) -> dict[str, Any]:
    return {
        "CENTRED": centred,
        "DROP": masks.rate > 0,
        "ROWS": rows,
        "BLOCK": triton.next_power_of_2(columns),
        "num_warps": warps,
    }


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _keep(word, numbers, sequence, position, site, row, rows, column, limit):  # type: ignore[no-untyped-def]
    """Which elements of these rows [R, 1] and columns [1, C] are kept."""
    key = mix(tl.load(word) ^ site)
    number = tl.load(numbers + tl.load(sequence + row, row < rows, 0), row < rows, 0).to(tl.int32)
    row_word = mix(mix(key ^ number) ^ tl.load(position + row, row < rows, 0).to(tl.int32))
    return keeps(row_word, mix(mix(key ^ -1) ^ column), limit)


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _drop_add_norm(  # type: ignore[no-untyped-def]
    x,
    branch,
    y,
    sums,
    moments,
    gain,
    branch_bias,
    bias,
    word,
    numbers,
    sequence,
    position,
    site,
    rows,
    columns,
    limit,
    scale,
    epsilon,
    BRANCH_BIAS: tl.constexpr,
    BIAS: tl.constexpr,
    CENTRED: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    across = column < columns
    inside = (row < rows) & across
    at = row.to(tl.int64) * columns + column
    value = tl.load(branch + at, inside, 0.0).to(tl.float32)
    if BRANCH_BIAS:
        value += tl.load(branch_bias + column, across, 0.0).to(tl.float32)
    if DROP:
        keep = _keep(word, numbers, sequence, position, site, row, rows, column, limit)
        value = tl.where(keep, value * scale, 0.0)
    value += tl.load(x + at, inside, 0.0).to(tl.float32)
    value = value.to(sums.dtype.element_ty)  # the backward pass reads it so
    tl.store(sums + at, value, inside)

    value = value.to(tl.float32)
    if CENTRED:
        mean = tl.sum(value, 1, keep_dims=True) / columns
        value = tl.where(across, value - mean, 0.0)
        tl.store(moments + row * 2, mean, row < rows)
    inverse = tl.rsqrt(tl.sum(value * value, 1, keep_dims=True) / columns + epsilon)
    tl.store(moments + row * 2 + 1, inverse, row < rows)
    value *= inverse * tl.load(gain + column, across, 0.0).to(tl.float32)
    if BIAS:
        value += tl.load(bias + column, across, 0.0).to(tl.float32)
    tl.store(y + at, value.to(y.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _drop_add_norm_backward(  # type: ignore[no-untyped-def]
    grad,
    grad_sum,
    sums,
    moments,
    gain,
    dx,
    dbranch,
    parts,
    word,
    numbers,
    sequence,
    position,
    site,
    rows,
    columns,
    limit,
    scale,
    SUM: tl.constexpr,
    CENTRED: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.arange(0, BLOCK)[None, :]
    across = column < columns
    g = tl.load(gain + column, across, 0.0).to(tl.float32)
    dgain = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    dbranch_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < rows) & across
        at = row.to(tl.int64) * columns + column
        d = tl.load(grad + at, inside, 0.0).to(tl.float32)
        x = tl.load(sums + at, inside, 0.0).to(tl.float32)
        if CENTRED:
            x = tl.where(inside, x - tl.load(moments + row * 2, row < rows, 0.0), 0.0)
        inverse = tl.load(moments + row * 2 + 1, row < rows, 0.0)
        x *= inverse
        dgain += d * x
        dbias += d
        d *= g
        d -= x * (tl.sum(d * x, 1, keep_dims=True) / columns) + (
            tl.sum(d, 1, keep_dims=True) / columns if CENTRED else 0.0
        )
        d *= inverse
        if SUM:
            d += tl.load(grad_sum + at, inside, 0.0).to(tl.float32)
        tl.store(dx + at, d.to(dx.dtype.element_ty), inside)
        if DROP:
            keep = _keep(word, numbers, sequence, position, site, row, rows, column, limit)
            d = tl.where(keep, d * scale, 0.0)
        tl.store(dbranch + at, d.to(dbranch.dtype.element_ty), inside)
        dbranch_bias += tl.where(inside, d, 0.0)
    into = parts + tl.program_id(0) * 3 * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    tl.store(into, tl.sum(dgain, 0), inside)
    tl.store(into + columns, tl.sum(dbias, 0), inside)
    tl.store(into + 2 * columns, tl.sum(dbranch_bias, 0), inside)
