"""Numbers and lists as a person would say them."""

from __future__ import annotations

import pytest

from gpt1.base.wording import aligned, hundred, many, some


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
