"""Several processes of one run as threads of this one, who tell each other what they have to tell.

`together.py RUN STEP SIZE` writes a sharded checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.distributed import HashStore

from gpt1.base.errors import Gpt1Error
from gpt1.runs.checkpoints import Tensors
from gpt1.runs.shards import save_shards
from gpt1.runs.writer import Snapshot
from gpt1.training.roll_call import RollCall

LONG = 10.0  # minutes


def processes(size: int, minutes: float = LONG) -> list[RollCall]:
    store = HashStore()
    return [RollCall(store, rank, size, minutes) for rank in range(size)]


def together(calls: list[RollCall], act: Callable[[RollCall], Any]) -> list[Any]:
    """Let each process act, all at once; return what came of it, an error of ours too."""

    def caught(call: RollCall) -> Any:
        try:
            return act(call)
        except Gpt1Error as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(caught, calls))


def tensors(step: int) -> tuple[Tensors, Tensors]:
    """Return weights and moments whose every number tells its place and step."""
    model = {"w": torch.arange(14.0).view(7, 2) + step, "b": torch.arange(5.0) - step, "one": torch.full((1, 3), 1.0)}
    return model, {f"{slot}.{name}": tensor * 2 for slot in ("m", "v") for name, tensor in model.items()}


def rows_of(tensors: Tensors, rank: int, size: int) -> Tensors:
    """Return a rank's rows as FSDP deals them out: the last ranks may have fewer, or none."""
    dealt = {name: [*tensor.chunk(size), *[tensor[:0]] * size] for name, tensor in tensors.items()}
    return {name: parts[rank].contiguous() for name, parts in dealt.items()}


def snapshot(step: int, call: RollCall) -> Snapshot:
    model, optimizer = (rows_of(part, call.rank, call.size) for part in tensors(step))
    return Snapshot(step, model, optimizer, {"batch": step, "cost": 10.0 - step})


def save(run: Path, step: int, size: int) -> list[Any]:
    """Save a sharded checkpoint; return what came of it in each process."""
    return together(processes(size), lambda call: save_shards(run, snapshot(step, call), {"seed": 0}, call))


if __name__ == "__main__":
    run, step, size = sys.argv[1:]
    assert all(isinstance(found, Path) for found in save(Path(run), int(step), int(size)))
