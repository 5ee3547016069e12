"""The `bytes` kind: byte-level byte-pair encoding, for recipes of today.

Case is kept, nothing is unknown, and every valid string comes back exactly. Built on the `tokenizers` library;
ids 0 to 255 are the bytes, then come the merges by rank.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gpt1.base.errors import FormatError
from gpt1.text.chunks import Ids, Offsets
from gpt1.text.cleaning import to_utf8
from gpt1.text.words import Merges

RULES_VERSION = 1
LIBRARIES: tuple[str, ...] = ()


def _printable_bytes() -> list[str]:
    """Return the character that stands for each byte in a vocabulary: itself where it prints, else one above 255."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in prints]
    return [chr(byte) if byte in prints else chr(256 + others.index(byte)) for byte in range(256)]


BYTES = _printable_bytes()


def layout(merges: Merges) -> list[str]:
    """Return the vocabulary: the bytes in order, then the merges by rank."""
    return [*BYTES, *(left + right for left, right in merges)]


class ByteRules:
    """Text to ids and back, byte by byte, for one vocabulary."""

    unknown_id = None

    def __init__(self, tokens: Sequence[str], merges: Merges) -> None:
        if list(tokens) != layout(merges):
            raise FormatError("a bytes vocabulary is the 256 bytes followed by its merges; this one is not")
        self._tokens = tokens
        self._merges = merges
        self.newline_id = ord("\n")

    def joint(self, piece: str) -> int | None:
        """Return the token that stands between `piece` and what was cut off after it: none, the piece is complete."""
        return None

    def encode(self, pieces: Sequence[str]) -> tuple[Ids, Offsets]:
        """Return the ids of all pieces one after the other, and where each piece's ids end."""
        for piece in pieces:
            to_utf8(piece)
        ids = [
            encoding.ids
            for encoding in self.library_tokenizer.encode_batch_fast(list(pieces), add_special_tokens=False)
        ]
        flat = np.array([id for piece_ids in ids for id in piece_ids], np.int32)
        return flat, np.cumsum([len(piece_ids) for piece_ids in ids], dtype=np.int64)

    @cached_property
    def library_tokenizer(self) -> Any:
        """The same rules as a tokenizer of the library `tokenizers`, which others can load."""
        from tokenizers import Tokenizer
        from tokenizers.decoders import ByteLevel
        from tokenizers.models import BPE

        tokenizer = Tokenizer(BPE({token: id for id, token in enumerate(self._tokens)}, list(self._merges)))
        tokenizer.pre_tokenizer = pre_tokenizer()
        tokenizer.decoder = ByteLevel()
        return tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text; bytes that are no whole character, as in a generated tail, become U+FFFD."""
        return b"".join(self._token_bytes[id] for id in ids).decode(errors="replace")

    def context(self, before: Sequence[int]) -> str:
        """Return what of a text decides how the ids after it look: nothing."""
        return ""

    def decode_after(self, context: str, ids: Sequence[int]) -> tuple[str, int]:
        """Return what `ids` add to the text before them, and how much of that no further id can change."""
        written = b"".join(self._token_bytes[id] for id in ids)
        whole = codecs.getincrementaldecoder("utf-8")("replace").decode(written)  # up to a character that has begun
        return written.decode(errors="replace"), len(whole)

    def decode_each_after(self, before: Sequence[int], ids: Sequence[int]) -> list[str]:
        """Return each id's share of what all of them add; a character belongs to the token that ends it."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        last = len(ids) - 1
        return [decoder.decode(self._token_bytes[id], final=place == last) for place, id in enumerate(ids)]

    def spell(self, id: int) -> str:
        """Return a token's text, or where it is no whole character its bytes."""
        try:
            return self._token_bytes[id].decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in self._token_bytes[id])

    @cached_property
    def _token_bytes(self) -> list[bytes]:
        byte_of = {character: byte for byte, character in enumerate(BYTES)}
        return [bytes(byte_of[character] for character in token) for token in self._tokens]


def pre_tokenizer() -> Any:
    """Return the rule that cuts text before merging: words, numbers and signs apart, each with its blank before it."""
    from tokenizers.pre_tokenizers import ByteLevel

    return ByteLevel(add_prefix_space=False, use_regex=True)
