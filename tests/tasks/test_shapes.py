"""The layout of section 3.3 of the paper, and what gives way when a text does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import SettingError
from gpt1.tasks.shapes import BOTH, CHOICES, CONTEXT, PAIR, SHAPES, SINGLE, SMALLEST_CONTEXT, WORD_SHAPES, lay_out
from tests.reference.shapes import reference_layout

VOCAB = 40_478
S, D, E = 40_478, 40_479, 40_480  # as the released vocabulary numbers them


def ids(*lengths: int) -> list[list[int]]:
    """Parts of the given lengths in which every token is different."""
    return [list(range(1000 * part, 1000 * part + length)) for part, length in enumerate(lengths)]


def sequences(shape: str, parts: list[list[int]], context: int = CONTEXT) -> list[list[int]]:
    return lay_out(shape, parts, vocab_size=VOCAB, context=context).sequences


def test_a_single_text_stands_between_start_and_extract():
    assert sequences(SINGLE, [[7, 8]]) == [[S, 7, 8, E]]


def test_a_pair_is_parted_by_the_delimiter():
    assert sequences(PAIR, [[7, 8], [9]]) == [[S, 7, 8, D, 9, E]]


def test_both_gives_the_two_orders():
    assert sequences(BOTH, [[7, 8], [9]]) == [[S, 7, 8, D, 9, E], [S, 9, D, 7, 8, E]]


def test_choices_give_one_sequence_an_answer_behind_context_and_question():
    expected = [[S, 1, 2, D, 3, E], [S, 1, 2, D, 4, 5, E], [S, 1, 2, D, 6, E]]
    assert sequences(CHOICES, [[1], [2], [3], [4, 5], [6]]) == expected


def test_choices_without_a_question_show_context_and_answer():
    assert sequences(CHOICES, [[1, 2], [], [3], [4]]) == [[S, 1, 2, D, 3, E], [S, 1, 2, D, 4, E]]


def test_a_text_that_fills_the_context_exactly_is_not_cut():
    laid_out = lay_out(SINGLE, ids(510), vocab_size=VOCAB, context=512)
    assert laid_out.cut == 0
    assert len(laid_out.sequences[0]) == 512


def test_one_token_too_many_costs_the_last_token_of_the_text():
    laid_out = lay_out(SINGLE, ids(511), vocab_size=VOCAB, context=512)
    assert laid_out.cut == 1
    assert laid_out.sequences == [[S, *range(510), E]]


def test_the_longer_part_of_a_pair_gives_way_and_the_shorter_stays_whole():
    (sequence,) = sequences(PAIR, ids(20, 3), context=12)
    assert sequence == [S, *range(6), D, 1000, 1001, 1002, E]


def test_of_two_equal_parts_the_earlier_gives_way_first():
    (sequence,) = sequences(PAIR, ids(5, 5), context=12)
    assert sequence == [S, *range(4), D, *range(1000, 1005), E]


def test_both_orders_show_the_same_texts():
    first, second = sequences(BOTH, ids(9, 8), context=12)
    assert first == [S, *range(4), D, *range(1000, 1005), E]
    assert second == [S, *range(1000, 1005), D, *range(4), E]


def test_the_longest_answer_decides_the_context_of_all_answers():
    laid_out = lay_out(CHOICES, ids(50, 2, 1, 4), vocab_size=VOCAB, context=14)
    assert laid_out.sequences == [
        [S, *range(5), 1000, 1001, D, 2000, E],
        [S, *range(5), 1000, 1001, D, 3000, 3001, 3002, 3003, E],
    ]
    assert laid_out.cut == 45  # the context is counted once, not once an answer


def test_question_and_answers_are_cut_only_when_no_context_is_left():
    laid_out = lay_out(CHOICES, ids(30, 6, 2, 9), vocab_size=VOCAB, context=11)
    assert laid_out.sequences == [
        [S, *range(1000, 1004), D, 2000, 2001, E],
        [S, *range(1000, 1004), D, *range(3000, 3004), E],
    ]
    assert laid_out.cut == 30 + 2 + 5


def test_a_context_without_room_for_text_is_refused():
    with pytest.raises(SettingError, match="context of 3 has no room"):
        lay_out(PAIR, ids(1, 1), vocab_size=VOCAB, context=3)


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, list[list[int]], int]:
    shape = draw(st.sampled_from([one for one in SHAPES if one not in WORD_SHAPES]))
    count = {SINGLE: 1, PAIR: 2, BOTH: 2, CHOICES: draw(st.integers(4, 6))}[shape]
    lengths = draw(st.lists(st.integers(0, 14), min_size=count, max_size=count))
    return shape, ids(*lengths), draw(st.integers(SMALLEST_CONTEXT, 30))


@given(examples())
def test_layout_and_cuts_equal_the_reference_that_removes_one_token_at_a_time(example):
    shape, parts, context = example
    laid_out = lay_out(shape, parts, vocab_size=VOCAB, context=context)
    expected, removed = reference_layout(shape, parts, context)
    names = {S: "S", D: "D", E: "E"}
    assert [[names.get(token, token) for token in sequence] for sequence in laid_out.sequences] == expected
    assert laid_out.cut == removed


@given(examples())
def test_every_sequence_fits_and_keeps_its_specials(example):
    shape, parts, context = example
    for sequence in sequences(shape, parts, context):
        assert len(sequence) <= context
        specials = [token for token in sequence if token >= VOCAB]
        assert specials == ([S, E] if shape == SINGLE else [S, D, E])
        assert sequence[0] == S
        assert sequence[-1] == E
