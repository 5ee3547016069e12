"""`gpt1 bases`, and a base's name where other verbs take a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gpt1.bases import catalog
from gpt1.cli.app import main
from gpt1.runs.folder import read_run
from tests.bases.tools import write_record
from tests.cli.tools import run

CPU = ("--device", "cpu")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("rows.csv").write_text("text,label\n" + "good day,1\nbad day,0\n" * 6)


def test_bases_are_listed_with_what_they_have_read(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = sum(path.stat().st_size for path in small.rglob("*") if path.is_file())
    code, out, err = run(capsys, "bases")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "small: a network of a test",
        f"  26,000 parameters, {size / 1e6:,.1f} MB in {small}",
        "  has read tales of a small world (English): 38 documents, 0.1 MB, 20,000 tokens",
        "  licence: MIT; of the text: public domain",
    ]
    code, out, _ = run(capsys, "bases", "--json")
    (facts,) = json.loads(out)
    assert (code, facts["name"], facts["path"], facts["size"]) == (0, "small", str(small), size)
    assert facts["text"]["language"] == "English"
    assert json.loads(run(capsys, "bases", "small", "--json")[1]) == facts


def test_a_card_is_shown(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "bases", "small") == (0, "# small\n\nIt has read of Ann and the old sailor.\n", "")
    (small / "card.md").unlink()
    code, _, err = run(capsys, "bases", "small")
    assert (code, "small is damaged: card.md is missing; install gpt1 again" in err) == (1, True)
    code, _, err = run(capsys, "bases", "../small")
    assert (code, "'../small' is no name of a base but a path" in err) == (2, True)


def test_a_damaged_base_is_not_listed_but_named(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "base.json").unlink()
    for words in (("bases",), ("bases", "--json"), ("bases", "small"), ("check", "rows.csv")):
        code, out, err = run(capsys, *words)
        assert (code, out, err) == (1, "", f"error: {small} is damaged: base.json is missing; install gpt1 again\n")


DOORS = (
    "pre-train a run of your own with gpt1 pretrain, or make one of GPT-1's released weights with gpt1 import openai, "
    "or name the folder of another's run"
)


def test_without_a_base_the_other_doors_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")
    assert run(capsys, "bases") == (0, f"this package has no base of its own; {DOORS}\n", "")
    assert run(capsys, "bases", "--json") == (0, "[]\n", "")
    code, out, err = run(capsys, "finetune", "--train", "rows.csv", "--out", "run")
    assert (code, out) == (2, "")
    assert err == f"error: which run to start from? This package has no base of its own; {DOORS}, with --init\n"
    assert not Path("run").exists()


def test_fine_tuning_takes_the_base_and_says_so_in_one_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "finetune", "--train", "rows.csv", "--out", "run", "--steps", "2", *CPU)
    said = [line for line in err.splitlines() if "base" in line]
    assert (code, said) == (
        0,
        [
            "starting from the base 'small': 26,000 parameters; it has read tales of a small world (English): "
            "38 documents, 0.1 MB, 20,000 tokens"
        ],
    )
    assert read_run(Path("run")).parent == "small"


def test_a_name_stands_wherever_a_run_does(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text("Ann sold hats.\n\nTom lost a key.\n")
    Path("pairs.jsonl").write_text(
        json.dumps({"good": "Ann sold hats.", "bad": "Hats Ann.", "paradigm": "order", "field": "syntax"}) + "\n"
    )
    table = ("--train", "rows.csv", "--dev", "rows.csv")
    for words in (
        ("generate", "small", "Ann sold", "--max-new-tokens", "3", *CPU),
        ("evaluate", "small", "text.txt", *CPU),
        ("blimp", "small", "--data", "pairs.jsonl", *CPU),
        ("prepare", "text.txt", "--tokenizer", "small", "--out", "corpus", "--valid", "0"),
        ("tokenizer", "encode", "text.txt", "--tokenizer", "small"),
        ("export", "compact", "small", "--out", "copy"),
        ("report", "small", "--out", "report.html"),
        ("study", "labels", "--init", "small", *table, "--counts", "2", "--steps", "1", "--out", "study", *CPU),
    ):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code == 0, f"{words}: {capsys.readouterr().err}"
    assert read_run(Path("copy")).tokenizer == read_run(small).tokenizer


def test_what_lies_here_under_the_name_is_taken_and_told(
    small: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, "small")
    code, _, err = run(capsys, "generate", "small", "Ann", "--max-new-tokens", "2", *CPU)
    assert (code, err) == (0, f"'small' is what lies in this folder, not the base of that name, {small}\n")


def test_what_is_measured_is_not_kept_in_the_package(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(capsys, "finetune", "--init", "small", "--train", "rows.csv", "--out", "run", "--steps", "1", *CPU)[0] == 0
    )
    shutil.copytree("run", small.parent / "taught")
    (small.parent / "taught" / "card.md").write_text("# taught\n")
    write_record(small.parent / "taught")
    code, _, err = run(capsys, "evaluate", str(small.parent / "taught"), "--table", "rows.csv", *CPU)
    assert (
        code,
        "taught is a base of the package, and what is measured is kept in the run's folder; copy it" in err,
    ) == (
        2,
        True,
    )
    assert list((small.parent / "taught").glob("*table*")) == []
