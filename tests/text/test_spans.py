"""Words as a person reads them, with their places in the text as it stands, and the tokens of each."""

from __future__ import annotations

import pytest

from gpt1.text.spans import Span, owners, without, word_spans
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Don't; well-known!!", ["Don't", ";", "well-known", "!!"]),
        ("it cost £3.50, or 1,000.", ["it", "cost", "£", "3.50", ",", "or", "1,000", "."]),
        ("'Tis -- so", ["'", "Tis", "--", "so"]),
        ("Cafe\u0301 naïve Köln", ["Cafe\u0301", "naïve", "Köln"]),
        ("हिन्दी है।", ["हिन्दी", "है", "।"]),
        ("good👍🏽 👨‍👩‍👧!", ["good", "👍🏽", "👨‍👩‍👧", "!"]),
        ("好看の映画", ["好", "看", "の", "映", "画"]),
        ("한국어 영화", ["한국어", "영화"]),
        (" \n\t", []),
    ],
)
def test_letters_with_what_joins_them_signs_and_symbols_are_words_of_their_own(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


@pytest.mark.parametrize(
    ("text", "word", "left"),
    [
        ("a not good one", "not", "a good one"),
        ("not good", "not", "good"),
        ("so good", "good", "so"),
        ("good!", "good", "!"),
        ("(not) so", "not", "() so"),
        ("a\nnot good", "not", "a\ngood"),
        ("alone", "alone", ""),
    ],
)
def test_a_word_is_taken_out_with_a_blank_beside_it(text: str, word: str, left: str) -> None:
    start = text.index(word)
    assert without(text, Span(start, start + len(word))) == left


TEXTS = (
    "Ann couldn't find 3 apples -- at last.",
    "  Mr. Brown (torn) lost “nothing” … 10 a.m.\n\nSo!  ",
    "The WELL-KNOWN map, £5.50; caf\u00e9 &amp; 👍🏽 好看",
    "U.S. : ) x",
)


@pytest.mark.parametrize("kind", ["words_tokenizer", "bytes_tokenizer"])
@pytest.mark.parametrize("text", [*TEXTS, make_text(30, seed=3)])
def test_every_token_has_a_word_and_words_have_theirs_in_order(
    text: str, kind: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    spans, ids = word_spans(text), tokenizer.encode(text)
    whose = owners(tokenizer, text, spans, len(ids))
    assert len(whose) == len(ids)
    assert whose == sorted(whose)
    assert set(whose) <= set(range(len(spans) + 1))
    assert owners(tokenizer, text, spans, 5) == whose[:5]


def test_tokens_of_bytes_lie_where_their_words_stand(bytes_tokenizer: Tokenizer) -> None:
    for text in (*TEXTS, make_text(30, seed=4)):
        spans, ids = word_spans(text), bytes_tokenizer.encode(text)
        whose = owners(bytes_tokenizer, text, spans, len(ids))
        ends = [*(span.end for span in spans), len(text)]
        for word in range(len(spans)):
            told = bytes_tokenizer.decode([id for id, own in zip(ids, whose, strict=True) if own == word])
            assert told == text[ends[word - 1] if word else 0 : ends[word]]


def test_a_word_that_is_encoded_otherwise_beside_others_keeps_its_neighbours_theirs(words_tokenizer: Tokenizer) -> None:
    text = "somebody lost Mr. Brown"  # of which the tokenizer reads 'mr.' as one word
    spans = word_spans(text)
    assert [text[start:end] for start, end in spans] == ["somebody", "lost", "Mr", ".", "Brown"]
    ids = words_tokenizer.encode(text)
    whose = owners(words_tokenizer, text, spans, len(ids))
    for word in ("somebody", "lost", "Brown"):
        own = [id for id, at in zip(ids, whose, strict=True) if text[slice(*spans[at])] == word]
        assert words_tokenizer.decode(own) == word.lower()
