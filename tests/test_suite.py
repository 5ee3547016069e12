"""The suite itself: no test hangs on the clock, and property tests try the same examples on every machine.

A sleep is too short on a busy machine and too long on an idle one; seconds that are compared measure the neighbours.
`tests/waiting.py` waits for conditions, `tests/moments.py` sends signals at counted moments, and where code itself
knows the time, a test gives it a clock.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.properties import FUZZ, SAME, examples
from tests.waiting import eventually

TESTS = Path(__file__).parent
# Where conditions are waited for.
MAY_WAIT = {"waiting.py"}
CLOCKS = {
    name + unit for name in ("monotonic", "perf_counter", "process_time", "thread_time") for unit in ("", "_ns")
} | {"time_ns", "clock_gettime", "clock_gettime_ns", "gmtime", "localtime", "utcnow", "elapsed"}
TIMED = {"wait", "join", "result", "acquire", "wait_for", "timeout", "timeout_at", "select", "poll"}
DEADLINE = 60  # seconds: so long a wait only ends what would hang for ever
IN_TEXT = re.compile(rf"\bsleep\(|\bsleep \d|\btime\.time\(|\b({'|'.join(CLOCKS)})\(")


def waits(source: str) -> list[str]:
    """Return where a test sleeps or reads a clock, in its own code or in code that it hands to a process."""
    tree = ast.parse(source)
    told = {id(text) for text in _docstrings(tree)}
    return [
        f"line {node.lineno}: {what}"
        for node in ast.walk(tree)
        if id(node) not in told
        for what in _wait(node)
        if isinstance(node, ast.expr | ast.stmt)
    ]


def _wait(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=args):
            if not _is_zero(args):
                yield "sleeps"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="time")):
            yield "reads a clock"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date"), attr="now" | "today")):
            yield "reads a clock"
        case ast.Attribute(attr=name) if name in CLOCKS:
            yield "reads a clock"
        case ast.Assign(value=ast.Attribute(attr="sleep")) | ast.Import(names=[ast.alias(name="time", asname=str())]):
            yield "gives a clock another name"
        case ast.ImportFrom(module="time" | "asyncio", names=names):
            yield from (f"imports {name.name}" for name in names if name.name in {"sleep", "time", *CLOCKS})
        case ast.Constant(value=str(text)) if found := IN_TEXT.search(text):
            yield f"holds code with {found[0]}"
    if isinstance(node, ast.Call) and (seconds := _shortest_wait(node)) is not None and seconds < DEADLINE:
        yield f"waits for {seconds:g} seconds"


def _shortest_wait(call: ast.Call) -> float | None:
    """Return the seconds that a call of something that can wait is given, if any are."""
    given = [word.value for word in call.keywords if word.arg == "timeout"]
    if getattr(call.func, "attr", getattr(call.func, "id", "")) in TIMED:
        given += call.args[-1:]
    seconds = [argument.value for argument in given if isinstance(argument, ast.Constant)]
    return min((value for value in seconds if type(value) in (int, float) and value > 0), default=None)


def _is_zero(arguments: list[ast.expr]) -> bool:
    """Whether a sleep only gives way to others."""
    return [ast.unparse(argument) for argument in arguments] == ["0"]


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as text), *_]:
                    yield text


def waiting_files(folder: Path) -> list[str]:
    """Return the places under a folder of tests where the clock decides."""
    return [
        f"{path.relative_to(folder)}, {place}"
        for path in sorted(folder.rglob("*.py"))
        if path.relative_to(folder).as_posix() not in MAY_WAIT
        for place in waits(path.read_text())
    ]


def test_no_test_hangs_on_the_clock() -> None:
    assert waiting_files(TESTS) == []


NAP, NOW, TICKS = "sleep", "time.time", "monotonic"  # spelled apart, since this file is looked at too


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (f"import time\ntime.{NAP}(0.5)", "line 2: sleeps"),
        (f"import time as t\nt.{NAP}(x)", "line 2: sleeps"),
        (f"async def f():\n    await asyncio.{NAP}(1)", "line 2: sleeps"),
        (f"{NAP}(1)", "line 1: sleeps"),
        (f"from time import {NAP} as nap", f"line 1: imports {NAP}"),
        ("from time import monotonic, struct_time", "line 1: imports monotonic"),
        ("from time import time", "line 1: imports time"),
        (f"import time\nassert time.{TICKS}() - began < 5", "line 2: reads a clock"),
        (f"import time\nbegan = {NOW}()", "line 2: reads a clock"),
        ("def f():\n    return clock.perf_counter" + "_ns()", "line 2: reads a clock"),
        ("import time as t", "line 1: gives a clock another name"),
        (f"import time\nnap = time.{NAP}", "line 2: gives a clock another name"),
        (f"import time\nclock = time.{TICKS}", "line 2: reads a clock"),
        ("began = datetime.now()", "line 1: reads a clock"),
        ("assert answer.elapsed" + " < limit", "line 1: reads a clock"),
        ("event.wait(0.5)", "line 1: waits for 0.5 seconds"),
        ("thread.join(5)", "line 1: waits for 5 seconds"),
        ("process.wait(timeout=30)", "line 1: waits for 30 seconds"),
        ("await asyncio.wait_for(answer, 0.1)", "line 1: waits for 0.1 seconds"),
        ("queue.get(timeout=0.1)", "line 1: waits for 0.1 seconds"),
        (f"run([python, '-c', 'import time; time.{NAP}(60)'])", f"line 1: holds code with {NAP}("),
        (f"CODE = f'''import time\nx = {{x!r}}\ntime.{NAP}({{x}})'''", f"holds code with {NAP}("),
        (f"run('{NAP} 60', shell=True)", f"line 1: holds code with {NAP} 6"),
        (f"code = 'assert {NOW}() - began < 5'", f"line 1: holds code with {NOW}("),
    ],
)
def test_a_planted_wait_is_found_and_named(source: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "test_planted.py").write_text(source)
    place = waiting_files(tmp_path)[-1]
    assert place.startswith("room/test_planted.py, line ")
    assert what in place


@pytest.mark.parametrize(
    "source",
    [
        "monkeypatch.setattr(time, 'monotonic', lambda: now)",
        f"async def f():\n    await asyncio.{NAP}(0)  # gives way",
        f"def f():\n    '''Like {NAP}(1), but sure.'''",
        f"text = 'the cities {NAP} in peace'",
        "process.communicate(timeout=300)",
        "seconds = run.time(5)",
    ],
)
def test_what_hangs_on_no_clock_is_let_pass(source: str) -> None:
    assert waits(source) == []


def test_only_the_one_place_where_tests_wait_may_wait(tmp_path: Path) -> None:
    for name in ("waiting.py", "room_waiting.py"):
        (tmp_path / name).write_text((TESTS / "waiting.py").read_text())
    assert {place.split(",")[0] for place in waiting_files(tmp_path)} == {"room_waiting.py"}


def test_what_is_waited_for_is_returned_and_what_never_comes_is_named() -> None:
    answers = iter([[], None, [7]])
    assert eventually(lambda: next(answers), "a seven") == [7]
    with pytest.raises(AssertionError, match="not within 0 seconds: the moon"):
        eventually(lambda: False, "the moon", seconds=0)


WITHOUT = "ftfy", "spacy", "hypothesis", "pyarrow", "sklearn", "rensa", "rich", "click", "matplotlib", "fastapi"


def test_tests_for_a_gpu_can_be_collected_where_only_what_trains_is_installed() -> None:
    files = [str(path) for path in sorted(TESTS.rglob("test_*.py")) if "cuda.is_available()" in path.read_text()]
    files = [file for file in files if file != __file__]
    code = f"import sys, pytest\nsys.modules.update(dict.fromkeys({WITHOUT!r}))\n"
    code += f"sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', *{files!r}]))"
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=TESTS.parent, env=environment
    )
    assert len(files) > 5
    assert done.returncode == 0, done.stdout


def test_property_tests_try_the_same_examples_everywhere_and_others_only_when_asked() -> None:
    same, fuzz = settings.get_profile(SAME), settings.get_profile(FUZZ)
    assert (same.derandomize, same.database, same.deadline) == (True, None, None)
    assert (fuzz.derandomize, fuzz.deadline, fuzz.max_examples) == (False, None, 2000)
    now = settings.get_current_profile_name()
    try:
        for profile, count in ((SAME, 7), (FUZZ, 2000)):
            settings.load_profile(profile)
            assert (examples(7).max_examples, examples(7).derandomize) == (count, profile == SAME)
            constants = providers.HypothesisProvider(None)._local_constants
            assert (len(constants) == 0) == (profile == SAME)  # those of the sources depend on what was imported
    finally:
        settings.load_profile(now)
