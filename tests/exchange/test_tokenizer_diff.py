"""Our ids beside those of transformers, and the reasons why they differ."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from tokenizers.normalizers import Sequence

from gpt1.base.errors import InputError
from gpt1.documents.blocks import Note
from gpt1.documents.terminal import render
from gpt1.exchange.tokenizer_diff import (
    OTHER,
    OTHER_RULES,
    REASONS,
    _Sides,
    _theirs,
    compare_with_transformers,
    comparison_blocks,
    why,
)
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, train_words
from tests.properties import examples
from tests.text.tools import MIXTURES

# A text, the piece of it that differs, and all reasons why.
KNOWN = [
    ("the <unk> key", "<unk>", ["mark"]),
    ("the “key”", "“key”", ["repaired"]),
    ("the &lt; key", "&lt;", ["repaired"]),
    ("a key — sold", "—", ["plain"]),
    ("it is so…", "so…", ["plain", "words"]),
    ("a naïve girl", "naïve", ["accents"]),
    ("a 中文 key", "中文", ["ideographs"]),
    ("a sil\u200bver key", "sil\u200bver", ["invisible"]),
    ("ΟΔΟΣ sold", "ΟΔΟΣ", ["lower"]),
    ("she didn't", "didn't", ["words"]),
    ("the key\n\nthe map", "\n\n", ["newlines"]),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A vocabulary with the letters of the examples, so that what differs does not hide as unknown."""
    letters = "οδοσς naïve 中文 “key” — … sil\u200bver didn't <unk> the map is sold so & lt ; keys a girl she"
    return train_words(WordCounter().count([letters, "中 文 — “ ” …"]), merges=5)


@pytest.fixture(scope="module")
def sides(tokenizer: Tokenizer) -> _Sides:
    return _Sides(tokenizer, _theirs(tokenizer)[0])


@pytest.mark.parametrize(("text", "piece", "reasons"), KNOWN, ids=[reasons[0] for _, _, reasons in KNOWN])
def test_a_difference_has_its_reasons(text: str, piece: str, reasons: list[str], tokenizer: Tokenizer) -> None:
    found = compare_with_transformers(tokenizer, text)
    assert [(one.text, one.reasons) for one in found.differences] == [(piece, reasons)]


def test_every_reason_has_an_example() -> None:
    assert {reason for _, _, reasons in KNOWN for reason in reasons} == REASONS.keys()


def test_words_cut_alike_have_the_same_ids(tokenizer: Tokenizer) -> None:
    found = compare_with_transformers(tokenizer, "She sold a key, the map.")
    assert (found.differences, found.pieces) == ([], 6)
    assert found.tokens["ours"] == found.tokens["theirs"] == len(tokenizer.encode("She sold a key, the map."))
    assert compare_with_transformers(tokenizer, " \n ").pieces == 0


@given(text=MIXTURES)
@example(text="a\n\n<unk>b <unk>")
@example(text="&lt; here and &amp; there")
@examples(200)
def test_the_way_leads_from_transformers_to_ours_and_pieces_make_up_the_text(
    text: str, tokenizer: Tokenizer, sides: _Sides
) -> None:
    ours, theirs = sides._whole
    pieces = list(sides.pieces(text))
    assert [id for piece in pieces for id in sides.ours(piece)] == ours(text) == tokenizer.encode(text)
    assert [id for piece in pieces for id in sides.theirs(piece)] == theirs(text)
    for piece in pieces:
        first, second, *_, last = (encode(piece) for _, encode in sides._way)
        assert first == second
        assert last == sides.ours(piece)
        assert bool(sides.reasons(piece)) or sides.ours(piece) == sides.theirs(piece)


def test_rules_of_transformers_that_are_not_known_are_told(tokenizer: Tokenizer) -> None:
    theirs, _ = _theirs(tokenizer)
    theirs.backend_tokenizer.normalizer = Sequence([])  # nothing is made small
    assert _Sides(tokenizer, theirs).reasons("KEY") == [OTHER]
    assert why(OTHER) == OTHER_RULES


def test_where_a_rule_looks_across_a_blank_the_line_is_the_piece(tokenizer: Tokenizer) -> None:
    found = compare_with_transformers(tokenizer, "a key\n' ''Tis didn't\nsold")  # which spaCy cuts otherwise than ''Tis
    assert [(one.text, one.count) for one in found.differences] == [("\n", 2), ("' ''Tis didn't", 1)]


def test_where_lines_depend_on_each_other_the_text_is_the_piece(tokenizer: Tokenizer) -> None:
    text = "the < key\n&lt; didn't"  # behind a `<` ftfy no longer unescapes
    found = compare_with_transformers(tokenizer, text)
    assert [(one.text, one.reasons) for one in found.differences] == [(text, ["words", "newlines"])]


def test_bytes_have_nothing_to_compare(bytes_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="nothing to compare: a tokenizer of kind bytes gives the same ids"):
        compare_with_transformers(bytes_tokenizer, "a key")


def test_what_is_shown_and_what_json_has(tokenizer: Tokenizer) -> None:
    found = compare_with_transformers(tokenizer, "didn't didn't\nthe “key”")
    shown = render(comparison_blocks(found, tokenizer), width=120, is_terminal=False)
    assert "4 of 5 pieces of text have other ids there." in shown
    assert f"words, 2 pieces: {REASONS['words']}" in shown
    facts = found.as_json(tokenizer)
    assert facts["reasons"]["words"] == {"pieces": 2, "why": REASONS["words"]}
    first = facts["differences"][0]
    assert (first["text"], first["count"]) == ("didn't", 2)
    assert "".join(first["our_tokens"]) == "did n't "
    assert "".join(first["their_tokens"]) == "didn ' t "
    assert (facts["pieces"], facts["differing"]) == (5, 4)
    same, _ = comparison_blocks(compare_with_transformers(tokenizer, "a key"), tokenizer)
    assert same == Note("The same ids for 2 pieces of text.", leads=True)
