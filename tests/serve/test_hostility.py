"""A server among clients that are wrong, greedy, slow or many: each is answered rightly, and it lives on."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import signal
import socket
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from gpt1.base.errors import SettingError
from gpt1.serve.guards import A_TURN, Turns
from gpt1.serve.limits import Limits
from gpt1.serve.listening import SPARE_FILES, fitting
from gpt1.serve.monitoring import LINES, MINUTE, JsonLines, Sparing
from gpt1.serve.patience import NO_ROOM
from tests.serve.test_server import command
from tests.serve.tools import LONG, Client, error_of, gate_before_steps, post, read_to_the_end, serving
from tests.waiting import eventually

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


def is_cut_off(connection: socket.socket) -> bool:
    """Whether what is sent no longer arrives."""
    try:
        connection.sendall(b"x")
    except OSError:
        return True
    return False


def test_who_goes_on_sending_after_a_refusal_is_cut_off(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG) as client:
        connection = client.connected(b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
        assert b"413" in connection.recv(10_000)
        connection.sendall(b"x")
        eventually(lambda: protocol_of(client, connection)._arrival, "what still comes is thrown away for a while")
        client.loop.set_forward(LONG)
        eventually(lambda: is_cut_off(connection), "nothing is taken any more")
        connection.close()


# ---- clients that never finish ----


def ends(client: Client, why: str) -> float:
    """Return how many connections were ended for a reason."""
    found: float = client.app.state.server.meters._ended.labels(why)._value.get()  # asked for, it may be refused itself
    return found


@pytest.mark.parametrize(
    "begun", [b"", b"POST /v1/score HT", b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nX-Slow: 1\r\n"]
)
def test_a_head_that_never_ends_ends_the_connection(trained: Path, begun: bytes) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG) as client:
        connection = client.connected(begun)
        assert ends(client, "silent") == 0
        client.loop.set_forward(LONG)
        assert read_to_the_end(connection) == b""
        assert client.get("/healthz").status_code == 200
        assert ends(client, "silent") == 1


def test_a_head_that_drips_is_not_waited_for_nor_one_that_follows_a_good_request(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG) as client:
        connection = client.connected(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(10_000)
        for letter in b"GET /healthz HTTP/1.1\r\nHo":
            connection.sendall(bytes([letter]))
        protocol = protocol_of(client, connection)
        eventually(lambda: protocol._arrival, "the next head is waited for")
        client.loop.set_forward(LONG)
        eventually(lambda: is_cut_off(connection), "it is waited for no longer")
        connection.close()


def test_a_body_that_never_ends_is_answered_with_408(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG) as client:
        lines = ("POST /v1/score HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 99")
        connection = client.connected("\r\n".join([*lines, "", "{"]).encode())
        eventually(lambda: client.server.server_state.tasks, "its body is waited for")
        client.loop.set_forward(LONG)
        came = read_to_the_end(connection)
        assert came.startswith(b"HTTP/1.1 408 ")
        assert b"did not come in within 10000 seconds" in came
        assert client.get("/healthz").status_code == 200


def test_an_answer_may_take_longer_than_its_request_took_to_come(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_steps(monkeypatch)
    with (
        serving(f"writer={trained}", arrival_seconds=LONG, request_timeout=9 * LONG) as client,
        ThreadPoolExecutor(2) as threads,
    ):
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 3}
        answers = [
            threads.submit(client.post, "/v1/completions", json={**asked, "stream": streams})
            for streams in (False, True)
        ]
        eventually(lambda: client.engine().open == 2, "both are at work")
        client.loop.set_forward(LONG)
        gate.open()
        assert [answer.result().status_code for answer in answers] == [200, 200]


# ---- clients that never read, and clients that are many ----

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE_ANSWER = post("/v1/completions", model="writer", prompt="Ann " * 20_000, echo=True, n=256, max_tokens=0)  # 20 MB


def test_a_connection_that_pipelines_ends_with_its_first_answer(client: Client) -> None:
    came = read_to_the_end(client.connected(HEALTH * 50))
    assert came.count(b"HTTP/1.1 200 OK") == 1


def connected_to(address: str, sends: bytes = b"") -> socket.socket:
    """Connect and send something, whether or not it is taken."""
    parts = urlsplit(address)
    made = socket.create_connection((parts.hostname, parts.port), timeout=600)
    with suppress(OSError):  # it was refused before it had spoken
        made.sendall(sends)
    return made


def protocol_of(client: Client, connection: socket.socket) -> Any:
    (found,) = (one for one in client.server.server_state.connections if one.client == connection.getsockname())
    return found


def read_some(connection: socket.socket, protocol: Any) -> None:
    """Read until the server has less to send."""
    before = protocol._unsent()
    while protocol._unsent() >= before:
        assert connection.recv(1_000_000)


def test_an_answer_that_nobody_takes_is_not_kept(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG, request_timeout=9 * LONG, inputs=256) as client:
        connection = client.connected(LARGE_ANSWER, receives=65_536)
        protocol = protocol_of(client, connection)
        eventually(lambda: protocol._unread_since, "the answer is more than the client takes")
        read_some(connection, protocol)
        client.loop.set_forward(LONG)
        assert ends(client, "unread") == 0  # who reads slowly is waited for
        client.loop.set_forward(LONG)
        assert ends(client, "unread") == 1
        connection.close()


def test_who_takes_an_answer_too_slowly_is_not_waited_for_for_ever(trained: Path) -> None:
    with serving(f"writer={trained}", arrival_seconds=LONG, request_timeout=2 * LONG, inputs=256) as client:
        connection = client.connected(LARGE_ANSWER, receives=65_536)
        protocol = protocol_of(client, connection)
        eventually(lambda: protocol._unread_since, "the answer is more than the client takes")
        for _ in range(2):
            assert ends(client, "unread") == 0
            read_some(connection, protocol)
            client.loop.set_forward(LONG)
        assert ends(client, "unread") == 1
        connection.close()


def test_however_many_connect_and_never_read_health_is_told(trained: Path) -> None:
    with serving(f"writer={trained}", connections=8, arrival_seconds=LONG) as client, ExitStack() as crowd:
        for _ in range(40):
            crowd.enter_context(connected_to(str(client.base_url), LARGE_ANSWER[:200]))
            assert httpx.get(f"{client.base_url}/healthz", timeout=600).status_code == 200
            assert len(client.server.server_state.connections) <= 9  # one for health
        eventually(lambda: ends(client, "refused") + ends(client, "crowded out") >= 32, "all others have ended")
        client.loop.set_forward(2.0)  # then each has been waited for long enough to be ended for another
        assert client.get("/v1/models").status_code == 200


def test_where_all_connections_are_taken_the_one_waited_for_longest_ends_and_none_at_work(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}", connections=3, arrival_seconds=LONG, request_timeout=LONG) as client:
        client.close()  # its own connection
        eventually(lambda: not client.server.server_state.connections, "nobody is there")
        at_work = client.connected(post("/v1/completions", model="writer", prompt="Ann", max_tokens=2))
        assert gate.reached.wait(600)
        client.loop.set_forward(2.0)
        longer = client.connected(b"GET ")
        client.loop.set_forward(2.0)
        shorter = client.connected(b"GET ")
        client.loop.set_forward(2.0)
        newcomer = client.connected(HEALTH)
        assert read_to_the_end(longer) == b""
        assert b"200 OK" in newcomer.recv(10_000)
        gate.open()
        assert b"200 OK" in at_work.recv(10_000)
        for one in (at_work, shorter, newcomer):
            one.close()


def test_who_comes_while_all_connections_are_new_is_told_to_come_again(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.serve.patience.BRIEF", LONG)
    with serving(f"writer={trained}", connections=2, arrival_seconds=LONG) as client:
        client.close()
        eventually(lambda: not client.server.server_state.connections, "nobody is there")
        first = [client.connected(b"GET ") for _ in range(2)]
        late = connected_to(str(client.base_url))
        eventually(lambda: client.server._door, "it waits for what is asked")
        late.sendall(b"GET /v1/models ")
        came = read_to_the_end(late)
        assert came.startswith(b"HTTP/1.1 503 ")
        assert json.loads(came.split(b"\r\n\r\n")[1])["error"]["code"] == "no_room"
        silent = connected_to(str(client.base_url))
        eventually(lambda: client.server._door, "it waits for what is asked")
        client.loop.set_forward(LONG)
        assert read_to_the_end(silent).startswith(b"HTTP/1.1 503 ")
        for one in first:
            one.close()


def test_who_is_refused_hears_it_to_the_end_though_nobody_read_the_request(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.serve.patience.BRIEF", LONG)
    with serving(f"writer={trained}", connections=1, arrival_seconds=LONG) as client:
        client.close()
        eventually(lambda: not client.server.server_state.connections, "nobody is there")
        only = client.connected(b"GET ")
        with connected_to(str(client.base_url), post("/v1/score", model="writer", input="Ann " * 2000)) as late:
            came = b""
            while piece := late.recv(100_000):  # a reset would be an error here
                came += piece
        assert came == NO_ROOM
        assert ends(client, "refused") == 1
        only.close()


def test_a_server_that_is_told_to_end_does_so_in_its_time_whoever_does_not_read(trained: Path) -> None:
    limits = {"arrival_seconds": 9 * LONG, "request_timeout": 9 * LONG, "grace_seconds": LONG}
    limits |= {"max_tokens": 10**9, "inputs": 256}
    with serving(f"writer={trained}", **limits) as client:
        endless = post("/v1/completions", model="writer", prompt="Ann", max_tokens=10**9, stream=True)
        crowd = [client.connected(sent, receives=65_536) for sent in (LARGE_ANSWER, endless, b"GET ")]
        eventually(lambda: protocol_of(client, crowd[0])._unread_since, "the answer is more than the client takes")
        eventually(lambda: client.engine()._at_work, "a text is being written")
        client.server.handle_exit(signal.SIGTERM, None)
        eventually(lambda: client.server._cutting, "it has begun to end")
        client.loop.set_forward(LONG)
    for one in crowd:  # it has ended
        one.close()


def test_where_few_files_may_be_open_there_are_fewer_connections_and_it_is_told(trained: Path) -> None:
    with command(f"writer={trained}", files=256) as (process, address), ExitStack() as crowd:
        for _ in range(300):
            crowd.enter_context(connected_to(address, HEALTH * 200))
        assert httpx.get(f"{address}/healthz", timeout=600).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
        assert process.stdout is not None
        said = process.stdout.read()
    assert "out of system resource" not in said
    assert len(said) < 10_000


def test_limits_fit_the_files_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    used = 50
    monkeypatch.setattr("gpt1.serve.listening._open_files", lambda: used)
    for most, wanted in ((100_000, 256), (300, 300 - used - SPARE_FILES), (-1, 256)):
        monkeypatch.setattr("resource.getrlimit", lambda _, most=most: (most, most))
        assert fitting(Limits(), told.append).connections == wanted
    (one,) = told
    assert "connections at once, not 256: only 300 files may be open (ulimit -n)" in one
    monkeypatch.setattr("resource.getrlimit", lambda _: (SPARE_FILES, SPARE_FILES))
    with pytest.raises(SettingError, match="raise ulimit -n"):
        fitting(Limits(), told.append)


# ---- requests in turns ----


def test_few_requests_begin_in_a_turn_and_those_for_health_at_once() -> None:
    begun: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])

    async def all_at_once() -> list[int]:
        turns, counts = Turns(app), []
        paths = [f"/{at}" for at in range(3 * A_TURN)] + ["/healthz"]
        tasks = [asyncio.ensure_future(turns({"type": "http", "path": path}, None, None)) for path in paths]  # type: ignore[arg-type]
        while not all(task.done() for task in tasks):
            counts.append(len(begun))
            turn = asyncio.Event()
            asyncio.get_running_loop().call_soon(turn.set)
            await turn.wait()
        return counts

    counts = asyncio.run(all_at_once())
    assert begun.index("/healthz") == A_TURN
    assert sorted(begun) == sorted([f"/{at}" for at in range(3 * A_TURN)] + ["/healthz"])
    assert max(later - sooner for sooner, later in pairwise(counts)) <= A_TURN + 1


# ---- what is logged ----


def test_the_log_holds_a_few_lines_of_a_kind_and_counts_the_rest() -> None:
    now, written = [0.0], io.StringIO()
    handler = Sparing(clock=lambda: now[0], stream=written)
    handler.setFormatter(JsonLines())

    def log(line: int, **facts: Any) -> None:
        extra = {"facts": facts, "each": facts.get("status") == 200}
        handler.handle(logging.makeLogRecord({"msg": "request", "lineno": line, "name": "x", **extra}))

    for _ in range(1000):
        log(1, path="/a", status=404)
        log(2)
    for _ in range(LINES + 5):
        log(1, path="/a", status=200)
    assert len(written.getvalue().splitlines()) == LINES + LINES + LINES + 5
    now[0] = MINUTE
    log(2)
    handler.close()
    last = [json.loads(line) for line in written.getvalue().splitlines()[-3:]]
    assert [one.get("count") for one in last] == [1000 - LINES, 1000 - LINES, None]
    assert last[0]["message"] == f"{1000 - LINES} more of: request"


# ---- the end, with many at work ----


def test_a_signal_under_load_lets_every_request_in_flight_be_answered(trained: Path) -> None:
    clients = 40
    with command(f"writer={trained}", "--grace-seconds", "600") as (process, address):
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 300, "temperature": 1}
        with ThreadPoolExecutor(clients) as threads:
            futures = [
                threads.submit(httpx.post, f"{address}/v1/completions", json=asked, timeout=600) for _ in range(clients)
            ]

            def come() -> int:
                done = sum(future.done() for future in futures)  # first: what ends meanwhile must not count twice
                is_open = re.search(
                    r'gpt1_requests_open{model="writer"} (\d+)', httpx.get(f"{address}/metrics", timeout=600).text
                )
                assert is_open
                return int(is_open[1]) + done

            eventually(lambda: come() >= clients, "all have come")
            process.send_signal(signal.SIGTERM)
            answers = [future.result() for future in futures]
        assert process.wait(timeout=600) == 0
    assert [answer.status_code for answer in answers] == [200] * clients
    assert {answer.json()["usage"]["completion_tokens"] for answer in answers} == {300}
