"""`gpt1 check` tells what a task of one's own was understood as, or what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run

TASK = """
from gpt1.tasks.catalog import Task
MAIL = Task(
    name="mail", title="Is it a complaint?", shape="single", labels=("no", "yes"), metrics=("f1",), fields=("body",)
)
"""


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with modules and rows of a user; what is imported from it is forgotten afterwards."""
    (tmp_path / "checked_tasks.py").write_text(TASK)
    (tmp_path / "checked_wrong.py").write_text(TASK.replace('"single"', '"singel"').replace('("body",)', '"body"'))
    rows = [{"body": f"mail {n}", "label": "yes" if n % 4 == 0 else "no"} for n in range(20)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("checked_")]:
        del sys.modules[name]


def test_a_task_is_told_as_it_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "checked_tasks:MAIL")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "task     mail",
        "title    Is it a complaint?",
        "shape    single: [start] body [extract]",
        "label    label: no, yes",
        "metrics  f1",
        "files    train.jsonl, dev.jsonl, test.jsonl",
    ]


def test_data_and_lengths_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    arguments = ["check", "checked_tasks:MAIL", "--data", ".", "--tokenizer", "tokenizer.json"]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "train: 17 examples; no 76.5 %, yes 23.5 %; tokens of a sequence: median" in out
    assert "there are no dev rows: 3 rows of the 20 in train kept for dev" in err
    report = json.loads(run(capsys, *arguments, "--json")[1])
    assert report["splits"]["dev"]["labels"] == {"no": 2, "yes": 1}
    assert len(report["notices"]) == 1


def test_what_is_wrong_with_a_task_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "checked_wrong:MAIL")
    assert (code, out) == (1, "")
    assert "task 'mail': fields is 'body', expected a tuple of strings such as ('one', 'two')" in err
    code, _, err = run(capsys, "check", "checked_tasks:MIAL")
    assert code == 2
    assert "did you mean 'MAIL'" in err


def test_what_is_wrong_with_the_data_is_told_with_its_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('{"text": "mail", "label": "no"}\n')
    code, _, err = run(capsys, "check", "checked_tasks:MAIL", "--data", ".")
    assert code == 1
    assert "train.jsonl, row 21: no column 'body'" in err


def test_lengths_need_data(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", "checked_tasks:MAIL", "--tokenizer", "tokenizer.json")
    assert code == 2
    assert "--tokenizer goes with --data" in err
