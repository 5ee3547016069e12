"""A server among clients that mean it ill: does it still answer others, and does it end when it is told to?

    python -m benchmarks.hostility                        # 1,000 that never read, 200 that read a byte a second, 60 s
    python -m benchmarks.hostility --files 256            # where only so many files may be open
    python -m benchmarks.hostility --never 260 --slow 0 --seconds 20

A small run with random weights is served by `gpt1 serve` in one process. From another one come connections that
pipeline requests and never read an answer, and connections that read a byte a second of a long stream; whoever is
thrown out comes back a second later. Meanwhile a third one asks for `/healthz` ten times a second, each time on a new
connection, and for a text of two tokens. At the end the server is sent SIGTERM while they are all still there. Then a
server by itself is sent bodies of a megabyte that it must refuse, and the seconds are told that each takes of
everybody's time.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

import httpx
import numpy as np

from gpt1.serve.limits import Limits
from gpt1.tasks.catalog import CATALOGUE
from gpt1.text.training import WordCounter, train_words
from tests.conftest import make_text
from tests.inference.tools import make_run

ATTACK = "attack"  # said to this file, it does
AGAIN = 1.0  # seconds after which who was thrown out comes back
STREAM = b'{"model": "run", "prompt": "Ann", "max_tokens": 1024, "stream": true}'
HEAD = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
TEXT = HEAD % len(STREAM) + STREAM
PIPELINED = (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200, TEXT * 50)
BODIES = {
    "texts and numbers": b'{"model": "run", "prompt": ["a"' + b', 1, "a"' * 120_000 + b"]}",
    "unknown fields": b'{"model": "run"' + b"".join(b', "k%d": 1' % at for at in range(70_000)) + b"}",
    "rows that are lists": b'{"model": "run", "prompt": [["a"]' + b', ["a"]' * 130_000 + b"]}",
    "deep": b'{"model": "run", "prompt": ' + b"[" * 480_000 + b"]" * 480_000 + b"}",
    "a long number": b'{"model": "run", "prompt": ' + b"9" * 950_000 + b"}",
}


# ---- those who mean ill, in a process of their own ----


@dataclass(eq=False)
class Attacker:
    """A connection that sends what it has, and reads a byte a second or nothing."""

    address: tuple[str, int]
    sends: bytes
    reads: bool
    again: float = 0.0  # when it comes (back)
    rest: bytes = b""
    connection: socket.socket | None = None

    def come(self, watched: selectors.BaseSelector) -> None:
        """Connect, without waiting for it."""
        self.connection = socket.socket()
        self.connection.setblocking(False)
        with suppress(BlockingIOError):
            self.connection.connect(self.address)
        self.rest = self.sends
        watched.register(self.connection, selectors.EVENT_WRITE, self)

    def send(self, watched: selectors.BaseSelector, now: float) -> None:
        """Send on: who never reads begins anew whenever all was sent."""
        assert self.connection is not None
        try:
            self.rest = self.rest[self.connection.send(self.rest) :]
            if not self.rest and not self.reads:
                self.rest = self.sends
            elif not self.rest:
                watched.unregister(self.connection)
        except BlockingIOError:
            pass
        except OSError:
            self.go(watched, now)

    def read_a_byte(self, watched: selectors.BaseSelector, now: float) -> None:
        """Read a byte, where one has come."""
        if self.connection is None:
            return
        with suppress(BlockingIOError):
            try:
                if self.connection.recv(1) or self.rest:
                    return
            except BlockingIOError:
                return
            except OSError:
                pass
            self.go(watched, now)

    def go(self, watched: selectors.BaseSelector, now: float) -> None:
        """Note that the server has ended the connection."""
        assert self.connection is not None
        with suppress(KeyError):
            watched.unregister(self.connection)
        self.connection.close()
        self.connection, self.again = None, now + AGAIN


def attack(host: str, port: int, never: int, slow: int) -> None:
    """Attack until the process is ended."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    attackers = [Attacker((host, port), PIPELINED[at % len(PIPELINED)], reads=False) for at in range(never)]
    attackers += [Attacker((host, port), TEXT, reads=True) for _ in range(slow)]
    watched, next_bytes = selectors.DefaultSelector(), 0.0
    print("begun", flush=True)
    while True:
        now = time.monotonic()
        for attacker in attackers:
            if attacker.connection is None and now >= attacker.again:
                attacker.come(watched)
        if now >= next_bytes:
            next_bytes = now + 1
            for attacker in attackers:
                if attacker.reads:
                    attacker.read_a_byte(watched, now)
        for key, _ in watched.select(0.05):
            key.data.send(watched, now)
        time.sleep(0.01)  # which leaves the cores to the server


# ---- those who do not ----


@dataclass
class Waits:
    """Seconds that answers took; infinite for those that did not come."""

    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def ask(self, address: str) -> None:
        """Ask once, on a new connection."""
        began = time.perf_counter()
        connection = HTTPConnection(address.removeprefix("http://"), timeout=30)
        try:
            connection.request("POST" if self.body else "GET", self.path, self.body, self.headers)
            self.statuses.append(connection.getresponse().status)
            self.seconds.append(time.perf_counter() - began)
        except (OSError, HTTPException):
            self.statuses.append(0)
            self.seconds.append(float("inf"))
        finally:
            connection.close()

    def keep_asking(self, address: str, until: float, every: float) -> None:
        """Ask every so many seconds."""
        while time.perf_counter() < until:
            self.ask(address)
            time.sleep(every)

    def __str__(self) -> str:
        p50, p99 = np.quantile(self.seconds, (0.5, 0.99), method="lower")  # some may be infinite
        counts = ", ".join(f"{self.statuses.count(status)} x {status}" for status in sorted(set(self.statuses)))
        return f"| {self.path} | {counts} | {p50:.3f} s | {p99:.3f} s | {max(self.seconds):.3f} s |"


@contextmanager
def served(run: Path, log: IO[bytes], files: int | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Serve a run in a process of its own, which may open so many files; give the process and its address."""

    def few_files() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    call = [sys.executable, "-m", "gpt1", "serve", f"run={run}", "--port", "0", "--device", "cpu", "--json-logs"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=log, preexec_fn=few_files) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().split()[-1]
        while httpx.get(f"{address}/readyz").status_code != 200:
            time.sleep(0.1)
        yield process, address
        process.kill()


def besiege(run: Path, given: argparse.Namespace) -> None:
    """Serve among attackers, and print how others fared, what was logged, and how long the end took."""
    with tempfile.NamedTemporaryFile() as log, served(run, log.file, given.files) as (process, address):  # type: ignore[arg-type]
        host, port = address.removeprefix("http://").split(":")
        call = [sys.executable, "-m", "benchmarks.hostility", ATTACK, host, port, str(given.never), str(given.slow)]
        health = Waits("/healthz")
        text = Waits("/v1/completions", b'{"model": "run", "prompt": "Ann", "max_tokens": 2}')
        with subprocess.Popen(call, stdout=subprocess.PIPE) as attackers:
            assert attackers.stdout is not None
            attackers.stdout.readline()  # they have begun
            until = time.perf_counter() + given.seconds
            asking = [
                threading.Thread(target=health.keep_asking, args=(address, until, 0.1)),
                threading.Thread(target=text.keep_asking, args=(address, until, 1.0)),
            ]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
            figures = httpx.get(f"{address}/metrics", timeout=30).text
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            try:
                ended = f"{process.wait(120)} after {time.perf_counter() - began:.1f} s"
            except subprocess.TimeoutExpired:
                ended = "not within 120 s"
            attackers.kill()
        print("| asked | answers | p50 | p99 | longest |\n|---|---|---|---|---|", health, text, sep="\n")
        print(*(line for line in figures.splitlines() if line.startswith("gpt1_connections")), sep="\n")
        print(f"log: {Path(log.name).stat().st_size:,} bytes; SIGTERM: {ended}, told {Limits().grace_seconds:g} s")


def refuse(run: Path) -> None:
    """Print the seconds that refusing bodies takes."""
    print("| a body of a megabyte | status | seconds | bytes of the answer |\n|---|---|---|---|")
    with tempfile.TemporaryFile() as log, served(run, log, None) as (_, address), httpx.Client(timeout=60) as client:
        for name, body in BODIES.items():
            began = time.perf_counter()
            answer = client.post(
                f"{address}/v1/completions", content=body, headers={"Content-Type": "application/json"}
            )
            seconds = time.perf_counter() - began
            print(f"| {name} | {answer.status_code} | {seconds:.3f} | {len(answer.content):,} |")


def main() -> None:
    """Make a run, besiege its server, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--never", type=int, default=1000, help="connections that never read")
    parser.add_argument("--slow", type=int, default=200, help="connections that read a byte a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--files", type=int, help="that the server may open")
    given = parser.parse_args()
    tokenizer = train_words(WordCounter().count([make_text(3000, seed=0)]), merges=300)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", tokenizer, CATALOGUE["sst2"])
        besiege(run, given)
        refuse(run)


if __name__ == "__main__":
    if sys.argv[1:2] == [ATTACK]:
        attack(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
