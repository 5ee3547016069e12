"""How far a preparation is, told from what lies in its folder: from any machine that has it, by whomever it is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpt1.base.errors import InputError
from gpt1.base.files import read_lines, read_record
from gpt1.base.progress import clock
from gpt1.base.records import Count, RecordPart, Seconds, check_record
from gpt1.base.wording import aligned
from gpt1.corpus.at_work import WHOLE, log_of, names
from gpt1.corpus.lots import LOT_FILE, ReadLot
from gpt1.corpus.manifest import CORPUS_FILE, WORK


@dataclass(frozen=True)
class LogLine(RecordPart):
    """A line of the log of a process: the first one says who it is, the others what it has done."""

    at: Seconds
    node: str = ""
    process: Count = 0
    lots: Count = 0
    disk_bytes: Count = 0
    batches: Count = 0
    bytes: Count = 0
    ended: bool = False


@dataclass(frozen=True)
class WorkerStatus:
    """What one process has done since it began, and when it was last heard of."""

    name: str
    node: str
    process: int
    batches: int
    bytes: int
    seconds: float
    silent: float
    ended: bool

    @property
    def bytes_per_second(self) -> float:
        """How much text goes through it."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class PreparationStatus:
    """How much of an unfinished preparation is done, and who does it.

    How many batches there will be is known when all lots were read; before, it is judged by the size of the files.
    """

    batches: int
    planned: int
    lots_read: int
    lots: int
    workers: list[WorkerStatus] = field(default_factory=list)


def read_status(out: str | Path, now: Callable[[], float] = time.time) -> PreparationStatus | None:
    """Return how far the preparation in a folder is; None where it is done."""
    out = Path(out)
    work = out / WORK
    if (out / CORPUS_FILE).exists():
        return None
    logs = [(name, list(_lines(log_of(work, name)))) for name in names(work)]
    begun = [(name, lines) for name, lines in logs if lines]
    if not begun:
        raise InputError(f"{out} holds no preparation, whether begun or done")
    read = [read_record(path, "what was found in a lot of files", ReadLot) for path in work.glob(f"*/{LOT_FILE}")]
    first = begun[0][1][0]
    known, known_bytes = sum(lot.batches for lot in read), sum(lot.disk_bytes for lot in read)
    planned = known if len(read) == first.lots else round(known * first.disk_bytes / max(1, known_bytes))
    done = sum(1 for _ in work.glob("*/*.npz"))
    workers = [_worker(name, lines, now()) for name, lines in begun]
    return PreparationStatus(done, max(done, planned), len(read), first.lots, workers)


def _lines(log: Path) -> Iterator[LogLine]:
    return (check_record(line, LogLine, f"{log}, line {number}") for number, line in read_lines(log))


def _worker(name: str, lines: Sequence[LogLine], now: float) -> WorkerStatus:
    first, last = lines[0], lines[-1]
    return WorkerStatus(
        name=name,
        node=first.node,
        process=first.process,
        batches=last.batches,
        bytes=last.bytes,
        seconds=max(0.0, last.at - first.at),
        silent=max(0.0, now - last.at),  # the clocks of two machines may differ a little
        ended=last.ended,
    )


def describe_status(status: PreparationStatus) -> list[str]:
    """Return the lines that tell a person how far a preparation is, and who is at work on it."""
    speed = sum(worker.bytes_per_second for worker in status.workers if not worker.ended)
    lots = f"{status.lots_read:,} of {status.lots:,} lots of files read, {speed / 1e6:.1f} MB/s"
    header = ("part", "node", "process", "batches", "text", "speed", "last heard of")
    rows = map(_row, sorted(status.workers, key=lambda worker: worker.ended))
    return [f"{_batches(status)} done, {lots}", *aligned([header, *rows])]


def _batches(status: PreparationStatus) -> str:
    if not status.planned:
        return "no batch"
    about = "" if status.lots_read == status.lots else "about "
    share = 100 * status.batches / status.planned
    return f"{status.batches:,} of {about}{status.planned:,} batches ({share:.0f} %)"


def _row(worker: WorkerStatus) -> tuple[str, ...]:
    return (
        "all" if worker.name == WHOLE else worker.name.replace("-of-", "/"),
        worker.node,
        str(worker.process),
        f"{worker.batches:,}",
        f"{worker.bytes / 1e6:,.1f} MB",
        f"{worker.bytes_per_second / 1e6:.1f} MB/s",
        "done" if worker.ended else f"{clock(worker.silent)} ago",
    )
