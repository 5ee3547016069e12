"""A server among clients that are wrong, greedy, slow or many: each is answered rightly, and it lives on."""

from __future__ import annotations

import json
import signal
import socket
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.serve.test_server import command
from tests.serve.tools import error_of, serving

JSON = {"Content-Type": "application/json"}
LARGE = 50_000_000


def test_whatever_is_wrong_gets_its_own_status_and_the_next_request_its_answer(client: httpx.Client) -> None:
    good = {"model": "writer", "prompt": "Ann", "max_tokens": 2}
    wrong = {
        b"{": (400, "JSON decode error"),
        b'{"model": 3}': (400, "model: Input should be a valid string"),
        json.dumps({**good, "max_tokens": "2"}).encode(): (400, "max_tokens: Input should be a valid integer"),
        json.dumps({**good, "model": "nobody"}).encode(): (404, "there is no run 'nobody'"),
        json.dumps({**good, "prompt": "x" * 200_000}).encode(): (400, "a request at most 100,000"),
    }
    for body, (status, message) in wrong.items():
        found = error_of(client.post("/v1/completions", content=body, headers=JSON))
        assert (found[0], message in found[2]) == (status, True), found
        assert client.post("/v1/completions", json=good).status_code == 200


@pytest.mark.parametrize("tells_its_length", [True, False])
def test_fifty_megabytes_are_refused_and_not_kept(client: httpx.Client, tells_its_length: bool) -> None:
    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 100_000] * (LARGE // 100_000)

    length = {"Content-Length": str(LARGE)} if tells_its_length else {}
    tracemalloc.start()
    answer = client.post("/v1/score", content=pieces(), headers={**JSON, **length})
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error_of(answer)[:2] == (413, "too_large")
    assert most < LARGE / 4
    assert client.get("/healthz").status_code == 200


def test_who_goes_on_sending_after_a_refusal_is_cut_off(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=0.5) as client:
        connection = connected(client)
        connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
        assert b"413" in connection.recv(10_000)
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < began + 10:
                connection.sendall(b"x")
                time.sleep(0.02)
        connection.close()
        assert time.monotonic() - began < 5


# ---- clients that never finish ----


def connected(client: httpx.Client) -> socket.socket:
    made = socket.create_connection((client.base_url.host, client.base_url.port), timeout=10)
    return made


def seconds_until_the_end(connection: socket.socket) -> tuple[float, bytes]:
    began, came = time.monotonic(), b""
    while piece := connection.recv(10_000):
        came += piece
    connection.close()
    return time.monotonic() - began, came


@pytest.mark.parametrize(
    "begun", [b"", b"POST /v1/score HT", b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nX-Slow: 1\r\n"]
)
def test_a_head_that_never_ends_ends_the_connection(trained: Path, begun: bytes) -> None:
    with serving(f"writer={trained}", arrival_seconds=0.5) as client:
        connection = connected(client)
        connection.sendall(begun)
        seconds, came = seconds_until_the_end(connection)
        assert (came, 0.3 < seconds < 5) == (b"", True)
        assert client.get("/healthz").status_code == 200


def test_a_head_that_drips_is_not_waited_for_nor_one_that_follows_a_good_request(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=0.5) as client:
        connection = connected(client)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(10_000)
        began = time.monotonic()
        with pytest.raises(OSError):
            for letter in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" * 20:
                connection.sendall(bytes([letter]))
                time.sleep(0.05)
        connection.close()
        assert time.monotonic() - began < 5


def test_a_body_that_never_ends_is_answered_with_408(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=0.5) as client:
        connection = connected(client)
        lines = ("POST /v1/score HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 99")
        connection.sendall("\r\n".join([*lines, "", "{"]).encode())
        seconds, came = seconds_until_the_end(connection)
        assert came.startswith(b"HTTP/1.1 408 ")
        assert b"did not come in within 0.5 seconds" in came
        assert 0.3 < seconds < 5
        assert client.get("/healthz").status_code == 200


def test_an_answer_may_take_longer_than_its_request_took_to_come(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=0.2, tokens=3000) as client:
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 1000}
        began = time.monotonic()
        for streams in (False, True):
            assert client.post("/v1/completions", json={**asked, "stream": streams}).status_code == 200
        assert time.monotonic() - began > 0.4


# ---- the end, with many at work ----


def test_a_signal_under_load_lets_every_request_in_flight_be_answered(trained: Path) -> None:
    clients = 40
    with command(f"writer={trained}", "--tokens", "1000") as (process, address):
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 1000, "temperature": 1}
        with ThreadPoolExecutor(clients) as threads:
            futures = [
                threads.submit(httpx.post, f"{address}/v1/completions", json=asked, timeout=60) for _ in range(clients)
            ]
            while f'gpt1_requests_open{{model="writer"}} {clients}.0' not in httpx.get(f"{address}/metrics").text:
                assert not all(future.done() for future in futures)
            process.send_signal(signal.SIGTERM)
            answers = [future.result() for future in futures]
        assert process.wait(timeout=30) == 0
    assert [answer.status_code for answer in answers] == [200] * clients
    assert {answer.json()["usage"]["completion_tokens"] for answer in answers} == {1000}
