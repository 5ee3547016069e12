"""Encoding on a Ray cluster: each share of a lot is a task, which is given the names of files and writes its batches.

The folder and the texts have the same names on all nodes. A task whose node dies is done again on another; what it had
written is whole or not there, as after any kill.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gpt1
from gpt1.base.errors import Gpt1Error, InputError, MissingDependency
from gpt1.base.parallel import WorkerDied
from gpt1.base.progress import Progress, Silent, stage
from gpt1.base.wording import many
from gpt1.corpus.documents import Fault, TextSource
from gpt1.corpus.encoding import NOT_READ, Encoding, encode
from gpt1.corpus.lots import Lot, LotShare, shares_of

TRIES = 10  # of a task whose node or process dies
ANSWERS_WITHIN = 10  # seconds
IN_STOCK = 4  # tasks for each core of the cluster that are handed over at a time


@dataclass
class Outcome(Silent):
    """What a task has done: how many batches of how many bytes of text, at which fault it ended, and what it told."""

    batches: int = 0
    bytes: int = 0
    fault: Fault | None = None
    lines: list[str] = field(default_factory=list)

    def say(self, line: str) -> None:
        """Keep a fact, to be told where somebody hears it."""
        self.lines.append(line)

    def add(self, text_bytes: int) -> None:
        """Count one more batch."""
        self.batches += 1
        self.bytes += text_bytes


def encode_on_ray(
    encoding: Encoding, lots: Sequence[Lot], done: Callable[[int, int], None], progress: Progress
) -> Fault | None:
    """Encode the batches of all lots that are not there yet; a careful one ends at a fault, and returns it.

    After each task `done` hears how many bytes of text its batches held, and how many those were.
    """
    ray = require_ray()
    read = text_bytes = 0.0
    with _connected(ray, progress), stage(progress, "encoding") as bar:
        shares = shares_of(lots, _cores(ray))
        total = max(1, sum(share.bytes for share in shares))
        for share, outcome in _outcomes(ray, encoding, shares):
            for line in outcome.lines:
                progress.say(line)
            done(outcome.bytes, outcome.batches)
            read, text_bytes = read + share.bytes, text_bytes + outcome.bytes
            bar.update(min(0.99, read / total), int(text_bytes))
            if outcome.fault:
                return outcome.fault
    return None


def _outcomes(ray: Any, encoding: Encoding, shares: Sequence[LotShare]) -> Iterator[tuple[LotShare, Outcome]]:
    """Yield what each task did, as they end; only some of them are handed over at a time."""
    task = ray.remote(num_cpus=1, max_retries=TRIES)(_encode_share)
    common = ray.put((replace(encoding, sources=[]), Path.cwd(), gpt1.__version__))
    left, under_way = iter(shares), dict[Any, LotShare]()
    try:
        while True:
            while len(under_way) < IN_STOCK * _cores(ray) and (share := next(left, None)) is not None:
                own = encoding.sources[share.lot.begin : share.lot.end]
                under_way[task.remote(common, share, own)] = share
            if not under_way:
                return
            (ended, *_), _ = ray.wait(list(under_way))
            yield under_way.pop(ended), _outcome(ray, ended)
    finally:
        for reference in under_way:
            ray.cancel(reference)


def _outcome(ray: Any, reference: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
        return outcome
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Gpt1Error):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise WorkerDied(
            f"a task died on the cluster {TRIES + 1} times ({type(error).__name__}), perhaps for want of memory. What "
            "was finished is kept: run the same command again to go on"
        ) from error


def _encode_share(common: tuple[Encoding, Path, str], share: LotShare, sources: Sequence[TextSource]) -> Outcome:
    """Encode the batches of a share that are not there yet: what a task does, on whatever node.

    Of the sources it is given those of its lot alone; they keep their places among all.
    """
    encoding, folder, version = common
    encoding = replace(encoding, sources=[NOT_READ] * share.lot.begin + [*sources])
    if version != gpt1.__version__:
        raise InputError(f"{platform.node()} has gpt1 {gpt1.__version__}, not {version}; install the same everywhere")
    if not (folder / encoding.work).is_dir():
        raise InputError(f"{folder / encoding.work} is not on {platform.node()}; share the folder under the same name")
    outcome = Outcome()
    with contextlib.chdir(folder):  # so that names mean there what they mean here
        outcome.fault = encode(encoding, [share], workers=1, lessons=None, done=outcome.add, progress=outcome)
    return outcome


@contextmanager
def _connected(ray: Any, progress: Progress) -> Iterator[None]:
    """Find the cluster of RAY_ADDRESS or of this machine, else begin one here, unless the caller has done so."""
    if ray.is_initialized():
        yield
        return
    _require_answer(os.environ.get("RAY_ADDRESS", ""))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    heard = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"no Ray cluster answers: {error}; RAY_ADDRESS says where it is") from error
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, heard)  # which the library takes for itself
        nodes = sum(node["Alive"] for node in ray.nodes())
        progress.say(f"on a Ray cluster of {many(nodes, 'node')} with {many(_cores(ray), 'core')}")
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Refuse an address at which nobody listens, for which the library would wait minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):  # nothing, or such as `auto`
        return
    try:
        socket.create_connection((host, int(port)), ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {error}; RAY_ADDRESS says where it is") from error


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def require_ray() -> Any:
    """Return the library, or say how it is installed."""
    try:
        import ray
    except ImportError:
        raise MissingDependency("the engine ray needs the library ray: pip install 'gpt1[ray]'") from None
    return ray
