"""What the kernels of a whole step make their dropout masks of: the same numbers that `model/dropout.py` takes.

A mask depends on where an element stands and on nothing of a launch: not on how many rows a program has, nor on which
pass it is. Only so is the mask of the backward pass the one of the forward pass.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from gpt1.model.dropout import DropoutKey, threshold
from gpt1.model.packing import Packing


class Masks(NamedTuple):
    """Masks of one place in the network over the tokens of a packed row; at rate 0 nothing is dropped."""

    rate: float
    word: Tensor  # as in `DropoutKey`
    numbers: Tensor
    site: int
    packing: Packing

    @property
    def limit(self) -> int:
        """The hash from which on an element is kept."""
        return threshold(self.rate)

    @property
    def scale(self) -> float:
        """What is kept is multiplied by this."""
        return 1 / (1 - self.rate)

    @property
    def pointers(self) -> tuple[Tensor, ...]:
        """What a kernel reads a token's place from."""
        return self.word, self.numbers, self.packing.sequence, self.packing.position


def masks_at(rate: float, noise: DropoutKey | None, site: int, packing: Packing) -> Masks:
    """Return the masks of a place; without noise, those that drop nothing."""
    if noise is None:
        return Masks(0.0, packing.offsets, packing.offsets, site, packing)  # pointers that are not followed
    return Masks(rate, noise.word, noise.rows, site, packing)
