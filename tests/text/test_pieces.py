"""How a long text is cut: nothing is lost, and how it arrived does not matter."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.text.pieces import LIMIT, pieces
from tests.properties import examples
from tests.text.test_words import literal_pieces

TEXTS = st.text("ab \n\r\u00a0é", max_size=60)


@given(st.lists(TEXTS, max_size=6), st.integers(1, 30))
@examples(1000)
def test_pieces_joined_are_the_text_and_each_keeps_the_limit(blocks: list[str], limit: int) -> None:
    found = list(pieces(blocks, limit))
    assert "".join(found) == "".join(blocks)
    assert all(0 < len(piece) <= limit for piece in found)


@given(TEXTS, st.integers(1, 30))
@examples(1000)
def test_the_cut_is_the_one_the_rule_says(text: str, limit: int) -> None:
    assert list(pieces([text], limit)) == (literal_pieces(text, limit) if text else [])


@given(TEXTS, st.lists(st.integers(0, 60), max_size=8), st.integers(1, 30))
@examples(1000)
def test_where_blocks_end_changes_nothing(text: str, cuts: list[int], limit: int) -> None:
    places = [0, *sorted(cuts), len(text)]
    blocks = [text[start:end] for start, end in pairwise(places)]
    assert list(pieces(blocks, limit)) == list(pieces([text], limit))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab cd\nef gh", ["ab cd\n", "ef gh"]),
        ("ab cd ef gh", ["ab cd ", "ef gh"]),
        ("abcdefghij", ["abcdefgh", "ij"]),
        ("abcdefg\nij", ["abcdefg\n", "ij"]),
        ("abcdefgh\nj", ["abcdefgh", "\nj"]),
        ("abcdefgh", ["abcdefgh"]),
        ("", []),
    ],
)
def test_a_cut_is_after_the_last_newline_else_the_last_blank_else_at_the_limit(text: str, expected: list[str]) -> None:
    assert list(pieces([text], 8)) == expected


def test_the_limit_is_a_million_characters() -> None:
    assert LIMIT == 1_000_000
    assert [len(piece) for piece in pieces(["a" * 2_500_000])] == [1_000_000, 1_000_000, 500_000]
