"""Gradients of weights added where they belong by the products that make them.

Autograd has a product in 16 bits make a gradient of its own, which is cast to the weight's type and added to what is
there: three kernels and a rounding, where the product can add in single precision. The weights are read from copies in
16 bits, which the optimiser writes along with them: no cast either. It goes past autograd, so that it is for who has
set `grad` beforehand, on one device and with no hooks on it.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


def accumulating_linear(
    x: Tensor, weight: nn.Parameter, bias: nn.Parameter | None, copies: tuple[Tensor, Tensor | None]
) -> Tensor:
    """Return x W^T + b by copies of both in the type of `x`; backwards, add to `weight.grad` and `bias.grad`."""
    return cast(Tensor, _AccumulatingLinear.apply(x, weight, bias, *copies))  # type: ignore[no-untyped-call]


class _AccumulatingLinear(torch.autograd.Function):
    """Keeps what comes in, and the copy of the weight."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: nn.Parameter, bias: nn.Parameter | None, narrow: Tensor, narrow_bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, narrow)
        ctx.parameters = weight, bias
        return functional.linear(x, narrow, narrow_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow = ctx.saved_tensors
        weight, bias = ctx.parameters
        grad_NF = grad.reshape(-1, grad.shape[-1])
        if weight.requires_grad:
            add_product(weight.grad, grad_NF.T, x.reshape(-1, x.shape[-1]))
        if bias is not None and bias.requires_grad:
            bias.grad.add_(grad_NF.sum(0, dtype=bias.dtype))
        return grad @ narrow if ctx.needs_input_grad[0] else None, None, None, None, None


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a product to a total of a wider type, in that type where the library can."""
    if total.is_cuda and total.dtype == torch.float32:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.add_(a @ b)
