"""Making a tokenizer: training a vocabulary, or taking over the released one of GPT-1.

Training counts words, lets the `tokenizers` library find the merges, and lays the vocabulary out. The library's trainer
breaks ties by internal ids, which it hands out in hash order when words carry an end mark of several characters. So
each word's last character is replaced by one private code point that stands for it at the end of a word; with both
alphabets given beforehand the result is the same in every run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import read_json
from gpt1.base.parallel import hearing_signals
from gpt1.text import bytes as byte_kind
from gpt1.text import words as word_kind
from gpt1.text.chunks import ChunkEncoder
from gpt1.text.splitting import Splitter
from gpt1.text.tokenizer import Tokenizer, new_tokenizer

MOST_NUMBERED = 1_000_000  # words remembered while counting; then the memory starts afresh
CHARACTERS = 1000  # the paper's vocabulary has 238; scripts with more signs need more
_PRIVATE = range(0xF0000, 0xFFFFE)
_LEAST_PAIRS = 2  # a pair seen once says nothing
_LINE_WORDS = 1000
_LONGEST = 1000  # characters of a word or gap, longer ones are cut: the library's time grows with their square
# Where a word or gap of a vocabulary of bytes may be longer: the first, which is fast, finds no place in most text.
_MAY_BE_LONG = re.compile(rf"(?:^|\s)\S{{{_LONGEST}}}|\s{{{_LONGEST}}}")
_LONG_RUN = re.compile(rf"[^\W_]{{{_LONGEST + 1},}}|(?:[^\w\s]|_){{{_LONGEST + 1},}}|\s{{{_LONGEST + 1},}}")


class WordCounter:
    """Counts the words of texts, remembering every chunk as encoding does."""

    def __init__(self) -> None:
        self._splitter = Splitter()
        self._reset()

    def _reset(self) -> None:
        self._numbers: dict[str, int] = {}
        self._encoder = ChunkEncoder(self._splitter, self._number, ())

    def _number(self, words: list[str]) -> list[tuple[int, ...]]:
        return [(self._numbers.setdefault(word, len(self._numbers)),) for word in words]

    def count(self, pieces: Sequence[str]) -> dict[str, int]:
        """Return how often each word stands in `pieces`."""
        if len(self._numbers) > MOST_NUMBERED:
            self._reset()
        ids, _ = self._encoder.encode(pieces)
        counts = np.bincount(ids, minlength=len(self._numbers))
        words = list(self._numbers)
        return {words[number]: int(counts[number]) for number in np.flatnonzero(counts)}


def train_words(counts: Mapping[str, int], merges: int, characters: int = CHARACTERS) -> Tokenizer:
    """Return a `words` tokenizer with up to `merges` merges, learned from word counts.

    The most frequent `characters` characters get a token each; others are unknown.
    """
    frequencies: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            frequencies[character] += count
    ranked = sorted(frequencies, key=lambda character: (-frequencies[character], character))[:characters]
    if not ranked:
        raise InputError("there is no word to learn a vocabulary from; is the text empty?")
    private = (chr(code) for code in _PRIVATE if chr(code) not in frequencies)
    end_of = dict(zip(sorted(ranked), private, strict=False))
    plain_of = {end: character + word_kind.WORD_END for character, end in end_of.items()}

    from tokenizers.pre_tokenizers import WhitespaceSplit

    found = _train(
        _repeat_words(counts, end_of), WhitespaceSplit(), sorted([*end_of, *plain_of]), 2 * len(ranked) + merges
    )
    learned = [
        ("".join(plain_of.get(c, c) for c in left), "".join(plain_of.get(c, c) for c in right)) for left, right in found
    ]
    return new_tokenizer("words", word_kind.layout(ranked, learned), learned)


def _repeat_words(counts: Mapping[str, int], end_of: Mapping[str, str]) -> Iterator[str]:
    """Spell every word as often as it was counted, its end marked, cut where a character is unknown."""
    line: list[str] = []
    for word, count in counts.items():
        marked = "".join([c if c in end_of else " " for c in word[:-1]]) + end_of.get(word[-1], " ")
        marked = " ".join(_slices(marked)) if len(marked) > _LONGEST else marked
        while count:
            taken = min(count, _LINE_WORDS - len(line))
            line += [marked] * taken
            count -= taken
            if len(line) == _LINE_WORDS:
                yield " ".join(line)
                line = []
    yield " ".join(line)


def train_bytes(pieces: Iterable[str], merges: int) -> Tokenizer:
    """Return a `bytes` tokenizer with up to `merges` merges, learned from text."""
    alphabet = sorted(byte_kind.BYTES)
    learned = _train(_cut_long_runs(pieces), byte_kind.pre_tokenizer(), alphabet, len(alphabet) + merges)
    return new_tokenizer("bytes", byte_kind.layout(learned), learned)


def _cut_long_runs(pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        place = 0
        for run in _LONG_RUN.finditer(piece) if _MAY_BE_LONG.search(piece) else ():
            first, *others = _slices(run[0])
            yield piece[place : run.start()] + first
            yield from others[:-1]
            place = run.end() - len(others[-1])
        yield piece[place:]


def _slices(text: str) -> list[str]:
    return [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]


def _train(texts: Iterable[str], pre_tokenizer: Any, alphabet: list[str], size: int) -> list[tuple[str, str]]:
    from tokenizers import Tokenizer as Library
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    library = Library(BPE())
    library.pre_tokenizer = pre_tokenizer
    trainer = BpeTrainer(
        vocab_size=size, min_frequency=_LEAST_PAIRS, initial_alphabet=alphabet, special_tokens=[], show_progress=False
    )
    hearing_signals(lambda: library.train_from_iterator(texts, trainer))
    return [(left, right) for left, right in json.loads(library.to_str())["model"]["merges"]]


def import_tokenizer(vocabulary_file: str | Path, merges_file: str | Path) -> Tokenizer:
    """Return the `words` tokenizer of a vocabulary file (token to id) and a merges file (one merge a line).

    The released ones are `encoder_bpe_40000.json` and `vocab_40000.bpe`.
    """
    tokens = _read_vocabulary(Path(vocabulary_file))
    merges = _read_merges(Path(merges_file))
    try:
        return new_tokenizer("words", tokens, merges)
    except FormatError as error:
        raise FormatError(f"{vocabulary_file} and {merges_file} do not fit together: {error}") from error


def _read_vocabulary(path: Path) -> list[str]:
    if path.is_file() and path.read_bytes().startswith(b"#version"):
        raise FormatError(f"{path} is a merges file; name the vocabulary first, then the merges")
    ids = read_json(path, "a vocabulary file (a JSON object of token to id)")
    tokens = {id: token for token, id in ids.items() if isinstance(id, int)}
    if tokens.keys() != set(range(len(ids))):
        raise FormatError(f"{path} is not a vocabulary file: its ids are not 0 to {len(ids) - 1}, each once")
    return [tokens[id] for id in range(len(ids))]


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InputError(f"cannot read the merges file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not a merges file: byte {error.start} is not UTF-8") from None
    if not lines[0].startswith("#version"):
        raise FormatError(f"{path} is not a merges file: it should begin with a line '#version: 0.2'")
    merges = []
    for number, line in enumerate(lines[1:], 2):
        parts = line.split(" ")
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
        elif line:
            raise FormatError(f"{path}, line {number}: a merge is two pieces with a blank between, not {line!r}")
    return merges
