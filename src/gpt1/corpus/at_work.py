"""Who is at work on a preparation, on which machine, and how much each has done.

    WORK/at-work/2-of-7.partial    a log of the second of seven parts: held while it is at work, begun anew by the next

The log is locked as a file that is written, which file systems between machines know too, where folders cannot be.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from gpt1.base.errors import Busy
from gpt1.base.files import PARTIAL_SUFFIX, line_bytes, make_folder, partial_file, partial_path
from gpt1.base.parts import Part
from gpt1.corpus.lots import Lot

FOLDER = "at-work"
WHOLE = "whole"  # a preparation without parts, or one that puts together what parts made


def name_of(part: Part) -> str:
    """Return what the log of a part is called."""
    number, count = part
    return f"{number}-of-{count}"


class WorkLog:
    """Where one process tells how much it has done."""

    def __init__(self, file: IO[bytes], name: str, now: Callable[[], float]) -> None:
        self.name, self._file, self._now = name, file, now
        self._batches = self._bytes = 0

    def begin(self, lots: int, disk_bytes: int) -> None:
        """Tell who this is, and how much there is to do for all together."""
        self._write({"node": platform.node(), "process": os.getpid(), "lots": lots, "disk_bytes": disk_bytes})

    def add(self, text_bytes: int, batches: int = 1) -> None:
        """Tell that one more batch, or several, of so many bytes of text, are done."""
        self._batches += batches
        self._bytes += text_bytes
        self._write({"batches": self._batches, "bytes": self._bytes})

    def end(self) -> None:
        """Tell that it is all done."""
        self._write({"batches": self._batches, "bytes": self._bytes, "ended": True})

    def _write(self, facts: dict[str, object]) -> None:
        self._file.write(line_bytes({"at": self._now(), **facts}))
        self._file.flush()


@contextmanager
def at_work(work: Path, name: str, lots: Sequence[Lot] = (), now: Callable[[], float] = time.time) -> Iterator[WorkLog]:
    """Hold the name of a part, or of the whole, against another process that has the same; yield its log."""
    make_folder(work / FOLDER)
    with _held(work, name) as file:
        file.truncate(0)
        log = WorkLog(file, name, now)
        log.begin(len(lots), sum(lot.bytes for lot in lots))
        yield log
        log.end()


@contextmanager
def _held(work: Path, name: str) -> Iterator[IO[bytes]]:
    with ExitStack() as held:
        try:
            file = held.enter_context(partial_file(work / FOLDER / name))
        except Busy:
            part = "this preparation" if name == WHOLE else f"part {name.replace('-of-', '/')}"
            raise Busy(f"another command is at work on {part} in {work.parent}; wait for it") from None
        yield file


def require_nobody(work: Path, but: str = "") -> None:
    """Refuse where a process is at work, other than this one."""
    for name in names(work):
        if name != but:
            require_free(work, name)


def require_free(work: Path, name: str) -> None:
    """Refuse where a process is at work under this name."""
    if log_of(work, name).exists():
        with _held(work, name):
            pass


def names(work: Path) -> list[str]:
    """Return the names of all that ever began to work here."""
    return sorted(path.name.removesuffix(PARTIAL_SUFFIX) for path in (work / FOLDER).glob(f"*{PARTIAL_SUFFIX}"))


def log_of(work: Path, name: str) -> Path:
    """Return where the log of a part, or of the whole, lies."""
    return partial_path(work / FOLDER / name)
