"""Several processes at one address: they answer alike, one that dies is replaced, and all of them end well."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import pytest

from gpt1.base.parallel import Context, WorkerDied
from gpt1.serve.monitoring import SHARED_FIGURES
from gpt1.serve.shares import ConnectionShare
from gpt1.serve.workers import LONGEST_DELAY, Supervisor, Worker, delay_after
from tests.serve.test_server import command
from tests.waiting import eventually

QUESTIONS = {
    "/v1/classify": {"input": "Ann lost 3 apples", "task": "moods"},
    "/v1/embeddings": {"input": "Ann sold a hat."},
    "/v1/score": {"input": "Ann sold a hat."},
    "/v1/completions": {"prompt": "Ann", "max_tokens": 8, "seed": 3},
}


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that answer for a supervisor."""
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True, check=False
    )
    return [int(number) for number in found.stdout.split()]


def open_sockets(process: int) -> int:
    """Return how many sockets a process has open."""
    links = Path(f"/proc/{process}/fd").iterdir()
    return sum(str(link.readlink()).startswith("socket:") for link in links)


@contextmanager
def only(worker: int, among: list[int]) -> Iterator[None]:
    """Have one worker answer alone: the others stand still."""
    others = [other for other in among if other != worker]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def figures(address: str) -> dict[str, float]:
    lines = [line for line in httpx.get(f"{address}/metrics", timeout=600).text.splitlines() if line[:1] != "#"]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def figures_of(workers: list[int]) -> Path:
    """Return the folder in which workers keep their figures."""
    told = Path(f"/proc/{workers[0]}/environ").read_text()
    return Path(told.split(f"{SHARED_FIGURES}=")[1].split("\0")[0])


def what_was_answered(address: str) -> dict[str, object]:
    """Return what is answered to a question of each kind, without what each answer has of its own."""
    found = {}
    for path, asked in QUESTIONS.items():
        answer = httpx.post(f"{address}{path}", json={"model": "taught", **asked}, timeout=600)
        assert answer.status_code == 200, answer.text
        found[path] = {name: value for name, value in answer.json().items() if name not in ("id", "created")}
    return found


def test_a_worker_that_dies_is_replaced_as_soon_as_its_run_can_be_loaded(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "writer")
    with command(str(run), "--workers", "2") as (process, address):
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 2}
        first, second = workers_of(process)
        for one in (first, second):  # both are ready, and have answered once
            with only(one, [first, second]):
                assert httpx.post(f"{address}/v1/completions", json=asked, timeout=600).status_code == 200
        run.rename(tmp_path / "away")
        os.kill(first, signal.SIGKILL)
        assert process.stdout is not None
        assert (
            process.stdout.readline()
            == f"WARNING: worker {first} is no more: it ended with -9; another takes its place\n"
        )
        assert re.match(r"WARNING: worker \d+ is no more: .*writer does not exist", process.stdout.readline())
        (tmp_path / "away").rename(run)
        assert httpx.post(f"{address}/v1/completions", json=asked, timeout=600).status_code == 200
        eventually(lambda: len(workers_of(process)) == 2 and second in workers_of(process), "there are two again")
        with only(next(one for one in workers_of(process) if one != second), workers_of(process)):
            assert httpx.post(f"{address}/v1/completions", json=asked, timeout=600).status_code == 200
        assert figures(address)['gpt1_requests_total{path="/v1/completions",status="200"}'] == 4


def test_connections_go_to_who_has_fewest(trained: Path) -> None:
    with command(f"writer={trained}", "--workers", "2") as (process, address), ExitStack() as crowd:
        eventually(lambda: figures(address)["gpt1_workers"] == 2, "both are ready")
        host, port = address.removeprefix("http://").split(":")
        before = {worker: open_sockets(worker) for worker in workers_of(process)}
        for count in range(1, 11):
            crowd.enter_context(socket.create_connection((host, int(port)), timeout=600))
            eventually(
                lambda count=count: sum(open_sockets(one) - before[one] for one in before) == count,  # type: ignore[misc]
                "one of them has taken it",
            )
        mine = sorted(open_sockets(worker) - before[worker] for worker in before)
        assert mine[0] >= 3, mine  # 5, but for a process that others did not wait for


def test_told_to_end_all_answer_what_is_in_flight_and_leave_nothing(trained: Path) -> None:
    with command(f"writer={trained}", "--workers", "2", "--max-tokens", "100000", "--grace-seconds", "600") as (
        process,
        address,
    ):
        found: list[httpx.Response] = []
        asked = {"model": "writer", "prompt": "Ann", "max_tokens": 500, "temperature": 0}

        def ask() -> None:
            found.append(httpx.post(f"{address}/v1/completions", json=asked, timeout=600))

        both = workers_of(process)
        folder = figures_of(both)
        asking = [threading.Thread(target=ask) for _ in both]
        for number, (one, thread) in enumerate(zip(both, asking, strict=True), 1):
            with only(one, both):
                thread.start()
                eventually(
                    lambda number=number: (
                        len(found) or figures(address)['gpt1_requests_open{model="writer"}'] == number
                    ),
                    "it has been let in",
                )
        for one in (process.pid, *both) * 20:  # as who ends a whole group does; more of it is the same
            os.kill(one, signal.SIGTERM)
        for thread in asking:
            thread.join()
        assert process.wait(timeout=600) == 0
        assert [answer.json()["usage"]["completion_tokens"] for answer in found] == [500, 500]
        assert not folder.exists()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


def test_any_worker_answers_the_same_and_none_outlives_the_supervisor(taught: Path) -> None:
    with command(str(taught), "--workers", "2") as (process, address):
        both = workers_of(process)
        assert len(both) == 2
        found = []
        for one in both:
            with only(one, both):
                found.append(what_was_answered(address))
        assert json.dumps(found[0]) == json.dumps(found[1])
        told = figures(address)
        assert [told[f'gpt1_requests_total{{path="{path}",status="200"}}'] for path in QUESTIONS] == [2] * 4
        assert told['gpt1_run_ready{model="taught"}'] == 1
        assert told['gpt1_requests_open{model="taught"}'] == 0
        assert told['gpt1_drift_watched{model="taught",task="moods"}'] == 0
        folder = figures_of(both)
        assert folder.exists()
        process.kill()
        process.wait()
        eventually(lambda: not any(Path(f"/proc/{one}").exists() for one in both), "they have ended")
        assert not folder.exists()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


def test_a_run_that_no_worker_can_load_ends_the_server_with_one_error(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    for file in (run / "checkpoints").rglob("model.safetensors"):
        file.write_bytes(b"spoilt")
    call = [sys.executable, "-m", "gpt1", "serve", str(run), "--port", "0", "--device", "cpu", "--workers", "2"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr


def started(target: Callable[..., object], *arguments: object) -> Worker:
    """Return a process that is told of as a worker; the target is given what it tells by, and more."""
    tells, told = Context().Pipe(duplex=False)
    process = Context().Process(target=target, args=(told, *arguments), daemon=True)
    process.start()
    told.close()
    return Worker(process, tells, ConnectionShare())


def die(told: Connection) -> None:
    os._exit(3)


def be_ready(told: Connection) -> None:
    told.send(None)
    signal.pause()


def test_a_worker_that_cannot_be_started_for_now_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    ears, mouth = socket.socketpair()
    begun: list[Worker] = []
    places: list[int] = []

    def start(place: int) -> Worker:
        places.append(place)
        if len(places) == 3:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        begun.append(started(be_ready))
        return begun[-1]

    with closing(ears), closing(mouth):
        supervising = threading.Thread(target=Supervisor(start, 2, ears, "/nowhere", 600).run)
        supervising.start()
        eventually(lambda: len(begun) == 2 and all(one.is_ready for one in begun), "both are ready")
        begun[0].process.kill()
        eventually(lambda: len(begun) == 3 and begun[2].is_ready, "it has been tried again")
        mouth.send(bytes([signal.SIGTERM]))
        supervising.join()
    assert places == [0, 1, 0, 0]
    assert "no worker can be started: Cannot allocate memory; another try follows" in caplog.text
    assert not any(one.process.is_alive() for one in begun)


def test_a_worker_that_dies_before_any_was_ready_ends_the_server() -> None:
    ears, mouth = socket.socketpair()
    with closing(ears), closing(mouth):
        supervisor = Supervisor(lambda place: started(die), 2, ears, "/nowhere", 600)
        with pytest.raises(
            WorkerDied, match=r"a worker did not become ready: it ended with 3, .*; use fewer `workers`"
        ):
            supervisor.run()


def test_workers_that_cannot_begin_are_tried_again_later_and_later() -> None:
    assert [delay_after(failures) for failures in (1, 2, 3, 100)] == [1, 2, 4, LONGEST_DELAY]
