"""`gpt1 augment`, from a table to rows that are learned, and what a person is told who asks for what cannot be."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from gpt1.runs.folder import read_run
from tests.cli.tools import run
from tests.exchange.writers import make_writer

pytest.importorskip("transformers")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, and a model beside it, in the folder where the commands are given."""
    rows = "".join(
        f"{who} {deed} the {thing},{deed}\n"
        for who in ("Ann", "Tom", "girl")
        for deed in ("sold", "saw")
        for thing in ("lamp", "cat")
    )
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    make_writer(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_is_augmented_looked_at_and_learned(place: Path, trained: Path, capsys: Capture) -> None:
    words = ("rows.csv", "--with", "model", "--copies", "2", "--out", "more.csv", "--device", "cpu")
    code, out, err = run(capsys, "augment", *words)
    assert code == 0, err
    made = list(csv.DictReader((place / "more.csv").read_text().splitlines()))
    first, *others, last = out.splitlines()
    assert first == f"{len(made)} rows made of 10 rows to learn from, in more.csv"
    assert last == "look at them, then: gpt1 finetune rows.csv --more more.csv --out RUN"
    assert all(line.startswith("left out: ") for line in others)
    named = (
        "rows.csv",
        "--more",
        "more.csv",
        "--init",
        str(trained),
        "--out",
        "run",
        "--steps",
        "1",
        "--device",
        "cpu",
    )
    code, _, err = run(capsys, "finetune", *named)
    assert code == 0, err
    assert f"{len(made)} rows made of others are learned too" in err
    assert next(iter(read_run(place / "run").examples.values()))["train"] == 10 + len(made)


def test_a_list_of_neighbours_is_one_of_synonyms_to_learn_by(place: Path, trained: Path, capsys: Capture) -> None:
    texts = ("lady horse", "woman ship", "girl cat", "woman boat", "good house", "bad dog") * 2
    rows = "".join(f"{text},{number % 2}\n" for number, text in enumerate(texts))
    (place / "rows.csv").write_text("text,label\n" + rows)
    words = ("rows.csv", "--neighbours", "small", "--out", "near.tsv", "--device", "cpu")
    code, out, err = run(capsys, "augment", *words)
    assert code == 0, err
    first, last = out.splitlines()
    assert first.endswith("in near.tsv; opposites are among them")
    assert last == "look at them, then: gpt1 finetune rows.csv --synonyms near.tsv --out RUN"
    named = ("rows.csv", "--synonyms", "near.tsv", "--init", str(trained), "--out", "run", "--steps", "1")
    code, _, err = run(capsys, "finetune", *named, "--device", "cpu")
    assert code == 0, err
    assert re.search(r"[1-9]\d*\.\d % of the words of rows to learn from are in the list of synonyms", err)
    assert read_run(place / "run").recipe.finetuning.synonyms == 0.1
    near = (place / "near.tsv").read_text().splitlines()
    assert "woman\tgirl" in near


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["rows.csv", "--out", "more.csv"], 2, "say what to make: rows --with a model, or a list of --neighbours"),
        (["rows.csv", "--with", "model", "--neighbours", "small", "--out", "more.csv"], 2, "say what to make"),
        (["rows.csv", "--neighbours", "small", "--copies", "2", "--out", "a.tsv"], 2, "--copies is for rows that are"),
        (["rows.csv", "--neighbours", "absent", "--out", "a.tsv"], 1, "absent"),
        (["rows.csv", "--neighbours", "RUN", "--out", "more.csv"], 2, "give it a name that ends in .tsv"),
        (["rows.csv", "--with", "absent", "--out", "more.csv"], 1, "absent is no folder; name one with a model"),
        (["rows.csv", "--with", "model", "--back", "nowhere", "--out", "more.csv"], 1, "nowhere is no folder"),
        (["rows.csv", "--with", "model", "--copies", "0", "--out", "more.csv"], 2, "--copies"),
        (["rows.csv", "--with", "model", "--copies", "99", "--out", "more.csv"], 2, "between 1 and 16 copies"),
        (["rows.csv", "--with", "model", "--out", "rows.csv"], 1, "rows.csv is there already"),
        (["gone.csv", "--with", "model", "--out", "more.csv"], 1, "gone.csv"),
    ],
)
def test_errors_are_for_people(
    words: list[str], code: int, message: str, place: Path, trained: Path, capsys: Capture
) -> None:
    found, out, err = run(capsys, "augment", *(str(trained) if word == "RUN" else word for word in words))
    assert (found, out) == (code, ""), err
    assert message in " ".join(err.split())
    assert not (place / "more.csv").exists()


def test_made_rows_go_with_a_table(place: Path, trained: Path, capsys: Capture) -> None:
    (place / "more.csv").write_text("source_row,text,label,source_text\n2,new,sold,another\n")
    named = ("--init", str(trained), "--out", "run", "--more", "more.csv")
    assert "goes with --train" in run(capsys, "finetune", "--task", "rte", "--data", "x", *named)[2]
    code, _, err = run(capsys, "finetune", "rows.csv", *named)
    assert (code, "more.csv: row 2" in err or "more.csv" in err) == (1, True)
    assert "that row of the table is another" in err
