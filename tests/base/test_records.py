"""Checksums of records and of lines: whichever bit is turned over, the file is refused or means the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError
from gpt1.base.files import line_bytes, parse_line, read_record, read_sealed, write_json, write_lines, write_record
from gpt1.base.records import SEAL, sealed, unsealed

RECORD: dict[str, Any] = {"format": "gpt1-thing", "ü": [1, 2.5e-7, None, True], "of": {"7": "\udc80", "x": -0.1}}


def refusal(read: Callable[[], Any]) -> str | None:
    """Return why something is refused; what is not refused must be the record."""
    try:
        assert read() == RECORD
    except FormatError as error:
        return str(error)
    return None


def turned(content: bytes) -> list[bytes]:
    """Return a content with each of its bits turned over."""
    return [
        content[:byte] + bytes([content[byte] ^ (1 << bit)]) + content[byte + 1 :]
        for byte in range(len(content))
        for bit in range(8)
    ]


def test_a_record_is_read_without_its_checksum(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", RECORD)
    assert list(json.loads((tmp_path / "a.json").read_bytes())) == [*RECORD, SEAL]
    assert read_sealed(tmp_path / "a.json", "a thing") == RECORD
    assert read_record(tmp_path / "a.json", "a thing", dict[str, Any]) == RECORD


def test_every_bit_of_a_record_is_vouched_for(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record(path, RECORD)
    for content in turned(path.read_bytes()):
        path.write_bytes(content)
        said = refusal(lambda: read_sealed(path, "a thing", "make it anew"))
        assert said is None or (str(path) in said and said.endswith("; make it anew"))


def test_a_record_without_a_checksum_was_made_before(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", RECORD)
    assert read_sealed(tmp_path / "a.json", "a thing") == RECORD
    assert unsealed({}, "nothing") == {}


def test_a_checksum_whose_own_name_is_damaged_is_not_taken_for_a_fact() -> None:
    found = sealed(RECORD)
    with pytest.raises(FormatError, match=r"a.json is damaged: it does not match its checksum; make it anew"):
        unsealed({**RECORD, "sha257": found[SEAL]}, "a.json", "make it anew")


def test_numbers_that_json_does_not_have_and_keys_that_are_none_match_when_they_are_read(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", {"loss": float("nan"), "by_step": {10: 1, 9: (2, 3)}})
    assert read_sealed(tmp_path / "a.json", "a thing") == {"loss": None, "by_step": {"10": 1, "9": [2, 3]}}


def test_every_bit_of_a_line_is_vouched_for(tmp_path: Path) -> None:
    line = line_bytes(RECORD)
    assert parse_line(line, tmp_path / "a.jsonl", 3) == RECORD
    for content in turned(line):
        said = refusal(lambda content=content: parse_line(content, tmp_path / "a.jsonl", 3, "make it anew"))
        assert said is None or ("a.jsonl, line 3" in said and said.endswith("; make it anew"))


def test_lines_are_written_with_checksums_and_those_without_were_made_before(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [RECORD, {}])
    lines = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert [list(json.loads(line)) for line in lines] == [[*RECORD, "crc32"], ["crc32"]]
    assert parse_line(b'{"step": 1}\n', tmp_path / "a.jsonl", 1) == {"step": 1}


@pytest.mark.parametrize("torn", [b"", b"{", b'{"step": 1, "te', '{"text": "ü'.encode()[:-1], b"\x00\x00"])
def test_a_line_that_is_only_begun_is_none(tmp_path: Path, torn: bytes) -> None:
    assert parse_line(torn, tmp_path / "a.jsonl", 1) is None
