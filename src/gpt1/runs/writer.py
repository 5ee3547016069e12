"""Checkpoints written beside the training: a thread copies, writes, hashes and syncs what the loop hands over.

At most two snapshots are held, being written or waiting: the best and the newest, say. A third waits for its place,
unless one that waits would be removed as soon as the third is there: then that one gives way and is never written. A
large one waits some seconds even if nothing is being written, so that those of a short training give way to its last
one; who needs its place, or waits for the disk, has it written at once. Where a write fails, the loop hears of it the
next time it asks for anything.

Of a run that is over, where it keeps one checkpoint and no moments, the best is all that is kept. It is written as one
folder that says that the run is over; a kill before leaves what was there, from which the run goes on to the same end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import cast

import torch

from gpt1.recipes.values import Logging
from gpt1.runs.checkpoints import (
    Checkpoint,
    Rank,
    Tensors,
    drop_moments,
    end_with,
    keep_alone,
    remove_old,
    save_checkpoint,
)
from gpt1.runs.events import Saved
from gpt1.runs.folder import CHECKPOINTS, checkpoint_name

SECONDS_A_GIGABYTE = 10.0  # from the beginning of one write to that of the next: ten times what a good disk takes
MOST_HELD = 2  # snapshots: as much memory as they take

Ended = Callable[[Mapping[str, object]], Mapping[str, object]]  # of the best weights' progress that of the run's end


@dataclass(frozen=True)
class Snapshot:
    """A state of a training: tensors that nobody changes any more."""

    step: int
    model: Tensors
    optimizer: Tensors | None  # None: nobody goes on from here
    progress: Mapping[str, object]  # of the loop
    rank: Rank | None = None  # where it was evaluated
    is_best: bool = False  # so far
    is_end: bool = False  # the run is over, and keeps nothing else

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return sum(tensor.nbytes for part in (self.model, self.optimizer or {}) for tensor in part.values())

    def gives_way_to(self, newer: Snapshot, logging: Logging) -> bool:
        """Whether it would be removed once the newer one is on the disk."""
        if logging.keep > 1 or logging.keeps(self.step) or logging.keeps_weights(self.step):
            return False
        is_beaten = self.rank is not None and newer.rank is not None and newer.rank <= self.rank
        return is_beaten or not self.is_best


class CheckpointWriter:
    """Writes the snapshots of one training; to be entered, and left when the training is over."""

    def __init__(self, run: Path, made_for: Mapping[str, object], logging: Logging, device: torch.device) -> None:
        self._run, self._made_for, self._logging = run, made_for, logging
        # Copies from a GPU that do not queue up behind the training's kernels.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._changed = threading.Condition()
        # All below is read and set under the condition.
        self._waiting: list[Snapshot] = []  # oldest first
        self._urgent = 0  # so many of them are to be written at once
        self._is_writing = self._is_closing = False
        self._began = time.monotonic()  # the last write, or all of it
        self._written: list[Saved] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)

    def __enter__(self) -> CheckpointWriter:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits, whatever ended the training."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def save(self, snapshot: Snapshot) -> None:
        """Hand a snapshot over, once there is a place for it."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())  # its tensors may still be on their way
        with self._changed:
            if not self._has_place(snapshot):
                self._hurry(1)
            self._changed.wait_for(lambda: self._failure or self._has_place(snapshot))
            self._raise_failure()
            self._waiting = [*self._staying_beside(snapshot), snapshot]
            self._changed.notify_all()

    def end(self, last: Snapshot, best: int | None, ended: Ended) -> Checkpoint | None:
        """Have written at once what is kept of a run that is over; return its best weights where they are in memory.

        `best` is the step of the best, if any was evaluated.
        """
        if last.is_best or best is None or not self._keeps_one:
            self._save_at_once(last)
            is_used = last.is_best or (best is None and last.rank is None)
            return self._in_memory(last) if is_used else None
        with self._changed:
            self._raise_failure()
            waiting, self._waiting = self._waiting, []  # all that waits would be removed, but for the best
            for found in waiting:
                if found.step == best:
                    end = replace(found, optimizer=None, progress=ended(found.progress), is_end=True)
                    self._waiting = [end]
                    self._hurry(1)
                    return self._in_memory(end)
        self._settle()
        if (there := end_with(self._run, best, ended)) is None:  # the last one is better than nothing
            self._save_at_once(last)
        return there

    def _save_at_once(self, snapshot: Snapshot) -> None:
        self.save(snapshot)
        with self._changed:
            self._hurry(len(self._waiting))

    @property
    def _keeps_one(self) -> bool:
        logging = self._logging
        keeps_others = logging.keep > 1 or logging.keep_every is not None or logging.keep_weights is not None
        return not (keeps_others or logging.keep_optimizer)

    def _in_memory(self, snapshot: Snapshot) -> Checkpoint:
        path = self._run / CHECKPOINTS / checkpoint_name(snapshot.step)
        seconds = cast(float, snapshot.progress.get("seconds", 0.0))
        return Checkpoint(path, snapshot.step, snapshot.model, None, snapshot.progress, seconds, self._made_for, None)

    def written(self) -> list[Saved]:
        """Return what has come onto the disk since this was last asked."""
        with self._changed:
            self._raise_failure()
            written, self._written = self._written, []
        return written

    def finish(self) -> list[Saved]:
        """Wait until all is on the disk; return what `written` does."""
        self._settle()
        return self.written()

    def drop_moments(self) -> None:
        """Remove the optimiser's moments from all checkpoints of the run, which is over."""
        self.finish()
        drop_moments(self._run)

    def _settle(self) -> None:
        with self._changed:
            self._hurry(len(self._waiting))
            self._changed.wait_for(lambda: self._failure or not (self._waiting or self._is_writing))
            self._raise_failure()

    def _has_place(self, snapshot: Snapshot) -> bool:
        return len(self._staying_beside(snapshot)) + self._is_writing < MOST_HELD

    def _staying_beside(self, newer: Snapshot) -> list[Snapshot]:
        return [one for one in self._waiting if not one.gives_way_to(newer, self._logging)]

    def _hurry(self, count: int) -> None:
        """Have so many of those that wait written as soon as can be."""
        self._urgent = max(self._urgent, count)
        self._changed.notify_all()

    def _seconds_to_wait(self, snapshot: Snapshot) -> float:
        if self._urgent or self._is_closing:
            return 0.0
        return self._began + SECONDS_A_GIGABYTE * snapshot.size / 1e9 - time.monotonic()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while (snapshot := self._next()) is not None:
                saved = self._write(snapshot)
                del snapshot  # its memory, before the next one is waited for
                with self._changed:
                    self._written.append(saved)
                    self._is_writing = False
                    self._changed.notify_all()
        except BaseException as error:  # the loop raises it
            with self._changed:
                self._failure, self._is_writing = error, False
                self._changed.notify_all()

    def _next(self) -> Snapshot | None:
        """Return the next snapshot to write; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            while self._waiting and (seconds := self._seconds_to_wait(self._waiting[0])) > 0:
                self._changed.wait(seconds)  # or until it is urgent, or another stands in its place
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
            if not self._waiting:
                return None
            snapshot = self._waiting.pop(0)
            self._is_writing, self._urgent = True, max(0, self._urgent - 1)
            self._began = time.monotonic()
            self._changed.notify_all()
        return snapshot

    def _write(self, snapshot: Snapshot) -> Saved:
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            path = save_checkpoint(
                self._run,
                snapshot.step,
                snapshot.model,
                snapshot.optimizer,
                snapshot.progress,
                self._made_for,
            )
        if snapshot.is_end:
            keep_alone(self._run, snapshot.step)
        else:
            remove_old(self._run, snapshot.step, self._logging)
        return Saved(snapshot.step, path)
