"""What a score is worth, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from gpt1.documents.verdict import verdict
from gpt1.records.evaluation import Cut, Evaluation
from gpt1.tasks.assessment import ClassRates, Confusion


def measured(counts: list[list[int]], words: float | None, metric: str = "accuracy", **more: Any) -> Evaluation:
    """Return an evaluation of two labels with such a table of answers."""
    examples = sum(map(sum, counts))
    score = more.pop("score", (counts[0][0] + counts[1][1]) / examples)
    rates = [ClassRates(name, 0.0, 0.0, 0.0, sum(row)) for name, row in zip(("bad", "good"), counts, strict=True)]
    return Evaluation(
        task="reviews",
        split="dev",
        step=1,
        unlabelled=0,
        cut=Cut(0),
        examples=examples,
        metrics={metric: score},
        intervals={metric: (score - 0.02, score + 0.02)},
        confusion=Confusion(["bad", "good"], counts),
        classes=rates,
        mistakes=[],
        words=None if words is None else {metric: words},
        **more,
    )


@pytest.mark.parametrize(
    ("counts", "words", "sentence", "is_of_use"),
    [
        ([[40, 10], [10, 40]], 0.7, "10.0 points ahead of counting words (accuracy 80.0, counting words 70.0)", True),
        (
            [[40, 10], [10, 40]],
            0.79,
            "1.0 points ahead of counting words (accuracy 80.0, counting words 79.0); 100 rows are too few to be "
            "sure of that",
            True,
        ),
        ([[40, 10], [10, 40]], 0.8, "as good as counting words (accuracy 80.0, counting words 80.0)", True),
        (
            [[30, 20], [20, 30]],
            0.71,
            "11.0 points behind counting words (accuracy 60.0, counting words 71.0); do not use it",
            False,
        ),
        ([[0, 5], [0, 95]], 0.95, "it always answers 'good'; do not use it", False),
        ([[0, 0], [10, 40]], 0.5, "80.0 is no better than always answering 'good' (100.0); do not use it", False),
        ([[1, 9], [9, 81]], None, "82.0 is no better than always answering 'good' (90.0); do not use it", False),
    ],
)
def test_a_score_is_held_against_words_and_the_commonest_label(
    counts: list[list[int]], words: float | None, sentence: str, is_of_use: bool
) -> None:
    found = verdict(measured(counts, words))
    assert found is not None
    assert (found.sentence, found.is_of_use) == (sentence, is_of_use)


def test_where_there_is_nothing_to_hold_it_against_nothing_is_said() -> None:
    assert verdict(measured([[40, 10], [10, 40]], None)) is None


def test_a_metric_that_is_no_share_of_right_answers_is_not_held_against_the_commonest_label() -> None:
    found = verdict(measured([[1, 9], [9, 81]], 0.05, "matthews", score=0.1))
    assert found is not None
    assert found.is_of_use
