"""Gradient reversal (Ganin and Lempitsky, 2015): what is learned behind it, the network before it unlearns."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def reverse_gradient(x: Tensor, factor: Tensor) -> Tensor:
    """Return `x` as it is; backwards, the gradient is multiplied by -`factor`, a tensor of one number."""
    return cast(Tensor, _Reversal.apply(x, factor))  # type: ignore[no-untyped-call]


class _Reversal(torch.autograd.Function):
    """Keeps the factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return -factor.to(grad.dtype) * grad, None
