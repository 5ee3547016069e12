"""Lists of synonyms: files that a person names, read as words and as the tokens that stand for them.

A list is plain, a word and a synonym of it on each line with a tab or a comma between them and no header, or one of
WordNet's data files (data.noun, data.verb, data.adj, data.adv), whose words of one meaning are synonyms of each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError
from gpt1.base.records import checksum
from gpt1.base.tables import lines_of
from gpt1.text.spans import kind_of
from gpt1.text.tokenizer import Tokenizer

_WORDNET = re.compile(r"\d{8} \d\d [nvasr] ([0-9a-f]{2}) (.+)")
_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # how an adjective stands in a sentence
_APART = "cps "  # kinds of characters between which a word ends: signs that are words, punctuation, symbols, blanks

Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Synonyms:
    """What a list says: for each word, in the order of the list, what may stand in its place."""

    path: Path
    words: Mapping[str, tuple[str, ...]]

    @cached_property
    def identity(self) -> str:
        """What tells this list from all others."""
        return checksum(self.words)

    def in_tokens(self, tokenizer: Tokenizer) -> dict[Tokens, tuple[Tokens, ...]]:
        """Return the same as a tokenizer writes them: behind a blank and without, capital and small."""
        forms = list(dict.fromkeys(form for word in self._all_words for form in _forms(word)))
        ids = {form: tuple(own) for form, own in zip(forms, tokenizer.encode_batch(forms), strict=True)}
        found: dict[Tokens, tuple[Tokens, ...]] = {}
        for word, others in self.words.items():
            for number, form in enumerate(_forms(word)):
                own = ids[form]
                spelled = dict.fromkeys(ids[_forms(other)[number]] for other in others)
                known = [one for one in spelled if one and one != own and tokenizer.unknown_id not in one]
                if own and known:
                    found.setdefault(own, tuple(known))
        return found

    @property
    def _all_words(self) -> Iterable[str]:
        for word, others in self.words.items():
            yield word
            yield from others


def _forms(word: str) -> tuple[str, ...]:
    capital = word[:1].upper() + word[1:]
    return word, f" {word}", capital, f" {capital}"


def read_synonyms(path: str | Path) -> Synonyms:
    """Read a list of synonyms; what a line cannot mean is refused with its number."""
    found: dict[str, dict[str, None]] = {}
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip() or line.startswith("  "):  # two blanks begin each line of WordNet's licence
            continue
        group = _wordnet_words(line)
        pairs = _pair(line, path, number) if group is None else [(a, b) for a in group for b in group]
        for word, other in pairs:
            if word != other:
                found.setdefault(word, {})[other] = None
    if not found:
        raise InputError(
            f"{path} has no synonyms; a list has a word and a synonym of it on each line, with a tab between them, or "
            "is a data file of WordNet"
        )
    return Synonyms(Path(path), {word: tuple(others) for word, others in found.items()})


def _wordnet_words(line: str) -> list[str] | None:
    """Return the words of a line of WordNet; None where it is none."""
    if (found := _WORDNET.match(line)) is None:
        return None
    cells = found[2].split(" ")[: 2 * int(found[1], 16)]
    return [_MARKER.sub("", word).replace("_", " ") for word in cells[::2]]


def _pair(line: str, path: str | Path, number: int) -> list[tuple[str, str]]:
    cells = [cell.strip() for cell in (line.split("\t") if "\t" in line else line.split(","))]
    if len(cells) != 2 or not all(cells):
        raise InputError(
            f"{path}, line {number}: '{line.strip()[:60]}' is no word and one synonym with a tab or a comma between "
            "them"
        )
    return [(cells[0], cells[1])]


@dataclass(frozen=True, eq=False)
class WordEdges:
    """Where words begin and end in tokens, by what each token of a vocabulary spells."""

    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    def starts(self, ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the places in a text's tokens where its words begin."""
        begin = self.begins[ids]
        begin[1:] |= self.ends[ids[:-1]]
        begin[:1] = True
        return np.flatnonzero(begin)


def word_edges(tokenizer: Tokenizer) -> WordEdges:
    """Return where words begin and end: at blanks, at signs that are words of their own, at punctuation.

    A token of blanks alone is of the word behind it.
    """
    spelled = [tokenizer.spell(id) for id in range(tokenizer.vocab_size)]
    begins = [not text or kind_of(text[0]) in _APART for text in spelled]
    ends = [bool(text.strip(" ")) and kind_of(text[-1]) in _APART for text in spelled]
    return WordEdges(np.array(begins), np.array(ends))
