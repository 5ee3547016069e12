from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from gpt1.base.parallel import Context, WorkerDied, cores, hearing_signals, ordered_map, terminate_workers
from tests.waiting import eventually

# The functions that workers run must be importable there, so they live in a module of their own.
MODULE = """
import multiprocessing, os, signal

def begin(value):
    global started
    started = value

def work(item):
    sum(range(item % 3 * 300_000))  # some take longer than others
    return started, item * item

def die(item):
    if multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGKILL)

def who(item):
    if multiprocessing.parent_process():
        from tests.waiting import eventually
        eventually(lambda: os.path.exists("worked-here"), "the process that hands out items works too")
    else:
        open("worked-here", "w").close()
    return os.getpid(), len(item), item[-1]

def refuse(item):
    if item >= 5:
        raise ValueError(item)
    return item

def linger(item):
    open(f"pid-{os.getpid()}", "w").close()
    signal.pause()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    (tmp_path / "parallel_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import parallel_work

    return parallel_work


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(module, workers: int) -> None:  # type: ignore[no-untyped-def]
    results = ordered_map(module.work, range(20), workers=workers, initializer=module.begin, initargs=("yes",))
    assert list(results) == [("yes", item * item) for item in range(20)]


def test_items_are_drawn_only_as_they_are_needed(module) -> None:  # type: ignore[no-untyped-def]
    drawn = []
    items = (drawn.append(item) or item for item in range(1000))  # type: ignore[func-returns-value]
    results = ordered_map(module.work, items, workers=2, initializer=module.begin, initargs=("",))
    next(results)
    assert len(drawn) <= 18
    results.close()  # type: ignore[attr-defined]


def test_this_process_works_too_and_large_items_arrive_whole_in_the_others(module) -> None:  # type: ignore[no-untyped-def]
    items = [f"{number:02}" * 500_000 + "é\U0001f600" * number for number in range(200)]
    results = list(ordered_map(module.who, items, workers=3, initializer=module.begin, initargs=("",)))
    assert [result[1:] for result in results] == [(len(item), item[-1]) for item in items]
    assert {pid for pid, _, _ in results} > {os.getpid()}


def test_an_error_comes_in_the_place_of_its_item(module) -> None:  # type: ignore[no-untyped-def]
    results = ordered_map(module.refuse, range(20), workers=2, initializer=module.begin, initargs=("",))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="5"):
        next(results)


def test_a_killed_worker_is_told_and_not_waited_for(module) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(WorkerDied, match="run the same command again"):
        list(ordered_map(module.die, range(5), workers=2, initializer=module.begin, initargs=("",)))


def test_workers_end_with_a_killed_parent(module, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code = "import parallel_work as w\nfrom gpt1.base.parallel import ordered_map\n"
    code += "list(ordered_map(w.linger, range(4), workers=2, initializer=w.begin, initargs=('',)))"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE
    )
    eventually(lambda: len(list(tmp_path.glob("pid-*"))) == 2, "both workers are at work")
    parent.kill()
    try:
        parent.communicate(timeout=600)  # the workers hold the same pipe: it ends when they all have
    finally:
        for sign in tmp_path.glob("pid-*"):
            with suppress(ProcessLookupError):
                os.kill(int(sign.name.removeprefix("pid-")), signal.SIGKILL)


def test_a_call_that_hears_no_signal_does_not_keep_its_caller_from_stopping() -> None:
    never = threading.Event()

    def deaf() -> None:
        signal.raise_signal(signal.SIGINT)  # told to the main thread
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        hearing_signals(deaf)
    never.set()


def test_a_call_in_a_thread_gives_what_it_gives_and_raises_what_it_raises() -> None:
    assert hearing_signals(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        hearing_signals(lambda: 1 // 0)


def test_there_is_at_least_one_core() -> None:
    assert cores() >= 1


def test_python_still_has_what_workers_are_begun_and_ended_by() -> None:
    where = f"Python {sys.version.split()[0]} no longer has it: see base/parallel.py"
    assert callable(getattr(SpawnProcess, "_Popen", None)), where
    with ProcessPoolExecutor(1, Context()) as pool:
        pool.submit(int).result()
        assert [process.is_alive() for process in pool._processes.values()] == [True], where
        terminate_workers(pool)
        for process in pool._processes.values():
            process.join()
