"""Words of the paper's tokenizer: standardised text, split by spaCy's English rules, lower-cased.

spaCy splits a text in two steps. First each white-space chunk on its own: special cases, then affixes,
then infixes. Then special cases again, matched over the tokens of the whole text, across blanks: `: )` in
the right company is not what `:` and `)` are alone. The first step is a function of the chunk and can be
remembered; the second touches only places where two neighbouring tokens stand side by side in some special
case, and those places (*risky pairs*) are rare and can be recognised. This module does both steps with spaCy's
own rules and patterns; what it returns is what `spacy.blank("en")` returns, word for word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

# Runs of one of these characters stand apart. The original's pattern also means to catch backslashes, but its
# quoting makes that a second plus sign.
_APART = r"""-~!";?+,)(/*[]}{|_"""
_PARTS = re.compile("|".join([rf"[^\s{re.escape(_APART)}]+", r"\n", *(re.escape(sign) + "+" for sign in _APART)]))
# What is easily seen to have just one suffix, once special cases are out of the way; letters alone have none.
_LETTERS_AND_SUFFIX = re.compile(r"([A-Za-z]+[a-z])(\.|:|'s)")
# spaCy's time on a chunk can grow with the square of its length; longer ones are split by `_split_long`.
LONG = 200

# The words of a stretch of text, and the codes of its outermost tokens in the risky pairs (0: in none).
Split = tuple[tuple[str, ...], int, int]


@contextmanager
def _without_torch() -> Iterator[None]:
    """Keep spaCy from loading torch where there is one: its word rules need none, and it takes a second and 180 MB."""
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["torch"]


class Splitter:
    """Splits chunks of text into words as spaCy's English rules do, and knows where a blank may not part them."""

    def __init__(self) -> None:
        with _without_torch():
            import spacy  # here, because decoding must work without it
            from spacy.tokenizer import Tokenizer
            from spacy.vocab import Vocab

        whole = spacy.blank("en").tokenizer
        self._whole = whole
        self._rules = {text: [part[_ORTH] for part in parts] for text, parts in whole.rules.items()}
        self._longest_rule = max(map(len, self._rules))
        self._vocab = Vocab()  # a bare one: nobody asks for the shape or the norm of a word here
        self._first_step = _first_step_only(whole, self._vocab)
        # The same language without the nested repetition that makes spaCy's own take the square of a length.
        self._url_match = re.compile(whole.url_match.__self__.pattern.replace(r"\S+(?::\S*)?@", r"\S+@")).match

        affixes_only = Tokenizer(self._vocab, {}, whole.prefix_search, whole.suffix_search, whole.infix_finditer)
        affixes_only.url_match = whole.url_match
        self._patterns = set()  # the sequences of tokens that the second step looks for
        for text in self._rules:
            if whole.find_prefix(text) or whole.find_suffix(text) or whole.find_infix(text):
                self._patterns.add(tuple(token.text for token in affixes_only(text)))
        self._pattern_lengths = sorted({len(pattern) for pattern in self._patterns} - {1})
        self.pairs = {pair for pattern in self._patterns for pair in pairwise(pattern)}
        self.codes = {token: code for code, token in enumerate(sorted({t for pair in self.pairs for t in pair}), 1)}
        self.code_pairs = {(self.codes[left], self.codes[right]) for left, right in self.pairs}

    def cut(self, chunks: Sequence[str]) -> list[list[str]]:
        """Cut each of `chunks` (stretches of cleaned text without newline) where the paper's rules put blanks."""
        parts = _PARTS.findall("\n".join(chunks))
        result, start = [], 0
        for end in [place for place, part in enumerate(parts) if part == "\n"] + [len(parts)]:
            result.append(parts[start:end])
            start = end + 1
        return result

    def split(self, parts: list[str]) -> list[Split]:
        """Split each of `parts`, standing alone, into its words."""
        splits: list[Split] = []
        for tokens in self._tokens(parts):
            if len(tokens) > 1 and not self.pairs.isdisjoint(pairwise(tokens)):
                words = self._apply_special_cases([tokens])
            else:
                words = tuple([token.lower() for token in tokens])
            splits.append((words, self.codes.get(tokens[0], 0), self.codes.get(tokens[-1], 0)))
        return splits

    def split_together(self, parts: list[str]) -> Split:
        """Split neighbouring `parts`, some of which meet in a risky pair, into their words."""
        tokens = self._tokens(parts)
        words = self._apply_special_cases(tokens)
        return words, self.codes.get(tokens[0][0], 0), self.codes.get(tokens[-1][-1], 0)

    def _tokens(self, parts: list[str]) -> list[list[str]]:
        """Take spaCy's first step for parts that hold no white space."""
        result: list[list[str]] = [[]] * len(parts)
        hard = []
        for place, part in enumerate(parts):
            if part in self._rules:
                result[place] = self._rules[part]
            elif part.isalpha() and part.isascii():
                result[place] = [part]
            elif match := _LETTERS_AND_SUFFIX.fullmatch(part):
                letters, suffix = match.groups()
                result[place] = [*self._rules.get(letters, [letters]), suffix]
            elif len(part) > LONG:
                result[place] = self._split_long(part)
            else:
                hard.append(place)
        if hard:
            # A memory zone takes back what spaCy remembers of these words; we remember them ourselves.
            with self._vocab.memory_zone():
                tokens: list[str] = []
                places = iter(hard)
                for token in self._first_step(" ".join([parts[place] for place in hard]) + " "):
                    tokens.append(token.text)
                    if token.whitespace_:
                        result[next(places)] = tokens
                        tokens = []
        return result

    def _split_long(self, text: str) -> list[str]:
        """Take spaCy's first step by index: the same patterns, but never a whole copy or a whole search."""
        low, high = 0, len(text)
        prefixes: list[str] = []
        suffixes: list[str] = []
        size_before = 0
        while low < high and high - low != size_before:
            if self._is_rule(text, low, high):
                break
            size_before = high - low
            after_prefix = low + self._prefix_length(text, low, high)
            if after_prefix > low and self._is_rule(text, after_prefix, high):
                prefixes.append(text[low:after_prefix])
                low = after_prefix
                break
            before_suffix = high - self._suffix_length(text, after_prefix, high)
            if before_suffix < high and self._is_rule(text, low, before_suffix):
                suffixes.append(text[before_suffix:high])
                high = before_suffix
                break
            if after_prefix > low:
                prefixes.append(text[low:after_prefix])
            if before_suffix < high:
                suffixes.append(text[before_suffix:high])
            low, high = after_prefix, before_suffix
        return prefixes + self._split_inner(text[low:high]) + suffixes[::-1]

    def _is_rule(self, text: str, low: int, high: int) -> bool:
        return 0 < high - low <= self._longest_rule and text[low:high] in self._rules

    def _prefix_length(self, text: str, low: int, high: int) -> int:
        window = _WINDOW
        while True:
            match = self._whole.prefix_search(text[low : min(low + window, high)])
            if match is None:
                return 0
            if match.end() + _MARGIN < window or low + window >= high:
                return int(match.end() - match.start())
            window *= 2

    def _suffix_length(self, text: str, low: int, high: int) -> int:
        window = _WINDOW
        while True:
            match = self._whole.suffix_search(text[max(low, high - window) : high])
            if match is None:
                return 0
            if match.start() > _MARGIN or high - window <= low:
                return int(match.end() - match.start())
            window *= 2

    def _split_inner(self, text: str) -> list[str]:
        if not text:
            return []
        if text in self._rules:
            return self._rules[text]
        if self._url_match(text):
            return [text]
        tokens, start = [], 0
        for match in self._whole.infix_finditer(text):
            if match.start() == 0:
                continue
            if match.start() > start:
                tokens.append(text[start : match.start()])
            tokens.append(match.group())
            start = match.end()
        return [*tokens, text[start:]] if start < len(text) else tokens

    def _apply_special_cases(self, chunks: list[list[str]]) -> tuple[str, ...]:
        """Take spaCy's second step over the tokens of neighbouring chunks, and return the words."""
        tokens = [token for chunk in chunks for token in chunk]
        ends_chunk = [place == len(chunk) for chunk in chunks for place in range(1, len(chunk) + 1)]
        spans = [
            (length, start)
            for start in range(len(tokens))
            for length in self._pattern_lengths
            if start + length <= len(tokens) and tuple(tokens[start : start + length]) in self._patterns
        ]
        # The longest first, of equals the first; one that begins or ends inside another is passed over,
        # yet blocks its tokens all the same, as in spaCy.
        chosen: dict[int, int] = {}
        seen: set[int] = set()
        for length, start in sorted(spans, key=lambda span: (-span[0], span[1])):
            if start not in seen and start + length - 1 not in seen:
                chosen[start] = start + length
            seen.update(range(start, start + length))
        result: list[str] = []
        position = 0
        while position < len(tokens):
            end = chosen.get(position, position + 1)
            span = tokens[position:end]
            has_blank = any(ends_chunk[position : end - 1])
            result += span if len(span) == 1 or has_blank else self._rules["".join(span)]
            position = end
        return tuple([token.lower() for token in result])


_ORTH = 65  # spacy.attrs.ORTH, the key of a special case's token text
# No affix pattern but a run of dots is longer than this, look-around included; tests check it.
_WINDOW = 32
_MARGIN = 4


def _first_step_only(whole: Any, vocab: Any) -> Any:
    """Return spaCy's tokenizer with all its rules but without its second step.

    spaCy prepares the second step while it is given special cases that have affixes; a tokenizer
    that finds no affixes at that time prepares nothing.
    """
    from spacy.tokenizer import Tokenizer

    class Gate:
        def __init__(self, pattern: Any, closed: Any) -> None:
            self.pattern, self.closed, self.open = pattern, closed, False

        def __call__(self, text: str) -> Any:
            return self.pattern(text) if self.open else self.closed

    gates = [Gate(whole.prefix_search, None), Gate(whole.suffix_search, None), Gate(whole.infix_finditer, ())]
    tokenizer = Tokenizer(vocab, whole.rules, *gates, url_match=whole.url_match)
    for gate in gates:
        gate.open = True
    return tokenizer
