"""`gpt1 labels` as a person calls it: sheets, what is said, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.base.tables import read_rows
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task
from tests.inference.tools import make_run

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    """A folder with a table, a run that has learned it, and rows without labels."""
    from gpt1.finetuning.finetune import finetune

    folder, task = tmp_path_factory.mktemp("labels"), make_task()
    parent = make_pretrained(folder / "parent", bytes_tokenizer)
    rows = "".join(f'"{row.texts[0]}",{task.labels[int(str(row.label))]}\n' for row in make_examples(task, 24))
    (folder / "moods.csv").write_text("text,label\n" + rows)
    new = "".join(f'"{row.texts[0]}"\n' for row in make_examples(task, 30, seed=4))
    (folder / "new.csv").write_text("body\n" + new)
    finetune(parent, folder / "run", train=folder / "moods.csv", changes=SETTINGS, recipe="finetune", device="cpu")
    return folder


def test_suspects_are_written_and_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "suspects.csv"
    words = ("labels", "suspect", str(folder / "run"), str(folder / "moods.csv"), "--out", str(out), *CPU)
    code, printed, said = run(capsys, *words)
    assert (code, len(list(read_rows(out)))) == (0, 24)
    assert printed.startswith("No label is flagged: those who had not learned a row agree with ")  # of 24 toy rows
    assert "each third of the rows is answered by what has learned the others" in said
    code, _, said = run(capsys, *words)
    assert (code, "--overwrite" in said) == (1, True)
    code, printed, _ = run(capsys, *words, "--overwrite", "--json")
    told = json.loads(printed)
    assert (code, told["rows"], told["flagged"], told["may_be_chance"]) == (0, 24, 0, True)
    code, printed, _ = run(capsys, *words, "--overwrite", "--flag-anyway")
    assert (code, printed.startswith("Flags are chance here: ")) == (0, True)


def test_the_next_are_written_and_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "next.csv"
    words = ("labels", "next", str(folder / "run"), str(folder / "new.csv"), "--out", str(out), "--count", "10", *CPU)
    code, _, said = run(capsys, *words)
    assert (code, "no column 'text'" in said, "--column text=COLUMN" in said) == (1, True, True)
    code, printed, _ = run(capsys, *words, "--column", "text=body")
    assert (code, "10 rows to label: " in printed, "2 random" in printed) == (0, True, True)
    assert {row["label"] for _, row in read_rows(out)} == {""}
    code, printed, _ = run(capsys, *words, "--column", "text=body", "--overwrite", "--json")
    assert (code, len(json.loads(printed)["rows"])) == (0, 10)


@pytest.mark.parametrize("verb", ["suspect", "next"])
def test_bad_input_is_refused(verb: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(run_folder: Path, table: Path, *more: str) -> tuple[int, str]:
        out = ("--out", str(tmp_path / "out.csv"))
        code, _, said = run(capsys, "labels", verb, str(run_folder), str(table), *out, *CPU, *more)
        return code, said

    code, said = refused(folder / "parent", folder / "moods.csv")
    assert (code, "has learned no task yet" in said) == (2, True)
    code, said = refused(folder / "run", tmp_path / "none.csv")
    assert (code, "none.csv does not exist" in said) == (1, True)
    code, said = refused(folder / "run", folder / "moods.csv", "--task", "stars")
    assert (code, "stars" in said) == (2, True)
    code, said = refused(folder / "run", folder / "moods.csv", "--out", "answers.xlsx")
    assert (code, "how is answers.xlsx to be written?" in said) == (2, True)
    odd = tmp_path / "odd.csv"
    odd.write_text("text,label\nAnn sold it,middling\n")
    code, said = refused(folder / "run", odd)
    assert (code, "odd.csv, row 2" in said, "middling" in said) == (1, True, True)


def test_scores_are_refused(words_tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stars = Task(
        name="stars", title="stars", shape=SINGLE, metrics=("pearson",), fields=("text",), score_range=(1.0, 5.0)
    )
    own = make_run(tmp_path / "stars", words_tokenizer, stars)
    for verb in ("suspect", "next"):
        code, _, said = run(capsys, "labels", verb, str(own), "new.csv", "--out", "out.csv", *CPU)
        assert (code, "has scores, and this is for labels" in said) == (2, True)
