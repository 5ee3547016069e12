"""Answered rows on their way out: JSON lines, csv and tsv that other programs read back."""

from __future__ import annotations

import datetime
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.base.tables import read_rows
from gpt1.inference.rows import json_line, stream_chunks, write_rows
from gpt1.tasks.examples import Row

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
    monkeypatch.setattr("gpt1.inference.rows.CHUNK", 2)
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


@pytest.mark.parametrize("name", ["out.txt", "out", "out.csv.gz", "out.parquet"])
def test_a_name_that_does_not_say_how_to_write_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=r"name that ends in \.jsonl, \.csv, \.tsv"):
        write_rows(iter([]), tmp_path / name, ADDED)


def test_a_line_of_many_blocks_is_put_together_once() -> None:
    class Trickle:
        """Gives a byte at a time."""

        def __init__(self, content: bytes) -> None:
            self.content = list(content)

        def read1(self, size: int, /) -> bytes:
            return bytes([self.content.pop(0)]) if self.content else b""

    chunks = list(stream_chunks(Trickle(b'{"a": "\xc3\xa9"}\n\n{"b": 2}')))
    assert [[(found.number, found.cells) for found in chunk] for chunk in chunks] == [  # type: ignore[union-attr]
        [(1, {"a": "é"})],
        [(3, {"b": 2})],
    ]


class Blocks:
    """A stream of blocks as they arrive."""

    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = iter(blocks)

    def read1(self, size: int, /) -> bytes:
        return next(self._blocks, b"")


def test_a_line_without_an_end_is_not_held_and_those_around_it_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.inference.rows._LONGEST_BYTES", 1000)
    blocks = [b'{"a": 1}\n{"a": "', *[b"x" * 500] * 2000, b'"}\n{"a": 2}\n']
    tracemalloc.start()
    try:
        found = [one for chunk in stream_chunks(Blocks(blocks)) for one in chunk]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    first, fault, last = found
    assert isinstance(first, Row)
    assert isinstance(last, Row)
    assert (first.number, last.number, last.cells) == (1, 3, {"a": 2})
    assert "standard input, line 2: more than 33,554,432 characters" in str(fault)


def test_a_key_that_stands_twice_and_bytes_that_are_no_text_are_faults_of_their_lines() -> None:
    (found,) = stream_chunks(Blocks([b'{"a": 1, "a": 2}\n{"a": "caf\xe9"}\n{"a": 3}\n']))
    twice, undecodable, row = found
    assert "standard input, line 1: the key 'a' stands twice" in str(twice)
    assert "standard input, line 2: the byte 0xe9 is not utf-8 text" in str(undecodable)
    assert isinstance(row, Row)
