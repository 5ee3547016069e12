"""What is searched, and what a person is told who asks for something else."""

from __future__ import annotations

import pytest

from gpt1.base.errors import SettingError
from gpt1.recipes.catalog import AUTO
from gpt1.recipes.changes import change
from gpt1.recipes.derived import settled
from gpt1.tuning.space import (
    DROPOUT,
    EPOCHS,
    LM_WEIGHT,
    RATE,
    SEARCHABLE,
    WORD_DROPOUT,
    Range,
    as_changes,
    search_space,
    usual_values,
)

RECIPE = settled(AUTO, 33_500_000, 270)


def test_what_the_recipe_has_lies_within_all_that_is_searched_unless_somebody_asks() -> None:
    space = search_space(RECIPE, (), ())
    assert [one.name for one in space] == [RATE, EPOCHS, WORD_DROPOUT, DROPOUT]
    assert all(one.holds(usual_values(RECIPE, space)[one.name]) for one in space)
    assert [(one.is_log, one.is_whole) for one in space[:3]] == [(True, False), (False, True), (False, False)]


def test_a_range_can_be_restricted_and_the_language_model_s_weight_added() -> None:
    space = search_space(RECIPE, ["lr=1e-5:1e-3", f"{LM_WEIGHT}=0:1"], ())
    assert space[0] == Range(RATE, 1e-5, 1e-3)
    assert (len(space), space[-1]) == (5, Range(LM_WEIGHT, 0.0, 1.0))


def test_augmentations_are_added_and_beside_r_drop_dropout_is_never_0() -> None:
    names = ["finetuning.span_deletion", "finetuning.word_swaps", "finetuning.mixup", "finetuning.r_drop"]
    space = search_space(RECIPE, [f"{name}=0:0.5" for name in names], ())
    assert [one.name for one in space[4:]] == names
    assert space[3] == Range(DROPOUT, 0.05, 0.3)
    assert search_space(RECIPE, ["finetuning.r_drop=0:2", f"{DROPOUT}=0:0.1"], ())[3] == Range(DROPOUT, 0.0, 0.1)


@pytest.mark.parametrize("setting", ["lr=1e-4", "optimizer.lr=1e-4"])
def test_what_a_person_has_set_is_not_searched(setting: str) -> None:
    assert RATE not in [one.name for one in search_space(change(RECIPE, [setting]), (), [setting])]
    with pytest.raises(SettingError, match=r"optimizer\.lr is set, so it cannot be searched as well"):
        search_space(change(RECIPE, [setting]), ["lr=1e-5:1e-3"], [setting])


def test_where_the_updates_are_counted_epochs_are_not_searched() -> None:
    assert EPOCHS not in [one.name for one in search_space(change(RECIPE, ["training.steps=5"]), (), ())]


def test_epochs_are_not_searched_beside_counted_updates_whoever_asks() -> None:
    with pytest.raises(SettingError, match=r"training\.steps is set, .* so training\.epochs cannot be searched"):
        search_space(change(RECIPE, ["training.steps=5"]), ["training.epochs=1:3"], ["training.steps=5"])


@pytest.mark.parametrize("again", ["lr=1e-4:1e-2", "optimizer.lr=1e-5:1e-3"])
def test_a_range_that_is_said_twice_is_refused(again: str) -> None:
    with pytest.raises(SettingError, match=r"optimizer\.lr has 2 ranges; leave out all but one"):
        search_space(RECIPE, ["optimizer.lr=1e-5:1e-3", "epochs=1:3", again], ())


def test_where_all_is_set_there_is_nothing_to_search() -> None:
    with pytest.raises(SettingError, match="nothing to search"):
        search_space(RECIPE, (), [f"{name}=0.5" for name in SEARCHABLE])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("optimizer.lr", r"a range is NAME=LOW:HIGH, such as optimizer\.lr=1e-5:1e-3, not 'optimizer\.lr'"),
        ("optimizer.lr=1e-3", "a range is NAME=LOW:HIGH"),
        ("optimizer.lr=1e-3:1e-5", r"the range of optimizer\.lr ends at 1e-05, which is not above 0\.001"),
        ("optimizer.lr=0:1", r"lr is above 0, not 0\.0"),
        ("optimizer.lr=a:b", r"optimizer\.lr takes float, not 'a'"),
        ("optimizer.lr=nan:1", r"optimizer\.lr takes float, not 'nan'"),
        ("optimizer.lr=1e-5:1e999", r"optimizer\.lr takes float, not inf"),
        ("training.epochs=1.5:3", r"training\.epochs is searched in whole numbers"),
        ("training.batch=8:16", r"unknown setting to search 'training\.batch'.*known: optimizer\.lr, "),
        ("optimizer.rl=1e-5:1e-3", r"did you mean 'optimizer\.lr'"),
        ("shape.dropout=0:1", "dropout is at least 0 and below 1"),
    ],
)
def test_a_range_that_cannot_be_searched_is_refused(asked: str, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        search_space(RECIPE, [asked], ())


def test_values_are_told_as_they_were_tried() -> None:
    one = Range(RATE, 2.34e-5, 5.85e-4)
    assert (one.rounded(1.23456e-4), one.rounded(5.8499e-4), one.rounded(2.3401e-5)) == (1.23e-4, 5.85e-4, 2.34e-5)
    assert (Range(DROPOUT, 0.0, 0.3).rounded(3.4e-5), Range(DROPOUT, 0.0, 0.3).rounded(0.12345)) == (0.0, 0.123)
    values = {RATE: 1.23e-4, EPOCHS: 14.0, WORD_DROPOUT: 0.071}
    changed = change(RECIPE, as_changes(values))
    assert usual_values(changed, search_space(RECIPE, (), ())) == values | {DROPOUT: 0.1}


def test_what_is_kept_is_what_is_tried_to_the_last_digit() -> None:
    epochs, rate = Range(EPOCHS, 1.0, 123_456.0), Range(RATE, 1.23456e-5, 1.23456e-3)
    assert epochs.rounded(12_345) == 12_345
    kept = {EPOCHS: epochs.rounded(1_234), RATE: rate.rounded(1.2346e-5)}  # which would be 1.23e-5, below the range
    assert kept[RATE] == rate.low
    changed = change(RECIPE, as_changes(kept))
    assert (changed.training.epochs, changed.optimizer.lr) == (kept[EPOCHS], kept[RATE])


def test_a_range_is_told_with_all_its_digits() -> None:
    asked = ["training.epochs=1:12345", "optimizer.lr=0.00012345678:0.001"]
    rate, epochs = search_space(RECIPE, asked, ())[:2]
    assert [epochs.in_words(), rate.in_words()] == asked
