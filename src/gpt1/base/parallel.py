"""The same function on many items, on all cores, the results in order.

This process is one of the workers: it hands out items, and works on one itself whenever the others have enough. The
others, its helpers, are fresh processes (spawned), so nothing of this one leaks into them, and they end with it,
however it ends. Only a few items are under way at a time, so memory stays bounded whatever the number of items.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import IO, Any, TypeVar

from gpt1.base.errors import Gpt1Error, InputError

# Results that wait for an earlier one; while a helper starts, this process may finish many items.
_MOST_WAITING = 8

_LISTENING = 0.2  # seconds after which a signal is heard at the latest

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
    """Yield `function(item)` for every item in order, from `workers` processes, of which this is one."""
    initializer(*initargs)
    if workers <= 1:
        yield from map(function, items)
        return
    helpers = _Helpers(workers - 1, function, initializer, initargs)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(helpers.hand_over(item) or _done_here(function, item))
            while waiting and (waiting[0].done() or len(waiting) > _MOST_WAITING * workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise WorkerDied(
            "a worker process was killed, perhaps for want of memory. What was finished is kept: run the same "
            "command again to go on, with fewer workers if memory is short"
        ) from None
    finally:
        helpers.end()


def _done_here(function: Callable[[Item], Result], item: Item) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(function(item))
    except Exception as error:  # its turn comes after those of the items before it
        future.set_exception(error)
    return future


class _Helpers:
    """Worker processes beside this one, each with an item at hand and one in stock.

    Items go through a file without a name, a slot for each, since a pipe costs several times the copying. It is no
    shared memory, because a file meets a full disk with an error, not a bus error, and leaves nothing after a kill.
    """

    def __init__(
        self, number: int, function: Callable[[Any], Any], initializer: Callable[..., None], initargs: tuple[Any, ...]
    ) -> None:
        self._function = function
        self._items = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._slots: list[Future[Any] | None] = [None] * (2 * number)
        arguments = (_Inherited(self._items), initializer, initargs)
        self._pool = ProcessPoolExecutor(number, Context(), _begin_worker, arguments)

    def hand_over(self, item: Any) -> Future[Any] | None:
        """Give an item to the helpers, or do nothing if they all have enough."""
        for slot, future in enumerate(self._slots):
            if future is None or future.done():
                self._slots[slot] = self._submit(item, slot)
                return self._slots[slot]
        return None

    def _submit(self, item: Any, slot: int) -> Future[Any]:
        if os.name == "nt":  # no open files are inherited there
            return self._pool.submit(self._function, item)
        try:
            self._items.seek(slot * _SLOT_BYTES)
            pickle.dump(item, self._items, pickle.HIGHEST_PROTOCOL)
            self._items.flush()
        except OSError as error:
            raise InputError(f"cannot write a temporary file in {tempfile.gettempdir()}: {error.strerror}") from error
        size = self._items.tell() - slot * _SLOT_BYTES
        return self._pool.submit(_work, self._function, slot, size)

    def end(self) -> None:
        """End the helpers at once, though they may be in the midst of work, or of tidying up large tables."""
        terminate_workers(self._pool)
        self._pool.shutdown(wait=True, cancel_futures=True)
        with suppress(OSError):  # a disk that is full was told of before
            self._items.close()


def terminate_workers(pool: ProcessPoolExecutor) -> None:
    """Send SIGTERM to the processes of a pool, which has no public way to do so before Python 3.14."""
    for process in list((pool._processes or {}).values()):
        process.terminate()


_SLOT_BYTES = 1 << 34  # more than any item; what is not written takes no place on the disk


class _Inherited:
    """An open file that arrives in a spawned process as a file descriptor."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        if os.name == "nt":  # where items go through the pipe
            return int, ()
        from multiprocessing.reduction import DupFd

        return _detach, (DupFd(self._file.fileno()),)


def _detach(descriptor: Any) -> int:
    return int(descriptor.detach())


class _Process(SpawnProcess):
    """A worker that does not run the user's script again: what it works on is all in this package."""

    @staticmethod
    def _Popen(process: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        script = sys.modules["__main__"]
        file, spec = getattr(script, "__file__", None), getattr(script, "__spec__", None)
        script.__file__, script.__spec__ = None, None
        try:
            with _deaf_to_interrupts():
                return SpawnProcess._Popen(process)
        finally:
            script.__file__, script.__spec__ = file, spec
            if file is None:
                del script.__file__


def hearing_signals(call: Callable[[], Result]) -> Result:
    """Return what a call of another library's compiled code returns, in a thread of its own so that this one can stop.

    Python tells of a signal between two steps of Python only; such a call may be a single one of many minutes. Where
    this thread stops, the call is left to itself and ends with the process.
    """
    done: Future[Result] = Future()

    def work() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # to be raised where it was called
            done.set_exception(error)

    working = threading.Thread(target=work, daemon=True)
    working.start()
    while working.is_alive():
        working.join(_LISTENING)  # a signal that another thread gets wakes nobody
    return done.result()


class Context(SpawnContext):
    """Starts workers that do not run the user's script again, and leave Ctrl-C to this process."""

    Process = _Process


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C for a moment: a process that begins in it ignores it for good, from its first import on."""
    if threading.current_thread() is not threading.main_thread():  # where no signal can be set
        yield
        return
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


_items: int | None = None


def _begin_worker(items: Any, initializer: Callable[..., None], initargs: tuple[Any, ...]) -> None:
    global _items
    _items = items
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the others
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process a core is parallel enough
    # spaCy would import torch where there is one, for more than a second; helpers work on text and have no use for it.
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    threading.Thread(target=end_with_parent, daemon=True).start()
    initializer(*initargs)


def _work(function: Callable[[Any], Any], slot: int, size: int) -> Any:
    assert _items is not None
    return function(pickle.loads(os.pread(_items, size, slot * _SLOT_BYTES)))


def end_with_parent(tidy_up: Callable[[], None] = lambda: None) -> None:
    """Wait for the parent process to end, however it ends, and end this one: for a thread of a worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        tidy_up()
        os._exit(1)
