"""`gpt1 zeroshot`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tools import run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six stories with two endings, of which the first is right, in the catalogue's layout."""
    (tmp_path / "storycloze").mkdir()
    row = {
        "context": "Ann lost 3 apples.",
        "choices": ["Ann looked for 3 apples.", "The cat sold nothing."],
        "label": 0,
    }
    for split in ("train", "dev"):
        (tmp_path / "storycloze" / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 6)
    return tmp_path


def test_scores_are_printed_raw_and_normalised(trained: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("zeroshot", str(trained), "--task", "storycloze", "--data", str(data), "--device", "cpu")
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    found = json.loads(out)
    accuracy = found["metrics"]["accuracy"]
    assert accuracy in (0.0, 1.0)  # all rows are the same
    assert found["normalised"]["accuracy"] == pytest.approx((100 * accuracy - 50) / (77.6 - 50))
    assert (found["examples"], found["split"], found["rule"]) == (6, "dev", "answer")
    code, out, _ = run(capsys, *arguments, "--step", "last")
    assert out.splitlines()[0] == f"{trained}, update 12: storycloze dev, 6 examples"
    assert f"  accuracy {100 * accuracy:.1f}; normalised, from 0 to 1: {found['normalised']['accuracy']:.2f}\n" in out
    assert "0 is a guess (50), 1 the best of the time (77.6; not in the paper's figure)" in out


def test_answers_are_kept_where_the_caller_asks(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.jsonl"
    arguments = ("zeroshot", str(trained), "--task", "storycloze", "--data", str(data), "--out", str(out))
    assert run(capsys, *arguments, "--shots", "1", "--device", "cpu")[0] == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(6))
    assert all(len(line["scores"]) == 2 and line["label"] == 0 for line in lines)


def test_ones_own_task_is_asked_by_its_shape_and_has_no_scale(
    trained: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = "from dataclasses import replace; from gpt1.tasks.catalog import CATALOGUE\n"
    module += "MINE = replace(CATALOGUE['storycloze'], name='mine', title='Mine')\n"
    (data / "zeroshot_tasks.py").write_text(module)
    monkeypatch.chdir(data)
    arguments = ("--task", "zeroshot_tasks:MINE", "--data", "storycloze", "--device", "cpu", "--json")
    code, out, _ = run(capsys, "zeroshot", str(trained), *arguments)
    assert code == 0
    assert json.loads(out)["normalised"] == {"accuracy": None}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--task", "stori"], 2, "unknown task 'stori'"),
        (["--task", "rte"], 2, "no rule is known"),
        (["--task", "blimp"], 2, "blimp is pairs of sentences, not labelled rows; gpt1 blimp asks a run about them"),
        (["--task", "race"], 1, "has no rows of task 'race'"),
        (["--task", "storycloze", "--split", "tset"], 2, "unknown split 'tset' of 'storycloze'"),
        (["--task", "storycloze", "--shots", "99"], 2, "99 solved examples are asked for"),
        (["--task", "storycloze", "--step", "7"], 2, "has no checkpoint of step 7"),
        (["--task", "storycloze", "--out", "answers"], 2, "how is answers to be written?"),
        (["--task", "storycloze", "--shots", "-1"], 2, "-1 is not in the range"),
    ],
)
def test_errors_are_for_people(
    arguments: list[str], code: int, message: str, trained: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, "zeroshot", str(trained), "--data", str(data), "--device", "cpu", *arguments)
    assert (found, out) == (code, "")
    assert message in err


def test_an_empty_folder_is_no_run(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, "zeroshot", str(tmp_path / "empty"), "--task", "sst2", "--data", str(data))
    assert code == 1
    assert "run.json does not exist; expected a run there" in err


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Four pairs of two paradigms."""
    rows = [
        {"good": "Ann lost 3 apples.", "bad": "Apples 3 lost Ann.", "paradigm": name, "field": "syntax"}
        for name in ("order", "order", "gaps", "gaps")
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "pairs.jsonl"


def test_shares_are_printed_by_paradigm_beside_published_ones(
    trained: Path, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("blimp", str(trained), "--data", str(pairs), "--device", "cpu", "--step", "last")
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["paradigms"].keys() == {"order", "gaps"}
    assert found["accuracy"] in (0.0, 1.0)  # all pairs are the same
    assert (found["pairs"], found["step"]) == (4, 12)
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert out.splitlines()[0] == f"{trained}, update 12: BLiMP, 4 pairs of 2 paradigms"
    interval = {0.0: "0.0 to 49.0", 1.0: "51.0 to 100.0"}[found["accuracy"]]
    mean = f"{100 * found['accuracy']:5.1f}  mean over paradigms, 95 % interval {interval}; chance is 50.0\n"
    assert mean in out
    assert "65.1  74.5  GPT-2, 98 M parameters" in out


def test_a_folder_without_pairs_is_told(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "blimp", str(trained), "--data", str(tmp_path / "none"))
    assert code == 1
    assert "does not exist" in error
