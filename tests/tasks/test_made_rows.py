"""Rows that were made of others stay with their source: learned with it, held out with it, refused without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.base.errors import Gpt1Error
from gpt1.tasks.examples import Labelled
from gpt1.tasks.made_rows import with_made
from gpt1.tasks.preparing import read_table

ROWS = [(f"letter {number} says {word}", word) for number, word in enumerate(("kind", "rude") * 10)]


@pytest.fixture
def labelled(tmp_path: Path) -> Labelled:
    path = tmp_path / "letters.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    return read_table(path)


def made(folder: Path, *rows: tuple[object, str, str, str]) -> Path:
    path = folder / "more.csv"
    path.write_text("source_row,text,label,source_text\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def of(row: int, text: str) -> tuple[object, str, str, str]:
    source, label = ROWS[row - 2]
    return row, text, label, source


def test_a_made_row_is_learned_where_its_source_is_and_left_out_where_that_is_held_out(
    labelled: Labelled, tmp_path: Path
) -> None:
    (dev,) = [name for name in labelled.splits if name != "train"]
    held = labelled.splits[dev][0].row
    learned = [example.row for example in labelled.splits["train"]]
    judged = labelled.splits[dev][0].texts[0]
    path = made(
        tmp_path,
        of(learned[0], "a kind letter"),
        of(learned[0], "a Kind  letter"),  # twice, but for case and blanks
        of(held, "what dev says in other words"),
        of(learned[1], judged),  # says what dev says
        of(learned[2], "another letter"),
        of(learned[3], ROWS[learned[4] - 2][0]),
    )
    found = with_made(labelled, path)
    assert found.splits[dev] == labelled.splits[dev]
    assert found.splits["train"][: len(learned)] == labelled.splits["train"]
    new = found.splits["train"][len(learned) :]
    assert [(one.texts, one.row) for one in new] == [
        (("a kind letter",), learned[0]),
        (("another letter",), learned[2]),
    ]
    assert [one.label for one in new] == [labelled.splits["train"][0].label, labelled.splits["train"][2].label]
    told = found.notices[-1]
    assert "2 rows made of others are learned too" in told
    for why in ("1 made of a row that is held out", "1 that dev or test has too", "2 that train has already"):
        assert why in told


def test_a_source_that_a_sheet_defused_is_still_itself(tmp_path: Path) -> None:
    path = tmp_path / "letters.csv"
    path.write_text("text,label\n" + "".join(f"=letter {n},{'kind' if n % 2 else 'rude'}\n" for n in range(20)))
    labelled = read_table(path)
    first = labelled.splits["train"][0]
    label = labelled.task.labels[int(first.label or 0)]  # type: ignore[arg-type]
    found = with_made(labelled, made(tmp_path, (first.row, "a letter", label, f"'{first.texts[0]}")))
    assert found.splits["train"][-1].texts == ("a letter",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((2, "new", "kind", "another text"), "'source_row' is 2, and that row of the table is another"),
        ((99, "new", "kind", "letter"), "'source_row' is 99, and that row of the table is another, or is not there"),
        (("two", "new", "kind", "letter"), "'source_row' holds 'two', and should say which row"),
        (("", "new", "kind", "letter"), "'source_row' holds 'None', and should say which row|'source_row' holds ''"),
        ((2, "new", "rude", ROWS[0][0]), "its label is another than that of row 2, of which it was made"),
        ((2, "", "kind", ROWS[0][0]), "'text' is empty"),
        ((2, "new", "cruel", ROWS[0][0]), "label 'cruel' is none of"),
    ],
)
def test_a_row_that_does_not_fit_its_source_is_refused_with_its_number(
    row: tuple[object, str, str, str], said: str, labelled: Labelled, tmp_path: Path
) -> None:
    assert labelled.splits["train"][0].row == 2
    with pytest.raises(Gpt1Error, match=said) as error:
        with_made(labelled, made(tmp_path, row))
    assert "more.csv" in str(error.value)


def test_a_table_without_sources_and_an_empty_one_are_refused(labelled: Labelled, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("text,label\nnew,kind\n")
    with pytest.raises(Gpt1Error, match="no column 'source_row'"):
        with_made(labelled, tmp_path / "plain.csv")
    (tmp_path / "empty.csv").write_text("source_row,text,label,source_text\n")
    with pytest.raises(Gpt1Error, match="has no rows"):
        with_made(labelled, tmp_path / "empty.csv")


def test_of_labels_of_words_no_rows_are_made(labelled: Labelled, tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("Ann B-PER\nwrote O\n\n" * 12)
    with pytest.raises(Gpt1Error, match="'names' labels words, and learning rows made of others is for tasks of one"):
        with_made(read_table(tmp_path / "names.conll"), made(tmp_path, of(2, "new")))
