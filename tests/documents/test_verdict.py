"""What a score is worth, in a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpt1.documents.headline import headline, yardsticks
from gpt1.documents.verdict import verdict, verdict_without_rows
from gpt1.records.ensemble import TaskEnsemble
from gpt1.records.evaluation import Cut, Evaluation, InTrain
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
        ([[40, 10], [10, 40]], 0.8, "no better than counting words (accuracy 80.0, counting words 80.0)", False),
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


def decided(network: float, words: float, *, commonest: float = 0.5, cross_validated: bool = True) -> TaskEnsemble:
    """Return how 225 rows decided that the network answers."""
    scores = {"network": network, "words": words, "together": words}
    return TaskEnsemble({"network": 1.0}, "", 225, "accuracy", scores, None, cross_validated, commonest)


@pytest.mark.parametrize(
    ("by", "sentence", "is_of_use"),
    [
        (
            decided(0.81, 0.77),
            "4.0 points ahead of counting words (accuracy 81.0, counting words 77.0), by cross-validation of 225 rows, "
            "as 25 are few",
            True,
        ),
        (
            decided(0.77, 0.77),
            "no better than counting words (accuracy 77.0, counting words 77.0), by cross-validation of 225 rows, as "
            "25 are few",
            False,
        ),
        (
            decided(0.6, 0.5, commonest=0.6),
            "accuracy 60.0 is no better than always giving the commonest answer (60.0), by cross-validation of 225 "
            "rows, as 25 are few; do not use it",
            False,
        ),
        (
            decided(0.81, 0.77, cross_validated=False),
            "8.0 points behind counting words (accuracy 72.0, counting words 80.0); do not use it",
            False,
        ),
    ],
)
def test_where_a_split_has_few_rows_the_verdict_is_that_of_cross_validation(
    by: TaskEnsemble, sentence: str, is_of_use: bool
) -> None:
    found = verdict(measured([[9, 4], [3, 9]], 0.8), by)
    assert found is not None
    assert (found.sentence, found.is_of_use) == (sentence, is_of_use)


def test_rows_that_were_held_out_once_are_not_called_cross_validated() -> None:
    once = replace(decided(0.81, 0.77), folds=1)
    few = measured([[9, 4], [3, 9]], 0.8)
    found = verdict(few, once)
    assert found is not None
    assert found.sentence.endswith(", by 225 rows that were held out once, as 25 are few")
    assert "225 rows, held out once, which also chose" in yardsticks(few, {few.task: once}).caption
    several = verdict(few, replace(once, folds=3))
    assert several is not None
    assert several.sentence.endswith(", by cross-validation of 225 rows, as 25 are few")


def test_labels_that_cross_validation_never_gives_rightly_are_of_no_use() -> None:
    none = replace(decided(0.0, 0.0), metric="micro_f1", commonest=None)
    found = verdict(measured([[9, 4], [3, 9]], 0.4, "micro_f1", score=0.4), none)
    assert found is not None
    assert not found.is_of_use
    assert found.sentence.startswith("no label that it gives is right, by cross-validation of 225 rows")


def test_rows_too_few_to_tell_a_score_from_the_commonest_answer_are_told() -> None:
    split = replace(measured([[26, 24], [16, 34]], 0.55), intervals={"accuracy": (0.499, 0.69)})
    found = verdict(split)
    assert found is not None
    assert found.may_be_chance
    assert found.sentence.endswith("; 100 rows are too few to tell it from always giving the commonest answer (50.0)")
    assert headline(split, {}).startswith("How good it is is not known: ")
    by = verdict(measured([[9, 4], [3, 9]], 0.8), decided(0.6, 0.58, commonest=0.55))
    assert by is not None
    assert by.may_be_chance
    assert by.sentence.endswith("; 225 rows are too few to tell it from always giving the commonest answer (55.0)")
    sure = verdict(measured([[9, 4], [3, 9]], 0.8), decided(0.65, 0.58, commonest=0.55))
    assert sure is not None
    assert not sure.may_be_chance


def test_what_equals_counting_words_may_be_chance_as_they_may() -> None:
    by = verdict(measured([[9, 4], [3, 9]], 0.8), decided(0.58, 0.58, commonest=0.55))
    assert by is not None
    assert (by.is_as_words, by.may_be_chance) == (True, True)
    assert by.sentence.endswith("; 225 rows are too few to tell it from always giving the commonest answer (55.0)")
    split = replace(measured([[26, 24], [16, 34]], 0.6), intervals={"accuracy": (0.499, 0.69)})
    assert headline(split, {}).startswith("How good it is is not known: no better than counting words")


def test_a_split_of_more_rows_and_one_answer_to_all_are_not_overruled_by_cross_validation() -> None:
    many = verdict(measured([[200, 50], [50, 200]], 0.7), decided(0.81, 0.77))
    same = verdict(measured([[0, 5], [0, 20]], 0.7), decided(0.81, 0.77))
    assert many is not None
    assert same is not None
    assert many.sentence.startswith("10.0 points ahead of counting words (accuracy 80.0")
    assert same.sentence == "it always answers 'good'; do not use it"


def test_one_answer_to_three_rows_is_overruled_by_cross_validation_of_more() -> None:
    found = verdict(measured([[0, 1], [0, 2]], 0.7), replace(decided(0.81, 0.77), examples=27))
    assert found is not None
    assert found.sentence.startswith("4.0 points ahead of counting words (accuracy 81.0")
    assert "by cross-validation of 27 rows, as 3 are few" in found.sentence
    assert found.sentence.endswith("; this training answered 'good' to all 3 rows for dev")


def test_one_answer_to_all_rows_is_told_where_a_cross_validated_run_may_well_miss_the_others() -> None:
    rare = replace(decided(0.95, 0.9, commonest=0.9), examples=400)
    found = verdict(measured([[0, 4], [0, 36]], 0.7), rare)
    assert found is not None
    assert found.sentence.startswith("5.0 points ahead of counting words")
    assert "; this training answered 'good' to all 40 rows for dev; accuracy says little" in found.sentence


@pytest.mark.parametrize(("score", "commonest", "missed"), [(0.97, 0.9, 3), (0.96, 0.5, 2), (0.99, 0.6, 1)])
def test_one_answer_to_all_rows_stands_where_a_cross_validated_run_would_hardly_miss_the_others(
    score: float, commonest: float, missed: int
) -> None:
    by = replace(decided(score, 0.9, commonest=commonest), examples=400)
    found = verdict(measured([[0, missed], [0, 40 - missed]], 0.7), by)
    assert found is not None
    assert (found.sentence, found.is_of_use) == ("it always answers 'good'; do not use it", False)


def test_rows_that_stand_in_train_too_are_told_with_the_score_without_them() -> None:
    found = verdict(measured([[40, 10], [10, 40]], 0.7, in_train=InTrain(30, {"accuracy": 0.715})))
    assert found is not None
    assert found.is_flattered
    assert found.sentence.endswith(
        "; the score on dev is flattered: 30 of its 100 rows stand in train too, without them accuracy is 71.5"
    )
    same = verdict(measured([[40, 10], [10, 40]], 0.7, in_train=InTrain(3, {"accuracy": 0.795})))
    assert same is not None
    assert not same.is_flattered
    assert same.sentence.endswith("; of dev, 3 of its 100 rows stand in train too, without them accuracy is 79.5")
    alone = verdict(measured([[40, 10], [10, 40]], None, in_train=InTrain(100, {})))
    assert alone is not None
    assert alone.sentence.endswith("100 of its 100 rows stand in train too, and there are no others")


def test_a_run_of_several_labels_that_gives_none_that_is_right_is_not_of_use() -> None:
    found = verdict(measured([[1, 0], [0, 1]], 0.0, "micro_f1", score=0.0))
    assert found is not None
    assert (found.sentence, found.is_of_use) == ("no label that it gives is right; do not use it", False)


def test_the_share_of_the_commonest_label_says_nothing_about_another_metric_than_accuracy() -> None:
    by = replace(decided(0.6, 0.3, commonest=0.7), metric="matthews", examples=500)
    found = verdict_without_rows(by)
    assert found is not None
    assert (found.is_of_use, found.may_be_chance) == (True, False)


def test_what_was_measured_by_cross_validation_alone_has_a_verdict_too() -> None:
    found = verdict_without_rows(decided(0.0, 0.0, commonest=0.02))
    assert found is not None
    assert (found.is_of_use, found.sentence) == (
        False,
        "accuracy 0.0 is no better than always giving the commonest answer (2.0), by cross-validation of 225 rows; do "
        "not use it",
    )
    assert verdict_without_rows(decided(0.9, 0.5, cross_validated=False)) is None


def test_a_gain_in_accuracy_says_little_where_nearly_all_rows_have_one_label() -> None:
    found = verdict(measured([[6, 4], [2, 88]], 0.91))
    assert found is not None
    assert found.sentence.endswith("accuracy says little where 90.0 % of the rows are 'good', macro F1 says more")


def test_macro_f1_is_held_against_always_giving_the_commonest_label() -> None:
    found = verdict(measured([[1, 9], [30, 60]], 0.4, "macro_f1", score=0.45))
    assert found is not None
    assert found.sentence == "45.0 is no better than always answering 'good' (47.4); do not use it"
    table = yardsticks(measured([[6, 4], [2, 88]], 0.5, "macro_f1", score=0.8), {})
    assert [row.name for row in table.rows] == [
        "this run",
        "counting words (TF-IDF)",
        "always 'good', the commonest label",
    ]


def test_what_is_no_better_than_knowing_nothing_of_the_texts_is_of_no_use() -> None:
    by = replace(decided(-0.02, -0.05, commonest=0.5), metric="matthews", examples=50, blind=0.0, interval=(-0.3, 0.25))
    found = verdict_without_rows(by)
    assert found is not None
    assert found.is_of_use is False
    assert "no better than always giving the commonest answer (0.0)" in found.sentence
    better = verdict_without_rows(replace(by, scores={**by.scores, by.best: 0.1}))
    assert better is not None
    assert better.may_be_chance
    sure = verdict_without_rows(replace(by, scores={**by.scores, by.best: 0.6}, interval=(0.4, 0.8)))
    assert sure is not None
    assert sure.is_of_use
    assert not sure.may_be_chance
    split = verdict(measured([[25, 25], [25, 25]], 0.4, "macro_f1", score=0.5))
    assert split is not None
    assert split.is_of_use is False


def test_by_cross_validation_another_metric_has_a_line_for_the_commonest_label_too() -> None:
    """Of four classes, one with 70 % of the rows: 2 x 0.7 / 1.7 / 4 is 20.6, and 25 what knows nothing of the texts."""
    macro = replace(decided(0.2, 0.1, commonest=0.7), metric="macro_f1", blind=0.25, interval=(0.1, 0.3))
    few = replace(measured([[1, 2], [2, 4]], 0.1, "macro_f1", score=0.5), examples=9)
    for reached, said in (
        (0.2, "always giving the commonest answer (20.6)"),
        (0.24, "know nothing of the texts (25.0)"),
    ):
        worth = verdict(few, replace(macro, scores={**macro.scores, "network": reached}))
        assert worth is not None
        assert (worth.is_of_use, said in worth.sentence) == (False, True)
    table = yardsticks(few, {"reviews": macro})
    assert {row.name: row.cells[0].text for row in table.rows}["always the commonest label"] == "20.6"
    matthews = replace(macro, metric="matthews", blind=0.0)
    assert [row.name for row in yardsticks(few, {"reviews": matthews}).rows][-1] == "always the commonest label"
    on_split = yardsticks(measured([[6, 4], [2, 88]], 0.5, "matthews", score=0.6), {})
    assert on_split.rows[-1].name == "always 'good', the commonest label"


def several(score: float, words: float, supports: dict[str, int]) -> Evaluation:
    """Return an evaluation of 100 rows with several labels each."""
    rates = [ClassRates(name, 0.0, 0.0, 0.0, count) for name, count in supports.items()]
    found = measured([[50, 0], [0, 50]], words, "micro_f1", score=score)
    return replace(found, confusion=None, classes=rates)


def test_several_labels_are_held_against_always_giving_the_same_ones() -> None:
    labels = {"rare": 5, "long": 60, "good": 50}  # the best two: 2 * (60 + 50) / (2 * 100 + 115)
    constant = verdict(several(0.69, 0.43, labels))
    assert constant is not None
    assert constant.sentence == "69.0 is no better than always answering 'long, good' (69.8); do not use it"
    assert constant.is_of_use is False
    near = verdict(replace(several(0.71, 0.43, labels), intervals={"micro_f1": (0.69, 0.73)}))
    assert near is not None
    assert near.may_be_chance
    better = verdict(several(0.8, 0.43, labels))
    assert better is not None
    assert (better.is_of_use, better.may_be_chance) == (True, False)
    names = [row.name for row in yardsticks(several(0.8, 0.43, labels), {}).rows]
    assert names[-1] == "always 'long, good', the commonest labels"


def test_several_labels_by_cross_validation_are_held_against_always_giving_the_same_ones() -> None:
    by = replace(decided(0.56, 0.43), metric="micro_f1", commonest=None, blind=0.58, interval=(0.5, 0.62))
    found = verdict_without_rows(by)
    assert found is not None
    assert (found.is_of_use, found.sentence[:72]) == (
        False,
        "micro F1 56.0 is no better than answers that know nothing of the texts (",
    )
