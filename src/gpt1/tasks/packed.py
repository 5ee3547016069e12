"""Token sequences of different lengths put side by side into one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.tagging import NO_WORD


@dataclass(frozen=True)
class PackedRow:
    """The tokens of all sequences, where each sequence begins, and where each token stands."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int32]  # sequence s is ids[offsets[s]:offsets[s + 1]]
    sequence: NDArray[np.int64]  # of each token
    position: NDArray[np.int64]  # of each token in its sequence
    longest: int

    @property
    def sequences(self) -> int:
        """How many sequences there are."""
        return len(self.offsets) - 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a device needs."""
        return {"ids": self.ids, "offsets": self.offsets, "sequence": self.sequence, "position": self.position}


def pack_sequences(sequences: Sequence[NDArray[Any]], *, block: int = 1, filler: int = 0) -> PackedRow:
    """Return sequences side by side; one more sequence of `filler` fills the row up to a multiple of `block` tokens.

    With a block above 1 that sequence is always there, empty if need be, so that rows of one block count look alike.
    """
    lengths = [len(ids) for ids in sequences]
    if block > 1:
        lengths.append(-sum(lengths) % block)
        sequences = [*sequences, np.full(lengths[-1], filler)]
    offsets = np.cumsum([0, *lengths])
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    return PackedRow(
        ids=np.concatenate(sequences).astype(np.int32),
        offsets=offsets.astype(np.int32),
        sequence=sequence,
        position=np.arange(len(sequence)) - offsets[sequence],
        longest=max(lengths),
    )


def packed_places(split: EncodedSplit, examples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return at which tokens words are read where examples stand side by side, and which cells have a word."""
    assert split.places is not None, "labels are not of words"
    sizes = np.diff(split.offsets[split.begins])[examples]
    before = np.cumsum(sizes) - sizes
    own = split.places[examples]
    there = own != NO_WORD
    return (own + before[:, None])[there], there


def window_cells(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the cell of each window in a grid of [examples, most windows], and how many windows are most.

    The windows of an example stand side by side; `counts` says how many each has.
    """
    most = int(counts.max())
    owner = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    return owner * most + place, most
