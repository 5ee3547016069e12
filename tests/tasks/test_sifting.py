"""Rows that cannot be used are left out with a reason, where a person says so; others stay as they are."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gpt1.base.errors import InputError
from gpt1.tasks.examples import EMPTY_TEXT, Row, RowFault
from gpt1.tasks.readers import read_further, read_tables
from gpt1.tasks.sifting import SkippedRow, by_reason, read_sifted, row_numbers

GOOD = "".join(f"fine film {n},good\nbad film {n},bad\n" for n in range(10))
# What Excel leaves in a sheet: rows 22 to 26.
FAULTS = ",\n ,good\nno label,\none,two,three\nlast,GOOD\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "films.csv"
    path.write_text(f"text,label\n{GOOD}{FAULTS}")
    return path


def test_rows_that_cannot_be_read_and_empty_ones_are_left_out(table: Path) -> None:
    found = read_sifted(table, "utf-8")
    assert [row.number for row in found.rows] == [*range(2, 22), 23, 24, 26]
    assert [(one.row, one.reason) for one in found.left_out] == [(22, "empty-row"), (25, "bad-row")]
    assert found.left_out[1].why.startswith("3 cells where the header has 2")


def test_a_table_is_read_without_its_bad_rows_and_that_is_told(table: Path) -> None:
    found = read_tables({"train": table}, skip_bad=True, fold_labels=True)
    assert [example.row for example in found.splits["train"]] == [*range(2, 22), 26]
    assert found.task.labels == ("bad", "good")
    assert f"{table}: labels that look the same are one: 'GOOD' (1 row) taken for 'good'" in found.notices
    assert (
        f"{table}: 4 of 25 rows left out: 1 row that cannot be read (row 25), 1 empty row (row 22), "
        "1 row without a text (row 23), 1 row without a label (row 24)"
    ) in found.notices


def test_a_good_table_is_read_the_same_with_and_without(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(f"text,label\n{GOOD}")
    tables = {"train": tmp_path / "films.csv"}
    assert read_tables(tables, skip_bad=True, fold_labels=True) == read_tables(tables)


def test_the_error_of_a_row_says_how_to_go_on_without_it(table: Path) -> None:
    with pytest.raises(
        InputError, match=r"3 cells .*; `skip_bad=True` leaves such rows out; gpt1 check finds them all"
    ):
        read_tables({"train": table})
    table.write_text(f"text,label\n{GOOD},good\n")
    with pytest.raises(InputError, match=r"row 22: 'text' is empty; fill it or take the row out; `skip_bad=True` "):
        read_tables({"train": table})
    table.write_text(f"text,label\n{GOOD}x,\n")
    with pytest.raises(InputError, match=r"row 22: the label in 'label' is empty; .*; `skip_bad=True` "):
        read_tables({"train": table})


def test_labels_that_look_the_same_are_told_with_what_makes_them_one(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(f"text,label\n{GOOD}x,Good\n")
    told = read_tables({"train": tmp_path / "films.csv"}).notices
    assert any("look the same: 'Good' and 'good'; `fold_labels=True` takes them for one" in one for one in told)


def test_a_label_of_dev_that_train_does_not_have_is_a_bad_row_and_test_needs_none(table: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.csv").write_text("text,label\nx,good\ny,other\nz,Bad\nv,\n")
    (tmp_path / "test.csv").write_text("text,label\nx,\n,good\n")
    tables = {"train": table, "dev": tmp_path / "dev.csv", "test": tmp_path / "test.csv"}
    found = read_tables(tables, skip_bad=True, fold_labels=True)
    assert [example.row for example in found.splits["dev"]] == [2, 4]
    assert [example.label for example in found.splits["test"]] == [None]
    assert (
        f"{tmp_path / 'dev.csv'}: 2 of 4 rows left out: 1 row without a label (row 5), "
        "1 row with a label that train does not have (row 3)"
    ) in found.notices


def test_a_table_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("text,label\n,good\n,\nx,\n")
    with pytest.raises(InputError, match="has no rows that can be used: 1 empty row"):
        read_tables({"train": path}, skip_bad=True)
    path.write_text("text,label\n")
    with pytest.raises(InputError, match=r"films\.csv has no rows$"):
        read_tables({"train": path}, skip_bad=True)


def test_scores_that_are_none_are_bad_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text("text,score\na,1.5\nb,2\nc,high\nd,\n")
    found = read_tables({"train": path}, regression=True, skip_bad=True)
    assert [example.label for example in found.splits["train"]] == [1.5, 2.0]


def test_choices_of_another_number_of_answers_are_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "ends.jsonl"
    good = '{"context": "c", "choices": ["x", "y"], "label": 0}\n'
    path.write_text(good + '{"context": "c", "choices": ["x"], "label": 0}\n{"context": "c", "label": 1}\n' + good)
    found = read_tables({"train": path}, skip_bad=True)
    assert [example.row for example in found.splits["train"]] == [1, 4]


def test_a_further_table_is_read_by_the_same_rules_and_with_columns_of_its_own(table: Path, tmp_path: Path) -> None:
    task = read_tables({"train": table}, skip_bad=True, fold_labels=True).task
    path = tmp_path / "march.csv"
    path.write_text("review,stars\nx,Good\n,bad\ny,bad\n")
    columns = {"text": "review", "label": "stars"}
    examples, told = read_further(task, path, "dev", columns=columns, skip_bad=True, fold_labels=True)
    assert [(example.texts, example.label) for example in examples] == [(("x",), 1), (("y",), 0)]
    assert told == [
        f"{path}: 1 of 3 rows left out: 1 row without a text (row 3)",
        f"{path}: labels that look the same are one: 'Good' (1 row) taken for 'good'",
    ]
    with pytest.raises(
        InputError, match=r"label 'Good' is none of bad, good; .*; `fold_labels=True` takes labels that"
    ):
        read_further(task, path, "dev", columns=columns)


def test_rows_are_numbered_by_reason_in_a_fixed_order() -> None:
    left_out = [SkippedRow(9, "empty-label", ""), SkippedRow(7, EMPTY_TEXT, ""), SkippedRow(3, EMPTY_TEXT, "")]
    assert by_reason(left_out) == {EMPTY_TEXT: [3, 7], "empty-label": [9]}
    assert row_numbers([4]) == "row 4"
    assert row_numbers(list(range(1, 1010))) == "rows 1, 2, 3, 4, 5, 1,004 more"


def test_the_fault_of_a_row_comes_whole_from_another_process() -> None:
    fault = Row({"text": ""}, "t.csv", 4).error("'text' is empty", EMPTY_TEXT)
    again = pickle.loads(pickle.dumps(fault))
    assert isinstance(again, RowFault)
    assert (str(again), again.reason) == ("t.csv, row 4: 'text' is empty", EMPTY_TEXT)
