"""Sequences to a network: as many at once as there is room for, packed, on its device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from gpt1.model import Packing
from gpt1.tasks.packed import PackedRow

# Tokens at once, where one thing is not longer by itself. What a layer makes of them should stay in a CPU's caches.
TOKENS, CPU_TOKENS = 8192, 256

Pause = Callable[[], None]  # what is done between two portions; what it raises ends the work


def go_on() -> None:
    """Make no pause."""


def portions(sizes: Iterable[int], device: torch.device, pause: Pause = go_on) -> Iterator[slice]:
    """Cut things of these sizes, in tokens, into portions that a device reads at once."""
    sizes, most = list(sizes), CPU_TOKENS if device.type == "cpu" else TOKENS
    start = tokens = 0
    for place, size in enumerate(sizes):
        if place > start and tokens + size > most:
            yield slice(start, place)
            pause()
            start, tokens = place, 0
        tokens += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def on_device(row: PackedRow, device: torch.device) -> tuple[Tensor, Packing]:
    """Return the ids and the packing of a packed row, as a network takes them."""
    ids, offsets, sequence, position = (torch.from_numpy(array).to(device) for array in row.arrays().values())
    return ids.long(), Packing(offsets, sequence, position, row.longest)
