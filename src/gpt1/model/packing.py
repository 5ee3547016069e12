"""Sequence packing: different lengths side by side in one row of tokens, so that no arithmetic is spent on padding.

Everything that looks at one token at a time works on such a row as it is. What looks along a sequence goes over a grid
of [sequences, longest] and back, unless a kernel knows packed rows by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# N tokens of all sequences, B sequences, T the longest one.


class Packing(NamedTuple):
    """Where each sequence lies in the row."""

    offsets: Tensor  # [B + 1] int32: sequence b is the tokens from offsets[b] to offsets[b + 1]
    sequence: Tensor  # [N] the sequence a token belongs to
    position: Tensor  # [N] its place there
    longest: int  # tokens; no sequence has more

    @property
    def is_grid(self) -> bool:
        """Whether all sequences are as long as the longest one."""
        return len(self.sequence) == (len(self.offsets) - 1) * self.longest

    def to_grid(self, x: Tensor) -> Tensor:
        """Return a row [N, ...] as a grid [B, T, ...], with zeros behind each sequence."""
        size = len(self.offsets) - 1, self.longest
        return x.new_zeros(size[0] * size[1], *x.shape[1:]).index_copy(0, self._cells(), x).view(*size, *x.shape[1:])

    def from_grid(self, grid: Tensor) -> Tensor:
        """Return the row [N, ...] of a grid [B, T, ...]."""
        return grid.flatten(0, 1).index_select(0, self._cells())

    def _cells(self) -> Tensor:
        return self.sequence * self.longest + self.position


def pack(lengths: Tensor, longest: int | None = None) -> Packing:
    """Return the packing of sequences of these lengths, in this order."""
    offsets = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
    sequence = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    position = torch.arange(len(sequence), device=lengths.device) - offsets[sequence]
    return Packing(offsets.int(), sequence, position, int(lengths.max()) if longest is None else longest)


def grid_packing(sequences: int, length: int, device: torch.device) -> Packing:
    """Return the packing of sequences that all have the same length: of a grid, row by row."""
    size = sequences, length
    offsets = torch.arange(0, sequences * length + 1, length, dtype=torch.int32, device=device)
    sequence = torch.arange(sequences, device=device).unsqueeze(-1).expand(size).flatten()
    return Packing(offsets, sequence, torch.arange(length, device=device).expand(size).flatten(), length)
