"""The tanh GELU with the bias before it, and sums over columns, which are the gradients of biases, in Triton kernels.

The twin of `gelu(x + bias)`, which is its judge. Backwards one sweep makes the gradient and adds up its columns; sums
are taken by each program over its rows, and then over the programs: no atomics, one order.

cuBLASLt has both as a part of the product (`GELU_AUX_BIAS`, `DGELU_BGRAD`). torch reaches only the first, without
the values before the activation, which the gradient needs; the rest would be had through its C interface.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.layers import GELU_CUBE

# GELU(x) = x s(u) with the logistic function s and u = 2 sqrt(2/pi) (x + cube x^3), here in powers of 2.
CUBE = tl.constexpr(GELU_CUBE)
SLOPE = tl.constexpr(2 * math.sqrt(2 / math.pi))
LOG2_E = tl.constexpr(math.log2(math.e))

COLUMNS, ROWS, WARPS = 256, 8, 4  # at a time
CHUNKS = 64  # of the rows, each a program's that adds up columns
FEWEST = 32  # rows of a chunk
PART_ROWS, PART_COLUMNS = 128, 32  # of parts, at a time


def fused_bias_gelu(x_NF: Tensor, bias_F: Tensor) -> Tensor:
    """Return the tanh GELU of `x + bias`."""
    return cast(Tensor, _BiasGelu.apply(x_NF, bias_F))  # type: ignore[no-untyped-call]


def bias_gelu(x_NF: Tensor, bias_F: Tensor) -> Tensor:
    """Return the tanh GELU of `x + bias`, without a gradient."""
    y_NF = torch.empty_like(x_NF)
    N, F = x_NF.shape
    programs = triton.cdiv(N, ROWS), triton.cdiv(F, COLUMNS)  # only the first may be above 65,535
    _gelu[programs](x_NF, bias_F, y_NF, N, F, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=WARPS)
    return y_NF


def column_sums(x_NF: Tensor) -> Tensor:
    """Return the sum of each column [F] in float32."""
    return column_parts(x_NF).sum(0)


def column_parts(x_NF: Tensor) -> Tensor:
    """Return sums of each column over some of the rows [P, F], in float32."""
    return _sweep(x_NF.contiguous(), None, None)[1]


def gelu_backward(grad_NF: Tensor, x_NF: Tensor, bias_F: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the gradient of `x` given that of the GELU of `x + bias`, and parts of the sums of its columns [P, F]."""
    dx_NF, parts_PF = _sweep(grad_NF.contiguous(), x_NF, bias_F)
    assert dx_NF is not None
    return dx_NF, parts_PF


def add_parts(parts: Tensor, totals: Sequence[Tensor] | None) -> Sequence[Tensor]:
    """Return the sums [K, F] over all parts [P, K, F]; where there are totals, add to them."""
    P, K, F = parts.shape
    into = list(parts.new_empty(K, F)) if totals is None else totals
    pointers = (into[min(k, K - 1)] for k in range(3))
    programs = triton.cdiv(F, PART_COLUMNS), K
    _add_parts[programs](
        *(parts, *pointers, P, K, F),
        ADDS=totals is not None,
        ROWS=PART_ROWS,
        COLUMNS=PART_COLUMNS,
        num_warps=WARPS,
    )
    return into


def pack_columns(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return three matrices [N, F] side by side [N, 3 F], and parts of the sums of its columns [P, 3 F]."""
    N, F = parts[0].shape
    rows = max(FEWEST, triton.cdiv(N, CHUNKS))
    chunks = triton.cdiv(N, rows)
    packed_NF = parts[0].new_empty(N, 3 * F)
    parts_PF = parts[0].new_empty(chunks, 3 * F, dtype=torch.float32)
    _pack[(triton.cdiv(F, COLUMNS), chunks, 3)](
        *(*(part.contiguous() for part in parts), packed_NF, parts_PF, N, F, rows),
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        num_warps=WARPS,
    )
    return packed_NF, parts_PF


class _BiasGelu(torch.autograd.Function):
    """Keeps what comes in."""

    @staticmethod
    def forward(ctx: Any, x_NF: Tensor, bias_F: Tensor) -> Tensor:
        x_NF = x_NF.contiguous()
        ctx.save_for_backward(x_NF, bias_F)
        return bias_gelu(x_NF, bias_F)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NF: Tensor) -> tuple[Tensor | None, Tensor]:
        dx_NF, parts_PF = gelu_backward(grad_NF, *ctx.saved_tensors)
        return dx_NF, parts_PF.sum(0)


def _sweep(grad_NF: Tensor, x_NF: Tensor | None, bias_F: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """Return the gradient of what came in, if that is given, and parts of the sums of its columns [P, F]."""
    N, F = grad_NF.shape
    rows = max(FEWEST, triton.cdiv(N, CHUNKS))
    chunks = triton.cdiv(N, rows)
    parts_PF = grad_NF.new_empty(chunks, F, dtype=torch.float32)
    dx_NF = None if x_NF is None else torch.empty_like(grad_NF)
    pointers = (grad_NF if x is None else x for x in (x_NF, bias_F, dx_NF))
    _columns[(triton.cdiv(F, COLUMNS), chunks)](
        *(grad_NF, *pointers, parts_PF, N, F, rows),
        GELU=x_NF is not None,
        BIAS=bias_F is not None,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        num_warps=WARPS,
    )
    return dx_NF, parts_PF


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def logistic(x):  # type: ignore[no-untyped-def]
    """What the tanh GELU multiplies a value by."""
    return 1 / (1 + tl.exp2(-LOG2_E * SLOPE * (x + CUBE * x * x * x)))


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _gelu(x, bias, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    inside = (row < rows) & (column < columns)
    at = row.to(tl.int64) * columns + column
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    value += tl.load(bias + column, column < columns, 0.0).to(tl.float32)
    tl.store(y + at, (value * logistic(value)).to(y.dtype.element_ty), inside)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _columns(  # type: ignore[no-untyped-def]
    grad,
    x,
    bias,
    dx,
    parts,
    rows,
    columns,
    chunk,
    GELU: tl.constexpr,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    across = column < columns
    if BIAS:
        b = tl.load(bias + column, across, 0.0).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    for start in range(first, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & across
        at = row.to(tl.int64) * columns + column
        d = tl.load(grad + at, inside, 0.0).to(tl.float32)
        if GELU:
            value = tl.load(x + at, inside, 0.0).to(tl.float32)
            if BIAS:
                value += b
            s = logistic(value)
            d *= s + value * s * (1 - s) * SLOPE * (1 + 3 * CUBE * value * value)
            tl.store(dx + at, d.to(dx.dtype.element_ty), inside)
        total += d
    into = parts + tl.program_id(1) * columns + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(into, tl.sum(total, 0), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS) < columns)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _pack(  # type: ignore[no-untyped-def]
    first, second, third, packed, parts, rows, columns, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    across = column < columns
    part = tl.program_id(2)
    source = first
    if part == 1:
        source = second
    if part == 2:
        source = third
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    start = tl.program_id(1) * chunk
    last = tl.minimum(start + chunk, rows)
    for begin in range(start, last, ROWS):
        row = (begin + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & across
        x = tl.load(source + row.to(tl.int64) * columns + column, inside, 0.0)
        tl.store(packed + row.to(tl.int64) * (3 * columns) + part * columns + column, x, inside)
        total += x.to(tl.float32)
    into = parts + tl.program_id(1) * (3 * columns) + part * columns + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(into, tl.sum(total, 0), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS) < columns)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _add_parts(  # type: ignore[no-untyped-def]
    parts, first, second, third, count, kinds, columns, ADDS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    kind = tl.program_id(1)
    into = first
    if kind == 1:
        into = second
    if kind == 2:
        into = third
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, count, ROWS):
        part = (start + tl.arange(0, ROWS))[:, None]
        at = (part * kinds + kind) * columns + column[None, :]
        total += tl.load(parts + at, (part < count) & (column < columns)[None, :], 0.0)
    value = tl.sum(total, 0)
    if ADDS:
        value += tl.load(into + column, column < columns, 0.0)
    tl.store(into + column, value, column < columns)
