"""`gpt1 tasks` lists the catalogue and shows examples as tokens; `gpt1 check` is for a task of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.tasks.catalog import CATALOGUE
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "RTE").mkdir()
    rows = ["0\tIt rains a lot.\tIt is wet.\tentailment", "1\tIt rains.\tIt is dry.\tnot_entailment"]
    for split in ("train", "dev"):
        (tmp_path / "RTE" / f"{split}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows, ""]))
    return str(tmp_path)


def test_all_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "tasks")
    assert (code, err) == (0, "")
    assert out.split("\n")[0].split() == ["task", "shape", "answers", "metrics", "what", "is", "asked"]
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == ["task", *CATALOGUE]
    assert max(map(len, out.splitlines())) <= 100
    assert json.loads(run(capsys, "tasks", "--json")[1])["rte"]["labels"] == ["entailment", "not_entailment"]


def test_columns_say_how_wide_tables_and_notices_are_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    _, out, _ = run(capsys, "tasks")
    assert 60 < max(map(len, out.splitlines())) <= 72
    _, _, told = run(capsys, "tasks", "rte", "--data", data)
    assert len(told.splitlines()) > 1
    assert max(len(line) for line in told.splitlines() if " " in line) <= 72  # a path is not cut
    monkeypatch.delenv("COLUMNS")
    _, _, whole = run(capsys, "tasks", "rte", "--data", data)
    assert told.split() == whole.split()
    assert max(map(len, whole.splitlines())) > 72


def test_one_task_is_told_with_and_without_its_data(capsys: pytest.CaptureFixture[str], data: str) -> None:
    code, out, _ = run(capsys, "tasks", "rte")
    assert code == 0
    assert "shape    pair: [start] a [delimiter] b [extract]" in out
    _, out, err = run(capsys, "tasks", "rte", "--data", data)
    assert "train: 2 examples; entailment 50.0 %, not_entailment 50.0 %" in out
    assert "dev: the texts of 2 rows stand in train too" in err


def test_examples_are_shown_as_tokens(
    capsys: pytest.CaptureFixture[str], data: str, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    tokenizer = str(tmp_path / "tokenizer.json")
    code, out, _ = run(capsys, "tasks", "rte", "--data", data, "--show", "2", "--tokenizer", tokenizer)
    assert code == 0
    first, second, *rest = out.splitlines()
    assert (first, len(rest)) == ("row 1, label entailment", 2)
    assert second.startswith("  [start] it</w> ")
    assert second.endswith(" .</w> [extract]")
    assert " .</w> [delimiter] it</w> " in second


def test_without_a_tokenizer_words_stand_for_tokens(capsys: pytest.CaptureFixture[str], data: str) -> None:
    code, out, err = run(capsys, "tasks", "rte", "--data", data, "--show", "1", "--split", "dev", "--context", "8")
    assert code == 0
    assert out == "row 1, label entailment\n  [start] It rains [cut 2 tokens] [delimiter] It is wet. [extract]\n"
    assert "words stand for tokens" in err


def test_what_is_shown_is_there_for_programs(capsys: pytest.CaptureFixture[str], data: str) -> None:
    _, out, _ = run(capsys, "tasks", "rte", "--data", data, "--show", "1", "--json")
    (shown,) = json.loads(out)
    (sequence,) = shown.pop("sequences")
    assert " ".join(sequence) == "[start] It rains a lot. [delimiter] It is wet. [extract]"
    assert shown == {"row": 1, "label": "entailment", "cut": 0}
    report = json.loads(run(capsys, "tasks", "rte", "--json")[1])
    assert report["task"] == json.loads(json.dumps(CATALOGUE["rte"].as_json()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "x"], "name a task"),
        (["--show", "2"], "name a task"),
        (["--split", "dev"], "name a task"),
        (["rte", "--show", "2"], "--show needs the rows of the task"),
        (["rte", "--split", "dev"], "--split goes with --show"),
        (["rte", "--tokenizer", "t.json"], "--tokenizer goes with --data"),
        (["rtee"], "unknown task 'rtee'; did you mean 'rte'?"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "tasks", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_folder_without_the_task_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "tasks", "sst2", "--data", str(tmp_path), "--show", "2")
    assert code == 1
    assert "or official files such as SST-2/train.tsv" in err
