"""Hashed words against a plain reading of the rules."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpt1.inspection.word_hashes import hash_words

TEXTS = st.lists(st.text(st.sampled_from("abAÉé' .,\n\t-—’“”_0"), max_size=40), max_size=6)


def plain_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9é]+", re.sub("['’“”]", lambda mark: "" if mark[0] in "'’" else " ", text.lower()))


@given(TEXTS)
def test_words_are_runs_of_letters_and_digits_without_apostrophes(texts: list[str]) -> None:
    words = hash_words(texts)
    expected = [plain_words(text) for text in texts]
    assert words.ends.tolist() == np.cumsum([len(own) for own in expected]).tolist()
    flat = [word for own in expected for word in own]
    assert words.spell(0, len(flat)) == " ".join(flat)
    assert len(set(words.hashes.tolist())) == len(set(flat))


@given(TEXTS, st.integers(1, 4))
def test_runs_lie_in_one_text_and_are_equal_when_their_words_are(texts: list[str], length: int) -> None:
    words = hash_words(texts)
    hashes, begins = words.runs(length)
    expected, begin = [], 0
    for text in texts:
        own = plain_words(text)
        expected += [(begin + at, tuple(own[at : at + length])) for at in range(len(own) - length + 1)]
        begin += len(own)
    assert begins.tolist() == [at for at, _ in expected]
    pairs = set(zip(hashes.tolist(), [run for _, run in expected], strict=True))
    assert len(pairs) == len({hash for hash, _ in pairs}) == len({run for _, run in pairs})


@given(TEXTS)
def test_words_are_located_by_text_and_line(texts: list[str]) -> None:
    words = hash_words(texts)
    expected = [
        (number, line)
        for number, text in enumerate(texts)
        for line, part in enumerate(text.split("\n"))
        for _ in plain_words(part)
    ]
    found, lines = words.locate(np.arange(len(words.hashes)))
    assert list(zip(found.tolist(), lines.tolist(), strict=True)) == expected


def test_hashes_are_the_same_everywhere() -> None:
    assert hash_words(["Hello, hello"]).hashes.tolist() == [9022087748821825191] * 2
