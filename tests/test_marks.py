"""tools/marks.py: sentences without their marks, and labels that say which those were."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import pytest

from gpt1.demo.books import SPLIT_BOOKS
from tests.test_base import load_tool

MARKS = load_tool("marks")


@pytest.mark.parametrize(
    ("sentence", "text", "labels"),
    [
        ("“You knew him, did you not?”", "you knew him did you not", "speech|question"),
        ("Then Wolf Larsen rove a bowline—slowly.", "then wolf larsen rove a bowline slowly", "dash|name"),
        ("It's late; I must go!", "it's late i must go", "exclamation|semicolon"),
        ("And so I went home.", "and so i went home", ""),
    ],
)
def test_marks_become_labels(sentence: str, text: str, labels: str) -> None:
    assert MARKS.row_of(sentence) == (text, labels)


def test_no_book_stands_in_two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MARKS, "ROWS", {split: 4 * len(names) for split, names in SPLIT_BOOKS.items()})
    for names in SPLIT_BOOKS.values():
        for name in names:
            word = "".join(letter for letter in name if letter.isalpha())
            lines = [f"Then {'very ' * number}old {word} went home; was it late?" for number in range(1, 9)]
            with lzma.open(tmp_path / f"{name}.txt.xz", "wt") as file:
                file.write(" ".join(lines) + "\n")
    MARKS.write(tmp_path, tmp_path / "out")
    before = {split: (tmp_path / "out" / f"{split}.csv").read_bytes() for split in SPLIT_BOOKS}
    for split, names in SPLIT_BOOKS.items():
        with (tmp_path / "out" / f"{split}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 4 * len(names)
        assert {row["labels"] for row in rows} == {"question|semicolon"}
        assert {row["text"].split()[-6] for row in rows} == {"".join(filter(str.isalpha, name)) for name in names}
    MARKS.write(tmp_path, tmp_path / "out")
    assert {split: (tmp_path / "out" / f"{split}.csv").read_bytes() for split in SPLIT_BOOKS} == before
