from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpt1 import __version__
from gpt1.cli.app import SPINS, VERBS, main


def call(*arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    return int(exit_.value.code or 0)


def test_help_imports_few_modules_and_so_comes_at_once() -> None:
    code = "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"
    code += "import gpt1.cli; gpt1.cli.main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stderr) < 250  # torch alone brings more than a thousand


@pytest.mark.parametrize(("theirs", "found"), [(None, SPINS), ("7", "7")])
def test_threads_sleep_soon_where_others_need_the_cores_unless_the_user_says_otherwise(
    theirs: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", str(theirs))
    if theirs is None:
        monkeypatch.delenv("GOMP_SPINCOUNT")
    assert call("--version") == 0
    assert os.environ["GOMP_SPINCOUNT"] == found


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    assert verb in capsys.readouterr().out
    assert call(verb, "--help") == 0
    text = capsys.readouterr().out
    assert "Example" in text


@pytest.mark.parametrize("verb", ["import", "train", "encode", "decode", "diff"])
def test_every_verb_of_the_tokenizer_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("tokenizer", verb, "--help") == 0
    assert f"gpt1 tokenizer {verb}" in capsys.readouterr().out


# Verbs that read a labelled table, and what names it.
TABLES = {
    "check": ["TABLE|MODULE:TASK"],
    "evaluate": ["--table TABLE"],
    "finetune": ["--train TABLE", "--dev TABLE", "--test TABLE"],
    "predict": ["RUN TABLE"],
    "prepare": ["--dev TABLE", "--test TABLE"],
    "study ablations": ["--train TABLE", "--dev TABLE", "--test TABLE"],
    "study labels": ["--train TABLE", "--dev TABLE", "--test TABLE"],
    "study objectives": ["--train TABLE", "--dev TABLE", "--test TABLE"],
    "study transfer": ["--train TABLE", "--dev TABLE", "--test TABLE"],
}


@pytest.mark.parametrize(("verb", "named"), TABLES.items())
def test_a_table_is_called_so_and_its_columns_can_be_named(
    verb: str, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*verb.split(), "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (*named, "--column ROLE=NAME"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["perpare"], "did you mean 'prepare'"),
        (["tokeniser"], "did you mean 'tokenizer'"),
        (["tokenizer", "trian"], "did you mean 'train'"),
        (["prepare", "x", "--tokeniser", "t", "--out", "o"], "--tokenizer"),
        (["prepare", "--task", "rtee", "--data", "d", "--tokenizer", "TOKENIZER", "--out", "o"], "did you mean 'rte'"),
        (["tokenizer", "train", "TEXT", "--kind", "word", "--out", "o"], "did you mean 'words'"),
        (["prepare", "TEXT", "--document", "fle", "--tokenizer", "TOKENIZER", "--out", "o"], "did you mean 'file'"),
        (["prepare", "TEXT", "--duplicates", "exat", "--tokenizer", "TOKENIZER", "--out", "o"], "did you mean 'exact'"),
    ],
)
def test_a_typo_is_a_usage_error_that_names_the_nearest(
    arguments: list[str], near: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*[files.get(argument, argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert near in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tokenizer", "train", "TEXT", "--merges", "20k"], "'--merges': '20k' is not a valid whole number."),
        (["finetune", "--lr", "5e-4x", "--out", "o"], "'--lr': '5e-4x' is not a valid number."),
        (["generate", "run", "--top-p", "2"], "'--top-p': 2.0 is not in the range 0<x<=1."),
        (["prepare", "TEXT", "--valid", "2"], "'--valid': 2.0 is not in the range 0<=x<1."),
    ],
)
def test_what_is_no_number_or_none_that_fits_is_told_with_its_option(
    arguments: list[str], message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*[files.get(argument, argument) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def files(tmp_path: Path, words_tokenizer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    words_tokenizer.save("tokenizer.json")
    Path("text.txt").write_text("A silver key, wasn't it?\nAnn carried nothing.\n")
    return {"TOKENIZER": "tokenizer.json", "TEXT": "text.txt"}


def test_encode_and_decode_go_line_by_line(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("tokenizer", "encode", "text.txt", "--tokenizer", "tokenizer.json") == 0
    ids = capsys.readouterr().out
    assert len(ids.splitlines()) == 2
    Path("ids.txt").write_text(ids)
    assert call("tokenizer", "decode", "ids.txt", "--tokenizer", "tokenizer.json") == 0
    assert capsys.readouterr().out == "a silver key, wasn't it?\nann carried nothing.\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 2\n3 x 4\n", "line 2: 'x' is not an id"),
        (b"1 99999999\n", "line 1: id 99999999 at position 1"),
        (b"1 \xff 2\n", "ids.txt, byte 2: the byte 0xff is not utf-8"),
    ],
)
def test_ids_that_are_none_are_named_by_line(
    content: bytes, message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ids.txt").write_bytes(content)
    assert call("tokenizer", "decode", "ids.txt", "--tokenizer", "tokenizer.json") == 1
    assert message in capsys.readouterr().err


def test_other_ids_of_transformers_are_shown_for_a_text_a_file_and_standard_input(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("tokenizer", "diff", "A key, wasn't it?", "--tokenizer", "tokenizer.json") == 0
    shown = capsys.readouterr().out
    assert "1 of 4 pieces of text have other ids there." in shown
    assert "words, 1 piece: words are parted at every punctuation mark there" in shown
    said = []
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("text.txt").read_bytes())))
    for source in ("text.txt", "-"):
        assert call("tokenizer", "diff", source, "--tokenizer", "tokenizer.json", "--json") == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert [(one["text"], one["reasons"]) for one in said[0]["differences"]] == [
        ("wasn't", ["words"]),
        ("\n", ["newlines"]),
    ]


def test_a_text_that_is_too_long_to_be_the_name_of_a_file_is_a_text(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = " ".join(["A key, wasn't it?"] * 300)
    assert call("tokenizer", "diff", text, "--tokenizer", "tokenizer.json") == 0
    assert "300 of 1,200 pieces of text have other ids there." in capsys.readouterr().out


def test_the_ids_of_transformers_need_transformers(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert call("tokenizer", "diff", "Ann", "--tokenizer", "tokenizer.json") == 1
    assert "pip install transformers" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["text.txt", "-"])
def test_a_line_that_is_too_long_to_encode_is_named(
    source: str, files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.base.tables.LONGEST_RECORD", 10)
    Path("text.txt").write_text("Ann sold\nAnn sold apples\n")
    with Path("text.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert call("tokenizer", "encode", source, "--tokenizer", "tokenizer.json") == 1
    assert f"{'standard input' if source == '-' else source}, line 2: more than 10 char" in capsys.readouterr().err


def test_preparing_tells_what_the_corpus_holds(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("prepare", "text.txt", "--document", "line", "--tokenizer", "tokenizer.json", "--out", "corpus")
    assert call(*arguments, "--workers", "1") == 0
    assert "read 2 documents; dropped: none" in capsys.readouterr().out
    assert call(*arguments, "--json") == 0
    assert '"format": "gpt1-corpus"' in capsys.readouterr().out


def test_a_table_becomes_an_encoded_task(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.csv").write_text("review,stars\ngood one,1\nbad one,0\nfine,1\nawful,0\n")
    arguments = ("prepare", "--task", "r.csv", "--tokenizer", "tokenizer.json", "--out", "task")
    assert call(*arguments, "--column", "text=review", "--column", "label=stars") == 0
    assert "r: single of review; label stars: 0, 1" in capsys.readouterr().out
    assert call(*arguments, "--column", "text") == 2
    assert call(*arguments, "--valid", "0.1") == 2
    assert "--valid does not go with --task" in capsys.readouterr().err


def test_an_error_is_one_line_and_its_traceback_only_on_demand(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("prepare", "absent", "--tokenizer", "tokenizer.json", "--out", "o") == 1
    assert capsys.readouterr().err == "error: absent does not exist\n"
    assert call("--debug", "prepare", "absent", "--tokenizer", "tokenizer.json", "--out", "o") == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_exits_with_130(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpt1.corpus.prepare.prepare", interrupt)
    assert call("prepare", "text.txt", "--tokenizer", "tokenizer.json", "--out", "o") == 130


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("completion", shell) == 0
    assert "_GPT1_COMPLETE" in capsys.readouterr().out


def test_completion_completes_verbs() -> None:
    words = {"COMP_WORDS": "gpt1 pre", "COMP_CWORD": "1", "_GPT1_COMPLETE": "bash_complete"}
    code = "from gpt1.cli.app import gpt1; gpt1.main(prog_name='gpt1')"
    done = subprocess.run([sys.executable, "-c", code], env=words, capture_output=True, text=True)
    assert done.stdout.split() == ["plain,prepare", "plain,pretrain", "plain,predict"]
