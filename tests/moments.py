"""A signal at a counted moment: a process sends it to itself just before it changes a folder for the n-th time.

A change is a file opened for writing, renamed or removed, or a folder made or removed. What is killed there leaves
every state of the disk that there can be, on a quick machine as on a slow one. This file is run in place of Python:
`moments.py NUMBER FOLDER SIGNAL -m gpt1 ...`, or `-c CODE ...`.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
COUNT_ONLY = 0


def signalled(number: int, folder: Path, sign: signal.Signals, *python: str) -> list[str]:
    """Return the command that runs `python -m ...` or `python -c ...` until it is about to change `folder` so often.

    An interruption reaches all its processes, as a terminal sends it; any other signal only the one that counted.
    """
    return [sys.executable, __file__, str(number), str(folder.resolve()), sign.name, *python]


def counted(folder: Path, *python: str) -> list[str]:
    """Return the command that runs to its end and tells how often it changed `folder` on standard error, last."""
    return signalled(COUNT_ONLY, folder, signal.SIGKILL, *python)


def changes_told(errors: str) -> int:
    """Return the count that a `counted` command told."""
    return int(errors.rsplit("changes: ", 1)[1])


def _is_change(event: str, details: tuple[Any, ...], folder: str) -> bool:
    if event == "open":
        if not details[2] & WRITING:
            return False
    elif event not in CHANGES:
        return False
    return isinstance(details[0], str | os.PathLike) and Path(os.path.abspath(details[0])).is_relative_to(folder)  # noqa: PTH100 - nothing is to be resolved


def _count(number: int, folder: str, sign: signal.Signals) -> None:
    seen = 0

    def hear(event: str, details: tuple[Any, ...]) -> None:
        nonlocal seen
        if not _is_change(event, details, folder):
            return
        seen += 1
        if seen == number:
            os.killpg(0, sign) if sign == signal.SIGINT else os.kill(os.getpid(), sign)

    sys.addaudithook(hear)
    if number == COUNT_ONLY:
        atexit.register(lambda: print(f"changes: {seen}", file=sys.stderr))


def _run(kind: str, what: str, arguments: list[str]) -> None:
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<given>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    number, folder, sign, kind, what, *arguments = sys.argv[1:]
    if sign == "SIGINT":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    _count(int(number), folder, signal.Signals[sign])
    _run(kind, what, arguments)
