"""The `words` kind: the paper's tokenizer (section 4.1), id for id what the original code gives.

clean (ftfy) -> standardise -> spaCy's English rules -> lower case -> byte-pair encoding of each word, its last
character marked as the word's end. The steps live in `cleaning`, `splitting` and `chunks`; this module owns the
vocabulary's layout, the pairs of bytes, and the way back to readable text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path

from gpt1.base.errors import FormatError
from gpt1.text.chunks import ChunkEncoder, Ids, Lessons, Offsets

RULES_VERSION = 1
LIBRARIES = ("ftfy", "spacy")  # whose versions may change the ids

UNKNOWN = "<unk>"
WORD_END = "</w>"
NEWLINE = "\n" + WORD_END

Merges = Sequence[tuple[str, str]]


def layout(characters: Sequence[str], merges: Merges) -> list[str]:
    """Return the vocabulary of the original's order: unknown, characters, the same ending a word, merges, newline."""
    ends = [character + WORD_END for character in characters]
    return [UNKNOWN, *characters, *ends, *(left + right for left, right in merges), NEWLINE]


class WordRules:
    """Text to ids and back by the paper's rules, for one vocabulary."""

    unknown_id = 0

    def __init__(self, tokens: Sequence[str], merges: Merges, lessons: Path | None = None) -> None:
        self._tokens = tokens
        self._lessons = Lessons(lessons) if lessons else None
        self._merges = merges
        self._ids = {token: id for id, token in enumerate(tokens)}
        self._check()
        self.newline_id = self._ids[NEWLINE]

    def _check(self) -> None:
        if UNKNOWN not in self._tokens[:1] or NEWLINE not in self._ids:
            raise FormatError(f"a words vocabulary begins with {UNKNOWN} and holds {NEWLINE!r}; this one does not")
        # Merging by rank equals merging pair by pair only if every merge builds on earlier ones, and makes a piece
        # that none of them made. Training gives no other merges.
        made = {token for token in self._tokens if len(token.removesuffix(WORD_END)) == 1}
        for rank, (left, right) in enumerate(self._merges, 1):
            if left not in made or right not in made or left + right not in self._ids:
                raise FormatError(f"merge {rank}, '{left} {right}', uses or makes a piece the vocabulary lacks")
            if left + right in made:
                raise FormatError(f"merge {rank}, '{left} {right}', makes a piece that an earlier merge made")
            made.add(left + right)

    def joint(self, piece: str) -> int | None:
        """Return the token that stands between `piece` and what was cut off after it."""
        return self.newline_id if piece.endswith("\n") else None

    def encode(self, pieces: Sequence[str]) -> tuple[Ids, Offsets]:
        """Return the ids of all pieces one after the other, and where each piece's ids end."""
        return self._chunk_encoder.encode(pieces)

    @cached_property
    def _chunk_encoder(self) -> ChunkEncoder:
        from tokenizers.models import BPE

        from gpt1.text.splitting import Splitter

        # A merge may spell UNKNOWN by chance; no merge makes a blank, so the library knows the unknown by that.
        ids = self._ids | {" ": self.unknown_id}
        model = BPE(ids, list(self._merges), unk_token=" ", end_of_word_suffix=WORD_END, fuse_unk=False)

        def words_to_ids(words: list[str]) -> list[tuple[int, ...]]:
            return [tuple([piece.id for piece in model.tokenize(word)]) for word in words]

        return ChunkEncoder(Splitter(), words_to_ids, (self.newline_id,), self._lessons)

    def decode(self, ids: Sequence[int]) -> str:
        """Return readable text: lower case, tidy blanks, one newline where there were several."""
        return tidy(self._words(ids))

    def context(self, before: Sequence[int]) -> str:
        """Return what of a text decides how the ids after it look; it is short, however long the text."""
        return _deciding(self._words(before))

    def decode_after(self, context: str, ids: Sequence[int]) -> tuple[str, int]:
        """Return what `ids` add to the text of that context, and how much of that no further id can change."""
        words = context + self._words(ids)
        text = tidy(words)
        start = _end_of(text, _inked(context))
        return text[start:], max(0, _end_of(text, _inked(_settled(words))) - start)

    def decode_each_after(self, before: Sequence[int], ids: Sequence[int]) -> list[str]:
        """Return each id's share of what all of them add to the text before them."""
        context = self.context(before)
        text = tidy(context + self._words(ids))
        ends = [0, *(place for place, character in enumerate(text, 1) if _is_ink(character))]
        inked = accumulate((_inked(self._words([id])) for id in ids), initial=_inked(context))
        return [text[ends[start] : ends[end]] for start, end in pairwise(inked)]

    def spell(self, id: int) -> str:
        """Return a token as it stands in the vocabulary; one that ends a word has a blank behind it."""
        return self._tokens[id].replace(NEWLINE, "\n").replace(WORD_END, " ")

    def _words(self, ids: Sequence[int]) -> str:
        return "".join(map(self._tokens.__getitem__, ids)).replace(WORD_END, " ")


def tidy(text: str) -> str:
    """Put the blanks of words joined by blanks back where a printer would have them."""
    lines = [_LINE_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
    return "\n".join(_tidy_line(line) for line in lines)


def _settled(words: str) -> str:
    """Return those of the words joined by blanks that look alike in a tidy text whatever follows.

    How blanks lie around a word depends on it and the next one, and from a quotation mark on, on the rest of the line.
    """
    lines, newline, line = words.rpartition("\n")
    return lines + newline + " ".join(line.partition('"')[0].split(" ")[:-2])


def _deciding(words: str) -> str:
    """Return a short text after which anything looks as it does after these words joined by blanks.

    Of the last line it has the end, as far as one blank or dash looks back, and what tells which quotations are open:
    whether the marks before that end are odd in number, and whether the line begins with one.
    """
    line = _LINE_BLANKS.sub(" ", words.rpartition("\n")[2]).lstrip()
    before, mark, end = line.rpartition('"')
    marks = ""
    if mark:
        marks = ("" if line.startswith(mark) else "a") + mark + ("" if before.count(mark) % 2 == 0 else "a" + mark)
    return marks + _DASHES.sub("-", end)[-LOOKS_BACK:]


def _inked(text: str) -> int:
    """Return how many characters a text has that tidying leaves alone: all but blanks."""
    return len(text) - sum(map(len, _NO_INK.findall(text)))


def _is_ink(character: str) -> bool:
    return character == "\n" or not character.isspace()


def _end_of(text: str, count: int) -> int:
    """Return where in a text so many of those characters end."""
    end = 0
    for blanks in _NO_INK.finditer(text):
        if count <= blanks.start() - end:
            break
        count -= blanks.start() - end
        end = blanks.end()
    return min(end + count, len(text)) if count else 0


_LINE_BLANKS = re.compile(" +")
_NO_INK = re.compile(r"[^\S\n]+")
_DASHES = re.compile("-+")
LOOKS_BACK = 4  # characters: a word's last one, and behind it a dash between blanks
_BLANK_BEFORE = re.compile(r" (?=(?:[,!?;:)\]}%]|(?<!\. )\.+|n't|'(?:s|ll|re|ve|d|m))(?:[ )\]}]|$))")
_BLANK_AFTER = re.compile(r"(?<=[(\[{$£€]) ")
_DASH = re.compile(r'(?<=[\w,;:.!?]) (-+)(?: (?=[\w"])|$)')


def _tidy_line(line: str) -> str:
    line = _BLANK_AFTER.sub("", _BLANK_BEFORE.sub("", line))
    return _tidy_quotes(_DASH.sub(r"\1", line))


def _tidy_quotes(line: str) -> str:
    """Put quotation marks next to what they quote, where it can be told; two of them never next to each other."""
    parts = line.split('"')
    first_quoted = 1
    if len(parts) % 2 == 0:  # an odd number of marks: one of the quotations goes on beyond the line
        if not parts[-1]:
            first_quoted = 0
        elif parts[0]:
            return line
    parts[first_quoted::2] = [part.strip() or part for part in parts[first_quoted::2]]
    return '"'.join(parts)
