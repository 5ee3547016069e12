"""The `bytes` kind: every valid string comes back exactly, and nothing is unknown."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from gpt1.base.errors import FormatError, InputError
from gpt1.text import pieces
from gpt1.text import tokenizer as tokenizer_module
from gpt1.text.bytes import BYTES, ByteRules, layout
from gpt1.text.tokenizer import Tokenizer
from tests.properties import examples
from tests.text.tools import ANY_TEXT, AWKWARD, BLANKS, LINES, MIXTURES


@given(ANY_TEXT | MIXTURES | LINES)
@examples(1500)
def test_every_text_comes_back_exactly(bytes_tokenizer: Tokenizer, text: str) -> None:
    ids = bytes_tokenizer.encode(text)
    assert bytes_tokenizer.decode(ids) == text
    assert all(0 <= id < bytes_tokenizer.vocab_size for id in ids)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "".join(map(chr, range(0x250))),
        "".join(map(chr, range(0xD000, 0xD800))) + "".join(map(chr, range(0xE000, 0xE100))),
        "\U0010ffff\ufeff\ufffe\uffff",
        "\r\n\r\n \t\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028",
        *AWKWARD,
        *BLANKS,
        "<start><delimiter><extract></w><unk>",
        " " * 10_000 + "\n" * 10_000,
        "Case Is KEPT, “so” are &amp; quotes — and…",
    ],
)
def test_awkward_text_comes_back_exactly(bytes_tokenizer: Tokenizer, text: str) -> None:
    assert bytes_tokenizer.decode(bytes_tokenizer.encode(text)) == text


@given(st.lists(ANY_TEXT | MIXTURES, max_size=4), st.integers(1, 20))
@examples(300)
def test_long_texts_come_back_exactly(bytes_tokenizer: Tokenizer, texts: list[str], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "LIMIT", limit)
        patch.setattr(tokenizer_module, "pieces", partial(pieces.pieces, limit=limit))
        batch = bytes_tokenizer.encode_batch(texts)
        assert [bytes_tokenizer.decode(ids) for ids in batch] == texts
        assert batch == [bytes_tokenizer.encode(text) for text in texts]


def test_a_text_over_a_million_characters_comes_back_exactly(bytes_tokenizer: Tokenizer) -> None:
    text = "Ab é\n\n" * 200_000
    assert bytes_tokenizer.decode(bytes_tokenizer.encode(text)) == text


def test_a_lone_surrogate_is_an_error_that_tells_its_place(bytes_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"character 1 .*U\+DC80"):
        bytes_tokenizer.encode_batch(["fine", "a\udc80"])


def test_half_a_character_is_shown_as_unreadable(bytes_tokenizer: Tokenizer) -> None:
    ids = bytes_tokenizer.encode("中")
    assert bytes_tokenizer.decode(ids[:-1]) == "\ufffd"


def test_merging_shortens_familiar_text(bytes_tokenizer: Tokenizer) -> None:
    text = "the old sailor couldn't find her brother's hat"
    assert len(bytes_tokenizer.encode(text)) < len(text) / 2


def test_the_signs_for_bytes_are_those_of_the_library() -> None:
    assert sorted(BYTES) == sorted(ByteLevel.alphabet())
    # The library spells a character by its bytes; every byte that occurs in UTF-8 is seen in some character.
    for text in [*map(chr, range(0x80)), "\x80", "¿", "é", "߿", "ࠀ", "\uffff", "\U00010000", "\U0010ffff"]:
        ((spelling, _),) = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert spelling == "".join(BYTES[byte] for byte in text.encode())


def test_the_first_ids_are_the_bytes(bytes_tokenizer: Tokenizer) -> None:
    vocabulary = bytes_tokenizer.vocabulary
    assert list(vocabulary.tokens) == layout(vocabulary.merges)
    assert [bytes_tokenizer.encode(chr(code)) for code in range(128)] == [[code] for code in range(128)]
    assert bytes_tokenizer.newline_id == bytes_tokenizer.encode("\n")[0]
    assert bytes_tokenizer.unknown_id is None


def test_a_vocabulary_that_is_not_bytes_and_merges_is_refused() -> None:
    for tokens, merges in ([], []), (BYTES[1:], []), ([*BYTES, "ab"], []), (BYTES, [("a", "b")]), (BYTES[::-1], []):
        with pytest.raises(FormatError, match="256 bytes"):
            ByteRules(tokens, merges)
