"""What the recipe `auto` leaves open: decided by base and examples, told in a line, a user's own values untouched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpt1.base.errors import FormatError, SettingError
from gpt1.recipes.catalog import AUTO, FINETUNE, LESSONS, MODERN, PAPER, PAPER_LSTM, RECIPES, SMALL, TINY
from gpt1.recipes.changes import change, differences, recipe_as_json, recipe_from_json, settings
from gpt1.recipes.derived import (
    PAPERS_PARAMETERS,
    in_words,
    recipe_for,
    recipe_for_text,
    require_for_text,
    require_settled,
    settled,
    wants_windows,
    windows_of,
)
from gpt1.recipes.values import DERIVED, Recipe


@pytest.mark.parametrize(
    ("parameters", "rate"),
    [
        (PAPERS_PARAMETERS, 6.25e-5),
        (1_000_000_000, 6.25e-5),  # never less than the paper's
        (33_500_000, 1.17e-4),
        (2_000_000, 4.77e-4),
        (100_000, 1e-3),  # never more
    ],
)
def test_the_rate_falls_with_the_root_of_the_size_of_the_base(parameters: int, rate: float) -> None:
    assert settled(AUTO, parameters, 1000).optimizer.lr == rate


@pytest.mark.parametrize(
    ("examples", "batch", "epochs"),
    [
        (1, 16, 15),
        (160, 16, 15),  # ten updates an epoch: 150
        (200, 16, 12),
        (499, 16, 5),
        (500, 32, 10),
        (1600, 32, 3),
        (400_000, 32, 3),
    ],
)
def test_few_examples_are_read_in_small_batches_and_often(examples: int, batch: int, epochs: int) -> None:
    training = settled(AUTO, 2_000_000, examples).training
    assert (training.batch, training.epochs) == (batch, epochs)


def test_what_is_not_derived_is_the_papers_but_for_the_warm_up_who_answers_and_how_surely() -> None:
    found = settled(AUTO, 2_000_000, 200)
    assert found.derived == ()
    assert differences(FINETUNE, found) == {
        "optimizer.lr": (6.25e-5, 4.77e-4),
        "schedule.warmup_share": (0.002, 0.06),
        "training.batch": (32, 16),
        "training.epochs": (3, 12),
        "finetuning.ensemble": (False, True),
        "finetuning.calibrate": (False, True),
    }
    assert settled(FINETUNE, 2_000_000, 200) == FINETUNE


def test_what_a_user_gives_is_not_derived_and_the_rest_goes_by_it() -> None:
    given = change(AUTO, ["lr=6.25e-5", "training.batch=8"])
    assert given.derived == ("training.epochs", "finetuning.windows")
    found = settled(given, 2_000_000, 200)
    assert (found.optimizer.lr, found.training.batch, found.training.epochs) == (6.25e-5, 8, 6)
    all_given = change(given, ["epochs=2", "finetuning.windows=off"])
    assert all_given.derived == ()
    assert settled(all_given, 2_000_000, 200) == all_given


def test_the_texts_decide_on_windows_unless_a_user_does() -> None:
    assert wants_windows(AUTO) is None
    assert settled(AUTO, 2_000_000, 200, windows=True).finetuning.windows == "mean"
    assert settled(AUTO, 2_000_000, 200).finetuning.windows == "off"
    assert (wants_windows(FINETUNE), wants_windows(LESSONS)) == (False, False)
    assert settled(FINETUNE, 2_000_000, 200, windows=True) == FINETUNE
    for value, wanted in (("off", False), ("max", True)):
        changed = change(AUTO, [f"finetuning.windows={value}"])
        assert wants_windows(changed) is wanted
        assert windows_of(changed, any_are_long=not wanted) == value
    with pytest.raises(SettingError, match="way to read long texts"):
        change(AUTO, ["finetuning.windows=median"])


def test_what_is_derived_is_told_in_a_line_and_nothing_else_is() -> None:
    for assignments, line in (
        ([], "recipe auto: rate 4.77e-04 for 2.0 M parameters, 12 epochs of 16 for 200 examples"),
        (["lr=1e-4"], "recipe auto: 12 epochs of 16 for 200 examples"),
        (["epochs=2"], "recipe auto: rate 4.77e-04 for 2.0 M parameters, batches of 16 for 200 examples"),
        (["steps=9", "lr=1e-4"], "recipe auto: batches of 16 for 200 examples"),
        (["steps=9", "batch=8"], "recipe auto: rate 4.77e-04 for 2.0 M parameters"),
        (["epochs=2", "batch=8", "lr=1e-4"], None),
    ):
        assert in_words(change(AUTO, assignments), 2_000_000, 200) == line
    assert in_words(FINETUNE, 2_000_000, 200) is None
    assert "3 epochs of 32 for 67,349 examples" in str(in_words(AUTO, 2_000_000, 67_349))


def test_a_base_of_the_papers_size_is_fine_tuned_as_the_paper_does() -> None:
    for recipe in (PAPER, MODERN, replace(PAPER, shape=replace(PAPER.shape, context=1024, dropout=0.0))):
        assert recipe_for(recipe.shape) is FINETUNE
    for recipe in (TINY, SMALL, PAPER_LSTM, replace(PAPER, shape=replace(PAPER.shape, layers=11))):
        assert recipe_for(recipe.shape) is AUTO


def test_settings_show_from_what_they_are_derived() -> None:
    assert settings(AUTO)["optimizer.lr"] == "derived from the parameters of the base"
    assert {name for name, value in settings(AUTO).items() if "derived from" in str(value)} == DERIVED.keys()
    others = {"schedule.warmup_share", "finetuning.ensemble", "finetuning.calibrate"}
    assert differences(FINETUNE, AUTO).keys() == {*DERIVED, *others}


def test_a_setting_that_has_a_value_is_not_derived_as_well() -> None:
    with pytest.raises(SettingError, match=r"training\.batch has a value, so it cannot be derived as well"):
        replace(AUTO, training=replace(AUTO.training, batch=8))
    with pytest.raises(SettingError, match=r"unknown setting that can be derived 'shape\.width'"):
        Recipe(name="own", derived=("shape.width",))


def test_a_recipe_that_leaves_something_open_is_kept_and_read_as_it_is() -> None:
    kept = recipe_as_json(change(AUTO, ["batch=8"]))
    assert kept["derived"] == ["optimizer.lr", "training.epochs", "finetuning.windows"]
    assert recipe_from_json(kept) == change(AUTO, ["batch=8"])
    assert "derived" not in recipe_as_json(settled(AUTO, 2_000_000, 200))
    for damaged in ("optimizer.lr", ["shape.width"], [3], ["training.batch"], None):
        with pytest.raises(FormatError, match="this is no recipe of this version of gpt1"):
            recipe_from_json({**kept, "derived": damaged})


def test_a_recipe_that_leaves_something_open_is_refused_where_nothing_can_be_derived() -> None:
    require_settled(FINETUNE)
    require_settled(settled(AUTO, 2_000_000, 200))
    with pytest.raises(SettingError, match=r"'auto' is for fine-tuning: it derives optimizer\.lr, training\.batch, "):
        require_settled(AUTO)


def test_a_recipe_for_fine_tuning_is_refused_where_text_is_learned() -> None:
    for recipe in (FINETUNE, LESSONS, AUTO, settled(AUTO, 2_000_000, 200), change(AUTO, ["batch=8"])):
        with pytest.raises(SettingError) as refused:
            require_for_text(recipe)
        told = f"recipe '{recipe.name}' is for fine-tuning; for text there are paper, modern, small, tiny, lstm"
        assert str(refused.value) == told
    for recipe in (PAPER, TINY, PAPER_LSTM):
        require_for_text(recipe)


@pytest.mark.parametrize("name", ["paper", "small", "tiny", "lstm"])
def test_a_base_goes_on_reading_by_the_recipe_whose_network_is_most_like_its_own(name: str) -> None:
    shape = replace(RECIPES[name].shape, context=64, dropout=0.3)
    assert recipe_for_text(shape).name == name
