"""The `words` kind against its literal reference: the same ids for every text, with work that grows with its length."""

from __future__ import annotations

import lzma
import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product, zip_longest
from multiprocessing import get_context
from pathlib import Path
from re import _constants as re_codes  # type: ignore[attr-defined]
from re import _parser as re_parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import ftfy
import pytest
import spacy
from ftfy.badness import BADNESS_RE, is_bad
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import InputError
from gpt1.text import chunks, cleaning, pieces, splitting
from gpt1.text import tokenizer as tokenizer_module
from gpt1.text.cleaning import TAME, clean
from gpt1.text.splitting import Splitter
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import import_tokenizer
from tests.properties import examples
from tests.reference.words import ReferenceWords
from tests.text.tools import (
    ANY_TEXT,
    AWKWARD,
    BLANKS,
    ENTITIES,
    LINES,
    MIXTURES,
    MOJIBAKE_LINES,
    RUNS,
    SIGN_CHUNKS,
    SIGNS,
    SIGNS_AND_BLANKS,
    WORDS,
    Words,
    made_text,
    reference_of,
    special_cases,
)

RULES = sorted(spacy.blank("en").tokenizer.rules)

# ------------------------------------------------------------------ the observed examples of the paper's rules

OBSERVED = {
    "Hello,\n\nworld  it's": ["hello", ",", "\n ", "world", "it", "'s"],
    "a\\b": ["a\\b"],
    "x+y ++ z": ["x", "+", "y", "+", "+", "z"],
    "a\r\nb": ["a", "\n ", "b"],
    "a\u2028b": ["a", "\n ", "b"],
    "a\x0cb": ["a", "b"],
    "a\u200bb": ["a\u200bb"],
    "http://a.b/c?d=e_f": ["http", ":", "//", "a.b", "/", "c", "?", "d", "=", "e", "_", "f"],
    "''Tis": ["''", "tis"],
    "' ''Tis": ["'", "'", "'", "tis"],
    "&amp; one\nx < y\n&amp; two": ["&", "one", "\n ", "x", "<", "y", "\n ", "&", "amp", ";", "two"],
    "\n leading and trailing \n": ["leading", "and", "trailing"],
    "a\n\u00a0\nb": ["a", "\n ", "b"],
}


@pytest.mark.parametrize("text", OBSERVED)
def test_observed_examples_split_as_observed(text: str, words: Words, judge: ReferenceWords) -> None:
    assert words(text) == OBSERVED[text]
    assert judge.words(text) == OBSERVED[text]


def test_a_newline_is_one_token(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a \n\n\t\n b")
    assert ids.count(tokenizer.newline_id) == 1
    assert tokenizer.encode("\n\n") == []


# ------------------------------------------------------------------ against the reference, text by text

LISTED = [
    *OBSERVED,
    *BLANKS,
    *AWKWARD,
    *WORDS,
    *ENTITIES,
    *(f"a{blank}b" for blank in BLANKS),
    *(f"{blank}{blank}a {blank}\n{blank} b{blank}" for blank in BLANKS),
    *(f"a\n{blank}\nb" for blank in BLANKS),
    *(f"x{sign}y {sign}x {sign} x{sign}" for sign in AWKWARD),
    "",
    " " * 5000,
    "\n" * 5000,
    "a" + " \n\t" * 5000 + "b",
    "It’s “quoted” — so…",
    "â€œHelloâ€\x9d itâ€™s voilÃ le travail sÃ³ Ã©tÃ©",
    "ÐŸÑ€Ð¸Ð²ÐµÑ‚",
    "&lt;b&gt; first",
    "<b> &amp; after\n&eacute; later",
    "&eacute; before\n<b>\n&eacute; after\n",
    "\n".join(["“tame”", "&amp; loud", "plain", "é—loud", "1 < 2", "&amp;", "‘tame’", ""]),
    "&" + "amp;" * 60 + "lt;",
    "&a" * 60 + "&#1;" + "mp;#1;" * 60 + "x",
    "&" + "a\x01mp;" * 60 + "gt;",
    "&eacute;" * 60 + "&amp;amp;",
    "a&#38;#38;lt;b &amp;amp;eacute;",
    "İstanbul IŞIK ΣΑΣ ΟΔΟΣ ΑΣ. ΑΣ' Ǆ ẞ",
    "你好，世界！ こんにちは 안녕하세요",
    "مرحبا بالعالم שלום עולם \u202babc\u202c",
    "👩‍👩‍👧 👍🏽 🇩🇪🇫🇷 ❤️ ☺",
    "C:\\temp\\new \\\\server\\x \\n \\",
    "me@example.org, you.there@sub.example.co.uk. http://www.example.com:80/x?y=z#t",
    "3.14 1,000,000 1/2 10:30 50%-60% -5 +5 5'10\" $5.00 US$5 10km 5kg. 20°C. #1 1e-9",
    "I can't, won't, shan't've; you'd've; y'all'd; o'clock; 'tis 'twas 'em rock'n'roll cannot. CANNOT. I'M",
    "<unk> </w> <start> <delimiter> <extract> \n</w> a</w> <unk></w> \\<unk>\\",
    "\x1b[31mred\x1b[0m \x00nul\x00 \ufeffbom so\u00adft",
    ": ) : ( ; ) = D < 3 : - ) 8 ) :\n) ( ' :' '(",
    "a " * 3000,
]


@pytest.mark.parametrize("text", LISTED, ids=[str(number) for number in range(len(LISTED))])
def test_listed_awkward_texts_give_the_ids_of_the_reference(
    text: str, words: Words, judge: ReferenceWords, tokenizer: Tokenizer, reference: ReferenceWords
) -> None:
    assert words(text) == judge.words(text)
    assert tokenizer.encode(text) == reference.encode(text)


@given(ANY_TEXT)
@examples(700)
def test_any_text_splits_as_the_reference(words: Words, judge: ReferenceWords, text: str) -> None:
    assert words(text) == judge.words(text)


@given(SIGN_CHUNKS | SIGNS_AND_BLANKS)
@examples(1500)
def test_signs_of_emoticons_split_as_the_reference(words: Words, judge: ReferenceWords, text: str) -> None:
    assert words(text) == judge.words(text)


@given(special_cases(RULES))
@examples(1200)
def test_special_cases_split_as_the_reference(words: Words, judge: ReferenceWords, text: str) -> None:
    assert words(text) == judge.words(text)


@given(LINES)
@examples(1500)
def test_lines_of_quotes_accents_and_entities_split_as_the_reference(
    words: Words, judge: ReferenceWords, text: str
) -> None:
    assert words(text) == judge.words(text)


@given(MIXTURES)
@examples(1500)
def test_mixtures_of_everything_split_as_the_reference(words: Words, judge: ReferenceWords, text: str) -> None:
    assert words(text) == judge.words(text)


@given(st.text(alphabet=sorted(set(made_text())), max_size=60) | MIXTURES | LINES)
@examples(800)
def test_ids_are_those_of_the_reference_and_never_special(
    tokenizer: Tokenizer, reference: ReferenceWords, text: str
) -> None:
    ids = tokenizer.encode(text)
    assert ids == reference.encode(text)
    assert all(0 <= id < tokenizer.vocab_size for id in ids)


@pytest.mark.parametrize("text", ["<start>", "<delimiter>", "<extract>", "<unk>", "</w>", "\n</w>"])
def test_text_that_looks_like_a_special_token_is_plain_text(text: str, released: Tokenizer) -> None:
    ids = released.encode(text)
    assert len(ids) > 1
    assert released.unknown_id not in ids
    assert not set(ids) & set(released.specials.values())


def test_a_lone_surrogate_is_an_error_that_tells_its_place(trained: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"character 2 .*U\+D83D"):
        trained.encode("ab\ud83d")
    _cut_at(20, monkeypatch)
    with pytest.raises(InputError, match="character 70 "):
        trained.encode("0123456 8\n" * 7 + "\udc00")


# ------------------------------------------------------------------ cleaning


def literally_clean(text: str) -> str:
    text = ftfy.fix_text(text)
    for odd, plain in ("—", "-"), ("–", "-"), ("―", "-"), ("…", "..."), ("´", "'"):
        text = text.replace(odd, plain)
    return text


@given(LINES | MIXTURES | MOJIBAKE_LINES | ANY_TEXT)
@examples(2500)
def test_clean_is_ftfy_and_five_replacements(text: str) -> None:
    assert clean(text).decode() == literally_clean(text)


@pytest.mark.parametrize("text", LISTED, ids=[str(number) for number in range(len(LISTED))])
def test_clean_is_ftfy_on_the_listed_texts(text: str) -> None:
    assert clean(text).decode() == literally_clean(text)


def test_lines_of_tame_characters_are_never_bad_for_ftfy() -> None:
    quiet = [chr(code) for code in range(0x20, 0x7F) if chr(code) != "&"] + ["\t"]
    # All strings of three: no rule of ftfy's looks further but those for Arabic and Cyrillic.
    assert not any(is_bad(a + b + c) for a, b, c in product([*TAME, *quiet], repeat=3))
    # Where a rule did, a letter of each case, a digit, a blank and a sign stand for all of their class.
    assert not any(is_bad("".join(five)) for five in product([*TAME, *"aZ0 .'"], repeat=5))


def test_no_sign_of_mojibake_is_longer_than_the_reach() -> None:
    assert _reach(BADNESS_RE.pattern, BADNESS_RE.flags) <= cleaning._MOJIBAKE_REACH


def test_ftfy_only_replaces_what_tame_says_it_does() -> None:
    for character, plain in TAME.items():
        for frame in "{}", "a{}b", " {} ", "{0}{0}", "A{}.", "0{}\n":
            text = frame.format(character)
            assert literally_clean(text) == text.replace(character, plain)


ESCAPE_PARTS = ["&", "amp;", "#38;", "#x26;", "lt;", "eacute;", "a", "&#1;", "mp;", "semi;", " "]


@given(st.lists(st.sampled_from(ESCAPE_PARTS), max_size=30))
@examples(1000)
def test_nested_escapes_come_off_as_ftfy_takes_them_off(parts: list[str]) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaning, "_MOST_PASSES", -1)  # for every line with an escape, not only for very deep ones
        assert clean(text).decode() == literally_clean(text)


# ------------------------------------------------------------------ long chunks


@pytest.fixture(scope="module")
def splitter() -> Splitter:
    return Splitter()


def _affix_characters() -> Iterator[str]:
    """Every character that spaCy cuts off or at, of pictures only a few."""
    spacys = spacy.blank("en").tokenizer
    pictures = 0
    for code in range(0x21, 0x10000):
        character = chr(code)
        if character.isspace() or 0xD800 <= code < 0xE000:
            continue
        if (
            spacys.find_prefix(character)
            or spacys.find_suffix("a" + character)
            or spacys.find_suffix("1" + character)
            or spacys.find_infix(f"a{character}a")
            or spacys.find_infix(f"1{character}1")
        ):
            pictures += unicodedata.category(character) == "So"
            if unicodedata.category(character) != "So" or pictures < 5:
                yield character


AFFIXES = [
    *_affix_characters(),
    *("km", "'s", "''", "..", "……", "US$", ":)", "8-D", "a.", "A.", "1.", "1km", "o.o", "a=", "中"),
]


def _assert_split_as_spacy(splitter: Splitter, text: str) -> None:
    expected = tuple(token.text.lower() for token in splitter._whole(text))
    assert splitter._apply_special_cases([splitter._split_long(text)]) == expected


def test_there_are_affix_characters_to_try() -> None:
    assert {*"$%'\"().,:;=<>#@€…"} - {"@"} <= {*AFFIXES}
    assert len(AFFIXES) > 100


@pytest.mark.parametrize("length", [*range(1, 13), 31, 32, 33, 64, 65, 201])
def test_runs_of_affixes_are_peeled_as_spacy_peels_them(splitter: Splitter, length: int) -> None:
    for affix in AFFIXES:
        _assert_split_as_spacy(splitter, affix * length)
        _assert_split_as_spacy(splitter, f"a{affix * length}1")
        _assert_split_as_spacy(splitter, f"1{affix * length}km")


@pytest.mark.slow
@pytest.mark.parametrize("length", [100, 199, 200, 500, 999, 1000])
def test_long_runs_of_affixes_are_peeled_as_spacy_peels_them(splitter: Splitter, length: int) -> None:
    for affix in AFFIXES:
        _assert_split_as_spacy(splitter, (affix * length)[:length])


@pytest.mark.slow
@pytest.mark.parametrize("affix", ["$", ".", "'", ":)", "km", "a.", "-", "…"])
def test_runs_of_every_length_are_peeled_as_spacy_peels_them(splitter: Splitter, affix: str) -> None:
    for length in range(1, 1001):
        _assert_split_as_spacy(splitter, (affix * length)[:length])


@given(RUNS, st.sampled_from(["", *SIGNS, *RULES]), st.sampled_from(["", *SIGNS, *RULES]))
@examples(700)
def test_mixtures_of_runs_are_peeled_as_spacy_peels_them(splitter: Splitter, text: str, first: str, last: str) -> None:
    _assert_split_as_spacy(splitter, "".join((first + text[:1000] + last).split()))


@given(st.lists(st.sampled_from([*SIGNS, *WORDS, *AFFIXES]), min_size=1, max_size=30))
@examples(1000)
def test_short_mixtures_are_peeled_as_spacy_peels_them(splitter: Splitter, parts: list[str]) -> None:
    text = "".join("".join(parts).split())
    if text:
        _assert_split_as_spacy(splitter, text)


@given(RUNS | special_cases(RULES))
@examples(500)
def test_the_length_that_counts_as_long_changes_nothing(judge: ReferenceWords, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "LONG", 3)
        assert _SHORT_IS_LONG(text) == judge.words(text)


_SHORT_IS_LONG = Words()


def _around(parsed: Any) -> int:
    """The most characters that the look-arounds of a pattern look at."""
    found = 0
    for code, argument in parsed:
        if code in (re_codes.ASSERT, re_codes.ASSERT_NOT):
            found += argument[1].getwidth()[1]
        elif code is re_codes.BRANCH:
            found += max(_around(branch) for branch in argument[1])
        elif code is re_codes.SUBPATTERN:
            found += _around(argument[3])
    return found


def _reach(pattern: str, flags: int = 0) -> int:
    """The most characters that a pattern looks at, before, in and behind its match."""
    parsed = re_parser.parse(pattern, flags)
    return int(parsed.getwidth()[1]) + _around(parsed)


def test_no_affix_but_the_run_of_dots_is_longer_than_the_window() -> None:
    defaults = spacy.blank("en").Defaults
    for patterns in defaults.prefixes, defaults.suffixes:
        reaches = {pattern: _reach(pattern) for pattern in patterns}
        assert reaches.pop(r"\.\.+") > 1000
        assert max(reaches.values()) < splitting._WINDOW - splitting._MARGIN


def test_every_prefix_is_searched_at_the_beginning_and_every_suffix_at_the_end(splitter: Splitter) -> None:
    prefix = re_parser.parse(splitter._whole.prefix_search.__self__.pattern)
    suffix = re_parser.parse(splitter._whole.suffix_search.__self__.pattern)
    for parsed, place, anchor in (prefix, 0, re_codes.AT_BEGINNING), (suffix, -1, re_codes.AT_END):
        ((code, (_, branches)),) = list(parsed) if len(parsed) == 1 else [(re_codes.BRANCH, (None, [parsed]))]
        assert code is re_codes.BRANCH
        assert all(list(branch)[place] == (re_codes.AT, anchor) for branch in branches)


@given(st.text("ab.:@#1-/é", max_size=25))
@examples(2000)
def test_the_url_pattern_without_its_nested_repetition_matches_the_same(splitter: Splitter, text: str) -> None:
    spacys = splitter._whole.url_match
    assert spacys.__self__.pattern != splitter._url_match.__self__.pattern  # type: ignore[attr-defined]
    assert (splitter._url_match(text) is None) == (spacys(text) is None)


# ------------------------------------------------------------------ time

UNITS = [
    *("a", "1", "$", "=", "%", "'", ".", ":)", "a.", "-", "中", "😀", "\\", "&amp;", "<", "Ã©", "e\u0301", "ab$"),
    *("a-", "a:", "a:@", "http:", "a@b.c", "1:", "a'", "can't", "1km", "\u00a0", "a\u00a0", " ", "\n", "\t", ": ) "),
    *("&#38;", "…", "—", "“", "\x00", "\x1b[1", "\x85", "\u2028", "\r", "\u200b", "()", "?!", "a_", "a,", "..a", "' "),
    *("a\n", "é\n", "&amp;\n", "<3", "İ", "Σ", "ﬁ", "ＡＢ", "م", "\U0010ffff", "x=y", "a<b", "'s", "''", "a.B", "€"),
]
NESTED = {  # what they come to in the end
    "names": ("&" + "amp;" * 125_000, "&"),
    "numbers": ("&" + "#38;" * 125_000, "&"),
    "around what is dropped": ("&a" * 60_000 + "&#1;" + "mp;#1;" * 60_000, ""),
    "after an accent": ("é&" + "amp;" * 125_000, "é&"),
    "around control characters": ("&" + "a\x01mp;" * 100_000, "&"),
    "beside many that are not": ("&eacute;" * 30_000 + "&" + "amp;" * 60_000, "é" * 30_000 + "&"),
}


def _calls(tokenizer: Tokenizer, text: str) -> int:
    """Count the functions that encoding a text calls: the same on any machine, however busy it is."""
    tokenizer._rules.__dict__.pop("_chunk_encoder", None)
    tokenizer.encode("warm")
    calls = 0

    def hear(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        tokenizer.encode(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.fixture
def own(trained: Tokenizer) -> Tokenizer:
    """A tokenizer whose tables nobody else uses."""
    return Tokenizer(trained.vocabulary)


@pytest.mark.parametrize("unit", UNITS)
def test_work_grows_with_the_length(own: Tokenizer, unit: str) -> None:
    times = 10_000 // len(unit)
    assert _calls(own, unit * 2 * times) < 2.2 * _calls(own, unit * times)  # a square would be 4


# What follows ends in a moment; were there a square anywhere, also inside one call of a library, it would not end.


@pytest.mark.parametrize("kind", NESTED)
def test_deeply_nested_escapes_are_resolved_to_the_end(own: Tokenizer, kind: str) -> None:
    nested, resolved = NESTED[kind]
    assert clean(nested).decode() == resolved
    assert own.encode(nested) == own.encode(resolved)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_a_megabyte_of_one_sign_is_encoded_to_the_end(own: Tokenizer, unit: str) -> None:
    own.encode((unit * 1_000_000)[:1_000_000])


# ------------------------------------------------------------------ batches, tables, pieces


TEXTS = [text for text in LISTED if len(text) < 1000]


def test_a_batch_is_its_texts_one_by_one_in_any_order(tokenizer: Tokenizer) -> None:
    one_by_one = [tokenizer.encode(text) for text in TEXTS]
    assert tokenizer.encode_batch(TEXTS) == one_by_one
    assert tokenizer.encode_batch(TEXTS[::-1]) == one_by_one[::-1]
    assert Tokenizer(tokenizer.vocabulary).encode_batch(TEXTS) == one_by_one
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch([""]) == [[]]
    assert tokenizer.encode_batch(["", "a", ""]) == [[], tokenizer.encode("a"), []]


def test_a_table_that_starts_afresh_all_the_time_gives_the_same_ids(
    trained: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trained.encode_batch(TEXTS)
    limits = [name for name, value in vars(chunks).items() if name.isupper() and isinstance(value, int)]
    assert len(limits) >= 3
    for name in limits:
        monkeypatch.setattr(chunks, name, 3)
        assert Tokenizer(trained.vocabulary).encode_batch(TEXTS) == expected
        assert [trained.encode(text) for text in TEXTS] == expected


@given(st.lists(SIGNS_AND_BLANKS | MIXTURES, max_size=8))
@examples(300)
def test_a_batch_of_any_texts_is_its_texts_one_by_one(trained: Tokenizer, texts: list[str]) -> None:
    batch = trained.encode_batch(texts)
    assert batch == [trained.encode(text) for text in texts]


def _cut_at(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "LIMIT", limit)
    monkeypatch.setattr(tokenizer_module, "pieces", partial(pieces.pieces, limit=limit))


def literal_pieces(text: str, limit: int) -> list[str]:
    """The cut as the rule says it: after the last newline, else after the last blank, else at the limit."""
    if len(text) <= limit:
        return [text]
    head = text[:limit]
    for sign in "\n", " ":
        if sign in head:
            head = head[: head.rindex(sign) + 1]
            break
    return [head, *literal_pieces(text[len(head) :], limit)]


def literal_encode(reference: ReferenceWords, newline: int, text: str, limit: int) -> list[int]:
    """The ids of the pieces one after the other; between two that have ids a newline, if a cut there was at one."""
    ids: list[int] = []
    cut_at_newline = False
    for piece in literal_pieces(text, limit):
        own = reference.encode(piece)
        if ids and own and cut_at_newline:
            ids.append(newline)
        if own:
            cut_at_newline = False
        ids += own
        cut_at_newline = cut_at_newline or piece.endswith("\n")
    return ids


@given(st.lists(MIXTURES | st.text("ab \n&<;", max_size=30), min_size=1, max_size=3), st.integers(1, 25))
@examples(500)
def test_a_long_text_is_its_pieces_joined(
    trained: Tokenizer, trained_reference: ReferenceWords, texts: list[str], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _cut_at(limit, patch)
        expected = [literal_encode(trained_reference, trained.newline_id, text, limit) for text in texts]
        assert trained.encode_batch(texts) == expected
        assert [trained.encode(text) for text in texts] == expected


@pytest.fixture(scope="module")
def trained_reference(trained: Tokenizer) -> ReferenceWords:
    return reference_of(trained)


@pytest.mark.parametrize("between", ["\n", "\n\n\n", " \n \n", " "])
def test_a_cut_at_newlines_keeps_one_newline_token(trained: Tokenizer, between: str) -> None:
    ids = trained.encode("ab " * 333_000 + between + "cd " * 10_000)
    assert ids.count(trained.newline_id) == (1 if "\n" in between else 0)
    assert ids == trained.encode("ab " * 333_000) + [trained.newline_id] * ("\n" in between) + trained.encode(
        "cd " * 10_000
    )


def test_a_text_over_a_million_characters_is_its_pieces_joined(trained: Tokenizer) -> None:
    reference = reference_of(trained)
    text = (made_text(200) + "\n&amp; <\n") * 70 + "x" * 1_000_100 + "\n\n &amp; end"
    assert len(text) > 1_500_000
    assert trained.encode(text) == literal_encode(reference, trained.newline_id, text, 1_000_000)


# ------------------------------------------------------------------ real books


def _book_agrees(path: Path, vocabulary_files: tuple[Path, Path]) -> str:
    """Return an empty string if the book's ids are those of the reference, else where they part."""
    tokenizer = _cached_released(vocabulary_files)
    reference = reference_of(tokenizer)
    text = lzma.decompress(path.read_bytes()).decode()
    got, expected = tokenizer.encode(text), literal_encode(reference, tokenizer.newline_id, text, 1_000_000)
    if got == expected:
        return ""
    place = next(place for place, (one, other) in enumerate(zip_longest(got, expected)) if one != other)
    return f"{path.name}: token {place}: {tokenizer.decode(expected[max(0, place - 5) : place + 5])!r}"


_RELEASED: list[Tokenizer] = []


def _cached_released(files: tuple[Path, Path]) -> Tokenizer:
    if not _RELEASED:
        _RELEASED.append(import_tokenizer(*files))
    return _RELEASED[0]


def _books(data: Path) -> tuple[list[Path], tuple[Path, Path]]:
    books = sorted((data / "books").glob("*.xz"), key=lambda path: path.stat().st_size)
    assert books
    return books, (data / "openai" / "encoder_bpe_40000.json", data / "openai" / "vocab_40000.bpe")


def test_some_books_give_the_ids_of_the_reference(data: Path) -> None:
    books, files = _books(data)
    assert not any(_book_agrees(book, files) for book in books[:3])


@pytest.mark.slow
def test_all_books_give_the_ids_of_the_reference(data: Path) -> None:
    books, files = _books(data)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        answers = list(pool.map(partial(_book_agrees, vocabulary_files=files), books[::-1]))
    assert [answer for answer in answers if answer] == []
