"""Sharded checkpoints, written beside the training: each process its shards, of which the first makes a checkpoint.

A shard holds a process's rows of every tensor, in the order of the ranks: read one after the other they are the whole
tensor, so that a sharded checkpoint opens in any number of processes, one too. The files are those of other
checkpoints, whole or not there as a folder, each with its checksum in `state.json`, which is written last.

PyTorch's own (`torch.distributed.checkpoint`) would plan each save by collectives beside those of the training, and
leaves either a pickle or files one by one under their last names, without checksums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch

from gpt1.base.files import make_folder, whole_folder
from gpt1.recipes.values import Logging
from gpt1.runs.checkpoints import parts_of, remove_old, shard_name, write_parts, write_state
from gpt1.runs.events import Saved
from gpt1.runs.folder import CHECKPOINTS, checkpoint_name
from gpt1.runs.writer import MOST_HELD, Snapshot

LAST_SECONDS = 5.0  # for what is being written when a training fails: others may have gone


class Processes(Protocol):
    """Those who write a checkpoint together, seen by one of them."""

    rank: int
    size: int

    def gather(self, what: str, own: object) -> list[Any]:
        """Return what each has to tell, by rank; an error where one is gone."""

    def leave(self, why: str) -> None:
        """Tell the others that this one ends, and why."""

    def hurry(self, seconds: float) -> None:
        """Wait for nobody any longer than so many seconds from now."""


def save_shards(run: Path, snapshot: Snapshot, made_for: Mapping[str, object], processes: Processes) -> Path:
    """Write this process's shards of a checkpoint, and return when all have; the first process makes it whole."""
    path, is_first = run / CHECKPOINTS / checkpoint_name(snapshot.step), processes.rank == 0
    if is_first:
        make_folder(path.parent)
    with whole_folder(path) if is_first else nullcontext() as own:
        name = processes.gather("the folder of a checkpoint", None if own is None else own.name)[0]
        parts = {
            shard_name(file, processes.rank, processes.size): tensors
            for file, tensors in parts_of(snapshot.model, snapshot.optimizer).items()
        }
        written = processes.gather("its shards", write_parts(path.with_name(name), parts, path))
        if own is not None:
            files = {file: hash for shards in written for file, hash in shards.items()}
            write_state(own, snapshot.step, files, snapshot.progress, made_for)
    return path


class ShardWriter:
    """Writes the snapshots of one training one after the other; at most two are held, and a third waits."""

    def __init__(
        self, run: Path, made_for: Mapping[str, object], logging: Logging, device: torch.device, processes: Processes
    ) -> None:
        self._run, self._made_for, self._logging, self._all = run, made_for, logging, processes
        # Copies from a GPU that do not queue up behind the training's kernels.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shards")
        self._held: deque[Future[Saved]] = deque()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._all.hurry(LAST_SECONDS)
        self._thread.shutdown()

    def save(self, snapshot: Snapshot) -> list[Saved]:
        """Hand a snapshot over, once there is a place for it; return what has come onto the disk until then."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())  # its tensors may still be on their way
        saved = [self._held.popleft().result() for _ in range(len(self._held) + 1 - MOST_HELD)]
        self._held.append(self._thread.submit(self._write, snapshot))
        return saved

    def written(self) -> list[Saved]:
        """Return what has come onto the disk since this was last asked."""
        return [self._held.popleft().result() for _ in range(sum(one.done() for one in self._held))]

    def finish(self) -> list[Saved]:
        """Wait until all is on the disk; return what `written` does."""
        return [self._held.popleft().result() for _ in range(len(self._held))]

    def _write(self, snapshot: Snapshot) -> Saved:
        try:
            with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                path = save_shards(self._run, snapshot, self._made_for, self._all)
        except BaseException as error:
            self._all.leave(str(error) or type(error).__name__)
            raise
        if self._all.rank == 0:
            remove_old(self._run, snapshot.step, self._logging)
        return Saved(snapshot.step, path)
