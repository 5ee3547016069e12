"""tools/dist_check.py: what it calls there is, and what it would find it finds."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

from gpt1.cli.app import VERBS

ROOT = Path(__file__).parent.parent
SAYS = "pip install 'gpt1[serve]'"


@pytest.fixture(scope="module")
def check() -> Iterator[ModuleType]:
    """The program, which finds its neighbour as a script does."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import dist_check

        yield dist_check
    finally:
        sys.path.remove(str(ROOT / "tools"))


def refused(check: ModuleType, folder: Path, script: str) -> None:
    made = check.Installed(check.NO_EXTRA, folder)
    made.desk.mkdir(parents=True)
    made.refused(["sh", "-c", script], "serve")


def test_it_calls_verbs_that_there_are_for_extras_that_there_are(check: ModuleType) -> None:
    needing = {**check.WITH, **check.ONLY_REFUSED}
    called = [*check.ALWAYS, *(words for commands in needing.values() for words in commands)]
    assert {words[1] for words in called if words[0] == "gpt1"} <= {*VERBS, "--version"}
    assert needing.keys() < set(check.EXTRAS)
    assert check.NOT_TRIED in check.EXTRAS


def test_every_extra_that_the_package_asks_for_is_tried_and_its_absence_too(check: ModuleType) -> None:
    code = "".join(path.read_text() for path in (ROOT / "src" / "gpt1").rglob("*.py"))
    asked_for = set(re.findall(r"pip install 'gpt1\[(\w+)\]'", code))
    assert asked_for == {*check.WITH, *check.ONLY_REFUSED}


def test_versions_are_the_locked_ones_without_their_hashes(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "WORK", tmp_path)
    lines = check.constraints().read_text().splitlines()
    assert [line for line in lines if line.startswith("click==")]
    assert len(lines) == sum(len(check.read(name)) for name in ("all.txt", "cuda.txt"))
    assert not [line for line in lines if "--hash" in line or line.endswith("\\")]


def test_a_refusal_with_the_line_that_installs_is_well(check: ModuleType, tmp_path: Path) -> None:
    refused(check, tmp_path, f"echo {shlex.quote(SAYS)}; exit 1")


@pytest.mark.parametrize(
    "script",
    [
        f"echo {shlex.quote(SAYS)}",  # it did not fail
        "echo No module named uvicorn; exit 1",
        f"echo Traceback; echo {shlex.quote(SAYS)}; exit 1",
    ],
)
def test_a_refusal_that_does_not_help_is_found(check: ModuleType, tmp_path: Path, script: str) -> None:
    with pytest.raises(check.Wrong, match="without serve ended with"):
        refused(check, tmp_path, script)


def test_nothing_of_the_clone_is_in_the_way_of_what_is_tried(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    assert check.call(["sh", "-c", "echo ${PYTHONPATH-none}"], cwd=tmp_path) == "none\n"


def test_interpreters_that_do_not_start_are_passed_over(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in {"python3.12": 127, "python3.13": 0}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(check, "PYTHONS", ("python3.12", "python3.13", "python3.99"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert check.pythons([]) == ["python3.13"]
    assert check.pythons(["/opt/python3.12"]) == ["/opt/python3.12"]


@pytest.fixture
def answering() -> Iterator[tuple[str, list[int]]]:
    """A server that gives one after another of these codes, and its address."""
    codes: list[int] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(codes.pop(0))
            self.end_headers()
            self.wfile.write(b"said")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", codes
        server.shutdown()


def test_a_server_that_is_not_ready_is_asked_again(check: ModuleType, answering: tuple[str, list[int]]) -> None:
    address, codes = answering
    codes += [503, 200]
    assert check.ask(address, seconds=60) == "said"
    assert codes == []


@pytest.mark.parametrize(("code", "seconds"), [(500, 60), (503, 0)])
def test_a_server_that_fails_is_found(
    check: ModuleType, answering: tuple[str, list[int]], code: int, seconds: int
) -> None:
    address, codes = answering
    codes.append(code)
    with pytest.raises(check.Wrong, match=f"answers {code}: b'said'"):
        check.ask(address, seconds=seconds)
