"""Characters in parts are told from whole ones, and from signs that have no whole."""

from __future__ import annotations

import unicodedata

import pytest

from gpt1.text.normal_form import is_in_parts
from gpt1.text.tokenizer import Tokenizer

KOREAN = "정말 재미있다"


@pytest.mark.parametrize("text", [KOREAN, "Ça va à Orléans", "이ㅋㅋㅋ ㅠㅠ", "", "plain", "Å K Ω", "q̃ has no whole"])
def test_whole_characters_and_those_that_have_no_whole_are_not_in_parts(text: str) -> None:
    assert not is_in_parts(text)


@pytest.mark.parametrize("text", [KOREAN, "Ça va", "が"])
def test_characters_in_parts_are_seen(text: str) -> None:
    assert is_in_parts(unicodedata.normalize("NFD", text))
    assert is_in_parts("plain " * 1000 + unicodedata.normalize("NFD", text))


def test_a_tokenizer_of_words_joins_parts_and_one_of_bytes_does_not(
    words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    whole = f"{KOREAN} café"
    parts = unicodedata.normalize("NFD", whole)
    assert words_tokenizer.encode(parts) == words_tokenizer.encode(whole)
    assert len(bytes_tokenizer.encode(parts)) > 2 * len(bytes_tokenizer.encode(whole))
    assert bytes_tokenizer.decode(bytes_tokenizer.encode(parts)) == parts
