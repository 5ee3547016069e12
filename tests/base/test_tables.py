"""Opening texts and tables: every format, packed in every way, whole or damaged."""

from __future__ import annotations

import codecs
import csv
import encodings.aliases
import gzip
import io
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import parquet

from gpt1.base import tables
from gpt1.base.errors import DamagedFile, FileError, InputError, SettingError
from gpt1.base.tables import (
    MOST_COLUMNS,
    BadRow,
    Undecodable,
    cell_form,
    file_format,
    known_encoding,
    lines,
    lines_of,
    read_rows,
    read_rows_or_faults,
    read_text_blocks,
)
from tests.base.tools import PACK, TEXT, read_until_fault, write
from tests.properties import examples

ROWS = [{"text": "one", "label": "a"}, {"text": 'two "2",\r\nthree', "label": "ü"}]


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


TABLES = {
    ".jsonl": as_jsonl(ROWS),
    ".json": as_jsonl(ROWS),
    ".csv": as_csv(ROWS),
    ".tsv": as_csv(ROWS, "\t"),
    ".parquet": as_parquet(ROWS),
}


def rows_of(path: Path, **options: Any) -> tuple[list[tuple[int, dict[str, Any]]], list[FileError]]:
    found = list(read_rows_or_faults(path, **options))
    rows = [one for one in found if not isinstance(one, FileError)]
    return rows, [one for one in found if isinstance(one, FileError)]


# --- formats ---


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("suffix", [".txt", ".md", ".jsonl", ".csv", ".tsv", ".parquet"])
def test_the_format_is_that_of_the_name_in_any_case(suffix: str, packing: str) -> None:
    assert file_format(f"some.where/A.B{suffix}{packing}".upper()) == suffix[1:]


def test_an_unknown_suffix_lists_what_is_read_and_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean '\.jsonl'\?; read are \.txt, .*\.parquet, each also \.gz"):
        file_format("a.jsnl.gz")
    with pytest.raises(InputError, match="without a suffix"):
        file_format("README")


def test_a_json_file_is_read_only_when_it_holds_json_lines(tmp_path: Path) -> None:
    assert file_format(write(tmp_path, "a.json", b'\xef\xbb\xbf\n{"text": 1}\n{"text": 2}\n')) == "jsonl"
    assert file_format(write(tmp_path, "long.json", '{"text": "' + "x" * 100_000 + '"}\n')) == "jsonl"
    for content in ('[\n {"text": 1}\n]\n', '{\n "text": 1\n}\n', '["a"]'):
        with pytest.raises(InputError, match="one JSON object a line"):
            file_format(write(tmp_path, "b.json", content))


def test_a_damaged_json_file_keeps_its_format_and_the_damage_is_met_in_reading(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json.gz", gzip.compress(as_jsonl(ROWS))[:-6])
    assert file_format(path) == "jsonl"
    with pytest.raises(DamagedFile, match=r"a\.json\.gz, byte \d+ of the unpacked file"):
        list(read_rows(path))
    assert file_format(tmp_path / "missing.json") == "jsonl"


# --- text ---


@pytest.mark.parametrize("suffix", [".xlsx", ".XLS", ".ods"])
def test_a_spreadsheet_s_own_file_is_told_how_it_can_be_read(suffix: str) -> None:
    with pytest.raises(InputError, match=r"is a spreadsheet; save it there as CSV \(UTF-8\), and name that file$"):
        file_format(f"reviews{suffix}")


@pytest.mark.parametrize("suffix", PACK)
def test_text_keeps_its_line_ends_however_it_is_packed(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, f"a.txt{suffix}", PACK[suffix](TEXT.encode()))
    assert "".join(read_text_blocks(path)) == TEXT


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("asked", ["utf-8", "cp1252"])
def test_a_byte_order_mark_is_removed_and_outranks_the_encoding_asked(
    tmp_path: Path, mark: bytes, encoding: str, asked: str
) -> None:
    path = write(tmp_path, "a.txt", mark + TEXT.encode(encoding))
    assert "".join(read_text_blocks(path, asked)) == TEXT
    assert "".join(read_text_blocks(write(tmp_path, "only.txt", mark), asked)) == ""


def test_other_encodings_are_read_when_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "“Café” – 5 €\r\n".encode("cp1252"))
    assert "".join(read_text_blocks(path, "cp1252")) == "“Café” – 5 €\r\n"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cp125", "; did you mean 'cp1252'?"),
        ("utf-9", "; did you mean 'utf-8'?"),
        *[
            (name, "")
            for name in ("hex", "rot13", "undefined", "punycode", "idna", "unicode_escape", "", "a\0", "\udcff")
        ],
    ],
)
def test_what_is_no_encoding_of_text_files_is_refused(tmp_path: Path, name: str, near: str) -> None:
    with pytest.raises(SettingError) as error:
        next(read_text_blocks(write(tmp_path, "a.txt", "x"), name))
    assert (
        str(error.value)
        == f"unknown encoding '{name}'{near} (common ones: utf-8, cp1252, latin-1, utf-16, cp949, cp932)"
    )


NOT_FOR_TEXT = {"base64_codec", "bz2_codec", "hex_codec", "mbcs", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}


@pytest.mark.parametrize("encoding", sorted(set(encodings.aliases.aliases.values()) - NOT_FOR_TEXT))
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_every_encoding_of_python_for_text_gives_text_or_a_fault(tmp_path: Path, encoding: str, errors: str) -> None:
    path = write(tmp_path, "a.txt", b"plain text\n \xe9\xff\x81 and what follows")
    seen, fault = read_until_fault(path, encoding=encoding, errors=errors)
    assert isinstance(fault, Undecodable) if fault else len(seen) > 5


@pytest.mark.parametrize("encoding", sorted(NOT_FOR_TEXT - ({"mbcs"} if sys.platform == "win32" else set())))
def test_every_other_encoding_of_python_is_refused(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(SettingError, match=f"unknown encoding '{encoding}'"):
        read_until_fault(write(tmp_path, "a.txt", "plain text"), encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "UTF32"])
def test_wide_text_without_its_mark_is_told_how_to_be_read(tmp_path: Path, encoding: str) -> None:
    name = codecs.lookup(encoding).name
    path = write(tmp_path, "a.txt", "some text".encode(f"{name}-be"))
    with pytest.raises(Undecodable, match=rf"a\.txt, byte 0: {name} text .*`encoding='{name}-le'`, or -be"):
        list(read_text_blocks(path, encoding))
    assert "".join(read_text_blocks(path, f"{name}-be")) == "some text"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("before", ["", "a", "plain ascii", "é", "日本" * 10])
@pytest.mark.parametrize("bad", [b"\xe9 x", b"\xff", b"\xe6\x97", b"\xc3(", b"\xed\xa0\x80"])
def test_an_undecodable_byte_is_named_with_its_offset(
    tmp_path: Path, before: str, bad: bytes, block_bytes: int
) -> None:
    path = write(tmp_path, "bad.txt", before.encode() + bad)
    seen, fault = read_until_fault(path, block_bytes=block_bytes)
    assert seen == before
    assert isinstance(fault, Undecodable)
    assert f"bad.txt, byte {len(before.encode())}: the byte 0x{bad[0]:02x} is not utf-8" in str(fault)
    assert "`encoding='cp1252'`" in str(fault)


KOREAN, JAPANESE = "리뷰,점수\n정말 재미있게 봤어요,1\n별로,0\n", "みた感想,点\nとても面白かったです,1\nつまらない,0\n"


@pytest.mark.parametrize(("text", "name", "language"), [(KOREAN, "cp949", "Korean"), (JAPANESE, "cp932", "Japanese")])
@pytest.mark.parametrize("block_bytes", [1, 3, 1 << 20])
def test_text_in_an_encoding_of_one_language_is_told_with_it(
    tmp_path: Path, text: str, name: str, language: str, block_bytes: int
) -> None:
    path = write(tmp_path, "a.txt", text.encode(name))
    _, fault = read_until_fault(path, block_bytes=block_bytes)
    told = f"it is probably {language} in {name}: say `encoding='{name}'`, or save the file as UTF-8"
    assert str(fault).endswith(told)
    with pytest.raises(Undecodable, match="header: .*" + re.escape(told)):
        list(read_rows(write(tmp_path, "a.csv", text.encode(name))))
    rows = read_rows_or_faults(write(tmp_path, "b.csv", b"text,label\n" + text.encode(name)))
    assert [str(found).endswith(told) for found in rows] == [True] * 3
    assert list(read_rows(tmp_path / "a.csv", encoding=name)) == list(
        read_rows(write(tmp_path, "c.csv", text.encode()))
    )


@pytest.mark.parametrize(
    "text",
    [
        "Ça coûte 5 € à Köln",
        "ÀÁ",
        "señor – ¿qué?",
        "don’t it’s we’re",
        "I don’t think it’s what they’ve said; we’re sure you’ll see that he’d go",
        "°é and ²é",
        "中文评论也很有意思,这部电影值得再看一遍",
    ],
)
def test_other_text_is_not_taken_for_korean(text: str) -> None:
    assert known_encoding(text.encode("gb2312" if text[0] == "中" else "cp1252")) is None


@pytest.mark.parametrize(
    ("text", "name", "language"),
    [
        ("별로", "cp949", "Korean"),
        ("이 영화 뭘 본 건지 모르겠다. 뷁, 펲시나 마실걸 그랬다", "cp949", "Korean"),  # two syllables of cp949 alone
        ("猫が好き", "cp932", "Japanese"),
        ("しかし、東京の夜は長い", "cp932", "Japanese"),
    ],
)
def test_short_text_of_one_language_is_told_with_its_encoding(text: str, name: str, language: str) -> None:
    assert known_encoding(text.encode(name)) == (name, language)


def test_an_undecodable_byte_counts_from_the_start_of_the_file_with_its_mark(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", codecs.BOM_UTF8 + b"abc\xff")
    with pytest.raises(Undecodable, match="byte 6:"):
        list(read_text_blocks(path))
    path = write(tmp_path, "b.txt", codecs.BOM_UTF16_LE + "ab".encode("utf-16-le") + b"\x00")
    with pytest.raises(Undecodable, match="byte 6: the byte 0x00 is not utf-16-le"):
        list(read_text_blocks(path))
    path = write(tmp_path, "c.txt.xz", lzma.compress(b"abc\xff"))
    with pytest.raises(Undecodable, match="byte 3 of the unpacked file: the byte 0xff"):
        list(read_text_blocks(path))


@given(text=st.text(), encoding=st.sampled_from(["utf-8", "utf-16"]), block_bytes=st.integers(1, 9))
@examples(60)
def test_the_block_size_does_not_change_the_text(tmp_path: Path, text: str, encoding: str, block_bytes: int) -> None:
    assume(not text.startswith("\0"))  # after the mark of UTF-16 it makes the mark of UTF-32
    path = write(tmp_path, "a.txt", text.encode(encoding))
    expected = text if encoding == "utf-16" else text.removeprefix("\ufeff")  # Python's UTF-16 writes a mark itself
    assert "".join(read_text_blocks(path, encoding, block_bytes)) == expected


@given(
    text=st.text(alphabet="ab\r\n\u2028\x0b"), cut=st.integers(1, 5), longest=st.one_of(st.none(), st.integers(1, 4))
)
def test_lines_are_those_of_python_however_the_blocks_fall(text: str, cut: int, longest: int | None) -> None:
    blocks = [text[at : at + cut] for at in range(0, len(text), cut)]
    found = list(lines(blocks, longest))
    expected = list(io.StringIO(text, newline=""))
    if longest is None:
        assert found == expected
    joined, rest = [], ""
    for line in found:
        rest += line
        if line.endswith(("\r", "\n")):
            joined.append(rest)
            rest = ""
    assert joined + [rest] * bool(rest) == expected


# --- rows ---


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("suffix", TABLES)
def test_every_table_gives_the_same_rows_however_it_is_packed(tmp_path: Path, suffix: str, packing: str) -> None:
    path = write(tmp_path, f"t{suffix}{packing}", PACK[packing](TABLES[suffix]))
    first = 2 if suffix in (".csv", ".tsv") else 1  # the header is row 1, as in a spreadsheet
    assert list(read_rows(path)) == [(first, ROWS[0]), (first + 1, ROWS[1])]


@pytest.mark.parametrize("suffix", TABLES)
def test_a_table_cut_short_is_damage_even_when_row_faults_are_taken(tmp_path: Path, suffix: str) -> None:
    packed = gzip.compress(TABLES[suffix])
    if suffix == ".json":
        suffix = ".jsonl"  # naming it .json would have it looked into before
    path = write(tmp_path, f"t{suffix}.gz", packed[:-6])
    with pytest.raises(DamagedFile, match=r"t\.\w+\.gz, byte \d+"):
        list(read_rows_or_faults(path))


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, "t.parquet", TABLES[".parquet"][:cut])
    with pytest.raises(DamagedFile, match=r"t\.parquet, row 1: the parquet file is damaged"):
        list(read_rows(path))


def test_a_text_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is a text, not a table"):
        list(read_rows(write(tmp_path, "a.txt", "x")))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_as_excel_writes_it_is_read(tmp_path: Path, delimiter: str) -> None:
    content = as_csv(ROWS, delimiter).decode()
    assert content.count("\r\n") == 4
    path = write(tmp_path, "t.csv", codecs.BOM_UTF8 + content.encode())
    assert [row for _, row in read_rows(path)] == ROWS
    path = write(tmp_path, "old.csv", content.encode("cp1252"))
    assert [row for _, row in read_rows(path, encoding="cp1252")] == ROWS
    path = write(tmp_path, "wide.csv", codecs.BOM_UTF16_LE + content.encode("utf-16-le"))
    assert [row for _, row in read_rows(path)] == ROWS


def test_the_delimiter_is_looked_for_outside_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", '"a,b,c";d\n1;2,5\n')
    assert list(read_rows(path)) == [(2, {"a,b,c": "1", "d": "2,5"})]


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        ("Kommentar, frei;Note", "gut, oder nicht;1,5", ["Kommentar, frei", "Note"]),
        ("kommentar;0,5", "kalt;0,25", ["kommentar", "0,5"]),
        ("text,label,why; in your own words", "fine,1,so it is", ["text", "label", "why; in your own words"]),
        ("text,note; short,label", '"so, so",x,1', ["text", "note; short", "label"]),
        ("a|b,c|d", "1|2|3", ["a", "b,c", "d"]),
    ],
)
def test_the_delimiter_parts_rows_as_it_parts_the_header(
    tmp_path: Path, header: str, row: str, columns: list[str]
) -> None:
    path = write(tmp_path, "t.csv", f"\n{header}\n\n{row}\n{row}\n")
    assert [list(cells) for _, cells in read_rows(path)] == [columns] * 2
    form = cell_form(path)
    assert form is not None
    assert next(csv.reader([header], delimiter=form.delimiter)) == columns


def test_damage_beyond_the_first_rows_does_not_keep_them_from_being_read(tmp_path: Path) -> None:
    content = gzip.compress(b"text;a,b\n" + b"".join(b"fine %d;1\n" % n for n in range(20_000)))
    found = read_rows(write(tmp_path, "t.csv.gz", content[: len(content) // 2]))
    assert next(found) == (2, {"text": "fine 0", "a,b": "1"})


def test_a_tsv_is_split_at_tabs_only(tmp_path: Path) -> None:
    path = write(tmp_path, "t.tsv", "a,b,c\td\n1,2,3\t4\n")
    assert list(read_rows(path)) == [(2, {"a,b,c": "1,2,3", "d": "4"})]


def test_empty_lines_of_a_csv_are_no_rows_and_are_counted_as_a_spreadsheet_counts_them(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "\n\na,b\n\n1,2\n\n\n3,4\n")
    assert list(read_rows(path)) == [(5, {"a": "1", "b": "2"}), (8, {"a": "3", "b": "4"})]
    assert list(read_rows(write(tmp_path, "empty.csv", ""))) == []
    assert list(read_rows(write(tmp_path, "header.csv", "a,b\n"))) == []


def test_rows_with_too_many_or_too_few_cells_are_faults_and_reading_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "a,b\n1,2\n1,2,3\n1\n3,4\n")
    rows, faults = rows_of(path)
    assert [number for number, _ in rows] == [2, 5]
    assert [fault.position for fault in faults] == ["row 3", "row 4"]
    assert "t.csv, row 3: 3 cells where the header has 2; a cell that holds ','" in str(faults[0])
    with pytest.raises(BadRow, match="row 3"):
        list(read_rows(path))


def test_a_quote_that_is_never_closed_is_a_fault_naming_its_row(tmp_path: Path) -> None:
    rows, faults = rows_of(write(tmp_path, "t.csv", 'a,b\n1,2\n3,"4\n5,6\n'))
    assert rows == [(2, {"a": "1", "b": "2"})]
    assert [fault.position for fault in faults] == ["row 3"]
    assert "the quotes do not match, up to line 4" in str(faults[0])


def test_text_after_a_closing_quote_costs_that_row_only(tmp_path: Path) -> None:
    rows, faults = rows_of(write(tmp_path, "t.csv", 'a,b\n1,"2"x\n3,4\n'))
    assert rows == [(3, {"a": "3", "b": "4"})]
    assert [fault.position for fault in faults] == ["row 2"]


def test_a_header_with_equal_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match=r"t\.csv, header: two columns are named 'a'"):
        rows_of(write(tmp_path, "t.csv", "a,b,a\n1,2,3\n"))


def test_a_column_without_a_name_is_called_by_its_number(tmp_path: Path) -> None:
    rows, _ = rows_of(write(tmp_path, "t.csv", ',text," "\n0,hello,x\n'))
    assert rows == [(2, {"column 1": "0", "text": "hello", "column 3": "x"})]


def test_a_cell_of_tens_of_megabytes_is_read_and_pythons_limit_is_left_alone(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    path = write(tmp_path, "t.csv", 'a,b\n"' + "line\n" * 6_000_000 + '",2\n')
    rows = read_rows(path)
    _, row = next(rows)
    assert len(row["a"]) == 30_000_000
    assert csv.field_size_limit() == limit
    rows.close()


def test_undecodable_bytes_cost_only_the_row_they_stand_in(tmp_path: Path) -> None:
    rows, faults = rows_of(write(tmp_path, "t.csv", b"a,b\n1,caf\xe9\n2,ok\n"))
    assert rows == [(3, {"a": "2", "b": "ok"})]
    assert isinstance(faults[0], Undecodable)
    assert "row 2: the byte 0xe9 is not utf-8" in str(faults[0])
    rows, faults = rows_of(write(tmp_path, "t.jsonl", b'{"a": "caf\xe9"}\n{"a": "ok"}\n'))
    assert rows == [(2, {"a": "ok"})]
    assert "line 1: the byte 0xe9 is not utf-8" in str(faults[0])
    with pytest.raises(Undecodable, match="header"):
        rows_of(write(tmp_path, "h.csv", b"caf\xe9,b\n1,2\n"))


def test_bad_lines_of_jsonl_are_faults_naming_line_and_column(tmp_path: Path) -> None:
    good = '{"a": 1}'
    path = write(tmp_path, "t.jsonl", f'{good}\r\n\n  \n{{"a": tru}}\n[1]\n"x"\n{"[" * 100_000}\n{"1" * 5000}\n{good}')
    rows, faults = rows_of(path)
    assert rows == [(1, {"a": 1}), (9, {"a": 1})]
    places = [fault.position for fault in faults]
    assert places == ["line 4, column 7", "line 5", "line 6", "line 7", "line 8"]
    assert "t.jsonl, line 4, column 7: the line is not JSON (Expecting value); write one whole {...} a line" in str(
        faults[0]
    )
    assert "no JSON object" in str(faults[1])
    assert {fault.reason for fault in faults} == {"bad-row"}


@pytest.mark.parametrize(
    ("line", "what"),
    [('{"a": "x\ty"}', "Invalid control character"), ('{"a": "x', "Unterminated string")],
)
def test_a_fault_of_json_names_its_place_once(tmp_path: Path, line: str, what: str) -> None:
    _, (fault,) = rows_of(write(tmp_path, "t.jsonl", line))
    assert f"the line is not JSON ({what});" in str(fault)


def test_a_message_about_a_name_that_is_no_text_can_be_written_as_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    try:
        path = write(tmp_path, name, b"\xff")
    except OSError:
        pytest.skip("this file system takes no such names")
    with pytest.raises(Undecodable, match=r"caf\\udce9\.txt, byte 0") as error:
        list(read_text_blocks(path))
    assert str(error.value).encode()


@pytest.fixture
def far_dates(tmp_path: Path) -> Path:
    days = pa.array([0, 10_000_000, 1], pa.int32()).cast(pa.date32())  # the second is after the year 9999
    parquet.write_table(pa.table({"day": days, "text": ["one", "two", "three"]}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_a_value_of_parquet_that_python_cannot_hold_costs_its_row_and_names_its_column(far_dates: Path) -> None:
    rows, (fault,) = rows_of(far_dates)
    assert [(number, row["text"]) for number, row in rows] == [(1, "one"), (3, "three")]
    assert isinstance(fault, BadRow)
    assert "t.parquet, row 2: the value in column 'day' cannot be read (" in str(fault)


def test_of_a_parquet_file_one_column_may_be_read_alone(far_dates: Path) -> None:
    rows, faults = rows_of(far_dates, column="text")
    assert [row for _, row in rows] == [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    assert not faults
    rows, _ = rows_of(far_dates, column="txt")
    assert list(rows[0][1]) == ["day", "text"]


def test_bad_text_in_parquet_costs_only_its_row(tmp_path: Path) -> None:
    values = pa.array([b"one", b"caf\xe9", b"three"], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 3, values.buffers())
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"text": column}), path)
    rows, faults = rows_of(path)
    assert rows == [(1, {"text": "one"}), (3, {"text": "three"})]
    assert [fault.position for fault in faults] == ["row 2"]


def test_parquet_rows_are_numbered_across_batches_and_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"n": list(range(1, 1001))}), path, row_group_size=300)
    assert all(number == row["n"] for number, row in read_rows(path))
    assert len(list(read_rows(path))) == 1000


@given(st.lists(st.fixed_dictionaries({"a": st.text(), "b": st.text(min_size=1)}), min_size=1))
@examples(50)
def test_what_pythons_csv_and_json_write_comes_back(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    path = write(tmp_path, "t.csv", codecs.BOM_UTF8 + as_csv(rows))
    assert [row for _, row in read_rows(path)] == rows
    assert [row for _, row in read_rows(write(tmp_path, "t.jsonl", as_jsonl(rows)))] == rows


# --- what is too large ---


def read_in_a_process(path: Path) -> tuple[int, list[str]]:
    """Return the most memory, in megabytes, that reading a table took, and what was found: rows, then faults."""
    script = """
import re, sys
from pathlib import Path
from gpt1.base import tables
from gpt1.base.errors import FileError
from gpt1.base.tables import read_rows_or_faults
tables.LONGEST_RECORD = 1 << 22
try:
    for found in read_rows_or_faults(sys.argv[1]):
        print(found if isinstance(found, FileError) else f"row {found[0]}")
except FileError as fault:
    print(fault)
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    *told, memory = done.stdout.splitlines()
    return int(memory) // 1000, told


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak memory")
@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("t.csv.gz", b"text,label\nok,1\n", b",2\nok,1\n", ["row 2", "row 3: more", "row 4"]),
        ("t.csv.bz2", b"text", b",label\nok,1\n", ["header: more"]),
        ("t.tsv.xz", b'text\tlabel\nok\t1\nx\t"', b"\n", ["row 2", "row 3: more"]),
        ("t.jsonl.zst", b'{"text": "ok"}\n{"text": "', b'"}\n{"text": "ok"}\n', ["row 1", "line 2: more", "row 3"]),
    ],
)
def test_a_small_archive_of_one_huge_row_takes_little_memory_and_names_the_row(
    tmp_path: Path, name: str, before: bytes, after: bytes, told: list[str]
) -> None:
    pack = PACK[Path(name).suffix]
    memory, found = read_in_a_process(write(tmp_path, name, pack(before) + 300 * pack(b"a" * 1_000_000) + pack(after)))
    assert len(found) == len(told)
    assert all(said in line for said, line in zip(told, found, strict=True))
    assert memory < 250


@pytest.fixture
def short_records(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows may have no more than so many characters."""
    monkeypatch.setattr(tables, "LONGEST_RECORD", 10_000)
    return 10_000


def test_a_quote_that_is_not_closed_costs_no_more_than_the_longest_row(tmp_path: Path, short_records: int) -> None:
    good = "".join(f"{number},text\n" for number in range(5000))
    rows, faults = rows_of(write(tmp_path, "t.csv", f'n,text\n0,ok\n1,"open\n{good}'))
    (fault,) = faults
    assert str(fault).startswith(
        f"{tmp_path}/t.csv, row 3: more than 10,000 characters, the most that a row may have; "
    )
    assert re.search(r"is a quote opened and not closed before line \d+\? cut it into several rows", str(fault))
    assert rows[0] == (2, {"n": "0", "text": "ok"})
    read = [int(row["n"]) for _, row in rows[1:]]
    assert read == list(range(read[0], 5000))
    assert sum(len(f"{number},text\n") for number in range(read[0])) < short_records + 100


def test_a_row_of_the_longest_length_is_read_and_one_beyond_it_is_not(tmp_path: Path, short_records: int) -> None:
    for name, empty in (("t.jsonl", '{"a": ""}\n'), ("t.csv", ',""\n')):
        head, tail = empty[:-3], empty[-3:]
        longest = head + "x" * (short_records - len(empty)) + tail
        beyond = head + "x" * (short_records - len(empty) + 1) + tail
        opening = "" if name == "t.jsonl" else "b,a\n"
        rows, faults = rows_of(write(tmp_path, name, opening + longest + beyond + longest))
        assert [number for number, _ in rows] == ([1, 3] if name == "t.jsonl" else [2, 4])
        assert [fault.position for fault in faults] == ["line 2" if name == "t.jsonl" else "row 3"]


def test_long_cells_of_parquet_are_faults_naming_their_row(tmp_path: Path, short_records: int) -> None:
    texts = ["ok", "x" * (short_records + 1), "ok too"]
    parquet.write_table(pa.table({"text": texts * 3}), tmp_path / "t.parquet")
    rows, faults = rows_of(tmp_path / "t.parquet")
    assert [number for number, _ in rows] == [1, 3, 4, 6, 7, 9]
    assert [fault.position for fault in faults] == ["row 2", "row 5", "row 8"]
    assert "more than 10,000 characters" in str(faults[0])


def test_parquet_rows_that_are_long_throughout_are_refused_before_they_are_unpacked(
    tmp_path: Path, short_records: int
) -> None:
    texts = [str(number) * (5 * short_records) for number in range(9)]
    parquet.write_table(pa.table({"text": texts}), tmp_path / "t.parquet", compression="zstd")
    with pytest.raises(BadRow, match=r"t\.parquet, rows from 1 on: more than 10,000 characters"):
        rows_of(tmp_path / "t.parquet")


def test_a_dictionary_of_parquet_is_not_multiplied(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 128), pa.array(["x" * 10_000_000]))
    parquet.write_table(pa.table({"text": column}), tmp_path / "t.parquet")
    tracemalloc.start()
    try:
        assert sum(len(row["text"]) for _, row in read_rows(tmp_path / "t.parquet")) == 1_280_000_000
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cell", ['"' + '""' * 500_000 + '"', '"' + "a\0b" * 1000 + '"', '"' + "y" * 1_000_000 + '"'])
def test_a_million_quotes_nul_bytes_and_a_huge_cell_are_read_as_they_are(tmp_path: Path, cell: str) -> None:
    rows, faults = rows_of(write(tmp_path, "t.csv", f"text,label\n{cell},1\nok,2\n"))
    assert not faults
    assert [row["text"] for _, row in rows] == [cell[1:-1].replace('""', '"'), "ok"]


class CountedName(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


def test_the_header_of_a_wide_table_is_looked_at_once_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [CountedName(f"column-{number}") for number in range(MOST_COLUMNS)]
    monkeypatch.setattr(tables, "_next_record", lambda records: names)
    assert tables._header("t.csv", None, "utf-8") == names
    assert CountedName.compared < 100 * MOST_COLUMNS


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_a_table_as_wide_as_may_be_is_read_and_a_wider_one_refused(tmp_path: Path, delimiter: str) -> None:
    suffix = ".csv" if delimiter == "," else ".tsv"

    def wide(columns: int) -> Path:
        content = delimiter.join(f"c{n}" for n in range(columns)) + "\n" + delimiter.join("x" * columns) + "\n"
        return write(tmp_path, f"t{suffix}", content)

    ((_, row),) = read_rows(wide(MOST_COLUMNS))
    assert len(row) == MOST_COLUMNS
    with pytest.raises(BadRow, match="header: 100,000 columns where a table may have 10,000; keep those with texts"):
        rows_of(wide(100_000))


def test_equal_names_and_keys_are_refused_whatever_the_format(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array(["one"]), pa.array(["two"])], names=["text", "text"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    for column in (None, "text"):
        with pytest.raises(BadRow, match=r"t\.parquet, header: two columns are named 'text'; rename one"):
            rows_of(tmp_path / "t.parquet", column=column)
    with pytest.raises(BadRow, match=r"t\.tsv, header: two columns are named 'text'; rename one"):
        rows_of(write(tmp_path, "t.tsv", "text\ttext\none\ttwo\n"))
    rows, (fault,) = rows_of(write(tmp_path, "t.jsonl", '{"text": "one", "text": "two"}\n{"text": "three"}\n'))
    assert rows == [(2, {"text": "three"})]
    assert "t.jsonl, line 1: the key 'text' stands twice in one {...}; keep one of them" in str(fault)


def test_faults_come_one_by_one_and_are_not_held(tmp_path: Path) -> None:
    path = write(tmp_path, "t.jsonl", "no json\n" * 5000)
    tracemalloc.start()
    try:
        assert sum(isinstance(found, BadRow) for found in read_rows_or_faults(path)) == 5000
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


def test_a_fault_found_by_another_process_arrives_whole() -> None:
    fault = BadRow("rows.jsonl", "line 7", "it is not JSON")
    arrived = pickle.loads(pickle.dumps(fault))
    assert (type(arrived), str(arrived), arrived.position) == (BadRow, str(fault), "line 7")


def test_a_line_of_a_text_may_be_as_long_as_a_row(tmp_path: Path, short_records: int) -> None:
    path = write(tmp_path, "t.txt", f"ok\n{'a' * (short_records - 1)}\n{'b' * (short_records + 1)}\nok\n")
    read = lines_of(path)
    assert [len(next(read)) for _ in range(2)] == [3, short_records]
    with pytest.raises(BadRow, match=r"t\.txt, line 3: more than 10,000 characters"):
        next(read)
