"""The tanh GELU with the bias before it in Triton kernels.

The twin of `gelu(x + bias)`, which is its judge. Backwards one sweep makes the gradient and adds up its columns, which
are the bias's: parts of the sums by each program over its rows (see `columns.py`).

cuBLASLt has both as a part of the product, beyond torch's operators. On an H200 its `GELU_AUX_BIAS` saves one part in
two hundred of a step and its `DGELU_BGRAD` is no part of the product but a slow kernel after it.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.kernels.columns import COLUMNS, ROWS, WARPS, chunks_of
from gpt1.model.layers import GELU_CUBE

# GELU(x) = x s(u) with the logistic function s and u = 2 sqrt(2/pi) (x + cube x^3), here in powers of 2.
CUBE = tl.constexpr(GELU_CUBE)
SLOPE = tl.constexpr(2 * math.sqrt(2 / math.pi))
LOG2_E = tl.constexpr(math.log2(math.e))


def fused_bias_gelu(x_NF: Tensor, bias_F: Tensor) -> Tensor:
    """Return the tanh GELU of `x + bias`."""
    return cast(Tensor, _BiasGelu.apply(x_NF.contiguous(), bias_F))  # type: ignore[no-untyped-call]


def forward(x_NF: Tensor, bias_F: Tensor) -> Tensor:
    """Return the tanh GELU of `x + bias`."""
    y_NF = torch.empty_like(x_NF)
    N, F = x_NF.shape
    programs = triton.cdiv(N, ROWS), triton.cdiv(F, COLUMNS)  # only the first may be above 65,535
    _gelu[programs](x_NF, bias_F, y_NF, N, F, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=WARPS)
    return y_NF


def backward(grad_NF: Tensor, x_NF: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of `x`, and parts of the sums of its columns [P, F] in float32."""
    N, F = grad_NF.shape
    rows, chunks = chunks_of(N)
    dx_NF, parts_PF = torch.empty_like(grad_NF), grad_NF.new_empty(chunks, F, dtype=torch.float32)
    _gelu_backward[(triton.cdiv(F, COLUMNS), chunks)](
        *(grad_NF, x_NF, bias_F, dx_NF, parts_PF, N, F, rows), ROWS=ROWS, COLUMNS=COLUMNS, num_warps=WARPS
    )
    return dx_NF, parts_PF


class _BiasGelu(torch.autograd.Function):
    """Keeps what comes in."""

    @staticmethod
    def forward(ctx: Any, x_NF: Tensor, bias_F: Tensor) -> Tensor:
        ctx.save_for_backward(x_NF, bias_F)
        return forward(x_NF, bias_F)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NF: Tensor) -> tuple[Tensor, Tensor]:
        dx_NF, parts_PF = backward(grad_NF.contiguous(), *ctx.saved_tensors)
        return dx_NF, parts_PF.sum(0)


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
def _gelu_backward(  # type: ignore[no-untyped-def]
    grad, x, bias, dx, parts, rows, columns, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    across = column < columns
    b = tl.load(bias + column, across, 0.0).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    for start in range(first, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & across
        at = row.to(tl.int64) * columns + column
        value = tl.load(x + at, inside, 0.0).to(tl.float32) + b
        s = logistic(value)
        slope = s + value * s * (1 - s) * SLOPE * (1 + 3 * CUBE * value * value)
        d = tl.load(grad + at, inside, 0.0).to(tl.float32) * slope
        tl.store(dx + at, d.to(dx.dtype.element_ty), inside)
        total += d
    into = parts + tl.program_id(1) * columns + column
    tl.store(into, tl.sum(total, 0)[None, :], across)
