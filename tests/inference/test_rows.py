"""Rows on their way in: streams of JSON lines, whatever their blocks and lengths."""

from __future__ import annotations

import tracemalloc

import pytest

from gpt1.inference.rows import stream_chunks
from gpt1.tasks.examples import Row


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
