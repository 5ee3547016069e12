"""A network made ready for use: nothing is learned any more, so every matrix is brought to its fastest form once.

Weight prepacking: the type it is computed in and, on a CPU, the order in which its kernel reads it: a token that comes
alone is bound by how fast matrices are read, and the kernel that takes them as they are stored reads at half the speed.

Quantization to int8: whole numbers of a byte, a quarter of the memory, faster products on a CPU. Each output of a
matrix has a scale of its own, and so has each token that meets it, found when it comes: what stands beside a token in a
batch changes nothing. Sums are of 32 bits and exact. Tables that are looked up, norms, attention and all that is added
stay in fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpt1.base.devices import arranges_matrices
from gpt1.base.errors import SettingError
from gpt1.base.torch_internals import int8_product, reorder_weight, reordered_linear
from gpt1.model.dropout import Site
from gpt1.model.layers import NORMS, Linear
from gpt1.model.network import Model
from gpt1.recipes.values import TRANSFORMER

ROWS = 64  # tokens at once that matrices are arranged for; from 2 on the order is the same, and good for 1 too


class PrepackedLinear(nn.Module):
    """A matrix in the order in which a CPU's kernel reads it, and perhaps a bias."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        super().__init__()
        self.weight = reorder_weight(weight_OI.detach(), ROWS)
        self.bias = None if bias_O is None else bias_O.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b."""
        x_NI = x.flatten(0, -2)
        fill = filled_up(len(x_NI)) - len(x_NI)
        x_MI = F.pad(x_NI, (0, 0, 0, fill)) if fill else x_NI
        y_MO = reordered_linear(x_MI, self.weight, self.bias)
        return y_MO[: len(x_NI)].view(*x.shape[:-1], -1)


def filled_up(tokens: int) -> int:
    """Return a number of tokens filled up to one of few: for each that it meets the kernel keeps code of its own."""
    step = 1 << max(0, tokens.bit_length() - 4)
    return -(-tokens // step) * step


def prepare_for_inference(model: Model) -> Model:
    """Return the network with every table and matrix in the type it is computed in, cast, filled up or arranged once.

    What is in its fastest form already is not copied. What was compiled is not: shapes change with every word.
    """
    arranges = arranges_matrices(model.tokens.device, model.compute)
    taken: dict[int, object] = {}
    for module in model.modules():
        if isinstance(module, NORMS):
            taken |= {id(weight): weight for weight in module.parameters()}
        # An LSTM is computed by one kernel, which wants plain matrices.
        elif isinstance(module, Linear) and arranges and model.shape.kind == TRANSFORMER:
            taken[id(module)] = _arranged(module, model.compute)
        else:
            taken |= {id(weight): _cast(model, weight) for weight in module.parameters(recurse=False)}
    return model.copy_for_use(taken, (lambda matrix: PrepackedLinear(matrix, None)) if arranges else None)


def _cast(model: Model, weight: nn.Parameter) -> nn.Parameter:
    """Return a table filled up, or a matrix or bias, in the type it is computed in."""
    table = weight is model.tokens or weight is model.positions or weight is model.output
    working = model.working(weight, Site.TOKENS, None) if table else weight.to(model.compute)
    return nn.Parameter(working, requires_grad=False)


def _arranged(layer: Linear, compute: torch.dtype) -> PrepackedLinear:
    return PrepackedLinear(layer.weight.to(compute), None if layer.bias is None else layer.bias.to(compute))


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
