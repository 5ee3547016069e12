"""Several processes that answer at one address, each with the runs to itself, and the one that looks after them.

The supervisor holds the socket and starts the workers, which all listen at it; where one dies it starts another, and
told to end it passes that on. A worker takes connections once its runs are loaded: until then they go to the others, or
wait. Workers share the socket and a folder of figures, and nothing else, so any of them answers any request, and none
can hold up another. They end with the supervisor, however it ends.
"""

from __future__ import annotations

import logging
import logging.config
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from prometheus_client.multiprocess import mark_process_dead

from gpt1.base.errors import Gpt1Error
from gpt1.base.parallel import Context, WorkerDied, cores, end_with_parent
from gpt1.serve.listening import address_of, listen
from gpt1.serve.monitoring import SHARED_FIGURES, logging_settings
from gpt1.serve.settings import ServerSettings
from gpt1.serve.shares import ConnectionShare, shared_counts

LOG = logging.getLogger("gpt1.serve")
ENDING = (signal.SIGTERM, signal.SIGINT)
THREADS = "OMP_NUM_THREADS"  # which torch looks at as it is imported
LONGEST_DELAY = 30.0  # seconds before another try where workers die before they are ready
MARGIN = 10.0  # seconds after those to end in, when a worker that is still there is killed


def serve_by_workers(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve by several processes until told to stop; `started` is told the address.

    Each has its share of the cores, unless the variable OMP_NUM_THREADS says otherwise.
    """
    logging.config.dictConfig(logging_settings(as_json=settings.json_logs))
    threads = os.environ.get(THREADS, str(max(1, cores() // settings.workers)))
    with (
        closing(listen(settings.host, settings.port)) as listening,
        tempfile.TemporaryDirectory(prefix="gpt1-figures-", ignore_cleanup_errors=True) as figures,
        _environment({SHARED_FIGURES: figures, THREADS: threads}),
        _heard(ENDING) as ears,
    ):
        started(address_of(listening, settings.host))
        counts = shared_counts(Context(), settings.workers)

        def start(place: int) -> Worker:
            return _start(settings, listening, ConnectionShare(counts, place))

        Supervisor(start, settings.workers, ears, figures, settings.limits.grace_seconds + MARGIN).run()


@dataclass(eq=False)
class Worker:
    """A process that answers requests, or will; it tells once: None when it is ready, or the error it ends with."""

    process: SpawnProcess
    tells: Connection
    share: ConnectionShare
    is_ready: bool = False
    error: Exception | None = None


class Supervisor:
    """Sees to it that there are so many workers, until it is told to end; then that there are none."""

    def __init__(
        self, start: Callable[[int], Worker], number: int, ears: socket.socket, figures: str, ending_seconds: float
    ) -> None:
        self._start, self._number, self._ears, self._figures = start, number, ears, figures
        self._ending_seconds = ending_seconds
        self._workers: dict[int, Worker] = {}  # by place
        self._was_ready = False  # any of them, ever
        self._failures = 0  # deaths before a worker was ready, since one was
        self._not_before = 0.0  # when the next may be started
        self._told = b""  # the signals that came, each of which says to end

    def run(self) -> None:
        """Keep the workers going until told to end, and then let them."""
        try:
            while not self._told:
                if time.monotonic() >= self._not_before:
                    self._fill_places()
                is_whole = len(self._workers) == self._number
                self._hear(None if is_whole else max(0.0, self._not_before - time.monotonic()))
            self._end()
        finally:
            for worker in self._workers.values():
                worker.process.kill()
                worker.process.join()

    def _fill_places(self) -> None:
        for place in sorted(set(range(self._number)) - self._workers.keys()):
            try:
                self._workers[place] = self._start(place)
            except OSError as error:  # such as no memory, for now
                if not self._was_ready:
                    raise
                LOG.warning("no worker can be started: %s; another try follows", error.strerror)
                return self._try_later()

    def _try_later(self) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + delay_after(self._failures)

    def _hear(self, seconds: float | None) -> None:
        """Wait until something happens, so long at most, and see to it."""
        telling = {worker.tells: worker for worker in self._workers.values() if not worker.tells.closed}
        ending = {worker.process.sentinel: place for place, worker in self._workers.items()}
        happened = wait([self._ears, *telling, *ending], seconds)
        for tells in telling.keys() & set(happened):
            self._listen_to(telling[tells])
        for sentinel in ending.keys() & set(happened):
            self._bury(self._workers.pop(ending[sentinel]))
        if self._ears in happened:
            self._told += self._ears.recv(100)

    def _listen_to(self, worker: Worker) -> None:
        with closing(worker.tells):
            try:
                worker.error = worker.tells.recv()
            except EOFError:  # it has died
                return
        if worker.error is None:
            worker.is_ready = self._was_ready = True
            self._failures = 0

    def _bury(self, worker: Worker) -> None:
        """Forget a worker that has ended; where none has ever been ready that ends the server."""
        worker.process.join()
        worker.share.leave()
        mark_process_dead(worker.process.pid, self._figures)
        if self._told:
            return
        how = worker.error or f"it ended with {worker.process.exitcode}"
        if not self._was_ready:
            raise worker.error or WorkerDied(
                f"a worker did not become ready: {how}, perhaps for want of memory, or of room for temporary files; "
                "use fewer `workers`"
            )
        if not worker.is_ready:
            self._try_later()
        LOG.warning("worker %d is no more: %s; another takes its place", worker.process.pid, how)

    def _end(self) -> None:
        """Have all workers answer what is in flight and end; those that do not are killed."""
        deadline, is_interrupted = time.monotonic() + self._ending_seconds, False
        for worker in self._workers.values():
            worker.process.terminate()
        while self._workers and (left := deadline - time.monotonic()) > 0:
            if signal.SIGINT in self._told[1:] and not is_interrupted:  # told once more by Ctrl-C: at once then
                is_interrupted = True
                for worker in self._workers.values():
                    os.kill(worker.process.pid or 0, signal.SIGINT)
            self._hear(left)
        for worker in self._workers.values():
            LOG.error("worker %d has not ended in time and is killed", worker.process.pid)


def delay_after(failures: int) -> float:
    """Return how many seconds to wait after so many workers in a row died before they were ready."""
    return float(min(LONGEST_DELAY, 2.0 ** (failures - 1)))


def _start(settings: ServerSettings, listening: socket.socket, share: ConnectionShare) -> Worker:
    context = Context()
    tells, told = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(settings, listening, share, told), daemon=True)
    process.start()
    told.close()  # so that the end of the worker is the end of what it tells
    return Worker(process, tells, share)


def _work(settings: ServerSettings, listening: socket.socket, share: ConnectionShare, told: Connection) -> None:
    """Answer requests in a process of its own, and tell the supervisor when that begins, or why it does not."""
    tidy_up = partial(shutil.rmtree, os.environ[SHARED_FIGURES], ignore_errors=True)  # where nobody else can any more
    threading.Thread(target=end_with_parent, args=(tidy_up,), daemon=True).start()
    from gpt1.serve.server import answer_requests, make_app  # with torch, which the supervisor has no use for

    try:
        app, opened = make_app(settings), partial(told.send, None)
        answer_requests(app, listening, json_logs=settings.json_logs, share=share, opened=opened)
    except Gpt1Error as error:
        told.send(error)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _heard(signals: tuple[signal.Signals, ...]) -> Iterator[socket.socket]:
    """Give a socket at which the number of each signal comes, which does nothing else meanwhile."""
    ears, mouth = socket.socketpair()
    mouth.setblocking(False)
    before = {one: signal.signal(one, lambda number, _: mouth.send(bytes([number]))) for one in signals}
    try:
        yield ears
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        ears.close()
        mouth.close()
