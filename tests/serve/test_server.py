"""A server from the command line to its end, spoken to by OpenAI's own client and by schemathesis."""

from __future__ import annotations

import errno
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import schemathesis
import torch
from hypothesis import HealthCheck, Phase, given, settings

from gpt1.base.errors import InputError, SettingError
from gpt1.base.torch_internals import cpu_has_vnni
from gpt1.cli.app import main
from gpt1.inference.run import load_run
from gpt1.serve import server
from gpt1.serve.limits import Limits
from gpt1.serve.listening import PORT, address_of, is_loopback, listen
from gpt1.serve.monitoring import JsonLines
from gpt1.serve.server import answer_requests, make_app
from gpt1.serve.settings import ServerSettings
from gpt1.serve.shares import NOT_THERE, ConnectionShare
from tests.serve.tools import serving
from tests.waiting import eventually

SECRET = "the old sailor sold zanzibar"
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def command(*arguments: str, files: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `gpt1 serve`, which may open so many files, and give its process and address."""
    call = [sys.executable, "-m", "gpt1", "serve", *arguments, "--port", "0", "--device", "cpu"]
    if files is not None:
        call = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "bash", *call]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if files is not None:
            assert re.search(rf"at most \d+ connections at once, not 256: only {files} files may be open", line), line
            line = process.stdout.readline()
        address = re.search(r"serving at (\S+)", line)
        assert address, line
        eventually(lambda: httpx.get(f"{address[1]}/readyz", timeout=600).status_code == 200, "all runs are loaded")
        yield process, address[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def test_who_comes_before_the_server_has_started_waits() -> None:
    listening = listen("127.0.0.1", 0)
    with closing(listening), socket.create_connection(listening.getsockname(), timeout=600) as early:
        assert early.getpeername() == listening.getsockname()


def test_a_signal_lets_what_is_in_flight_be_answered_and_logs_hold_no_text(trained: Path) -> None:
    with command(f"writer={trained}", "--max-tokens", "100000", "--grace-seconds", "600") as (process, address):
        found: list[httpx.Response] = []
        asked = {"model": "writer", "prompt": SECRET, "max_tokens": 2000, "temperature": 0, "echo": True}

        def ask() -> None:
            found.append(httpx.post(f"{address}/v1/completions", json=asked, timeout=600))

        httpx.post(f"{address}/v1/completions", json={**asked, "max_tokens": "many"}, timeout=600)
        httpx.post(f"{address}/v1/classify", json={"model": "writer", "input": SECRET}, timeout=600)
        asking = threading.Thread(target=ask)
        asking.start()
        in_flight = 'gpt1_requests_open{model="writer"} 1.0'
        eventually(
            lambda: found or in_flight in httpx.get(f"{address}/metrics", timeout=600).text, "it has been let in"
        )
        process.send_signal(signal.SIGTERM)
        asking.join()
        assert process.wait(timeout=600) == 0
        assert found[0].json()["usage"]["completion_tokens"] == 2000
        assert process.stdout is not None
        assert "zanzibar" not in process.stdout.read()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_interrupts_twice_waits_for_nobody(trained: Path, workers: str) -> None:
    limits = "--max-tokens", "1000000", "--grace-seconds", "600", "--request-timeout", "600"
    with command(f"writer={trained}", *limits, "--workers", workers) as (process, address):
        asked = {"model": "writer", "prompt": SECRET, "max_tokens": 1_000_000}
        answered: list[int] = []

        def ask() -> None:
            with suppress(httpx.HTTPError):
                answered.append(httpx.post(f"{address}/v1/completions", json=asked, timeout=600).status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        in_flight = 'gpt1_requests_open{model="writer"} 1.0'
        eventually(lambda: in_flight in httpx.get(f"{address}/metrics", timeout=600).text, "it has been let in")
        process.send_signal(signal.SIGINT)
        eventually(lambda: is_draining(address), "it drains")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == 0
        asking.join()
        assert answered != [200]


def is_draining(address: str) -> bool:
    """Whether a server says that it ends; of several workers those that have nothing to do are gone by then."""
    told = httpx.get(f"{address}/readyz", timeout=600)
    return told.status_code == 503 and told.json()["status"] == "draining"


def test_json_logs_tell_each_request_and_nothing_of_what_it_says(trained: Path) -> None:
    int8 = ["--int8"] if cpu_has_vnni() else []
    with command(f"writer={trained}", "--json-logs", *int8) as (process, address):
        asked = {"model": "writer", "prompt": SECRET, "max_tokens": 3}
        assert httpx.post(f"{address}/v1/completions", json=asked, timeout=600).status_code == 200
        assert httpx.get(f"{address}/zanzibar", timeout=600).status_code == 404
        httpx.post(f"{address}/v1/completions", json={**asked, "model": "zanzibar"}, timeout=600)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert not any("zanzibar" in line for line in lines)
    told = [json.loads(line) for line in lines]
    found = [(line["path"], line["status"]) for line in told if line["message"] == "request"]
    assert found[-3:] == [("/v1/completions", 200), ("other", 404), ("/v1/completions", 404)]
    assert all(line["level"] == "info" and line["seconds"] >= 0 for line in told if "seconds" in line)


def test_a_fault_is_logged_without_what_was_said() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        record = logging.makeLogRecord({"msg": "fault", "levelname": "ERROR", "exc_info": sys.exc_info()})
    line = JsonLines().format(record)
    assert "zanzibar" not in line
    told = json.loads(line)
    assert (told["message"], told["level"], told["error"]) == ("fault", "error", "ValueError")
    assert "test_server.py" in told["trace"]


def test_the_official_client_works_as_the_docs_show(trained: Path, taught: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text()
    (snippet,) = re.findall(r"^```python client\n(.*?)^```$", page, re.M | re.S)
    with serving(f"tiny={trained}", f"reviews={taught}") as http:
        address = f"{http.base_url}".rstrip("/")
        exec(snippet.replace("http://localhost:8000", address), {})
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
        run = load_run(trained, device="cpu")
        answer = client.completions.create(model="tiny", prompt="Ann sold", max_tokens=8, temperature=0)
        assert answer.choices[0].text == run.generate("Ann sold", max_new_tokens=8, temperature=0)
        vectors = client.embeddings.create(model="tiny", input=["Ann", "the cat"])
        found = [one.embedding for one in vectors.data]
        np.testing.assert_allclose(found, run.embed(["Ann", "the cat"]), rtol=1e-4, atol=1e-5)
        assert [model.id for model in client.models.list()] == ["tiny", "reviews"]
        with pytest.raises(openai.NotFoundError):
            client.completions.create(model="nobody", prompt="Ann")
        with pytest.raises(openai.BadRequestError, match="max_tokens"):
            client.completions.create(model="tiny", prompt="Ann", max_tokens=10**6)


def test_whatever_is_asked_the_server_is_never_at_fault(trained: Path, taught: Path) -> None:
    with serving(f"writer={trained}", str(taught), max_tokens=8, inputs=4, characters=2000) as client:
        schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")

        assert sum(ask_anything(operation.ok()) for operation in schema.get_all_operations()) > 100


def ask_anything(operation: Any) -> int:
    """Send what a schema allows to one path, mostly to runs that are there, and return how many answers came."""
    count = 0

    @given(case=operation.as_strategy())
    @settings(
        max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    def send(case: schemathesis.Case) -> None:
        nonlocal count
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = "writer" if len(case.body["model"]) % 2 else "taught"
        answer = case.call()
        assert answer.status_code < 500, (answer.status_code, case.body)
        count += 1

    send()
    return count


# ---- what is refused before anything is served ----


def test_strangers_need_a_token(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", str(trained), "--host", "0.0.0.0"])
    assert ended.value.code == 2
    assert "give a --token" in capsys.readouterr().err
    assert [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.com")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_runs_have_names_of_their_own(trained: Path) -> None:
    def app(*runs: str, token: str | None = None) -> None:
        make_app(ServerSettings(runs=runs, host="127.0.0.1", port=0, token=token, device="cpu"))

    with pytest.raises(SettingError, match=r"two runs are called 'run'; give one another name: NAME="):
        app(str(trained), str(trained))
    app(str(trained), f"other={trained}")
    with pytest.raises(InputError, match="does not exist"):
        app("absent")
    for wrong in (f"={trained}", "a=", "="):
        with pytest.raises(SettingError, match=f"a run is given as its folder, or as NAME=FOLDER, not '{wrong}'"):
            app(wrong)
    for token in ("sésame", "", " x"):
        with pytest.raises(SettingError, match="a token is of plain ASCII"):
            app(str(trained), token=token)


def test_a_port_that_is_taken_is_told() -> None:
    taken = listen("127.0.0.1", 0)
    taken.listen()
    with pytest.raises(InputError, match=r"cannot listen at 127\.0\.0\.1, port .*; choose another `port`"):
        listen("127.0.0.1", taken.getsockname()[1])
    taken.close()


@pytest.mark.parametrize(
    "error",
    [socket.gaierror(socket.EAI_NONAME, "Name or service not known"), OSError(errno.EADDRNOTAVAIL, "not of here")],
)
def test_a_host_that_is_not_this_machine_is_told(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    class Elsewhere(socket.socket):
        def bind(self, address: Any) -> None:
            raise error

    monkeypatch.setattr(socket, "socket", Elsewhere)
    with pytest.raises(InputError, match=r"cannot listen at 999\.1\.1\.1, .*; choose another `host`$"):
        listen("999.1.1.1", 0)


def test_a_run_whose_weights_are_ruined_ends_the_server(trained: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints").rglob("model.safetensors"):
        file.write_bytes(b"spoilt")
    call = [sys.executable, "-m", "gpt1", "serve", str(tmp_path / "run"), "--port", "0", "--device", "cpu"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_of_several_processes_opens_when_its_run_is_loaded_and_ends_when_it_fails(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what_is_for_a_process_alone in ("logging_settings", "never_looked_through_again", "sys.setswitchinterval"):
        monkeypatch.setattr(f"gpt1.serve.server.{what_is_for_a_process_alone}", lambda *_, **__: None)
    app = make_app(ServerSettings(runs=[f"writer={trained}"], host="127.0.0.1", port=0, device="cpu"))
    listening, counts = listen("127.0.0.1", 0), [NOT_THERE, NOT_THERE]
    address = address_of(listening, "127.0.0.1")
    opened = threading.Event()
    others = {"json_logs": False, "share": ConnectionShare(counts, 1), "opened": opened.set}
    answering = threading.Thread(target=answer_requests, args=(app, listening), kwargs=others)
    answering.start()
    assert httpx.get(f"{address}/readyz", timeout=600).status_code == 200  # who comes early waits until it is opened
    assert opened.wait(600)
    assert counts[0] == NOT_THERE != counts[1]
    with torch.no_grad():
        for weights in app.state.server.engines["writer"].run.network.parameters():
            weights.fill_(torch.nan)
    asked = {"model": "writer", "prompt": "Ann"}
    assert httpx.post(f"{address}/v1/completions", json=asked, timeout=600).json()["error"]["code"] == "run_failed"
    answering.join()
    assert counts == [NOT_THERE, NOT_THERE]


def test_help_tells_the_limits_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    told = dict(re.findall(r"--([a-z-]+) \S+ [^\[]*\[(\d+)\]", " ".join(capsys.readouterr().out.split())))
    assert (int(told.pop("port")), int(told.pop("workers"))) == (PORT, 1)
    assert {name.replace("-", "_"): float(value) for name, value in told.items()} == vars(Limits())


def test_old_options_work_and_the_new_ones_are_told(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []
    monkeypatch.setattr(server, "serve", lambda settings, started: served.append(settings.limits))
    old = ("--tokens", "7", "--rows", "3", "--seconds", "2.5", "--queue", "9")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["serve", str(trained), *old])
    assert served == [replace(served[0], max_tokens=7, max_batch=3, request_timeout=2.5, max_queue=9)]
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "--queue is called --max-queue now",
        "--rows is called --max-batch now",
        "--seconds is called --request-timeout now",
        "--tokens is called --max-tokens now",
    ]


@pytest.mark.parametrize("wrong", [{"max_queue": 0}, {"request_timeout": -1.0}, {"request_timeout": float("inf")}])
def test_limits_are_above_0(wrong: dict[str, float]) -> None:
    finite = " and finite" if float("inf") in wrong.values() else ""
    with pytest.raises(SettingError, match=f"is above 0{finite}, not"):
        Limits(**wrong)  # type: ignore[arg-type]
