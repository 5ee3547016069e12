"""Batches as values, and the loader that has the next one ready on the device before it is asked for.

Batch k is a pure function of the data, the seed and k: there is no iterator whose state would have to be saved, a
resumed run asks for batch k and has it, and every rank asks for the same batch and takes its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

NO_TARGET = -1  # what a padded position is to predict
FILL = {"targets": NO_TARGET}  # of rows that are there only to make shapes equal; other arrays are filled with 0

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class MicroBatchArrays:
    """What a device works on at once."""

    arrays: Arrays
    sequences: npt.NDArray[np.int32]  # the place of each of its sequences in the whole batch
    facts: dict[str, str | int] = field(default_factory=dict)  # what an objective must know without asking the device


class AnyBatch(Protocol):
    """The examples of one update, and what each term of the loss is divided by."""

    @property
    def counts(self) -> dict[str, float]:
        """How much each term of the loss counts in the whole batch."""

    def __len__(self) -> int:
        """Return how many examples there are."""

    def part(self, first: int, real: int, size: int) -> MicroBatchArrays:
        """Return `real` examples from `first` on, and so many to fill up to `size` that have nothing to predict."""


@dataclass(frozen=True)
class Batch:
    """A batch whose examples are sequences of equal length, one on each row of every array."""

    arrays: Arrays
    counts: dict[str, float]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def part(self, first: int, real: int, size: int) -> MicroBatchArrays:
        """Return `real` rows from `first` on, filled up to `size` rows."""
        rows = np.arange(first, first + real)
        arrays = {name: _padded(array, rows, size, FILL.get(name, 0)) for name, array in self.arrays.items()}
        return MicroBatchArrays(arrays, np.arange(first, first + size, dtype=np.int32))


class Batches(Protocol):
    """Where batches come from."""

    def batch(self, k: int) -> AnyBatch:
        """Return batch `k`, whatever was asked for before."""


@dataclass(frozen=True)
class MicroBatch:
    """A part on its device."""

    tensors: dict[str, torch.Tensor]
    sequences: torch.Tensor
    facts: dict[str, str | int]


def share(size: int, ranks: int) -> int:
    """Return how many examples of a batch of `size` a rank has at most: the last ranks may have fewer, or none."""
    return -(-size // ranks)


def share_of(batch: AnyBatch, size: int, micro: int, rank: int, ranks: int) -> Iterator[MicroBatchArrays]:
    """Yield a rank's share of a batch of `size` examples in parts of `micro` examples each.

    Every rank gets as many parts as the others, and all have `micro` examples, so that collective operations pair up
    and compiled code meets one shape; what is missing is filled with examples that have nothing to predict.
    """
    own = share(size, ranks)
    end = min(len(batch), (rank + 1) * own)
    for first in range(rank * own, (rank + 1) * own, micro):
        yield batch.part(first, max(0, min(end - first, micro)), micro)


def _padded(array: npt.NDArray[Any], rows: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    if len(rows) == size:
        return array[rows[0] : rows[0] + size]
    filled = np.full((size, *array.shape[1:]), fill, array.dtype)
    filled[: len(rows)] = array[rows]
    return filled


class Loader:
    """Gives the micro-batches of batch k on the device; the batch after it is read meanwhile."""

    def __init__(self, batches: Batches, size: int, micro: int, rank: int, ranks: int, device: torch.device) -> None:
        self._batches = batches
        self._split = (size, micro, rank, ranks)
        self._device = device
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._ahead: tuple[int, Future[tuple[list[MicroBatch], dict[str, float]]]] | None = None

    def load(self, k: int, following: int) -> tuple[list[MicroBatch], dict[str, float]]:
        """Return batch `k` and begin to read batch `following`."""
        if self._ahead is None or self._ahead[0] != k:
            self._ahead = (k, self._reader.submit(self._read, k))
        micros, counts = self._ahead[1].result()
        self._ahead = (following, self._reader.submit(self._read, following))
        return [self._to_device(micro) for micro in micros], counts

    def close(self) -> None:
        """Stop reading ahead."""
        self._reader.shutdown(wait=True, cancel_futures=True)

    def _read(self, k: int) -> tuple[list[MicroBatch], dict[str, float]]:
        batch = self._batches.batch(k)
        micros = []
        for part in share_of(batch, *self._split):
            tensors = {name: self._tensor(array) for name, array in part.arrays.items()}
            micros.append(MicroBatch(tensors, self._tensor(part.sequences), part.facts))
        return micros, batch.counts

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _to_device(self, micro: MicroBatch) -> MicroBatch:
        tensors = {name: tensor.to(self._device, non_blocking=True) for name, tensor in micro.tensors.items()}
        return MicroBatch(tensors, micro.sequences.to(self._device, non_blocking=True), micro.facts)
