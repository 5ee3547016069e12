"""Answered rows on their way out: JSON lines, csv, tsv and parquet that other programs read back, and do not run."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.tables import CellForm, read_rows
from gpt1.inference.sheets import FORMS, form_for, harmless, json_line, write_rows

ADDED = ("prediction", "probabilities")


def row(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, **more, "prediction": "sad", "probabilities": {"glad": 0.25, "sad": 0.75}}


def back(path: Path) -> list[dict[str, Any]]:
    return [cells for _, cells in read_rows(path)]


def test_json_lines_are_read_back_as_they_were(tmp_path: Path) -> None:
    rows = [row('a "quoted"\nline; Köln, 東京'), row("b", size=2.5, tags=["x", {"y": None}])]
    write_rows(iter(rows), tmp_path / "out.jsonl", ADDED)
    assert back(tmp_path / "out.jsonl") == rows


@pytest.mark.parametrize("suffix", ["csv", "tsv", "CSV"])
def test_cells_are_read_back_with_lists_and_mappings_as_json(tmp_path: Path, suffix: str) -> None:
    rows = [row('a "quoted"\nline;\tKöln, 東京', size=2.5), {"text": "b", "size": None, "prediction": "glad"}]
    write_rows(iter(rows), tmp_path / f"out.{suffix}", ADDED)
    first, second = back(tmp_path / f"out.{suffix}")
    assert list(first) == ["text", "size", "prediction", "probabilities"]
    assert (first["text"], first["size"]) == (rows[0]["text"], "2.5")
    assert json.loads(first["probabilities"]) == {"glad": 0.25, "sad": 0.75}
    assert second == {"text": "b", "size": "", "prediction": "glad", "probabilities": ""}


def test_the_columns_of_a_csv_file_are_those_of_all_first_rows_then_the_added_ones(tmp_path: Path) -> None:
    write_rows(iter([{"error": "no row"}, row("a", size=1)]), tmp_path / "out.csv", (*ADDED, "error"))
    assert list(back(tmp_path / "out.csv")[0]) == ["text", "size", "prediction", "probabilities", "error"]


def test_a_column_that_comes_late_is_an_error_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.inference.sheets.CHUNK", 2)
    rows = [row("a"), row("b"), row("c", size=1)]
    with pytest.raises(InputError, match=r"row 3 has a column 'size' that the first rows do not have; write \.jsonl"):
        write_rows(iter(rows), tmp_path / "out.csv", ADDED)
    assert list(tmp_path.iterdir()) == []
    write_rows(iter(rows), tmp_path / "out.jsonl", ADDED)


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    def failing() -> Any:
        yield row("a")
        raise InputError("the second row is bad")

    (tmp_path / "out.jsonl").write_text("from before\n")
    for name in ("out.jsonl", "out.csv"):
        with pytest.raises(InputError, match="the second row is bad"):
            write_rows(failing(), tmp_path / name, ADDED, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert (tmp_path / "out.jsonl").read_text() == "from before\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.nan, None),
        ([1.0, -math.inf], [1.0, None]),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        ("half \ud83d", "half \ud83d"),
        ({"deep": {"deeper": math.nan}}, {"deep": {"deeper": None}}),
    ],
)
def test_what_json_cannot_hold_is_written_so_that_every_reader_takes_it(value: Any, written: Any) -> None:
    line = json_line({"value": value})
    assert line.endswith(b"\n")
    assert json.loads(line.decode("utf-8"), parse_constant=pytest.fail) == {"value": written}


@pytest.mark.parametrize("name", ["out.txt", "out", "out.csv.gz", "out.xlsx"])
def test_a_name_that_does_not_say_how_to_write_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=r"name that ends in \.jsonl, \.csv, \.tsv, \.parquet"):
        write_rows(iter([]), tmp_path / name, ADDED)


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "- a list", "=", "-5 apples", "+x"]
)
def test_what_a_spreadsheet_would_run_has_an_apostrophe_before_it(text: str) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["-5", "+3.25", "-1,5", "-.5", "-1e-5", "-12 %", "-1.000,50", "-", "+", "5-3", "a=b", "", "'=1"]
)
def test_numbers_and_all_other_texts_are_left_alone(text: str) -> None:
    assert harmless(text) == text


def test_how_many_cells_were_made_harmless_is_told_once_and_json_lines_are_left_alone(tmp_path: Path) -> None:
    told: list[str] = []
    rows = [row("=1+1", n=-5), row("-5"), row("@x")]
    write_rows(iter(rows), tmp_path / "out.csv", ADDED, notice=told.append)
    assert [one["text"] for one in back(tmp_path / "out.csv")] == ["'=1+1", "-5", "'@x"]
    (message,) = told
    assert "2 cells would be a formula to a spreadsheet" in message
    write_rows(iter(rows), tmp_path / "out.jsonl", ADDED, notice=told.append)
    assert (back(tmp_path / "out.jsonl"), len(told)) == (rows, 1)


def test_parquet_keeps_the_kinds_of_values_and_makes_text_of_mixed_ones(tmp_path: Path) -> None:
    rows = [{"n": 1, "x": 0.5, "ok": True, "mixed": 1}, {"n": None, "x": 2, "ok": False, "mixed": "a"}]
    write_rows(iter(rows), tmp_path / "out.parquet", ())
    assert back(tmp_path / "out.parquet") == [rows[0] | {"mixed": "1"}, rows[1] | {"x": 2.0}]


@pytest.mark.parametrize(
    ("number", "written"), [(2**63 - 1, 2**63 - 1), (2**63, str(2**63)), (-(2**63) - 1, str(-(2**63) - 1))]
)
def test_an_integer_beyond_64_bits_is_text_in_parquet(tmp_path: Path, number: int, written: int | str) -> None:
    write_rows(iter([{"n": number}]), tmp_path / "out.parquet", ())
    assert back(tmp_path / "out.parquet") == [{"n": written}]


def test_other_values_than_the_first_rows_have_are_an_error_of_parquet_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpt1.inference.sheets.CHUNK", 1)
    with pytest.raises(InputError, match=r"other values than the first .*; write \.jsonl instead"):
        write_rows(iter([{"n": 1}, {"n": "a"}]), tmp_path / "out.parquet", ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("table", "content", "out", "form"),
    [
        ("t.csv", b"a;b\n", "out.csv", CellForm(";", "utf-8")),
        ("t.csv", b"\xef\xbb\xbfa;b\n", "out.csv", CellForm(";", "utf-8", True)),
        ("t.csv", "\ufeffa\tb\n".encode("utf-16-le"), "out.csv", CellForm("\t", "utf-16-le", True)),
        ("t.csv", b"a;b\n", "out.tsv", CellForm("\t", "utf-8")),
        ("t.tsv", b"a\tb\n", "out.csv", CellForm(",", "utf-8")),
        ("t.jsonl", b'{"a": 1}\n', "out.csv", FORMS[".csv"]),
        ("t.csv", b"a;b\n", "out.jsonl", None),
    ],
)
def test_cells_are_written_as_the_table_has_them_as_far_as_the_name_lets(
    tmp_path: Path, table: str, content: bytes, out: str, form: CellForm | None
) -> None:
    (tmp_path / table).write_bytes(content)
    assert form_for(tmp_path / out, tmp_path / table, "utf-8") == form
