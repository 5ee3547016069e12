"""tools/objectives.py: from texts and tasks to the page, where little is installed; what is there stays."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gpt1.base.errors import InputError
from gpt1.runs.folder import read_run
from tests.conftest import make_text
from tests.studies.tools import write_tasks
from tests.test_base import TOOLS, load_tool
from tests.test_language import ABSENT

BARE = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({ABSENT}))  # as if they were not installed
sys.path.insert(0, {str(TOOLS)!r})
runpy.run_path({str(TOOLS / "objectives.py")!r}, run_name="__main__")
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The words of a command: a few documents, and two tasks."""
    (tmp_path / "texts").mkdir()
    for seed in range(12):
        (tmp_path / "texts" / f"{seed}.txt").write_text(make_text(60, seed))
    write_tasks(tmp_path / "tasks", "cola", "rte")
    words = [str(tmp_path / "texts"), "--tasks", str(tmp_path / "tasks"), "--names", "cola,rte"]
    return [*words, "--out", str(tmp_path / "out"), "--device", "cpu", "--processes", "2", "--seeds", "1", "--rehearse"]


def call(given: list[str], *words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", BARE, *given, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_from_texts_to_the_page_and_the_same_call_makes_nothing_anew(given: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = call(given)
    assert "6 of 6 cells" in told  # three arms of two tasks
    page = (out / "study" / "objectives.md").read_text()
    assert "| mixed, fine-tuned both ways |" in page
    assert "| bits per byte |" in page
    shares = [read_run(out / "bases" / name).recipe.training.masked_share for name in ("causal", "mixed")]
    assert shares == [0, 0.5]
    with tarfile.open(out / "home" / "study.tar.xz.0") as packed:
        names = packed.getnames()
    assert {"study/objectives.md", "study/study.json", "study/cells/both-ways-cola-0/cell.json"} <= {*names}
    made = {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")}
    call(given[1:], "--stages", "pretrain,study,page")  # the texts need not be there
    assert {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")} == made


def test_what_is_asked_for_in_the_wrong_order_is_refused(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    tool = load_tool("objectives")

    def called(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["objectives.py", *words])
        tool.main()

    for words, message in ((given[1:], "name texts to read"), ([*given, "--stages", "x"], "there is no stage x")):
        with pytest.raises(SystemExit, match="2"):
            called(*words)
        assert message in capsys.readouterr().err
    with pytest.raises(InputError, match="has no folder of wnli, x; --names says"):
        called(*given, "--names", "cola,wnli,x")
