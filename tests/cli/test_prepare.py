"""`gpt1 prepare --task` encodes labelled rows and tells what it made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_tokenizer: Tokenizer) -> Path:
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "pairs.csv").write_text("left,right,same\n" + "".join(f"a {n},b {n},{n % 2}\n" for n in range(20)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_symmetric_table_is_encoded_in_both_orders_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = [word for role in ("a=left", "b=right", "label=same") for word in ("--column", role)]
    arguments = ["prepare", "--task", "pairs.csv", *columns, "--tokenizer", "tokenizer.json", "--out", "out"]
    code, out, err = run(capsys, *arguments, "--symmetric")
    assert code == 0
    assert "pairs: both of left, right; label same: 0, 1" in out
    assert "2 rows of the 20 in train kept for dev" in err
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "out holds another task; choose another folder, or replace it with --restart" in err
    assert json.loads(run(capsys, *arguments, "--restart", "--json")[1])["task"]["shape"] == "pair"
    assert run(capsys, *arguments)[0] == 0  # the same once more


def test_a_table_is_encoded_without_its_bad_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"text {n},{'yes' if n % 2 else 'no'}\n" for n in range(20))
    (folder / "faulty.csv").write_text(f"text,label\n{rows},yes\nx,Yes\n")
    arguments = ["prepare", "--task", "faulty.csv", "--tokenizer", "tokenizer.json", "--out", "out"]
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "row 22: 'text' is empty; fill it or take the row out; --skip-bad leaves such rows out" in err
    code, out, err = run(capsys, *arguments, "--skip-bad", "--fold-labels")
    assert code == 0
    assert "label label: no, yes" in out
    assert "faulty.csv: 1 of 22 rows left out: 1 row without a text (row 22)" in err
    assert "'Yes' (1 row) taken for 'yes'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pairs.csv", "--symmetric"], "--symmetric goes only with --task"),
        (["--task", "pairs.csv", "--column", "left"], "--column takes ROLE=NAME"),
        (["pairs.csv", "--skip-bad"], "--skip-bad goes only with --task"),
        (["pairs.csv", "--fold-labels"], "--fold-labels goes only with --task"),
        (["--task", "rte", "--data", "x", "--skip-bad"], "'rte' is a task with its own files and columns"),
        (["--task", "pairs.csv", "--unwrap"], "--unwrap does not go with --task"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "prepare", *arguments, "--tokenizer", "tokenizer.json", "--out", "out")
    assert code == 2
    assert message in err
