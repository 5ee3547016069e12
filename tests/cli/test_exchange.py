"""`gpt1 import` and `gpt1 export`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.exchange.tools import write_release


def test_a_release_comes_in_goes_out_and_comes_in_again(
    tmp_path: Path, words_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    write_release(tmp_path / "model", words_tokenizer)
    first, out, second = (str(tmp_path / name) for name in ("first", "out", "second"))
    code, said, _ = run(capsys, "import", "openai", str(tmp_path / "model"), "--out", first, "--device", "cpu")
    assert code == 0
    assert f"{words_tokenizer.vocab_size} tokens, context 12" in said
    code, said, _ = run(capsys, "export", "transformers", first, "--out", out)
    assert code == 0
    assert "gives other ids" in said
    code, _, _ = run(capsys, "import", "transformers", out, "--out", second, "--device", "cpu")
    assert code == 0
    written = [
        run(capsys, "generate", one, "Ann", "--max-new-tokens", "5", "--device", "cpu") for one in (first, second)
    ]
    assert written[0] == written[1]
    code, _, _ = run(capsys, "report", first, second, "--out", str(tmp_path / "page.html"))
    assert code == 0
    code, _, err = run(capsys, "evaluate", first, "--device", "cpu")
    assert code == 2
    assert "was imported and has no corpus of its own" in err


def test_a_run_is_written_as_onnx(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = run(capsys, "export", "onnx", str(trained), "--out", str(tmp_path / "model.onnx"))
    assert code == 0
    assert "ids [texts, tokens]" in said
    assert (tmp_path / "model.onnx").stat().st_size > 10_000
    (tmp_path / "model.onnx").write_text("mine")
    code, _, err = run(capsys, "export", "onnx", str(trained), "--out", str(tmp_path / "model.onnx"))
    assert code == 1
    assert "model.onnx is there already; choose another name, or replace it with --overwrite" in err
    assert (tmp_path / "model.onnx").read_text() == "mine"


def test_a_run_of_another_form_is_not_written_for_transformers(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "export", "transformers", str(trained), "--out", str(tmp_path / "out"))
    assert code == 1
    assert "is not of the paper's form" in err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_not_written_to(
    words_tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_release(tmp_path / "model", words_tokenizer)
    made, mine = str(tmp_path / "run"), tmp_path / "mine"
    assert run(capsys, "import", "openai", str(tmp_path / "model"), "--out", made, "--device", "cpu")[0] == 0
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    code, _, err = run(capsys, "export", "transformers", made, "--out", str(mine))
    assert code == 1
    assert "letter.txt" in err
    assert [path.read_text() for path in mine.iterdir()] == ["dear"]


def test_a_smaller_run_is_told_in_plain_words(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = run(capsys, "export", "compact", str(trained), "--out", str(tmp_path / "small"))
    assert code == 0
    assert said.endswith("(RMS): gpt1 evaluate tells what that costs\n")
