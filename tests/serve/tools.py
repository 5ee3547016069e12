"""A server in a thread, as real as one in a process, whose parts and whose clock a test can still lay hands on."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from gpt1.inference import scoring
from gpt1.inference.generation import BatchGenerator
from gpt1.serve import completions
from gpt1.serve.engine import Engine
from gpt1.serve.limits import Limits
from gpt1.serve.listening import listen
from gpt1.serve.patience import BoundedServer
from gpt1.serve.server import bounded_server, make_app
from gpt1.serve.settings import ServerSettings
from tests.waiting import eventually

LONG = 10_000.0  # seconds that never pass in a test, unless its clock is set forward
TURNS = 10  # of an event loop, in which what a timer sets off is done


class SetForward(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set forward, so that a time is over without anybody waiting for it."""

    _ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def set_forward(self, seconds: float) -> None:
        """Set the clock forward, from another thread, and wait until what is due by then has been done."""
        done = threading.Event()

        def turn(left: int) -> None:
            if left:
                self.call_soon(turn, left - 1)
            else:
                done.set()

        def move() -> None:
            self._ahead += seconds
            turn(TURNS)

        self.call_soon_threadsafe(move)
        assert done.wait(600)


class Client(httpx.Client):
    """A client of a server of this process, with what the server is made of."""

    app: FastAPI
    server: BoundedServer
    loop: SetForward

    def engine(self, name: str = "writer") -> Engine:
        found: Engine = self.app.state.server.engines[name]
        return found

    def figures(self) -> dict[str, float]:
        """Return what `/metrics` tells."""
        lines = [line for line in self.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def connected(self, sends: bytes = b"", receives: int | None = None) -> socket.socket:
        """Open a connection of one's own, with so small a buffer for what is received, and send something on it."""
        made = socket.socket()
        made.settimeout(600)
        if receives is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        before = self.made()
        made.connect((self.base_url.host, self.base_url.port))
        made.sendall(sends)
        eventually(lambda: self.made() > before, "the server has taken the connection")
        return made

    def made(self) -> int:
        """Return how many connections the server has taken so far."""
        return int(self.app.state.server.meters._made._value.get())


@contextmanager
def serving(
    *runs: str, token: str | None = None, host: str = "127.0.0.1", reference: Sequence[str] = (), **limits: Any
) -> Iterator[Client]:
    """Serve runs and give a client that talks to them."""
    unhurried = Limits(**{"request_timeout": LONG, "arrival_seconds": LONG, **limits})
    app = make_app(
        ServerSettings(runs=runs, host=host, port=0, token=token, limits=unhurried, device="cpu", reference=reference)
    )
    server, loop, listening = bounded_server(app, None), SetForward(), listen("127.0.0.1", 0)
    server.open()
    server.config.timeout_keep_alive = int(100 * LONG)  # else one may end just as the client uses it again

    def live() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.serve(sockets=[listening]))

    thread = threading.Thread(target=live)
    thread.start()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", headers=headers, timeout=600) as client:
            client.app, client.server, client.loop = app, server, loop
            eventually(lambda: client.get("/readyz").status_code == 200, "all runs are loaded")
            yield client
    finally:
        server.should_exit = True
        thread.join()


class Gate:
    """Where calls wait until they are let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = False
        self._let = threading.Semaphore(0)

    def __call__(self) -> None:
        self.reached.set()
        if not self._opened:
            assert self._let.acquire(timeout=600)

    def let(self, calls: int) -> None:
        """Let so many calls through."""
        self._let.release(calls)

    def open(self) -> None:
        """Let all through that wait, and all that come."""
        self._opened = True
        self._let.release(1000)


def gate_before_steps(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Make every step of writing wait at a gate."""
    gate, step = Gate(), BatchGenerator.step
    monkeypatch.setattr(BatchGenerator, "step", lambda self, most: (gate(), step(self, most))[1])
    return gate


def gate_before_scores(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Make every portion of what is scored wait at a gate."""
    gate, score = Gate(), scoring._portion
    monkeypatch.setattr(scoring, "_portion", lambda *given: (gate(), score(*given))[1])
    return gate


def gate_before_encoding(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Make every prompt wait at a gate before it is encoded, but for the empty one."""
    gate, encode = Gate(), completions.prompt_tokens
    monkeypatch.setattr(
        completions, "prompt_tokens", lambda tokenizer, prompt: (prompt and gate(), encode(tokenizer, prompt))[1]
    )
    return gate


def post(path: str, **asked: Any) -> bytes:
    """Return a request as it goes over a connection."""
    body = json.dumps(asked).encode()
    lines = f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"
    return "\r\n".join((*lines, "", "")).encode() + body


def read_to_the_end(connection: socket.socket) -> bytes:
    """Return what comes until the connection ends."""
    came = b""
    try:
        while piece := connection.recv(100_000):
            came += piece
    except ConnectionResetError:
        pass
    connection.close()
    return came


def error_of(response: httpx.Response) -> tuple[int, str | None, str]:
    """Return the status, code and message of an error, which has OpenAI's form and is not long."""
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(response.content) < 10_000
    return response.status_code, error["code"], error["message"]
