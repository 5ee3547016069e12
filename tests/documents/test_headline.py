"""What a run is worth comes first, beside what it is held against."""

from __future__ import annotations

from dataclasses import replace

from gpt1.documents.blocks import Beside, Pictures
from gpt1.documents.headline import decisive, headline, headline_blocks, yardsticks
from gpt1.documents.terminal import render
from gpt1.records.evaluation import Evaluation, InTrain
from tests.documents.test_verdict import decided, measured


def evaluation(words: float | None = 0.7) -> Evaluation:
    return measured([[40, 10], [10, 40]], words)


def test_the_sentence_says_first_whether_it_is_of_use() -> None:
    good, bad = evaluation(), evaluation(words=0.99)
    assert headline(good, {}).startswith("Of use: ")
    assert headline(bad, {}).startswith("Not of use yet: ")
    assert headline(bad, {}).endswith("do not use it.")
    assert headline(evaluation(words=0.8), {}).startswith("No gain: no better than counting words")


def test_the_sentence_is_that_of_more_rows_where_they_decided_and_claims_nothing_where_rows_were_learned() -> None:
    by = {evaluation().task: decided(0.6, 0.5, commonest=0.6)}
    assert headline(replace(evaluation(), examples=25), by).startswith("Not of use yet: accuracy 60.0 is no better")
    learned = replace(evaluation(), in_train=InTrain(30, {"accuracy": 0.7}))
    assert headline(learned, {}).startswith("How good it is is not known: 10.0 points ahead")


def test_table_and_sentence_are_of_the_same_rows() -> None:
    by = {evaluation().task: decided(0.81, 0.77)}
    few = replace(evaluation(), examples=25)
    shown = render([*headline_blocks(few, by)], width=100, is_terminal=False)
    assert "4.0 points ahead" in shown
    assert "on 225 rows, by cross-validation" in shown
    assert "80.0" not in shown  # of the 25 rows


def test_nothing_is_said_to_be_of_use_that_was_held_against_nothing() -> None:
    alone = measured([[40, 10], [10, 40]], None, "matthews", score=0.2, in_train=InTrain(1, {"matthews": 0.195}))
    assert headline(alone, {}) == (
        "Matthews 20.0 on 100 rows; counted words were not asked the same; of dev, 1 of its 100 rows stand in "
        "train too, without them Matthews is 19.5."
    )


def test_without_a_yardstick_the_score_is_told_as_it_is() -> None:
    assert headline(evaluation(words=None), {}).endswith("counted words were not asked the same.")


def test_the_score_stands_beside_counted_words_and_the_commonest_label() -> None:
    shown = render([yardsticks(evaluation(), {})], width=100, is_terminal=False)
    for part in ("this run", "counting words (TF-IDF)", "the commonest label", "rows of dev"):
        assert part in shown


def test_rows_that_chose_nothing_tell_most() -> None:
    dev = evaluation()
    test = replace(dev, split="test")
    assert decisive([dev, test]) == [test]
    assert decisive([dev]) == [dev]
    assert "which also chose" not in yardsticks(test, {}).caption


def test_there_is_one_picture_with_its_words() -> None:
    (beside,) = (block for block in headline_blocks(evaluation(), {}) if isinstance(block, Beside))
    (found,) = (block for column in beside.columns for block in column if isinstance(block, Pictures))
    assert "this run 80.0; counting words (TF-IDF) 70.0" in found.pictures[0].alternative
