"""Sheets about labels are written as the table they are of, with all its columns."""

from __future__ import annotations

import codecs
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from gpt1.base.errors import InputError
from gpt1.base.tables import cell_form, read_rows
from gpt1.labelling.sheet import TableCells, hash_before, read_cells

ADDED = {"row": int, "suggested": str}


def read(path: Path, encoding: str = "utf-8") -> TableCells:
    return read_cells(path, encoding, hash_before(path))


def write(
    table: TableCells, out: Path, told: dict[int, list[object]], blank: tuple[str, ...] = ()
) -> tuple[bytes, list[str]]:
    said: list[str] = []
    with out.open("w+b") as file:
        table.write(file, out, ADDED, told, said.append, blank=blank)
    return out.read_bytes(), said


@pytest.mark.parametrize(("delimiter", "encoding", "mark"), [(";", "cp1252", b""), ("\t", "utf-8", codecs.BOM_UTF8)])
def test_separator_mark_encoding_and_all_columns_are_those_of_the_table(
    delimiter: str, encoding: str, mark: bytes, tmp_path: Path
) -> None:
    lines = [["Größe", "text", "Kunde"], ["groß", "Ann sold it", "K-1"], ["klein", "Tom, lost", "K-2"]]
    path = tmp_path / "new.csv"
    path.write_bytes(mark + "\r\n".join(map(delimiter.join, lines)).encode(encoding))
    found, said = write(read(path, encoding), tmp_path / "out.csv", {3: ["bad"], 2: ["good"]})
    wanted = [["row", *lines[0], "suggested"], ["3", *lines[2], "bad"], ["2", *lines[1], "good"], [""]]
    assert found == mark + "\r\n".join(map(delimiter.join, wanted)).encode(encoding)
    assert said == []
    assert cell_form(tmp_path / "out.csv", encoding) == cell_form(path, encoding)


def test_a_letter_that_the_encoding_lacks_makes_it_utf8_and_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_bytes("text\nä\n".encode("cp1252"))
    found, (said,) = write(read(path, "cp1252"), tmp_path / "out.csv", {2: ["재미"]})
    assert found.decode("utf-8-sig").splitlines() == ["row,text,suggested", "2,ä,재미"]
    assert "is UTF-8 with a byte order mark: cp1252 lacks '재'" in said


def test_a_column_to_be_filled_in_stands_where_the_table_has_it_or_after_all_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    for header, wanted in (("label,text", "row,label,text,suggested"), ("n,text", "row,n,text,label,suggested")):
        path.write_text(f"{header}\n,Ann\n")
        found, _ = write(read(path), tmp_path / "out.csv", {2: ["good"]}, ("label",))
        assert found.decode().splitlines()[0] == wanted


def test_columns_that_are_called_as_ours_keep_their_names_and_ours_get_others(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("row,text\n7,Ann\n")
    found, (said,) = write(read(path), tmp_path / "out.csv", {2: ["good"]})
    assert found.decode().splitlines() == ["gpt1_row,row,text,gpt1_suggested", "2,7,Ann,good"]
    assert "the table has row already" in said


def test_columns_of_parquet_keep_their_types_and_rows_that_lack_one_have_it_empty(tmp_path: Path) -> None:
    path, out = tmp_path / "new.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({"n": pyarrow.array([1, 2], pyarrow.int32()), "text": ["a", "b"]}), path)
    write(read(path), out, {2: ["good"]})
    assert parquet.read_schema(out).field("n").type == pyarrow.int32()
    lines = tmp_path / "new.jsonl"
    lines.write_text('{"text": "a"}\n{"text": "b", "n": 2}\n')
    write(read(lines), tmp_path / "out.csv", {1: ["good"], 2: ["bad"]})
    assert [row["n"] for _, row in read_rows(tmp_path / "out.csv")] == ["", "2"]


def test_a_table_that_is_another_than_its_rows_were_read_from_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("text\nAnn\nTom\n")
    before = hash_before(path)
    path.write_text("text\nTom\nAnn\n")
    with pytest.raises(InputError, match=r"new\.csv was changed while its rows were answered"):
        read_cells(path, "utf-8", before)
    path.unlink()
    with pytest.raises(InputError, match=r"new\.csv does not exist"):
        read_cells(path, "utf-8", before)
