"""Long texts in windows: all of them is read, each window is a sequence as the paper lays it out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import SettingError
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE, lay_out
from gpt1.tasks.windows import MOST_WINDOWS, call_for_windows, lay_out_windows, windows_of, without_stretch
from gpt1.text.specials import special_ids

VOCABULARY = 1000
START, DELIMITER, EXTRACT = special_ids(VOCABULARY).values()


def laid_out(shape: str, *lengths: int, context: int = 12) -> list[list[int]]:
    parts = [list(range(100 * part, 100 * part + length)) for part, length in enumerate(lengths)]
    windows = windows_of(shape, lengths, context)
    return lay_out_windows(shape, parts, windows, vocab_size=VOCABULARY).sequences


def test_a_long_text_is_read_in_windows_that_share_a_quarter() -> None:
    assert laid_out(SINGLE, 17) == [
        [START, *range(0, 10), EXTRACT],
        [START, *range(7, 17), EXTRACT],
    ]
    assert laid_out(SINGLE, 24) == [
        [START, *range(0, 10), EXTRACT],
        [START, *range(7, 17), EXTRACT],
        [START, *range(14, 24), EXTRACT],
    ]


def test_the_shorter_part_of_a_pair_stands_whole_in_each_window() -> None:
    for shape in (PAIR, BOTH):
        one = [START, 0, 1, DELIMITER, *range(100, 107), EXTRACT]
        two = [START, 0, 1, DELIMITER, *range(105, 112), EXTRACT]
        turned = [[START, *range(at, at + 7), DELIMITER, 0, 1, EXTRACT] for at in (100, 105)]
        expected = [one, two] if shape == PAIR else [one, turned[0], two, turned[1]]
        assert laid_out(shape, 2, 12) == expected
    assert laid_out(PAIR, 12, 2)[1] == [START, *range(5, 12), DELIMITER, 100, 101, EXTRACT]


def test_two_long_parts_go_through_their_windows_together() -> None:
    found = laid_out(PAIR, 11, 8)
    assert [len(ids) for ids in found] == [12, 12, 12]
    assert found[0] == [START, *range(0, 5), DELIMITER, *range(100, 104), EXTRACT]
    assert found[-1] == [START, *range(6, 11), DELIMITER, *range(104, 108), EXTRACT]


@given(
    st.sampled_from([SINGLE, PAIR, BOTH]),
    st.lists(st.integers(0, 120), min_size=2, max_size=2),
    st.integers(8, 40),
)
def test_each_token_is_read_up_to_the_last_window(shape: str, lengths: list[int], context: int) -> None:
    lengths = lengths[:1] if shape == SINGLE else lengths
    parts = [list(range(1000 * part, 1000 * part + length)) for part, length in enumerate(lengths)]
    windows = windows_of(shape, lengths, context)
    found = lay_out_windows(shape, parts, windows, vocab_size=VOCABULARY * 10)
    assert max(map(len, found.sequences)) <= context
    assert found.windows == len(windows) == len(found.sequences) // (2 if shape == BOTH else 1) <= MOST_WINDOWS
    for part, length in enumerate(lengths):
        ends, size = 0, {end - start for start, end in (window[part] for window in windows)}
        assert len(size) == 1
        for start, end in (window[part] for window in windows):
            assert start <= ends <= end
            assert ends == 0 or 4 * (ends - start) >= end - start
            ends = end
        if found.windows < MOST_WINDOWS:
            assert ends == length
    # Without what they have again, windows are the text.
    new = iter(found.again)
    read = sum(end - start - next(new) for window in windows for start, end in window)
    assert read + found.cut == sum(lengths)
    if len(windows) == 1:
        plain = lay_out(shape, parts, vocab_size=VOCABULARY * 10, context=context)
        assert (found.sequences, found.cut, set(found.again)) == (plain.sequences, 0, {0})


def test_what_more_than_the_most_windows_would_have_is_cut() -> None:
    reached = 10 + (MOST_WINDOWS - 1) * 7
    parts = [list(range(reached + 7))]
    windows = windows_of(SINGLE, [reached + 7], 12)
    found = lay_out_windows(SINGLE, parts, windows, vocab_size=VOCABULARY)
    assert (found.windows, found.cut, found.sequences[-1][-2]) == (MOST_WINDOWS, 7, reached - 1)


def test_a_word_that_is_taken_out_leaves_windows_where_they_are() -> None:
    windows = windows_of(SINGLE, [24], 12)
    assert [window[0] for window in windows] == [(0, 10), (7, 17), (14, 24)]
    assert [window[0] for window in without_stretch(windows, 0, 3, 2)] == [(0, 8), (5, 15), (12, 22)]
    assert [window[0] for window in without_stretch(windows, 0, 7, 2)] == [(0, 8), (7, 15), (12, 22)]
    assert [window[0] for window in without_stretch(windows, 0, 20, 3)] == [(0, 10), (7, 17), (14, 21)]
    assert without_stretch(windows, 1, 3, 2) == windows


def test_a_tenth_of_texts_that_do_not_fit_call_for_windows() -> None:
    few, enough = np.array([0] * 91 + [1] * 9), np.array([0] * 90 + [1] * 10)
    assert not call_for_windows({SINGLE}, few, 16)
    assert call_for_windows({SINGLE, BOTH}, enough, 16)
    assert not call_for_windows({SINGLE, CHOICES}, enough, 16)
    assert not call_for_windows({SINGLE}, enough, 7)


def test_choices_and_contexts_without_room_are_refused() -> None:
    with pytest.raises(SettingError, match=r"answers to choose from; leave `finetuning\.windows` off"):
        windows_of(CHOICES, [20, 0, 2, 2], 12)
    with pytest.raises(SettingError, match="a context of 7 has no room for windows; the smallest is 8"):
        windows_of(SINGLE, [20], 7)
