"""The paper's tokenizer, literally and slowly: one text, one step after another, no shortcut.

It keeps the word cache of the original code and calls only spaCy's tokenizer, so it is also the
fair opponent in benchmarks. Judge of `gpt1.text.words`.
"""

from __future__ import annotations

import re
from itertools import pairwise

import ftfy
import spacy

RUNS_OF_PUNCTUATION = r"""(-+|~+|!+|"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|\}+|\{+|\|+|_+)"""


def standardise(text: str) -> str:
    text = text.replace("—", "-").replace("–", "-").replace("―", "-")
    text = text.replace("…", "...").replace("´", "'")
    text = re.sub(RUNS_OF_PUNCTUATION, r" \1 ", text)
    text = re.sub(r"\s*\n\s*", " \n ", text)
    text = re.sub(r"[^\S\n]+", " ", text)
    return text.strip()


class ReferenceWords:
    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self.vocabulary = vocabulary
        self.ranks = {merge: rank for rank, merge in enumerate(merges)}
        self.spacy = spacy.blank("en").tokenizer
        self.cache: dict[str, list[str]] = {}

    def words(self, text: str) -> list[str]:
        """The lower-cased spaCy tokens of one piece of text."""
        return [token.text.lower() for token in self.spacy(standardise(ftfy.fix_text(text)))]

    def bpe(self, word: str) -> list[str]:
        if word not in self.cache:
            self.cache[word] = self._bpe(word)
        return self.cache[word]

    def _bpe(self, word: str) -> list[str]:
        parts = [*word[:-1], word[-1] + "</w>"]
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: self.ranks.get(pair, float("inf")))
            if best not in self.ranks:
                break
            merged, i = [], 0
            while i < len(parts):
                if i + 1 < len(parts) and (parts[i], parts[i + 1]) == best:
                    merged.append(parts[i] + parts[i + 1])
                    i += 2
                else:
                    merged.append(parts[i])
                    i += 1
            parts = merged
        joined = " ".join(parts)
        if joined == "\n  </w>":  # newline, blank: what spaCy makes of a line end
            joined = "\n</w>"
        return joined.split(" ")

    def encode(self, text: str) -> list[int]:
        """The ids of one piece of text (at most a million characters)."""
        return [self.vocabulary.get(part, 0) for word in self.words(text) for part in self.bpe(word)]
