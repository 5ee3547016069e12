"""Commands in processes of their own: started, watched, ended well or killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.waiting import eventually


def start(arguments: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """Start a command as the leader of its own processes, with more variables of the environment."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for a command that must end well; return what it printed and what it said."""
    try:
        out, err = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # which torchrun passes on
        out, err = process.communicate()
    assert process.returncode == 0, err
    return out, err


def wait_for_metrics(process: subprocess.Popen[str], run: Path) -> None:
    """Wait until a training that is at work tells of its first step."""

    def told() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return (run / "metrics.jsonl").exists()

    eventually(told, f"the first step of {run}")


def kill_after(process: subprocess.Popen[str], run: Path, steps: int) -> None:
    """Kill a whole training with SIGKILL once its metrics tell of so many steps; one that has ended stays ended."""
    metrics = run / "metrics.jsonl"

    def come_so_far() -> bool:
        told = metrics.exists() and metrics.read_bytes().count(b'"loss"') >= steps
        return told or process.poll() is not None

    eventually(come_so_far, f"{steps} steps of {run}")
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a command with SIGKILL, and the processes that it started."""
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    leaders = [process.pid, *map(int, children.stdout.split())]  # torchrun gives each rank a group of its own
    for number in leaders if process.poll() is None else ():
        with suppress(ProcessLookupError):
            os.killpg(number, signal.SIGKILL)
    process.communicate()
