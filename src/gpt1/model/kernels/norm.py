"""A norm in one Triton kernel, forwards and backwards, alone or of a sum: of `x` and a branch that is dropped.

The twin of `norm(x)` and of `norm(x + dropout(branch + bias))`, which are its judges; the sum itself is a result too,
for blocks that normalise what enters a branch. Sums are taken in float32 and the sum is kept in the type of what comes
in, as the norm then sees it: what the backward pass reads is what the forward pass normalised. The gradients of gain
and biases are summed by each program over its rows, and then over the programs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gpt1.model.kernels.dropout import keeps, mix
from gpt1.model.kernels.masks import Masks
from gpt1.model.layers import LAYER_EPSILON, RMS_EPSILON, LayerNorm, RMSNorm

WIDEST = 8192  # elements of a row that a program holds
ROWS, WARPS = 1, 2  # at a time
BACKWARD_SHAPE = 2, 4, 528  # the same, and programs at most: four for each multiprocessor of an H200


class Norm(NamedTuple):
    """A norm: with a mean taken off (LayerNorm) or without (RMSNorm)."""

    gain: Tensor
    bias: Tensor | None
    epsilon: float
    centred: bool


def norm_of(module: nn.Module) -> Norm:
    """Return a layer's norm."""
    if isinstance(module, RMSNorm):
        return Norm(module.gain, None, RMS_EPSILON, centred=False)
    layer = cast(LayerNorm, module)
    return Norm(layer.gain, layer.bias, LAYER_EPSILON, centred=True)


def fused_norm(x: Tensor, norm: Norm) -> Tensor:
    """Return the norm of `x` [..., C]."""
    y_NC = cast(Tensor, _Norm.apply(x.reshape(-1, x.shape[-1]), norm.gain, norm.bias, norm))  # type: ignore[no-untyped-call]
    return y_NC.view(x.shape)


def fused_drop_add_norm(
    x_NC: Tensor, branch_NC: Tensor, branch_bias: Tensor | None, norm: Norm, masks: Masks
) -> tuple[Tensor, Tensor]:
    """Return the norm of `x + dropout(branch + branch_bias)`, and that sum [N, C]."""
    results = _DropAddNorm.apply(x_NC, branch_NC, branch_bias, norm.gain, norm.bias, norm, masks)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor], results)


class _Norm(torch.autograd.Function):
    """Keeps what comes in, and of each row its mean and the inverse of its deviation."""

    @staticmethod
    def forward(ctx: Any, x_NC: Tensor, gain: Tensor, bias: Tensor | None, norm: Norm) -> Tensor:
        y_NC, _, moments_N2 = forward(x_NC.contiguous(), None, None, norm, None)
        ctx.save_for_backward(x_NC.contiguous(), moments_N2, gain)
        ctx.settings = norm.centred, bias is not None
        return y_NC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor) -> tuple[Tensor | None, ...]:
        x_NC, moments_N2, gain = ctx.saved_tensors
        centred, has_bias = ctx.settings
        dx_NC, _, parts_P3C = backward(
            (grad_NC.contiguous(), None), (x_NC, moments_N2, gain, centred), None, adds=False
        )
        dgain, dbias, _ = parts_P3C.sum(0)
        return dx_NC, dgain, dbias if has_bias else None, None


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
        y_NC, sum_NC, moments_N2 = forward(x_NC.contiguous(), branch_NC.contiguous(), branch_bias, norm, masks)
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
        dx_NC, dbranch_NC, parts_P3C = backward(
            (grad_NC, None if grad_sum_NC is None else grad_sum_NC.contiguous()),
            (sum_NC, moments_N2, gain, centred),
            masks,
            adds=True,
        )
        dgain, dbias, dbranch_bias = parts_P3C.sum(0)
        biases = dbranch_bias if has_branch_bias else None, dgain, dbias if has_bias else None
        return dx_NC, dbranch_NC, *biases, None, None


def forward(
    x_NC: Tensor, branch_NC: Tensor | None, branch_bias: Tensor | None, norm: Norm, masks: Masks | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm, what was normalised, and the moments of its rows."""
    N, C = x_NC.shape
    y_NC, sum_NC = torch.empty_like(x_NC), x_NC if branch_NC is None else torch.empty_like(x_NC)
    moments_N2 = x_NC.new_empty(N, 2, dtype=torch.float32)
    biases = (norm.gain if bias is None else bias for bias in (branch_bias, norm.bias))  # pointers not followed
    _drop_add_norm[(triton.cdiv(N, ROWS),)](
        *(x_NC, x_NC if branch_NC is None else branch_NC, y_NC, sum_NC, moments_N2, norm.gain, *biases),
        *(*_places(masks, x_NC), N, C, *_scaling(masks), norm.epsilon),
        BRANCH_BIAS=branch_bias is not None,
        BIAS=norm.bias is not None,
        **_constants(C, ROWS, WARPS, norm.centred, branch_NC is not None, masks),
    )
    return y_NC, sum_NC, moments_N2


def backward(
    grads: tuple[Tensor, Tensor | None],
    saved: tuple[Tensor, Tensor, Tensor, bool],
    masks: Masks | None,
    *,
    adds: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of both terms [N, C], and parts of those of gain, bias and the branch's bias [P, 3, C]."""
    (grad_NC, grad_sum_NC), (sum_NC, moments_N2, gain, centred) = grads, saved
    N, C = sum_NC.shape
    dx_NC = torch.empty_like(sum_NC)
    dbranch_NC = torch.empty_like(sum_NC) if adds else dx_NC
    rows, warps, most = BACKWARD_SHAPE
    programs = min(most, triton.cdiv(N, rows))
    parts_P3C = sum_NC.new_empty(programs, 3, C, dtype=torch.float32)
    _drop_add_norm_backward[(programs,)](
        *(grad_NC, grad_NC if grad_sum_NC is None else grad_sum_NC),
        *(sum_NC, moments_N2, gain, dx_NC, dbranch_NC, parts_P3C),
        *(*_places(masks, sum_NC), N, C, *_scaling(masks)),
        SUM=grad_sum_NC is not None,
        **_constants(C, rows, warps, centred, adds, masks),
    )
    return dx_NC, dbranch_NC, parts_P3C


def _places(masks: Masks | None, x_NC: Tensor) -> tuple[Tensor | int, ...]:
    """Return what a kernel finds a token's place by, and the site; where nothing is dropped none is followed."""
    return (x_NC, x_NC, x_NC, x_NC, 0) if masks is None else (*masks.pointers, masks.site)


def _scaling(masks: Masks | None) -> tuple[int, float]:
    return (0, 1.0) if masks is None else (masks.limit, masks.scale)


def _constants(columns: int, rows: int, warps: int, centred: bool, adds: bool, masks: Masks | None) -> dict[str, Any]:
    return {
        "CENTRED": centred,
        "ADD": adds,
        "DROP": masks is not None and masks.rate > 0,
        "ROWS": rows,
        "BLOCK": triton.next_power_of_2(columns),
        "num_warps": warps,
    }


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _row_words(key, numbers, sequence, position, row, rows):  # type: ignore[no-untyped-def]
    """The words of rows [R, 1]."""
    number = tl.load(numbers + tl.load(sequence + row, row < rows, 0), row < rows, 0).to(tl.int32)
    return mix(mix(key ^ number) ^ tl.load(position + row, row < rows, 0).to(tl.int32))


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _column_words(key, column):  # type: ignore[no-untyped-def]
    """The words of columns [1, C]."""
    return mix(mix(key ^ -1) ^ column)


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
    ADD: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    across = column < columns
    inside = (row < rows) & across
    at = row.to(tl.int64) * columns + column
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    if ADD:
        other = tl.load(branch + at, inside, 0.0).to(tl.float32)
        if BRANCH_BIAS:
            other += tl.load(branch_bias + column, across, 0.0).to(tl.float32)
        if DROP:
            key = mix(tl.load(word) ^ site)
            row_words = _row_words(key, numbers, sequence, position, row, rows)
            other = tl.where(keeps(row_words, _column_words(key, column), limit), other * scale, 0.0)
        total = (value + other).to(sums.dtype.element_ty)  # the backward pass reads it so
        tl.store(sums + at, total, inside)
        value = total.to(tl.float32)

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
    ADD: tl.constexpr,
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
    if DROP:
        key = mix(tl.load(word) ^ site)
        column_words = _column_words(key, column)
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
            row_words = _row_words(key, numbers, sequence, position, row, rows)
            d = tl.where(keeps(row_words, column_words, limit), d * scale, 0.0)
        if ADD:
            tl.store(dbranch + at, d.to(dbranch.dtype.element_ty), inside)
        dbranch_bias += tl.where(inside, d, 0.0)
    into = parts + tl.program_id(0) * 3 * columns + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    tl.store(into, tl.sum(dgain, 0), inside)
    tl.store(into + columns, tl.sum(dbias, 0), inside)
    tl.store(into + 2 * columns, tl.sum(dbranch_bias, 0), inside)
