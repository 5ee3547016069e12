"""`gpt1 start` as a person calls it: what is printed, and that each command it names can be given."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.tools import run
from tests.starting.test_start import GOOD, VERDICTS

Capture = pytest.CaptureFixture[str]


def words_of(trained: Path, tmp_path: Path, rows: str = GOOD) -> list[str]:
    (tmp_path / "my films.csv").write_text(f"Text,label\n{rows}")
    named = ["--init", str(trained), "--column", "text=Text", "--device", "cpu", "--out", str(tmp_path / "out")]
    return ["start", str(tmp_path / "my films.csv"), *named]


def test_the_verdict_comes_first_and_every_command_it_names_can_be_given_again(
    capsys: Capture, trained: Path, tmp_path: Path
) -> None:
    words = words_of(trained, tmp_path)
    code, printed, _ = run(capsys, *words)
    assert code == 0
    assert printed.startswith(VERDICTS)
    assert f"gpt1 predict {tmp_path / 'out' / 'classifier'} new.csv" in printed
    assert f"gpt1 serve {tmp_path / 'out' / 'classifier'}" in printed
    _, told, _ = run(capsys, *words, "--json")
    found = json.loads(told)
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  gpt1 ")]
    assert commands[:3] == found["commands"]
    for line in found["commands"]:
        code, _, said = run(capsys, *shlex.split(line.replace(str(tmp_path / "out"), str(tmp_path / "again")))[1:])
        assert code == 0, f"{line}: {said}"
    evaluation = "classifier/evaluation-my-films-dev.json"
    assert (tmp_path / "again" / evaluation).read_bytes() == (tmp_path / "out" / evaluation).read_bytes()


def test_several_labels_a_text_are_learned_from_start_to_end(capsys: Capture, trained: Path, tmp_path: Path) -> None:
    labels = ("billing", "login", "billing|login", "")
    rows = "".join(f"ticket {number} of {label or 'nothing'},{label}\n" for number, label in enumerate(labels * 15))
    code, printed, said = run(capsys, *words_of(trained, tmp_path, rows), "--labels-sep", "|")
    assert code == 0, said
    assert "micro F1" in printed
    assert printed.count("--labels-sep '|'") == 2  # of check and of finetune


def test_an_unfit_table_ends_with_what_is_wrong_and_code_1(capsys: Capture, trained: Path, tmp_path: Path) -> None:
    code, printed, _ = run(capsys, *words_of(trained, tmp_path, f"{GOOD},good\n"))
    assert code == 1
    assert "To be mended: 1 row without a text (row 62)" in printed
    assert not (tmp_path / "out").exists()


def test_what_is_told_names_options_of_this_verb(capsys: Capture, trained: Path, tmp_path: Path) -> None:
    words = words_of(trained, tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    code, _, said = run(capsys, *words)
    assert (code, "letter.txt" in said) == (1, True)
    code, _, said = run(capsys, *words, "--minutes", "0")
    assert code == 2
