"""Our ids beside those of transformers' `OpenAIGPTTokenizer` for one vocabulary and text, and why some are others.

Both spell words by the same merges; they differ in what they take for a word. The rules of the one are turned into
those of the other, one after another in the order of `REASONS`, and a rule that changes the ids of a piece of text on
the way is a reason why they differ there. The way begins with transformers itself and ends with ours, so no difference
is without a reason; where a version of transformers has rules that are not known here, that is told.

A piece is a stretch without white space, or a line end. Where the ids of a line are not those of its pieces one after
another, because a rule looked across a blank, the line is the piece; where lines depend on each other, the text is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

from gpt1.base.errors import InputError, MissingDependency
from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Lines, Note, Table, TableCell, TableRow
from gpt1.documents.figures import shown_text
from gpt1.text.cleaning import clean, repaired
from gpt1.text.splitting import Splitter
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.words import UNKNOWN

# A rule of theirs that is turned into ours, and what is told where that changes the ids.
REASONS = {
    "mark": "<unk>, written in a text, is a special token there; here it is text like any other",
    "repaired": "ftfy repairs text here: quotes, mojibake, HTML escapes, ligatures, wide letters, control characters",
    "plain": "dashes become -, the ellipsis three dots and the acute accent an apostrophe here",
    "accents": "accents are taken off letters there, and kept here",
    "ideographs": "each Chinese character stands alone there; here spaCy's rules decide",
    "invisible": "characters without a shape (zero width, private, U+FFFD) are removed there, and kept here",
    "lower": "letters are made small one by one there; here by their place in the word",
    "words": "words are parted at every punctuation mark there, by spaCy's rules for English here",
    "newlines": "a line end is a blank there, and a token here",
}
OTHER = "other"
OTHER_RULES = "the installed transformers has rules that are not known here"
MOST_SHOWN = 30  # differences, to a person
SHOWN_LETTERS = 40  # of a piece
BETWEEN = "a"  # a word on either side of a line end
NEWLINE = "\n"

_GAP = re.compile(r"\s+")

Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class OtherIds:
    """A piece of text with other ids there: how often it stands in the text, its ids, and the names of the reasons."""

    text: str
    count: int
    ours: list[int]
    theirs: list[int]
    reasons: list[str]


@dataclass(frozen=True)
class TokenizerDiff:
    """What was found of a text: how many tokens it has here and there, and which of its pieces differ."""

    transformers: str  # its version
    tokens: dict[str, int]  # of each side
    unknown: dict[str, int]  # of these, not in the vocabulary
    pieces: int
    differences: list[OtherIds]  # the most frequent first

    @property
    def differing(self) -> int:
        """How many pieces differ, each counted as often as it stands there."""
        return sum(difference.count for difference in self.differences)

    @property
    def reasons(self) -> dict[str, int]:
        """How many pieces differ for each reason, the commonest first."""
        counts: Counter[str] = Counter()
        for difference in self.differences:
            counts.update(dict.fromkeys(difference.reasons, difference.count))
        return dict(counts.most_common())

    def as_json(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """Return everything, each difference with its tokens spelled too."""
        listed = [
            {
                **asdict(difference),
                "our_tokens": [tokenizer.spell(id) for id in difference.ours],
                "their_tokens": [tokenizer.spell(id) for id in difference.theirs],
            }
            for difference in self.differences
        ]
        counts = {"tokens": self.tokens, "unknown": self.unknown, "pieces": self.pieces, "differing": self.differing}
        told = {name: {"pieces": count, "why": why(name)} for name, count in self.reasons.items()}
        return {"transformers": self.transformers, **counts, "reasons": told, "differences": listed}


def why(reason: str) -> str:
    """Return a reason as a sentence."""
    return REASONS.get(reason, OTHER_RULES)


def compare_with_transformers(tokenizer: Tokenizer, text: str) -> TokenizerDiff:
    """Return where transformers gives a text other ids than a tokenizer of kind `words` does, and why."""
    if tokenizer.kind != "words":
        raise InputError(
            f"there is nothing to compare: a tokenizer of kind {tokenizer.kind} gives the same ids in transformers, "
            "which gets its very rules with an export; only the kind words has rules that transformers lacks"
        )
    theirs, version = _theirs(tokenizer)
    sides = _Sides(tokenizer, theirs)
    pieces = Counter(sides.pieces(text))
    differences = [
        OtherIds(piece, count, sides.ours(piece), sides.theirs(piece), sides.reasons(piece))
        for piece, count in pieces.most_common()
        if sides.ours(piece) != sides.theirs(piece)
    ]
    whole = {"ours": tokenizer.encode(text), "theirs": list(theirs.encode(text, add_special_tokens=False))}
    unknown = {side: tokenizer.unknown_among(ids) for side, ids in whole.items()}
    return TokenizerDiff(version, {side: len(ids) for side, ids in whole.items()}, unknown, pieces.total(), differences)


def comparison_blocks(found: TokenizerDiff, tokenizer: Tokenizer) -> list[Block]:
    """Return what a person is shown of a comparison."""
    tokens, unknown = found.tokens, found.unknown
    counts = (
        f"{many(tokens['ours'], 'token')} here, {tokens['theirs']:,} in transformers {found.transformers}; unknown: "
        f"{unknown['ours']:,} here, {unknown['theirs']:,} there."
    )
    if not found.differences:
        return [
            Note(f"The same ids for {many(found.pieces, 'piece')} of text.", leads=True),
            Lines([counts]),
        ]
    shown = found.differences[:MOST_SHOWN]
    more = len(found.differences) - len(shown)
    return [
        Note(f"{found.differing:,} of {many(found.pieces, 'piece')} of text have other ids there.", leads=True),
        Lines([counts]),
        Lines([f"{name}, {many(count, 'piece')}: {why(name)}" for name, count in found.reasons.items()]),
        Table("Where they differ", ["text", "times", "here", "there", "why"], [_row(one, tokenizer) for one in shown]),
        *([Lines([f"{more:,} more; as JSON all of them are told"])] if more else []),
    ]


def _row(found: OtherIds, tokenizer: Tokenizer) -> TableRow:
    sides = [" ".join(map(_spelled(tokenizer), ids[:SHOWN_LETTERS])) or "nothing" for ids in (found.ours, found.theirs)]
    cells = [TableCell(shown_text(side, SHOWN_LETTERS), is_number=False) for side in sides]
    reasons = TableCell(", ".join(found.reasons), is_number=False)
    return TableRow(shown_text(_visible(found.text), SHOWN_LETTERS), [TableCell(f"{found.count:,}"), *cells, reasons])


def _spelled(tokenizer: Tokenizer) -> Callable[[int], str]:
    """Return what shows a token by itself: with a low line where it ends a word."""
    return lambda id: _visible(tokenizer.spell(id)).replace(" ", "_")


def _visible(text: str) -> str:
    return text.replace("\n", "⏎").replace("\r", "␍")


def _theirs(tokenizer: Tokenizer) -> tuple[Any, str]:
    """Return transformers' tokenizer of the same vocabulary and merges, and the version of transformers."""
    try:
        import transformers
        from transformers import OpenAIGPTTokenizer

        make: Any = OpenAIGPTTokenizer  # whose types change from version to version
    except ModuleNotFoundError:
        raise MissingDependency("the ids to compare with are those of transformers: pip install transformers") from None
    ids = {token: id for id, token in enumerate(tokenizer.vocabulary.tokens)}
    return make(vocab=ids, merges=list(tokenizer.vocabulary.merges)), transformers.__version__


class _Sides:
    """Both tokenizers, and the way from the one to the other."""

    def __init__(self, tokenizer: Tokenizer, theirs: Any) -> None:
        self._whole: tuple[Encode, Encode] = tokenizer.encode, partial(theirs.encode, add_special_tokens=False)
        self.ours, self.theirs = (cache(_alone_or_between(encode)) for encode in self._whole)
        self._way = [(name, _alone_or_between(encode)) for name, encode in _way(self.theirs, theirs.backend_tokenizer)]

    def pieces(self, text: str) -> Iterator[str]:
        """Yield the smallest pieces whose ids, one after another, are those of the text."""
        if not any(encode(text) for encode in self._whole):
            return
        lines = list(_lines(text.strip()))
        if not self._add_up(text, lines):
            yield text
            return
        for line in lines:
            chunks = line.split() or [line]
            yield from chunks if self._add_up(line, chunks) else [line]

    def _add_up(self, whole: str, parts: Sequence[str]) -> bool:
        return all(
            encode(whole) == [id for part in parts for id in encode(part)] for encode in (self.ours, self.theirs)
        )

    def reasons(self, piece: str) -> list[str]:
        """Return the names of the rules that change the ids of a piece, on the way from theirs to ours."""
        ids = [encode(piece) for _, encode in self._way]
        found = [
            name for (name, _), (before, after) in zip(self._way[1:], pairwise(ids), strict=True) if before != after
        ]
        return found


def _way(theirs: Encode, library: Any) -> list[tuple[str, Encode]]:
    """Return transformers' own way to ids, and after it the same with one more rule turned into ours each time."""

    def encode(words_of: Callable[[str], list[str]]) -> Encode:
        return lambda text: [token.id for word in words_of(text) for token in library.model.tokenize(word)]

    def between_marks(text: str) -> list[int]:
        first, *others = map(encode(_Bert()), text.split(UNKNOWN))
        return first + [id for ids in others for id in (library.token_to_id(UNKNOWN), *ids)]

    plain, split = cache(_plain), _splitting()
    words: dict[str, Callable[[str], list[str]]] = {
        "mark": _Bert(),
        "repaired": lambda text: _Bert()(repaired(text)),
        "plain": lambda text: _Bert()(plain(text)),
        "accents": lambda text: _Bert(accents=False)(plain(text)),
        "ideographs": lambda text: _Bert(accents=False, ideographs=False)(plain(text)),
        "invisible": lambda text: _Bert(accents=False, ideographs=False, invisible=False)(plain(text)),
        "lower": lambda text: [word.lower() for word in _Bert(False, False, False, lower=False)(plain(text))],
        "words": lambda text: [word for line in _own_lines(plain(text)) for word in split(line)],
        "newlines": lambda text: [word for line in _with_ends(_own_lines(plain(text))) for word in split(line)],
    }
    known = [(name, encode(words_of)) for name, words_of in words.items()]
    return [("", theirs), (OTHER, between_marks), *known]  # the first two are alike


@dataclass(frozen=True)
class _Bert:
    """BERT's rules for words, by which transformers goes: what each does may be left out."""

    accents: bool = True  # taken off
    ideographs: bool = True  # parted
    invisible: bool = True  # removed
    lower: bool = True

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text."""
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        normalizer = BertNormalizer(
            clean_text=self.invisible,
            handle_chinese_chars=self.ideographs,
            strip_accents=self.accents,
            lowercase=self.lower,
        )
        return [word for word, _ in BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text))]


def _plain(text: str) -> str:
    """Return a text repaired, with our replacements."""
    return clean(text).decode()


def _splitting() -> Callable[[str], list[str]]:
    """Return what gives our words of a line; a line end is one by itself."""
    splitter = Splitter()

    def split(line: str) -> list[str]:
        if line == NEWLINE:
            return [line]
        (parts,) = splitter.cut([line])
        return list(splitter.split_together(parts)[0]) if parts else []

    return split


def _own_lines(plain: str) -> list[str]:
    return [line.strip() for line in plain.split(NEWLINE) if line.strip()]


def _with_ends(lines: list[str]) -> list[str]:
    """Return lines with a line end between each and the next."""
    return [part for line in lines for part in (NEWLINE, line)][1:]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text and between them their ends, as they stand there."""
    done = 0
    for gap in _GAP.finditer(text):
        if _is_line_end(gap[0]):
            yield text[done : gap.start()]
            yield gap[0]
            done = gap.end()
    yield text[done:]


def _alone_or_between(encode: Encode) -> Encode:
    """Return what encodes a piece: a line end as it is between words, since alone it is nothing."""
    return lambda piece: encode(f"{BETWEEN}{piece}{BETWEEN}")[1:-1] if _is_line_end(piece) else encode(piece)


def _is_line_end(piece: str) -> bool:
    return piece.isspace() and (plain := _plain(piece)).isspace() and NEWLINE in plain
