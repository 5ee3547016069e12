"""The same function on many items, on all cores, the results in order.

Worker processes are fresh ones (spawned), so nothing of this process leaks into them, and they end with it, however
it ends. Only a few items are under way at a time, so memory stays bounded whatever the number of items.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (initializer, initargs))
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
            "command again to go on, with a smaller --workers if memory is short"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process a core is parallel enough
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initializer(*initargs)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
