"""`gpt1 prepare --task` encodes labelled rows and tells what it made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.corpus import lots
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.conftest import make_text


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


def test_two_parts_make_a_corpus_and_its_status_tells_how_far_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lots, "LOT_BYTES", 1)
    (folder / "texts").mkdir()
    for seed in range(4):
        (folder / "texts" / f"{seed}.txt").write_text(make_text(20, seed))
    arguments = ["prepare", "texts", "--tokenizer", "tokenizer.json", "--out", "corpus", "--workers", "1", "--part"]
    code, out, err = run(capsys, *arguments, "1/2")
    assert (code, out) == (0, "")
    assert "part 1/2 is done; others are not, of which the last one puts the corpus together" in err
    code, out, _ = run(capsys, "prepare", "--status", "corpus")
    assert code == 0
    assert "1/2" in out.splitlines()[2]
    code, out, _ = run(capsys, *arguments, "2/2")
    assert code == 0
    assert "read 4 documents; dropped: none" in out
    code, status, _ = run(capsys, "prepare", "--status", "corpus")
    assert (code, status) == (0, "corpus is done\n" + out)
    code, _, err = run(capsys, "prepare", "--status", "nothing")
    assert code == 1
    assert "nothing holds no preparation, whether begun or done" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pairs.csv", "--symmetric"], "--symmetric goes only with --task"),
        (["--task", "pairs.csv", "--column", "left"], "--column takes ROLE=NAME"),
        (["pairs.csv", "--skip-bad"], "--skip-bad goes only with --task"),
        (["pairs.csv", "--fold-labels"], "--fold-labels goes only with --task"),
        (["--task", "rte", "--data", "x", "--skip-bad"], "'rte' is a task with its own files and columns"),
        (["--task", "pairs.csv", "--unwrap"], "--unwrap does not go with --task"),
        (["--task", "pairs.csv", "--part", "1/2"], "--part does not go with --task"),
        (["pairs.csv", "--part", "two"], "--part takes such as 2/8, the second of eight parts, not 'two'"),
        (["pairs.csv", "--part", "3/2"], "--part is a number from 1 up and how many there are"),
        (["pairs.csv", "--part", "1/2", "--restart"], "--part goes neither with --restart"),
        (["pairs.csv", "--part", "1/2", "--engine", "ray"], "nor with --engine"),
        (["pairs.csv", "--engine", "rya"], "did you mean 'ray'"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "prepare", *arguments, "--tokenizer", "tokenizer.json", "--out", "out")
    assert code == 2
    assert message in err
