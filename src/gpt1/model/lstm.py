"""The paper's comparison (section 5, table 5): one LSTM layer in place of the blocks, and a projection to the width.

Dropped like the Transformer's branches: the states before the projection, and what the projection gives.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from gpt1.model.layers import Linear
from gpt1.model.noise import Noise, Place, drop, layer_site
from gpt1.model.packing import Packing
from gpt1.recipes.values import Shape

# B sequences, T positions, C width, U units, G = 4 U gates (input, forget, cell, output: torch's order).


class LSTMBlock(nn.Module):
    """An LSTM over the sequence, from a state of zeros, and a linear layer back to the width."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.states_site, self.branch_site = layer_site(0, Place.INSIDE), layer_site(0, Place.BRANCH_1)
        self.input = Linear(shape.width, 4 * shape.units, shape.bias)
        self.recurrent = Linear(shape.units, 4 * shape.units, bias=False)
        self.out = Linear(shape.units, shape.width, shape.bias)

    def forward(self, x_BTC: Tensor, noise: Noise | None, packing: Packing | None = None) -> Tensor:
        """Return the projected states of all positions."""
        grid_BTC = x_BTC if packing is None else packing.to_grid(x_BTC)
        states_BTU = _lstm(grid_BTC, self.input.weight, self.recurrent.weight, self.input.bias)
        states_BTU = states_BTU if packing is None else packing.from_grid(states_BTU)
        states_BTU = drop(states_BTU, self.dropout, noise, self.states_site, packing)
        return drop(self.out(states_BTU), self.dropout, noise, self.branch_site, packing)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a compiler would write out hundreds of steps
def _lstm(x_BTC: Tensor, input_GC: Tensor, recurrent_GU: Tensor, bias_G: Tensor | None) -> Tensor:
    """Return the states [B, T, U] of an LSTM, computed in the type of `x_BTC` by the library's kernels."""
    weights = [input_GC, recurrent_GU]
    if bias_G is not None:
        weights += [bias_G, torch.zeros_like(bias_G)]  # the library wants a second bias, which would add nothing
    zeros_1BU = x_BTC.new_zeros(1, len(x_BTC), recurrent_GU.shape[1])
    with warnings.catch_warnings():
        # The casts are fresh tensors, so cuDNN has to lay the weights out anew each time, and says so.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        states_BTU, _, _ = torch.lstm(
            x_BTC,
            (zeros_1BU, zeros_1BU),
            [weight.to(x_BTC.dtype) for weight in weights],
            bias_G is not None,
            num_layers=1,
            dropout=0.0,
            train=torch.is_grad_enabled(),
            bidirectional=False,
            batch_first=True,
        )
    return states_BTU
