"""What a server tells of itself: logs, in words or as JSON, an object a line, and figures, as Prometheus reads them.

Requests are logged by path, status and seconds, and faults; never what a request says: a path that is not the server's
own is called `other`, and of an error only its kind and its place in the code are told. Never more than a few lines a
minute of one kind, whatever clients do: the rest is counted. Only requests that a run has worked on have each a line of
their own.
"""

from __future__ import annotations

import copy
import logging
import os
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from gpt1.base.strict_json import to_json

if TYPE_CHECKING:
    from gpt1.serve.answers import RowAnswer
    from gpt1.tasks.drift_windows import Window

SHARED_FIGURES = "PROMETHEUS_MULTIPROC_DIR"  # the variable that prometheus_client looks at as it is imported
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


SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONFIDENCES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Meters:
    """Counters of one server; its processes, where it has several, are told as one."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter("gpt1_requests", "Requests answered.", ["path", "status"], registry=own)
        self._seconds = Histogram("gpt1_request_seconds", "Seconds a request took.", ["path"], registry=own)
        self._tokens = Counter("gpt1_tokens_written", "Tokens written.", ["model"], registry=own)
        self._batches = Histogram(
            "gpt1_batch_size", "Texts that one pass read together.", ["model", "kind"], buckets=SIZES, registry=own
        )
        self._answers = Counter(
            "gpt1_answers", "Rows classified, by the answer.", ["model", "task", "label"], registry=own
        )
        self._confidence = Histogram(
            "gpt1_answer_confidence", "How sure answers were.", ["model"], buckets=CONFIDENCES, registry=own
        )
        self._read = Counter("gpt1_tokens_classified", "Tokens of rows that were classified.", ["model"], registry=own)
        self._unknown = Counter("gpt1_tokens_unknown", "Of them, not in the vocabulary.", ["model"], registry=own)
        self._truncated = Counter("gpt1_rows_truncated", "Rows whose end was not read.", ["model"], registry=own)
        self._drift_watched = Gauge(
            "gpt1_drift_watched",
            "Whether rows are held against known ones.",
            ["model", "task"],
            registry=own,
            multiprocess_mode="livemin",
        )
        self._drift_windows = Counter(
            "gpt1_drift_windows", "Windows of rows held against known ones.", ["model", "task"], registry=own
        )
        figure = ["model", "task", "figure"]
        self._drift_noticed = Gauge(
            "gpt1_drift_noticed",
            "Whether the last window is farther off than chance.",
            figure,
            registry=own,
            multiprocess_mode="livemax",
        )
        self._drift_distance = Gauge(
            "gpt1_drift_distance",
            "How far the last window is from known rows, 0 to 1.",
            figure,
            registry=own,
            multiprocess_mode="livemax",
        )
        self._ready = Gauge(
            "gpt1_run_ready",
            "Whether a run answers: 0 while it loads, or has failed.",
            ["model"],
            registry=own,
            multiprocess_mode="livemin",
        )
        self._workers = Gauge(
            "gpt1_workers", "Processes whose runs are all ready.", registry=own, multiprocess_mode="livesum"
        )
        self._connections = Gauge(
            "gpt1_connections", "Connections there are.", registry=own, multiprocess_mode="livesum"
        )
        self._made = Counter("gpt1_connections_made", "Connections there have been.", registry=own)
        self._ended = Counter("gpt1_connections_ended", "Connections ended early, and why.", ["why"], registry=own)
        self._open = Gauge(
            "gpt1_requests_open",
            "Requests that wait or are at work.",
            ["model"],
            registry=own,
            multiprocess_mode="livesum",
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def batched(self, model: str) -> Callable[[str, int], None]:
        """Return what a run's engine tells of each pass."""

        def count(kind: str, size: int) -> None:
            self._batches.labels(model, kind).observe(size)
            if kind == "write":
                self._tokens.labels(model).inc(size)

        return count

    def classified(self, model: str, task: str, answers: Iterable[RowAnswer]) -> None:
        """Count the answers to rows: when their figures change, so has what comes in."""
        for one in answers:
            for label in one.get("labels", [one.get("label")]):
                if isinstance(label, str):  # a score is none, nor is what was not answered
                    self._answers.labels(model, task, label).inc()
            if one["confidence"] is not None:
                self._confidence.labels(model).observe(one["confidence"])
            self._read.labels(model).inc(one["tokens"])
            self._unknown.labels(model).inc(one["unknown_tokens"])
            self._truncated.labels(model).inc(one["truncated"])

    def drift_watched(self, model: str, task: str, *, is_watched: bool) -> None:
        """Tell whether rows of a task are held against known ones."""
        self._drift_watched.labels(model, task).set(is_watched)
        self._drift_windows.labels(model, task)  # from 0, so that a rate can be told from the first one on

    def drifted(self, model: str, task: str, window: Window) -> None:
        """Tell what was found of a window of rows."""
        self._drift_windows.labels(model, task).inc()
        for name, moved in window.moved.items():
            self._drift_noticed.labels(model, task, name).set(moved.shift.is_noticed)
            self._drift_distance.labels(model, task, name).set(moved.shift.distance)

    def watch(self, model: str) -> None:
        """Begin to tell of a run, which is not ready yet."""
        self._open.labels(model).set(0)
        self._ready.labels(model).set(0)

    def ready(self, model: str, *, is_ready: bool) -> None:
        """Tell whether a run answers."""
        self._ready.labels(model).set(is_ready)

    def works(self, *, is_ready: bool) -> None:
        """Tell whether all runs of this process answer."""
        self._workers.set(is_ready)

    def entered(self, model: str) -> None:
        """Count a request that waits for a run, or is at work."""
        self._open.labels(model).inc()

    def left(self, model: str) -> None:
        """Note that a request has its answer, or no longer wants it."""
        self._open.labels(model).dec()

    def connection_made(self) -> None:
        """Count a connection."""
        self._made.inc()
        self._connections.inc()

    def connection_lost(self) -> None:
        """Note that a connection is no more."""
        self._connections.dec()

    def connection_ended(self, why: str) -> None:
        """Count a connection that the server ended before its client did."""
        self._ended.labels(why).inc()

    def text(self) -> bytes:
        """Return all figures in Prometheus' form: where several processes share a folder for them, those of all."""
        if SHARED_FIGURES not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)
        return generate_latest(every)
