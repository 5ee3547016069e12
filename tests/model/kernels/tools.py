"""What tests of kernels share: where they run, packed rows with their noise, how near a kernel is to its twin."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gpt1.model.dropout import DropoutKey, dropout_key
from gpt1.model.packing import Packing, pack

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
CAN_RUN = ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"
WHY_NOT = "no GPU here, and TRITON_INTERPRET is not 1"


def _let_the_interpreter_count() -> None:
    """Triton 3.6 makes a number of an array of one element, which NumPy warns of, and from 2.4 on refuses."""
    from triton.runtime import interpreter

    prepare = interpreter._patch_lang_tensor

    def prepare_and_count(tensor: type, scope: Any) -> None:
        prepare(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = prepare_and_count


if CAN_RUN and not ON_GPU and importlib.util.find_spec("triton"):
    _let_the_interpreter_count()


def normal(*size: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal numbers."""
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def packed(*lengths: int) -> Packing:
    """Return the packing of sequences of these lengths."""
    return pack(torch.tensor(lengths, device=DEVICE))


def noise_of(*rows: int) -> DropoutKey:
    """Return the noise of the sequences with these numbers."""
    return dropout_key(3, 4, torch.tensor(rows, device=DEVICE))


def results_and_gradients(function: Callable[..., Sequence[Tensor]], *given: Tensor) -> list[Tensor]:
    """Return what a function gives, and its gradients for random ones of that."""
    leaves = [x.detach().clone().requires_grad_() for x in given]
    results = function(*leaves)
    grads = [normal(*y.shape, seed=50 + k, dtype=y.dtype) for k, y in enumerate(results)]
    return [*(y.detach() for y in results), *torch.autograd.grad(list(results), leaves, grads)]


def assert_near(found: Sequence[Tensor], wanted: Sequence[Tensor], error: float) -> None:
    """Hold tensors to those of a wider type, by their norms."""
    for index, (x, y) in enumerate(zip(found, wanted, strict=True)):
        assert x.shape == y.shape
        distance = torch.linalg.vector_norm(x.double() - y.double()) / torch.linalg.vector_norm(y.double())
        assert distance < error, (index, float(distance))


def slopes(function: Callable[[Tensor], Tensor], x: Tensor, step: float = 1e-2) -> tuple[float, float]:
    """Return how fast a weighted sum of results grows in a random direction: by the gradient, and by differences."""
    direction, leaf = normal(*x.shape, seed=77), x.detach().clone().requires_grad_()
    result = function(leaf)
    weights = normal(*result.shape, seed=78)
    (gradient,) = torch.autograd.grad((result * weights).sum(), leaf)
    with torch.no_grad():
        ahead, behind = (function(x + sign * step * direction).double() * weights for sign in (1, -1))
    return float((gradient * direction).double().sum()), float((ahead - behind).sum()) / (2 * step)
