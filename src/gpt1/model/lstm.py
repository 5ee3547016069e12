"""The paper's comparison (section 5, table 5): one LSTM layer in place of the blocks, and a projection to the width.

Dropped like the Transformer's branches: the states before the projection, and what the projection gives.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from gpt1.model.dropout import DropoutKey, Place, dropout, layer_site
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.kv_cache import LayerCache
from gpt1.model.layers import Linear
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

    def forward(
        self,
        x_BTC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None = None,
        past: LayerCache | None = None,
        everywhere: GlobalTokens | None = None,
    ) -> Tensor:
        """Return the projected states of all positions."""
        if past is not None and packing is not None:
            states_BTU = self._remembered(x_BTC, packing, past)
        else:
            states_BTU, *_ = self._run(x_BTC if packing is None else packing.to_grid(x_BTC))
            states_BTU = states_BTU if packing is None else packing.from_grid(states_BTU)
        states_BTU = dropout(states_BTU, self.dropout, noise, self.states_site, packing)
        return dropout(self.out(states_BTU), self.dropout, noise, self.branch_site, packing)

    def _remembered(self, x_NC: Tensor, packing: Packing, past: LayerCache) -> Tensor:
        """Return the states of a packed row, and keep each sequence's last one for the tokens to come."""
        if past.goes_on:
            states_N1U, output_NU, cell_NU = self._run(x_NC.unsqueeze(1), *past.state())
            past.keep_state(output_NU, cell_NU)
            return states_N1U.squeeze(1)
        # One after another: behind a shorter sequence a grid would run on.
        parts = [self._run(x_TC.unsqueeze(0)) for x_TC in x_NC.split(packing.offsets.diff().tolist())]
        past.keep_state(*(torch.cat([part[index] for part in parts]) for index in (1, 2)))
        return torch.cat([states_1TU[0] for states_1TU, *_ in parts])

    def _run(
        self, x_BTC: Tensor, output_BU: Tensor | None = None, cell_BU: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        result: tuple[Tensor, Tensor, Tensor] = _lstm(
            x_BTC, self.input.weight, self.recurrent.weight, self.input.bias, output_BU, cell_BU
        )
        return result


def _lstm(
    x_BTC: Tensor,
    input_GC: Tensor,
    recurrent_GU: Tensor,
    bias_G: Tensor | None,
    output_BU: Tensor | None,
    cell_BU: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the states [B, T, U] of an LSTM, its last outputs and cells [B, U], by the library's kernels.

    It is computed in the type of `x_BTC`, from the outputs and cells that are given, else from zeros.
    """
    weights = [input_GC, recurrent_GU]
    if bias_G is not None:
        weights += [bias_G, torch.zeros_like(bias_G)]  # the library wants a second bias, which would add nothing
    begun_1BU = tuple(
        x_BTC.new_zeros(1, len(x_BTC), recurrent_GU.shape[1]) if state is None else state.unsqueeze(0)
        for state in (output_BU, cell_BU)
    )
    with warnings.catch_warnings():
        # The casts are fresh tensors, so cuDNN has to lay the weights out anew each time, and says so.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        states_BTU, output_1BU, cell_1BU = torch.lstm(
            x_BTC,
            begun_1BU,
            [weight.to(x_BTC.dtype) for weight in weights],
            bias_G is not None,
            num_layers=1,
            dropout=0.0,
            train=torch.is_grad_enabled(),
            bidirectional=False,
            batch_first=True,
        )
    return states_BTU, output_1BU[0], cell_1BU[0]
