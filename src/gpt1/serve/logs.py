"""What a server logs, in words or as JSON, an object a line: requests by path, status and seconds, and faults.

Never what a request says: a path that is not the server's own is called `other`, and of an error only its kind and its
place in the code are told. Never more than a few lines a minute of one kind, whatever clients do: the rest is counted.
Only requests that a run has worked on have each a line of their own.
"""

from __future__ import annotations

import copy
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpt1.base.strict_json import to_json

LINES, MINUTE = 20, 60.0  # of one kind, in so many seconds


class JsonLines(logging.Formatter):
    """Records as JSON; what stands in a record's `facts` becomes fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["error"] = record.exc_info[0].__name__
            told["trace"] = "".join(traceback.format_tb(record.exc_info[2]))
        return to_json(told, ensure_ascii=False)


@dataclass
class Kind:
    """Records of one kind: when the first came, how many have been written since, the last that was not."""

    since: float
    written: int = 0
    held: int = 0
    last: logging.LogRecord | None = None


class Sparing(logging.StreamHandler[Any]):
    """Writes a few records of each kind a minute, and then how many more there were.

    Of one kind are records of one line of code, about one path and status. Those with `each` are all written.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, **stream: Any) -> None:
        super().__init__(**stream)
        self._clock = clock
        self._kinds: dict[tuple[Any, ...], Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        if getattr(record, "each", False):
            super().emit(record)
            return
        now, facts = self._clock(), getattr(record, "facts", {})
        self._tell_held(until=now - MINUTE)
        key = record.name, record.pathname, record.lineno, facts.get("path"), facts.get("status")
        kind = self._kinds.setdefault(key, Kind(now))
        if kind.written < LINES:
            kind.written += 1
            super().emit(record)
        else:
            kind.held, kind.last = kind.held + 1, record

    def close(self) -> None:
        """Tell of all that was counted, and end."""
        self._tell_held(until=self._clock())
        super().close()

    def _tell_held(self, until: float) -> None:
        """Begin anew with kinds whose minute is over, and say how many records were not written."""
        for key, kind in list(self._kinds.items()):
            if kind.since > until:
                continue
            del self._kinds[key]
            if kind.last is not None:
                told = copy.copy(kind.last)
                told.msg, told.args, told.exc_info = (
                    f"{kind.held} more of: {told.getMessage().splitlines()[0]}",
                    (),
                    None,
                )
                told.facts = {**getattr(told, "facts", {}), "count": kind.held}
                super().emit(told)


def logging_settings(*, as_json: bool) -> dict[str, object]:
    """Return a configuration of Python's logging that writes to standard error; requests are told of only in JSON."""
    words = {"format": "%(levelname)s: %(message)s"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"{__name__}.{JsonLines.__name__}"} if as_json else words},
        "handlers": {"lines": {"()": f"{__name__}.{Sparing.__name__}", "formatter": "lines"}},
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {"gpt1.serve": {"level": "INFO" if as_json else "WARNING"}},
    }
