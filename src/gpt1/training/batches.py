"""Batches as values, and the loader that has the next one ready on the device before it is asked for.

Batch k is a pure function of the data, the seed and k: there is no iterator whose state would have to be saved, a
resumed run asks for batch k and has it, and every rank asks for the same batch and takes its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

NO_TARGET = -1  # what a padded position is to predict
FILL = {"targets": NO_TARGET}  # of rows that are there only to make shapes equal; other arrays are filled with 0

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """The sequences of one update, one on each row of every array, and what each term of the loss is divided by."""

    arrays: Arrays
    counts: dict[str, float]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))


class Batches(Protocol):
    """Where batches come from."""

    def batch(self, k: int) -> Batch:
        """Return batch `k`, whatever was asked for before."""


@dataclass(frozen=True)
class MicroBatch:
    """What a device works on at once: tensors, and each row's place in the whole batch."""

    tensors: dict[str, torch.Tensor]
    rows: torch.Tensor


def share_of(batch: Batch, size: int, micro: int, rank: int, ranks: int) -> Iterator[tuple[Arrays, npt.NDArray[Any]]]:
    """Yield a rank's part of a batch of `size` sequences in micro-batches of equal shape, with the rows' places.

    Every rank gets as many micro-batches as the others, and all have `micro` rows, so that collective operations pair
    up and compiled code meets one shape; what is missing is filled with rows that have nothing to predict.
    """
    own = -(-size // ranks)
    for begin in range(rank * own, (rank + 1) * own, micro):
        rows = np.arange(begin, begin + micro)
        real = rows[rows < min(len(batch), (rank + 1) * own)]
        yield (
            {name: _padded(array, real, micro, FILL.get(name, 0)) for name, array in batch.arrays.items()},
            rows.astype(np.int32),
        )


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
        for arrays, rows in share_of(batch, *self._split):
            tensors = {name: self._tensor(array) for name, array in arrays.items()}
            micros.append(MicroBatch(tensors, self._tensor(rows)))
        return micros, batch.counts

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def _to_device(self, micro: MicroBatch) -> MicroBatch:
        tensors = {name: tensor.to(self._device, non_blocking=True) for name, tensor in micro.tensors.items()}
        return MicroBatch(tensors, micro.rows.to(self._device, non_blocking=True))
