"""Answers that agree with the labels as the commonest label does know nothing of them."""

from __future__ import annotations

from gpt1.labelling.judging import agreement
from gpt1.tasks.assessment import wilson


def test_agreement_is_held_against_the_commonest_label() -> None:
    found = agreement(["a"] * 60 + ["b"] * 40, ["a"] * 50 + ["b"] * 50)
    assert (found.rows, found.agreed, found.label, found.commonest) == (100, 90, "a", 60)
    assert found.interval == wilson(90, 100)
    assert not found.may_be_chance
    assert "agree with 90.0 % of the labels (95 % interval 82.6 to 94.5), and 'a' alone is 60.0 %" in found.in_words()


def test_a_little_more_by_few_rows_may_be_chance() -> None:
    labels = ["a"] * 6 + ["b"] * 4
    assert agreement(labels, ["a"] * 6 + ["b", "a", "a", "a"]).may_be_chance
    assert agreement(labels, ["a"] * 10).may_be_chance
    assert not agreement(100 * labels, 100 * (["a"] * 6 + ["b", "a", "a", "a"])).may_be_chance
