"""`gpt1 lessons`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.tasks.encoded import load
from tests.cli.tools import run
from tests.lessons.tools import library


def test_lessons_are_made_told_and_not_replaced(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "book.txt").write_text(library(documents=1, length=300)[0].text)
    words = ("lessons", str(tmp_path / "book.txt"), "--tokenizer", str(trained), "--out", str(tmp_path / "lessons"))
    code, out, _ = run(capsys, *words, "--passages", "40", "--workers", "1")
    assert code == 0
    for name in ("similar", "damaged", "follows", "mood"):
        assert f"{name}: " in out
        encoded = load(tmp_path / "lessons" / name)
        assert encoded.context == 16  # the network's
        assert f"{len(encoded.splits['train']):,} examples" in out
    code, _, error = run(capsys, *words, "--passages", "30", "--workers", "1")
    assert code == 1
    assert "--restart" in error
    assert run(capsys, *words, "--passages", "30", "--workers", "1", "--restart")[0] == 0


def test_a_text_without_sentences_is_an_error_that_says_what_to_do(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.txt").write_text("one\ntwo\nthree\n" * 100)
    code, _, error = run(
        capsys, "lessons", str(tmp_path / "list.txt"), "--tokenizer", str(trained), "--out", str(tmp_path / "out")
    )
    assert code == 1
    assert "0 passages of 6 sentences in a row" in error
    assert "--unwrap" in error
    assert not (tmp_path / "out").exists()
