"""The small layers: weights stay in full precision, arithmetic is in the type of what comes in.

A matrix is cast to the type of its input; a norm is computed in the wider of the two types and its result cast back.
The formulas are those of section 4.1 of the paper and of its released code: epsilon inside the root, the tanh GELU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpt1.model.accumulation import accumulating_linear
from gpt1.model.fusing import fuses
from gpt1.model.packing import Packing

LAYER_EPSILON = 1e-5
RMS_EPSILON = 1e-6
ROTARY_BASE = 10_000.0
GELU_CUBE = 0.044715  # of the tanh GELU, for kernels that write it out


class Linear(nn.Module):
    """A matrix, stored output x input, and perhaps a bias."""

    def __init__(self, inputs: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        # While it learns from products that add to its gradients themselves: what they read in place of its weights.
        self.copies: tuple[Tensor, Tensor | None] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        if self.copies is not None and x.dtype == self.copies[0].dtype and torch.is_grad_enabled():
            return accumulating_linear(x, self.weight, self.bias, self.copies)
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


class Adding(nn.Module):
    """A network with kernels that can add to the gradients of its tables themselves, and do for a while."""

    adds: bool = False


@contextmanager
def adding_in_products(model: nn.Module, copies: Mapping[str, Tensor]) -> Iterator[None]:
    """Have a model's matrices add to their gradients themselves for a while: see `accumulation.py`.

    `copies` are of its weights by their names, in the type that is computed in; who changes the weights renews them.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, Linear)}
    others = [module for module in model.modules() if isinstance(module, Adding)]
    for module in others:
        module.adds = bool(copies)
    for name, layer in layers.items():
        if (weight := copies.get(f"{name}.weight")) is not None:
            layer.copies = weight, copies.get(f"{name}.bias")
    try:
        yield
    finally:
        for layer in layers.values():
            layer.copies = None
        for module in others:
            module.adds = False


class LayerNorm(nn.Module):
    """Mean 0 and deviation 1 over the width, then a learned gain and perhaps a bias."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        if fuses(x):
            return _fused_norm(x, self.gain, self.bias, LAYER_EPSILON, centred=True)
        wide, gain = _wide(x, self.gain)
        bias = None if self.bias is None else self.bias.to(wide.dtype)
        return F.layer_norm(wide, gain.shape, gain, bias, LAYER_EPSILON).to(x.dtype)


class RMSNorm(nn.Module):
    """Root mean square 1 over the width, then a learned gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        if fuses(x):
            return _fused_norm(x, self.gain, None, RMS_EPSILON, centred=False)
        wide, gain = _wide(x, self.gain)
        return F.rms_norm(wide, gain.shape, gain, RMS_EPSILON).to(x.dtype)


class Rotary(nn.Module):
    """Positions as rotations: feature i and feature i + D/2 of a head turn by position x base^(-2i/D)."""

    cosines: Tensor
    sines: Tensor

    def __init__(self, context: int, head_width: int) -> None:
        super().__init__()
        speeds = ROTARY_BASE ** (torch.arange(0, head_width, 2, dtype=torch.float64) / -head_width)
        angles = torch.outer(torch.arange(context, dtype=torch.float64), speeds)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)
        self.register_buffer("sines", angles.sin().float(), persistent=False)

    def forward(self, x: Tensor, packing: Packing | None = None) -> Tensor:
        """Rotate each head's vectors [..., T, D] by their positions."""
        positions = slice(x.shape[-2]) if packing is None else packing.position
        cosines, sines = self.cosines[positions], self.sines[positions]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cosines - b * sines, a * sines + b * cosines), dim=-1).to(x.dtype)


class UnitRMS(nn.Module):
    """Root mean square 1 over a head's width, with nothing to learn."""

    def forward(self, x: Tensor, packing: Packing | None = None) -> Tensor:
        """Return the normalised input, wherever it stands."""
        return F.rms_norm(x, x.shape[-1:], None, RMS_EPSILON)


NORMS = LayerNorm, RMSNorm


def make_norm(kind: str, width: int, bias: bool) -> nn.Module:
    """Return a norm of this kind; only a LayerNorm can have a bias."""
    return RMSNorm(width) if kind == "rms" else LayerNorm(width, bias)


def gelu(x: Tensor) -> Tensor:
    """Return 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return F.gelu(x, approximate="tanh")


def relu2(x: Tensor) -> Tensor:
    """Return max(x, 0)^2."""
    if fuses(x):
        from gpt1.model.kernels.relu2 import fused_relu2

        return fused_relu2(x)
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": gelu, "relu2": relu2}


def _fused_norm(x: Tensor, gain: Tensor, bias: Tensor | None, epsilon: float, *, centred: bool) -> Tensor:
    from gpt1.model.kernels.norm import Norm, fused_norm

    return fused_norm(x, Norm(gain, bias, epsilon, centred))


def _wide(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in the wider of their types."""
    wide = torch.promote_types(x.dtype, weight.dtype)
    return x.to(wide), weight.to(wide)
