"""The LSTM of table 5, read literally: one sequence, one position, one gate at a time.

`masks` says what dropout keeps: "tokens" [V, C], "states" [B, T, U], "branch_1" [B, T, C]. Without masks nothing is.
"""

from __future__ import annotations

import torch


def kept(x, mask, rate):
    """Zero what is not kept, scale the rest."""
    return x if mask is None else torch.where(mask, x / (1 - rate), torch.zeros_like(x))


def sigmoid(x):
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + torch.exp(-x))


def forward(weights, ids_BT, units, masks=None, rate=0.0):
    """Return the projected states [B, T, C] and the output matrix [V, C], which is the tokens' table."""
    masks = masks or {}
    tokens = kept(weights["tokens"], masks.get("tokens"), rate)
    sequences = []
    for b, ids_T in enumerate(ids_BT):
        state, cell = tokens.new_zeros(units), tokens.new_zeros(units)
        outputs = []
        for t, token in enumerate(ids_T):
            gates = weights["blocks.0.input.weight"] @ tokens[token] + weights["blocks.0.input.bias"]
            gates = gates + weights["blocks.0.recurrent.weight"] @ state
            enter, forget, candidate, leave = (gates[part * units : (part + 1) * units] for part in range(4))
            cell = sigmoid(forget) * cell + sigmoid(enter) * torch.tanh(candidate)
            state = sigmoid(leave) * torch.tanh(cell)
            dropped = kept(state, masks["states"][b, t] if masks else None, rate)
            y = weights["blocks.0.out.weight"] @ dropped + weights["blocks.0.out.bias"]
            outputs.append(kept(y, masks["branch_1"][b, t] if masks else None, rate))
        sequences.append(torch.stack(outputs))
    return torch.stack(sequences), tokens
