"""Numbers and lists as a person would say them."""

from __future__ import annotations

import unicodedata

import pytest

from gpt1.base.wording import aligned, hundred, many, shortened, some, width


@pytest.mark.parametrize(("count", "said"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (2000, "2,000 lines")])
def test_one_is_said_without_an_s_and_thousands_with_a_comma(count: int, said: str) -> None:
    assert many(count, "line") == said


def test_of_many_names_a_few_are_told_and_the_rest_is_counted() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcde")) == "a, b, c, d, e"
    assert some(list("abcdefg")) == "a, b, c, d, e, 2 more"
    assert some(["a"] * 2005) == "a, a, a, a, a, 2,000 more"


@pytest.mark.parametrize(("score", "said"), [(0.5, "50.0"), (1, "100.0"), (-0.0333, "-3.3"), (-0.0001, "0.0")])
def test_a_score_is_said_as_the_papers_tables_have_it(score: float, said: str) -> None:
    assert hundred(score) == said


def test_columns_stand_below_each_other() -> None:
    assert aligned([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc  d"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_columns_stand_below_each_other_in_signs_of_two_columns(form: str) -> None:
    rows = [["긍정", "0.9"], ["negative", "0.1"], ["肯定", "0.0"], ["café", "0.0"]]
    found = aligned([[unicodedata.normalize(form, cell) for cell in row] for row in rows])
    assert [width(line) for line in found] == [13] * 4


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "longe…"),
        ("재미있는 영화", 3, "재미있…"),
        (unicodedata.normalize("NFD", "재미있는"), 3, unicodedata.normalize("NFD", "재") + "…"),
        (unicodedata.normalize("NFD", "각각"), 4, unicodedata.normalize("NFD", "각") + "…"),
        ("cafe\u0301 noir", 4, "caf…"),
        ("a👩‍👩‍👧 b", 3, "a…"),
        ("ok👍🏽 b", 3, "ok…"),
        ("🇰🇷🇫🇷", 3, "🇰🇷…"),
        ("e" + "\u0301" * 9, 4, "e\u0301\u0301\u0301…"),
    ],
)
def test_a_text_is_not_cut_inside_of_what_a_person_sees_as_one_sign(text: str, most: int, shown: str) -> None:
    assert shortened(text, most) == shown
