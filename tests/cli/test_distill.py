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
