"""The data loader of pre-training: windows of the stream, in an order drawn anew each epoch (paper, section 4.1).

A window is up to `context` inputs and the token after each, its target. In an epoch every token but the first of the
stream is a target exactly once: the stream is cut at a random offset and from there on every `context` targets, and the
windows are shuffled. What stands before the first cut and after the last are short windows, padded and not counted.

Batch k is a pure function of (data, seed, k): nothing is stored but k, and to go on at any batch costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import InputError, SettingError
from gpt1.base.shuffle import draw, permutation
from gpt1.pretraining.stream import TokenStream
from gpt1.training.batches import NO_TARGET, Batch

_Places = npt.NDArray[np.int64]
_NONE: _Places = np.zeros(0, np.int64)

PADDING = 0  # any id would do: causal attention keeps it from all that comes before


class Windows:
    """The batches of pre-training, epoch after epoch, without end."""

    def __init__(self, stream: TokenStream, *, context: int, batch: int, seed: int) -> None:
        self._stream = stream
        self._targets = _targets(stream, len(stream))
        self._context = context
        self._batch = batch
        self._seed = seed
        self._firsts: tuple[int, ...] = (0,)  # number of the first batch of each epoch, as far as was asked for

    def batch(self, k: int) -> Batch:
        """Return batch k, counted from 0 through all epochs; the last one of an epoch may hold fewer windows."""
        epoch, index = self.place(k)
        first = index * self._batch
        begins, ends = self._bounds(epoch, np.arange(first, min(first + self._batch, self._windows_in_epoch(epoch))))
        return _read(self._stream, begins, ends, self._context)

    def windows(self, first: int, count: int) -> Batch:
        """Return so many windows from the `first` on, counted from 0 through all epochs; of batches of one."""
        assert self._batch == 1, "windows are counted where each is a batch"
        bounds = []
        while count:
            epoch, index = self.place(first)
            here = min(count, self._windows_in_epoch(epoch) - index)
            bounds.append(self._bounds(epoch, np.arange(index, index + here)))
            first, count = first + here, count - here
        begins, ends = (np.concatenate(parts) for parts in zip(*bounds, strict=True)) if bounds else (_NONE, _NONE)
        return _read(self._stream, begins, ends, self._context)

    def _bounds(self, epoch: int, places: _Places) -> tuple[_Places, _Places]:
        """Return where windows of an epoch begin and end in the stream, told by their places in its order."""
        chosen = permutation(self._windows_in_epoch(epoch), (self._seed, epoch))(places)
        # The grid of windows begins before the stream, by less than a window: the first one is short by that much.
        begins = chosen * self._context - self._lead(epoch)
        return np.maximum(begins, 0), np.minimum(begins + self._context, self._targets)

    def place(self, k: int) -> tuple[int, int]:
        """Return the epoch of batch k and its index in that epoch, both counted from 0."""
        if k < 0:
            raise IndexError(f"batches are counted from 0, not {k}")
        firsts = self._firsts
        while firsts[-1] <= k:
            firsts = self._look_ahead(2 * len(firsts))
        epoch = bisect_right(firsts, k) - 1
        return epoch, k - firsts[epoch]

    def batches_in(self, epochs: float) -> int:
        """Return the number of batches that so many epochs give; a fraction of an epoch is rounded up."""
        exact = Fraction(str(epochs))  # the decimal that was written: 2.1 epochs of 10 batches are 21, not 22
        whole = int(exact)
        first, following = self._look_ahead(whole + 1)[whole : whole + 2]
        return first + ceil((exact - whole) * (following - first))

    def _look_ahead(self, epochs: int) -> tuple[int, ...]:
        """Return the first batches of so many epochs (or more), and the one after them.

        The tuple is replaced, never changed: a thread that prefetches may ask at the same time, and finds the same.
        """
        firsts = list(self._firsts)
        while len(firsts) <= epochs:
            firsts.append(firsts[-1] + self._batches_in_epoch(len(firsts) - 1))
        self._firsts = known = tuple(firsts)
        return known

    def _batches_in_epoch(self, epoch: int) -> int:
        return -(-self._windows_in_epoch(epoch) // self._batch)

    def _windows_in_epoch(self, epoch: int) -> int:
        return -(-(self._targets + self._lead(epoch)) // self._context)

    def _lead(self, epoch: int) -> int:
        return draw(self._context, (self._seed, epoch))


def validation_windows(stream: TokenStream, *, context: int, batch: int, limit: int | None = None) -> Iterator[Batch]:
    """Return the windows of the first `limit` tokens (or all), side by side from the start, `batch` at a time."""
    targets = _targets(stream, len(stream) if limit is None else min(limit, len(stream)))
    stride = batch * context
    grids = (np.arange(first, min(first + stride, targets), context) for first in range(0, targets, stride))
    return (_read(stream, begins, np.minimum(begins + context, targets), context) for begins in grids)


def _targets(stream: TokenStream, tokens: int) -> int:
    """Return how many of the first `tokens` tokens can be targets: all but the first."""
    if len(stream) < 2:
        raise InputError("a single token is no text to learn from: a next token needs one before it; prepare more text")
    if tokens < 2:
        raise SettingError(f"at least 2 tokens are needed for one target, not {tokens}")
    return tokens - 1


def _read(stream: TokenStream, begins: _Places, ends: _Places, context: int) -> Batch:
    """Return the windows whose targets are the tokens begin + 1 to end, padded to `context`."""
    lengths = ends - begins
    tokens = np.empty((len(begins), context + 1), np.int32)
    whole = lengths == context
    tokens[whole] = stream.read(begins[whole], context + 1)
    for row in np.flatnonzero(~whole):  # an epoch has two of these at most
        tokens[row, : lengths[row] + 1] = stream.read(begins[row : row + 1], int(lengths[row]) + 1)
    is_target = np.arange(context) < lengths[:, None]
    arrays = {
        "ids": np.where(is_target, tokens[:, :-1], np.int32(PADDING)),
        "targets": np.where(is_target, tokens[:, 1:], np.int32(NO_TARGET)),
    }
    return Batch(arrays, {"lm": float(lengths.sum())})
