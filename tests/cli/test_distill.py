"""`gpt1 distill` says who teaches, and refuses before anything is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tools import run
from tests.conftest import SMALL_RUN

SETTINGS = [word for setting in SMALL_RUN for word in ("--set", setting)]


def test_a_corpus_is_learned_from_a_teacher_and_what_came_of_it_is_told(
    trained: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    asked = ("--corpus", str(corpus), "--out", str(out), "--recipe", "tiny", "--device", "cpu", "--steps", "4")
    code, printed, err = run(capsys, "distill", "--teacher", str(trained), *asked, *SETTINGS, "--weight", "1", "--json")
    assert code == 0
    assert f"learning from the teacher {trained.resolve()} (weight 1, temperature 2)" in err
    told = json.loads(printed)
    assert (told["run"], told["step"]) == (str(out), 4)
    code, _, err = run(capsys, "distill", "--teacher", str(trained), *asked, *SETTINGS, "--resume")
    assert code == 2
    assert "(weight 0.5, temperature 2) now: a run goes on as it was begun" in err


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ([], 2, "Missing option '--teacher'"),
        (["--teacher", "absent"], 1, "absent does not exist"),
        (["--teacher", "TRAINED", "--train", "a.csv"], 2, "--train is of a task, and --corpus of text"),
        (["--teacher", "TRAINED", "--texts", "a.csv"], 2, "--texts is of a task, and --corpus of text"),
        (["--teacher", "TRAINED", "--column", "a=b"], 2, "--column is of a task, and --corpus of text"),
        (["--teacher", "TRAINED"], 2, "name a recipe with --recipe: paper, modern, small, tiny, lstm"),
        (["--teacher", "TRAINED", "--recipe", "auto"], 2, "recipe 'auto' is for fine-tuning"),
        (["--teacher", "TRAINED", "--recipe", "tiny", "--weight", "0"], 2, "Invalid value for '--weight'"),
        (["--teacher", "TRAINED", "--recipe", "tiny", "--weight", "1.5"], 2, "Invalid value for '--weight'"),
        (["--teacher", "TRAINED", "--recipe", "tiny", "--temperature", "0"], 2, "Invalid value for '--temperature'"),
        (["--teacher", "TRAINED", "--recipe", "tiny"], 2, "reads 16 tokens at once, and the student 128; say"),
        (["--teacher", "TRAINED", "--recipe", "tiny", "--corpus", "absent"], 1, "absent is not a folder with a corpus"),
    ],
)
def test_errors_are_for_people_and_nothing_is_made(
    given: list[str],
    code: int,
    message: str,
    trained: Path,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [str(trained) if word == "TRAINED" else word for word in given]
    options = ("--corpus", str(corpus), "--out", str(tmp_path / "run"), "--device", "cpu")
    found, out, err = run(capsys, "distill", *options, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ([], 2, "nothing to learn is named; name a corpus (--corpus DIR), a table (--train TABLE), or a task"),
        (["--task", "sst2"], 2, "where is the data of 'sst2'? Name its folder with --data"),
        (["--train", "absent.csv"], 1, "absent.csv does not exist"),
        (["--train", "TABLE"], 2, "has learned no task yet; gpt1 finetune --init"),
        (["--train", "TABLE", "--recipe", "tinny"], 2, "unknown recipe 'tinny'"),
    ],
)
def test_of_a_task_errors_are_for_people_too(
    given: list[str], code: int, message: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("text,label\n" + "good day,1\nbad day,0\n" * 8)
    words = [str(table) if word == "TABLE" else word for word in given]
    asked = ("--teacher", str(trained), "--init", str(trained), "--out", str(tmp_path / "run"), "--device", "cpu")
    found, out, err = run(capsys, "distill", *asked, *words)
    assert (found, out) == (code, "")
    assert message in err
    assert list(tmp_path.iterdir()) == [table]
