"""tools/claims.py: from texts and tasks to the page of claims, where little is installed; what is there stays."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from gpt1.base.errors import InputError
from tests.conftest import make_text
from tests.studies.tools import write_tasks
from tests.test_base import TOOLS, load_tool
from tests.test_language import ABSENT

BARE = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({ABSENT}))  # as if they were not installed
sys.path.insert(0, {str(TOOLS)!r})
runpy.run_path({str(TOOLS / "claims.py")!r}, run_name="__main__")
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return load_tool("claims")


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The words of a command: a few documents, and two tasks."""
    (tmp_path / "texts").mkdir()
    for seed in range(12):
        (tmp_path / "texts" / f"{seed}.txt").write_text(make_text(60, seed))
    write_tasks(tmp_path / "tasks", "cola", "rte")
    words = [str(tmp_path / "texts"), "--tasks", str(tmp_path / "tasks"), "--out", str(tmp_path / "out")]
    return [*words, "--device", "cpu", "--processes", "2", "--seeds", "1", "--rehearse"]


def call(given: list[str], *words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", BARE, *given, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_from_texts_to_the_page_and_the_same_call_makes_nothing_anew(given: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = call(given)
    page = (out / "study" / "claims.md").read_text()
    assert "20 of 20 cells" in told  # four arms of two tasks, and of two runs six checkpoints each
    assert page.count("| cannot be told here (") == told.count("cannot be told here: ")
    assert "not compared: sst2, mrpc" in page
    rates = json.loads((out / "rates.json").read_text())
    assert rates.keys() == {"full", "scratch", "no-lm", "lstm"}
    settings = json.loads((out / "study" / "cells" / "scratch-rte-0" / "cell.json").read_text())["inputs"]["settings"]
    assert settings["optimizer.lr"] == rates["scratch"]
    steps = sorted(int(re.sub(r"\D", "", path.name)) for path in (out / "lstm" / "checkpoints").iterdir())
    assert steps == [0, 2, 4, 8, 16, 32]
    with tarfile.open(out / "home" / "study.tar.xz.0") as packed:
        names = packed.getnames()
    assert {"study/claims.md", "study/study.json", "study/cells/full-cola-0/cell.json"} <= {*names}
    assert "study/cells/full-cola-0/run/predictions-cola-dev.jsonl" in names
    made = {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")}
    call(given[1:], "--stages", "rates,ablations,zeroshot,race,page")  # the texts need not be there
    assert {path: path.stat().st_mtime_ns for path in out.rglob("cell.json")} == made


def test_what_is_asked_for_in_the_wrong_order_is_refused(given: list[str], tmp_path: Path) -> None:
    assert "name texts to read" in call(given[1:], code=2)
    assert "there is no stage pages" in call(given, "--stages", "pages", code=2)


def test_a_rate_is_chosen_for_each_arm_once_all_are_tried(tool: ModuleType, tmp_path: Path) -> None:
    asked = tool.Asked([], tmp_path, tmp_path, tool.TOY, None, float("inf"))
    for task in ("cola", "rte"):
        (tmp_path / "tenths" / task).mkdir(parents=True)

    def tried(rate: str, arm: str, task: str, score: float) -> None:
        path = tmp_path / "rates" / rate / "cells" / f"{arm}-{task}-0" / "cell.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"name": path.parent.name, "result": {"score": score}}))

    for arm in ("full", "scratch", "no-lm", "lstm"):
        for rate, scores in (("0.001", (0.5, 0.5)), ("0.002", (0.2, 0.9 if arm == "scratch" else 0.8))):
            for task, score in zip(("cola", "rte"), scores, strict=True):
                assert not tool.choose_rates(asked)
                tried(rate, arm, task, score)
    assert not (tmp_path / "rates.json").exists()
    assert tool.choose_rates(asked)
    found = json.loads((tmp_path / "rates.json").read_text())
    assert found == {"full": 0.001, "scratch": 0.002, "no-lm": 0.001, "lstm": 0.001}


def test_without_rates_no_cell_is_made(tool: ModuleType, tmp_path: Path) -> None:
    asked = tool.Asked([], tmp_path, tmp_path, tool.TOY, None, float("inf"))
    with pytest.raises(InputError, match="has no rates yet"):
        tool.reproduced(asked, [], tool.Nobody())


def test_shuffled_text_has_the_same_sentences_on_lines_that_have_as_many(tool: ModuleType, tmp_path: Path) -> None:
    texts = ["One is here. Two is there!\n\n\u201cThree?\u201d said he. Four.\n", "Five. Six.\nSeven.\n"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    tool.shuffle_sentences([str(tmp_path / "*.txt")], tmp_path / "out")
    found = [path.read_text() for path in sorted((tmp_path / "out").glob("*.txt"))]
    assert found != texts

    def parts(documents: list[str]) -> list[list[list[str]]]:
        return [
            [[one.strip() for one in tool.SENTENCE.split(line) if one] for line in document.splitlines()]
            for document in documents
        ]

    before, after = parts(texts), parts(found)
    assert [[len(line) for line in document] for document in after] == [[2, 0, 3], [2, 1]]
    whole = [sorted(one for document in of for line in document for one in line) for of in (before, after)]
    assert whole[0] == whole[1]


def test_large_tasks_are_drawn_from_and_small_ones_kept_whole(tool: ModuleType, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", "cola")
    tool.draw_rows(tasks / "cola", tmp_path / "out", (None, 4))
    train, dev = ((tmp_path / "out" / f"{split}.jsonl").read_text().splitlines() for split in ("train", "dev"))
    assert sorted(train) == sorted((tasks / "cola" / "train.jsonl").read_text().splitlines())
    assert len(dev) == 4
