"""Texts as rows of hashed words, in which the same words are found again whatever the case and the punctuation.

A word is a run of letters and digits, lower-cased; apostrophes are dropped, all else of ASCII and the usual marks of
typesetting part words. Only the distinct words of a batch are hashed one by one, the rest is gathering. The hash is
the same in every process and on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpt1.text.chunks import number_chunks
from gpt1.text.cleaning import TAME

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

# Chunks that are not words come first, so that their numbers are known; a border ends a text.
_FIRST_CHUNKS = b" \n \0 "
_BLANK, _NEWLINE, _BORDER = range(3)
_MARKS = [(mark.encode(), plain.encode()) for mark, plain in {**TAME, **dict.fromkeys("«»„‚‹›•·\xa0", " ")}.items()]
_PARTING = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == 10 else 32 for byte in range(256))
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class HashedWords:
    """The words of some texts, one after the other: their hashes, and where each text's words end."""

    hashes: Hashes
    ends: Ints
    # Chunks are words, blanks, newlines and borders: how each is spelt, which ones make up the texts, and where among
    # these the words stand.
    spelling: list[str]
    chunks: npt.NDArray[np.int32]
    places: Ints

    def spell(self, begin: int, end: int) -> str:
        """Return the words from `begin` to before `end`, separated by blanks."""
        return " ".join(self.spelling[number].lower() for number in self.chunks[self.places[begin:end]])

    def locate(self, words: Ints) -> tuple[Ints, Ints]:
        """Return for each word the text it belongs to and the line of that text it stands in, both from 0."""
        newlines = np.flatnonzero(self.chunks == _NEWLINE)
        text_begins = np.concatenate([[0], np.flatnonzero(self.chunks == _BORDER)])
        texts = np.searchsorted(self.ends, words, side="right")
        lines = np.searchsorted(newlines, self.places[words]) - np.searchsorted(newlines, text_begins[texts])
        return texts, lines

    def runs(self, length: int) -> tuple[Hashes, Ints]:
        """Return the hash of every run of so many words that lies in one text, and the word it begins with."""
        count = max(0, len(self.hashes) - length + 1)
        runs = np.zeros(count, np.uint64)
        for step in range(length):
            runs = runs * _MULTIPLIER + self.hashes[step : step + count]
        sizes = np.diff(self.ends, prepend=0)
        begins = np.flatnonzero(np.arange(count) + length <= np.repeat(self.ends, sizes)[:count])
        return runs[begins], begins


def hash_words(texts: Sequence[str]) -> HashedWords:
    """Cut texts into words and hash them."""
    numbers, spelling = number_chunks(_FIRST_CHUNKS + b"".join(_plain(text) + b" \0 " for text in texts))
    chunks = numbers[_FIRST_CHUNKS.count(b" ") : -1]
    hashes = np.array([_hash(chunk) for chunk in spelling], np.uint64)
    places = np.flatnonzero(chunks > _BORDER)
    ends = np.searchsorted(places, np.flatnonzero(chunks == _BORDER))
    return HashedWords(hashes[chunks[places]], ends, spelling, chunks, places)


def _plain(text: str) -> bytes:
    raw = text.encode(errors="replace")  # half a surrogate pair, which JSON may hold, is no part of a word
    if not raw.isascii():
        for mark, plain in _MARKS:
            raw = raw.replace(mark, plain)
    return raw.translate(_PARTING, b"'").replace(b"\n", b" \n ")


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.lower().encode(), digest_size=8).digest(), "little")
