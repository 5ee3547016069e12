"""What is said of the figures of a report."""

from __future__ import annotations

import pytest

from gpt1.inspection.verdict import _leaked


@pytest.mark.parametrize(
    ("quoted", "contained", "finding"),
    [
        (0, 60, "60 short task examples (under 13 words) found word for word in this text"),
        (1, 0, "1 task example found in this text with 13 words in a row or more"),
        (
            5,
            3,
            "5 task examples found in this text with 13 words in a row or more; "
            "3 of these or of shorter ones stand in it wholly, word for word",
        ),
    ],
)
def test_leaked_examples_are_told_without_a_nought(quoted: int, contained: int, finding: str) -> None:
    files = [{"examples_sharing_quote": quoted, "examples_contained": contained}]
    ((_, said, _),) = _leaked({"leakage": {"quote_words": 13, "files": files}})
    assert said == finding


def test_nothing_is_said_where_nothing_leaked() -> None:
    files = [{"examples_sharing_quote": 0, "examples_contained": 0}]
    assert not list(_leaked({"leakage": {"quote_words": 13, "files": files}}))
