"""The demo's fine-tunings: each in a process of one thread, as many at a time as there are cores.

One thread each, so that figures do not depend on how many cores there are, and because networks this small gain little
from a second one. While this process does something else the others go ahead; then it becomes one of them. Ctrl-C is
this one's to hear: the others save and stop when they are told to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType
from typing import Self

from gpt1.base.errors import Interrupted
from gpt1.base.parallel import Context, cores, end_with_parent, terminate_workers
from gpt1.base.progress import Progress
from gpt1.demo.recipe import SCRATCH
from gpt1.finetuning.finetune import finetune
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Listener


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    reader: Path  # the run it starts from, or takes its shape from
    data: Path
    out: Path
    task: str  # as `module:NAME`
    arm: str
    rate: float | None  # None: that of the recipe
    recipe: Recipe
    seeds: int = 1

    def __str__(self) -> str:
        name = self.task.rpartition(":")[2].lower()
        return f"{name}, {'from scratch' if self.arm == SCRATCH else 'pre-trained'}"


def learn(job: Job, listeners: Iterable[Listener] = ()) -> None:
    """Do one fine-tuning, or go on with it."""
    rate = [] if job.rate is None else [f"optimizer.lr={job.rate}"]
    finetune(
        job.reader,
        job.out,
        task=job.task,
        data=job.data,
        recipe=job.recipe,
        changes=[*rate, f"finetuning.scratch={str(job.arm == SCRATCH).lower()}"],
        seeds=job.seeds,
        resume=True,
        device="cpu",
        listeners=listeners,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread while the block lasts, so that figures do not depend on how many cores there are."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Crew:
    """Processes that do jobs, beside this one; `listeners` hear of those that this one does."""

    def __init__(self, progress: Progress, listeners: Iterable[Listener] = ()) -> None:
        context = Context()
        self._stopping = context.Event()
        self._pool = ProcessPoolExecutor(max(1, cores() - 1), context, _begin, (self._stopping,))
        self._jobs: dict[Future[None], Job] = {}
        self._progress, self._listeners = progress, tuple(listeners)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stopping.set()
            terminate_workers(self._pool)  # which a training takes as a wish to save and stop
        self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, jobs: Iterable[Job]) -> None:
        """Have jobs done, one after another, while this process does something else."""
        for job in jobs:
            future = self._pool.submit(_learn_unless_stopped, job)
            self._jobs[future] = job
            future.add_done_callback(self._note)

    def finish(self) -> None:
        """Do what nobody has begun, from the end, until all jobs are done."""
        for future, job in reversed(list(self._jobs.items())):
            if future.cancel():
                learn(job, self._listeners)
                self._progress.say(f"learned: {job}")
        for future in self._jobs:
            if not future.cancelled():
                future.result()

    def _note(self, future: Future[None]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._progress.say(f"learned: {self._jobs[future]}")


_stopping: Event  # of a process of the crew: whether no job is to be begun any more


def _begin(stopping: Event) -> None:
    import torch

    global _stopping
    _stopping = stopping
    torch.set_num_threads(1)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _learn_unless_stopped(job: Job) -> None:
    if _stopping.is_set():  # the pool hands out the next job before anybody can take it back
        raise Interrupted(f"{job} was not begun")
    learn(job)
