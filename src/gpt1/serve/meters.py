"""Figures of a server at work, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Meters:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter("gpt1_requests", "Requests answered.", ["path", "status"], registry=own)
        self._seconds = Histogram("gpt1_request_seconds", "Seconds a request took.", ["path"], registry=own)
        self._tokens = Counter("gpt1_tokens_written", "Tokens written.", ["model"], registry=own)
        self._batches = Histogram(
            "gpt1_batch_size", "Texts that one pass read together.", ["model", "kind"], buckets=SIZES, registry=own
        )
        self._ready = Gauge(
            "gpt1_run_ready", "Whether a run answers: 0 while it loads, or has failed.", ["model"], registry=own
        )
        self._connections = Gauge("gpt1_connections", "Connections there are.", registry=own)
        self._made = Counter("gpt1_connections_made", "Connections there have been.", registry=own)
        self._ended = Counter("gpt1_connections_ended", "Connections ended early, and why.", ["why"], registry=own)
        self._open = Gauge("gpt1_requests_open", "Requests that wait or are at work.", ["model"], registry=own)

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

    def watch(self, model: str, count: Callable[[], float], ready: Callable[[], float]) -> None:
        """Ask for the number of a run's open requests, and whether it is ready, whenever the figures are read."""
        self._open.labels(model).set_function(count)
        self._ready.labels(model).set_function(ready)

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
        """Return all figures in Prometheus' form."""
        return generate_latest(self._registry)
