"""Gradients of weights added where they belong by the products that make them.

Autograd has a product in 16 bits make a gradient of its own, which is cast to the weight's type and added to what is
there: three kernels and a rounding, where the product can add in single precision. The weights are read from copies in
16 bits, which the optimiser writes along with them: no cast either. It goes past autograd, so that it is for who has
set `grad` beforehand, on one device and with no hooks on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Additions:
    """How the passes of a step add to gradients."""

    def __init__(self, written_whole: Iterable[str] = ()) -> None:
        self.written_whole = frozenset(written_whole)  # weights whose gradient the first pass of a step writes anew
        self.is_first = False  # of the passes of its step
        self._stream: torch.cuda.Stream | None = None
        self._held: list[Tensor] = []

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        """A copy of a model, such as one that is made ready for use meanwhile, adds to nothing."""

    @contextmanager
    def of_pass(self, *, is_first: bool) -> Iterator[None]:
        """Let a pass add; what it has left to be done beside it is done at its end."""
        self.is_first = is_first
        yield
        if self._held:
            torch.cuda.current_stream().wait_stream(cast(torch.cuda.Stream, self._stream))
            self._held.clear()

    @contextmanager
    def beside(self, *used: Tensor) -> Iterator[None]:
        """Where a pass is recorded, have what is done here done beside what comes after it.

        These tensors are held meanwhile: their memory would be another's as soon as the pass needs them no more.
        """
        if not (used[0].is_cuda and torch.cuda.is_current_stream_capturing()):
            yield
            return
        self._stream = self._stream or torch.cuda.Stream(used[0].device)
        self._held += used
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def put_product(self, total: Tensor, a: Tensor, b: Tensor) -> None:
        """Write a product where the gradient of a weight that is `written_whole` lies, or add it to that."""
        add_product(total, a, b, anew=self.is_first)


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


def add_product(total: Tensor, a: Tensor, b: Tensor, *, anew: bool = False) -> None:
    """Add a product to a total of a wider type, in that type where the library can; or write it there anew."""
    if total.is_cuda and total.dtype == torch.float32:
        torch.addmm(total, a, b, beta=0 if anew else 1, out_dtype=total.dtype, out=total)
    elif anew:
        total.copy_(a @ b)
    else:
        total.add_(a @ b)
