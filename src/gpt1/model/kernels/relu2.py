"""The squared ReLU in one Triton kernel, forwards and backwards: the twin of `relu2`, which is its judge."""

from __future__ import annotations

from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 1024  # elements a program


def fused_relu2(x: Tensor) -> Tensor:
    """Return max(x, 0)^2."""
    return cast(Tensor, _Relu2.apply(x))  # type: ignore[no-untyped-call]


class _Relu2(torch.autograd.Function):
    """Keeps what comes in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        _relu2[(triton.cdiv(x.numel(), BLOCK),)](x, x, y, x.numel(), GRADIENT=False, BLOCK=BLOCK)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _relu2[(triton.cdiv(x.numel(), BLOCK),)](x, grad.contiguous(), dx, x.numel(), GRADIENT=True, BLOCK=BLOCK)
        return dx


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _relu2(x, grad, y, size, GRADIENT: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.maximum(tl.load(x + at, at < size, 0.0).to(tl.float32), 0.0)
    if GRADIENT:
        value = 2 * value * tl.load(grad + at, at < size, 0.0).to(tl.float32)
    else:
        value *= value
    tl.store(y + at, value.to(y.dtype.element_ty), at < size)
