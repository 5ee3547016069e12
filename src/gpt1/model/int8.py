"""Quantization to int8: matrices in whole numbers of a byte, a quarter of the memory, faster products on a CPU.

Each output of a matrix has a scale of its own, and so has each token that meets it, found when it comes: what stands
beside a token in a batch changes nothing. Sums are of 32 bits and exact. Tables that are looked up, norms, attention
and all that is added stay in fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpt1.base.errors import SettingError
from gpt1.base.torch_internals import int8_product
from gpt1.model.layers import Linear
from gpt1.model.network import Model
from gpt1.recipes.values import TRANSFORMER

# N tokens, I inputs, O outputs.

LARGEST = 127
SMALLEST = 1e-30  # largest number of a row, so that a row of zeros has a scale too


class Int8Linear(nn.Module):
    """A matrix, stored output x input in whole numbers with a scale an output, and perhaps a bias."""

    weight: Tensor
    scale: Tensor

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        rounded_OI, scale_O1 = rounded(weight_OI.detach().float())
        self.register_buffer("weight", rounded_OI)
        self.register_buffer("scale", scale_O1.squeeze(1))
        self.bias = bias_O

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b, nearly."""
        x_NI, scale_N1 = rounded(x.flatten(0, -2))
        y_NO = int8_product(x_NI, self.weight.T) * (scale_N1 * self.scale)
        if self.bias is not None:
            y_NO += self.bias
        return y_NO.view(*x.shape[:-1], -1)


def rounded(x_NI: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows as whole numbers from -127 to 127, and what each row of them is to be multiplied by [N, 1]."""
    scale_N1 = x_NI.abs().amax(1, keepdim=True).clamp_(min=SMALLEST) / LARGEST
    return (x_NI / scale_N1).round_().to(torch.int8), scale_N1


def quantize_int8(model: Model) -> Model:
    """Return a network in fp32 with its matrices in int8, also the one that makes logits; all else is shared."""
    if model.shape.kind != TRANSFORMER:
        raise SettingError("int8 is for Transformers; an LSTM is computed by one kernel, which wants whole weights")
    if model.compute != torch.float32:
        raise SettingError(f"a network that is to be in int8 computes in fp32 besides, not in {model.compute}")
    taken: dict[int, object] = {id(parameter): parameter for parameter in model.parameters()}
    for module in model.modules():
        if isinstance(module, Linear):
            taken[id(module)] = Int8Linear(module.weight, module.bias)
    return model.copy_for_use(taken, lambda matrix: Int8Linear(matrix, None))
