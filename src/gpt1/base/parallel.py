"""The same function on many items, on all cores, the results in order.

Worker processes are fresh ones (spawned), so nothing of this process leaks into them, and they end with it, however
it ends. Only a few items are under way at a time, so memory stays bounded whatever the number of items.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from gpt1.base.errors import Gpt1Error

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerDied(Gpt1Error):
    """A worker process was killed from outside."""


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    initializer: Callable[..., None],
    initargs: tuple[Any, ...],
) -> Iterator[Result]:
    """Yield `function(item)` for every item in order, from `workers` processes (one: from this process)."""
    if workers <= 1:
        initializer(*initargs)
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(workers, _Context(), _begin_worker, (initializer, initargs))
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise WorkerDied(
            "a worker process was killed, perhaps for want of memory. What was finished is kept: run the same "
            "command again to go on, with fewer workers if memory is short"
        ) from None
    except BaseException:
        for process in list((pool._processes or {}).values()):  # they may be in the midst of seconds of work
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Process(SpawnProcess):
    """A worker that does not run the user's script again: what it works on is all in this package."""

    @staticmethod
    def _Popen(process: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        script = sys.modules["__main__"]
        file, spec = getattr(script, "__file__", None), getattr(script, "__spec__", None)
        script.__file__, script.__spec__ = None, None
        try:
            return SpawnProcess._Popen(process)
        finally:
            script.__file__, script.__spec__ = file, spec
            if file is None:
                del script.__file__


class _Context(SpawnContext):
    Process = _Process


def _begin_worker(initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the others
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process a core is parallel enough
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initializer(*initargs)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
