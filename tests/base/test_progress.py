from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from gpt1.base import progress
from gpt1.base.progress import Silent, Terminal, clock, speed_line, stage

SCRIPT = """
from gpt1.base.progress import Terminal, stage
terminal = Terminal()
terminal.say("reading [2] files")
with stage(terminal, "encoding") as bar:
    for step in range(1, 4):
        bar.update(step / 4, step * 10_000_000)
terminal.say("done")
"""


@pytest.mark.parametrize(
    ("share", "done", "seconds", "line"),
    [
        (0.25, 5_000_000, 2.0, " 25 %  5.0 MB  2.5 MB/s  0:06 left"),
        (0.5, 0, 7200.0, " 50 %  2:00:00 left"),
        (1.0, 10, 1.0, "100 %  0.0 MB  0.0 MB/s"),
        (0.0, 0, 0.0, "  0 %"),
    ],
)
def test_a_line_tells_share_amount_speed_and_what_is_left(share: float, done: int, seconds: float, line: str) -> None:
    assert speed_line(share, done, seconds) == line


def test_on_a_terminal_the_line_is_live_and_gone_at_the_end() -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=child, env={**os.environ, "TERM": "xterm"})
    process.wait(timeout=300)
    os.close(child)
    shown = os.read(parent, 100_000).decode()
    os.close(parent)
    assert "encoding" in shown
    assert "75 %  30.0 MB" in shown
    assert "\x1b[2K" in shown  # the live line is cleared
    assert "reading [2] files" in shown


def test_in_a_file_there_are_only_plain_lines() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stderr == "reading [2] files\ndone\n"
    often = SCRIPT.replace(
        "terminal = Terminal()", "import gpt1.base.progress as p; p.PLAIN_SECONDS = 0; terminal = Terminal()"
    )
    done = subprocess.run([sys.executable, "-c", often], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[1].startswith("encoding   25 %  10.0 MB")
    assert "\x1b" not in done.stderr


def test_a_library_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with stage(Silent(), "x") as bar:
        bar.update(0.5, 1)
    Silent().say("x")
    assert capsys.readouterr() == ("", "")
    assert Terminal().bar("x").update(0.5, 1) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (80, "1:20"),
        (3599.7, "1:00:00"),
        (7400, "2:03:20"),
        (360_000, "100:00:00"),
    ],
)
def test_a_length_of_time_is_told_in_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_stage_can_tell_in_words_of_its_own_but_not_too_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    bar = Terminal().bar("training")
    for now in (101.0, 110.0, 111.0, 119.0, 120.0):  # the clock above reads it
        bar.show(0.5, f"step [bold] {now:.0f}")
    assert capsys.readouterr().err == "training  step [bold] 110\ntraining  step [bold] 120\n"
    assert Silent().show(0.5, "x") is None  # type: ignore[func-returns-value]
    assert capsys.readouterr() == ("", "")


TABLE_SCRIPT = """
from gpt1.base.progress import Terminal
terminal = Terminal()
terminal.table(["", "full"], [["rte", "[1]/2"]], "1 of 2 done")
terminal.table(["", "full"], [["rte", "2/2"]], "2 of 2 done")
terminal.say("over")
terminal.done()
"""


def test_on_a_terminal_a_table_is_live() -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", TABLE_SCRIPT], stderr=child, env={**os.environ, "TERM": "xterm"})
    process.wait(timeout=300)
    os.close(child)
    shown = os.read(parent, 100_000).decode()
    os.close(parent)
    for part in ("full", "[1]/2", "2/2", "1 of 2 done", "2 of 2 done", "over", "\x1b[2K"):
        assert part in shown


def test_in_a_file_a_table_is_its_line_not_too_often() -> None:
    done = subprocess.run([sys.executable, "-c", TABLE_SCRIPT], capture_output=True, text=True, check=True)
    assert done.stderr == "1 of 2 done\nover\n"
