"""Gradients of weights added where they belong by the products that make them.

Autograd has a product in 16 bits make a gradient of its own, which is cast to the weight's type and added to what is
there: three kernels and a rounding, where the product can add in single precision. The weights are read from copies in
16 bits, which the optimiser writes along with them: no cast either. It goes past autograd, so that it is for who has
set `grad` beforehand, on one device and with no hooks on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
        with beside(x, grad_NF):
            if weight.requires_grad:
                add_product(weight.grad, grad_NF.T, x.reshape(-1, x.shape[-1]))
            if bias is not None and bias.requires_grad:
                bias.grad.add_(grad_NF.sum(0, dtype=bias.dtype))
        return grad @ narrow if ctx.needs_input_grad[0] else None, None, None, None, None


BESIDE = os.environ.get("GPT1_BESIDE") == "1"
_stream: list[torch.cuda.Stream] = []
_held: list[Tensor] = []


@contextmanager
def beside(*used: Tensor) -> Iterator[None]:
    if not (BESIDE and used[0].is_cuda and torch.cuda.is_current_stream_capturing()):
        yield
        return
    if not _stream:
        _stream.append(torch.cuda.Stream())
    _held.extend(used)
    _stream[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_stream[0]):
        yield


def join_beside() -> None:
    if _held:
        torch.cuda.current_stream().wait_stream(_stream[0])
        _held.clear()


FRESH = [False]


def put_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if FRESH[0]:
        if total.is_cuda and total.dtype == torch.float32 and a.dtype != torch.float32:
            torch.mm(a, b, out_dtype=total.dtype, out=total)
        else:
            torch.mm(a, b, out=total)
    else:
        add_product(total, a, b)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a product to a total of a wider type, in that type where the library can."""
    if total.is_cuda and total.dtype == torch.float32:
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total.add_(a @ b)
