"""Settings changed by name, today's or the one before: typed by the field, and refused where they do not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1 import recipe
from gpt1.base.errors import FormatError, Renamed, SettingError
from gpt1.recipes.catalog import FINETUNE, MODERN, PAPER, RECIPES, TINY
from gpt1.recipes.changes import (
    SECTIONS,
    SETTINGS,
    change,
    differences,
    recipe_as_json,
    recipe_from_json,
    settings,
    todays_name,
    todays_section,
    with_settings,
)
from gpt1.recipes.values import Logging, Recipe

SETTLED = {name: known for name, known in RECIPES.items() if not known.derived}  # all of whose settings have values


def changed(*assignments: str) -> dict[str, Any]:
    """Return what the assignments make of the paper's recipe, where that differs."""
    return {name: after for name, (_, after) in differences(PAPER, change(PAPER, assignments)).items()}


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("training.batch=32", "training.batch", 32),
        (" training.batch = 32 ", "training.batch", 32),
        ("training.steps=1e6", "training.steps", 1_000_000),
        ("training.steps=1_000", "training.steps", 1000),
        ("training.micro_batch=4", "training.micro_batch", 4),
        ("optimizer.lr=1e-3", "optimizer.lr", 1e-3),
        ("optimizer.lr=1", "optimizer.lr", 1.0),
        ("training.epochs=3", "training.epochs", 3.0),
        ("optimizer.clip=none", "optimizer.clip", None),
        ("optimizer.clip=off", "optimizer.clip", None),
        ("optimizer.clip=Null", "optimizer.clip", None),
        ("optimizer.clip=0.5", "optimizer.clip", 0.5),
        ("shape.window=128", "shape.window", 128),
        ("schedule.warmup_steps=None", "schedule.warmup_steps", None),
        ("shape.bias=false", "shape.bias", False),
        ("shape.bias=No", "shape.bias", False),
        ("shape.bias=off", "shape.bias", False),
        ("shape.norm_first=TRUE", "shape.norm_first", True),
        ("shape.norm_first=on", "shape.norm_first", True),
        ("shape.qk_norm=yes", "shape.qk_norm", True),
        ("training.precision=fp32", "training.precision", "fp32"),
        ("shape.positions=rotary", "shape.positions", "rotary"),
        ("batch=32", "training.batch", 32),
        ("lr=1e-3", "optimizer.lr", 1e-3),
        ("context=1024", "shape.context", 1024),
    ],
)
def test_a_setting_is_read_as_its_own_type(assignment: str, name: str, value: Any) -> None:
    found = changed(assignment)
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("batch=many", "training.batch takes int, not 'many'"),
        ("batch=1.5", "training.batch takes int, not 1.5"),
        ("batch=none", "training.batch takes int, not 'none'"),
        ("batch=true", "training.batch takes int, not 'true'"),
        ("batch=", "training.batch takes int, not ''"),
        ("batch=[3]", r"training.batch takes int, not \[3\]"),
        ("clip=False", "optimizer.clip takes float or none, not False"),
        ("bias=1", "shape.bias takes bool, not 1"),
        ("lr=nan", "optimizer.lr takes float, not 'nan'"),
        ("lr=1e999", "optimizer.lr takes float, not inf"),
        ("steps=1e999", "training.steps takes int or none, not inf"),
        ("lr=fast", "optimizer.lr takes float, not 'fast'"),
        ("precision=fp31", "unknown precision 'fp31'; did you mean 'fp32'"),
        ("batch=0", "batch is between 1 and a million, not 0"),
        ("width=100", "width 100 does not split into 12 heads"),
        ("batch", "a setting is changed as name=value, such as training.batch=32, not 'batch'"),
        ("kind=muon", "'kind' may be shape.kind or optimizer.kind or schedule.kind; say which"),
        ("training.warmup=500", "recipe 'paper' has no setting 'training.warmup'"),
        ("trainig.batch=3", "has no setting 'trainig.batch'; did you mean 'training.batch'"),
        ("bacth=3", r"has no setting 'bacth'; did you mean 'batch'\? \(`gpt1\.recipe\(name='paper'\)` lists them\)"),
        ("name=other", "has no setting 'name'"),
        ("shape=3", "has no setting 'shape'"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(assignment: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        change(PAPER, [assignment])


def test_settings_that_fit_only_together_are_changed_together() -> None:
    assert changed("width=100", "heads=10") == {"shape.width": 100, "shape.heads": 10}
    assert changed("shape.kind=lstm", "layers=1") == {"shape.kind": "lstm", "shape.layers": 1}


def test_of_two_values_for_one_setting_the_last_holds() -> None:
    assert changed("batch=3", "batch=5") == {"training.batch": 5}


def test_no_change_is_the_same_recipe() -> None:
    assert change(PAPER, []) == PAPER


def test_values_are_taken_as_well_as_strings() -> None:
    found = with_settings(PAPER, {"batch": 3, "lr": 1, "optimizer.clip": None, "shape.bias": False, "steps": 10.0})
    assert (found.training.batch, found.optimizer.lr, found.optimizer.clip) == (3, 1.0, None)
    assert found.training.steps == 10
    assert type(found.training.steps) is int
    with pytest.raises(SettingError, match=r"training.batch takes int, not True"):
        with_settings(PAPER, {"batch": True})
    with pytest.raises(SettingError, match=r"shape.norm takes str, not 3"):
        with_settings(PAPER, {"norm": 3})


@given(batch=st.integers(1, 10**6), lr=st.floats(1e-12, 1e3), bias=st.booleans(), clip=st.none() | st.floats(1e-9, 9))
def test_what_a_value_prints_as_is_read_as_that_value(batch: int, lr: float, bias: bool, clip: float | None) -> None:
    found = change(PAPER, [f"batch={batch}", f"lr={lr}", f"bias={bias}", f"clip={clip}"])
    assert (found.training.batch, found.optimizer.lr, found.shape.bias, found.optimizer.clip) == (batch, lr, bias, clip)


def test_every_setting_as_it_is_printed_is_that_setting() -> None:
    for known in SETTLED.values():
        assert change(known, [f"{name}={value}" for name, value in settings(known).items()]) == known


def test_differences_are_told_with_both_values() -> None:
    assert differences(PAPER, PAPER) == {}
    assert differences(PAPER, change(PAPER, ["batch=8", "clip=none"])) == {
        "training.batch": (64, 8),
        "optimizer.clip": (1.0, None),
    }
    there, back = differences(PAPER, MODERN), differences(MODERN, PAPER)
    assert {name: (b, a) for name, (a, b) in there.items()} == back


@pytest.mark.parametrize("known", RECIPES.values(), ids=RECIPES)
def test_a_recipe_comes_back_from_json(known: Recipe) -> None:
    assert recipe_from_json(json.loads(json.dumps(recipe_as_json(known)))) == known


def test_json_without_a_setting_that_came_later_has_its_default() -> None:
    value = recipe_as_json(TINY)
    del value["training"]["max_loss_spike"]
    del value["logging"]
    found = recipe_from_json(value)
    assert found.training == TINY.training
    assert found.logging == Logging()  # which keeps what runs kept before there was more to keep


def test_json_holds_a_setting_that_came_later_where_it_is_not_its_default() -> None:
    assert "layer_drop" not in recipe_as_json(TINY)["shape"]
    dropping = change(TINY, ["layer_drop=0.2"])
    assert recipe_as_json(dropping)["shape"]["layer_drop"] == 0.2
    assert "global_tokens" not in recipe_as_json(TINY)["shape"]
    far = change(TINY, ["window=16", "global_tokens=2"])
    assert recipe_as_json(far)["shape"]["global_tokens"] == 2
    assert recipe_from_json(recipe_as_json(far)) == far
    assert recipe_from_json(recipe_as_json(dropping)) == dropping
    fused = change(TINY, ["training.fused=true"])
    assert "fused" not in recipe_as_json(TINY)["training"]
    assert recipe_from_json(recipe_as_json(fused)) == fused


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda value: value["shape"].update(colour="red"), "colour"),
        (lambda value: value.update(evaluation={"tokens": 3}), "evaluation"),
        (lambda value: value.pop("name"), "name"),
        (lambda value: value.update(shape=None), "'shape' holds no settings"),
        (lambda value: value["shape"].update(layers="twelve"), "takes int, not 'twelve'"),
        (lambda value: value["optimizer"].update(kind="adamax"), "adamax"),
    ],
)
def test_json_of_another_version_is_refused(damage: Any, word: str) -> None:
    value = recipe_as_json(PAPER)
    damage(value)
    with pytest.raises(FormatError, match=f"no recipe of this version of gpt1: .*{word}"):
        recipe_from_json(value)


@pytest.mark.parametrize("value", [None, [], 3, "paper"])
def test_json_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(FormatError, match="no recipe of this version of gpt1"):
        recipe_from_json(value)


OLD_SECTIONS = {new: old for old, new in SECTIONS.items()}
OLD_SETTINGS = {new: old for old, new in SETTINGS.items()}


def as_written_before(known: Recipe) -> dict[str, Any]:
    """Return a recipe as the version before wrote it."""
    value: dict[str, Any] = {"name": known.name, "about": known.about}
    for name, setting in settings(known).items():
        section, end = OLD_SETTINGS.get(name, name).split(".")
        value.setdefault(OLD_SECTIONS.get(section, section), {})[end] = setting
    return value


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("watching.keep", "logging.keep", 3),
        ("watching.save_every", "logging.save_every", 7),
        ("training.spike", "training.max_loss_spike", 3.0),
        ("training.record", "training.cuda_graphs", True),
        ("training.distribution", "training.parallelism", "fsdp"),
        ("shape.initial_deviation", "shape.init_std", 0.5),
        ("spike", "max_loss_spike", 3.0),
        ("record", "cuda_graphs", True),
        ("distribution", "parallelism", "fsdp"),
        ("initial_deviation", "init_std", 0.5),
    ],
)
def test_an_old_name_that_is_typed_works_and_the_new_one_is_told(old: str, new: str, value: Any) -> None:
    wanted = with_settings(PAPER, {new: value})
    assert wanted != PAPER
    with pytest.warns(Renamed, match=f"^{old} is called {new} now$"):
        assert change(PAPER, [f"{old}={value}"]) == wanted
    with pytest.warns(Renamed, match=f"^{old} is called {new} now$"):
        assert recipe("paper", **{old: value}) == wanted


def test_of_both_names_that_are_typed_the_last_holds() -> None:
    with pytest.warns(Renamed):
        assert change(PAPER, ["spike=3", "max_loss_spike=4"]).training.max_loss_spike == 4
    with pytest.warns(Renamed):
        assert change(PAPER, ["max_loss_spike=4", "spike=3"]).training.max_loss_spike == 3


def test_every_new_name_is_a_setting_and_no_old_one_is() -> None:
    known = settings(PAPER)
    assert set(SETTINGS.values()) <= known.keys()
    assert not known.keys() & SETTINGS.keys()
    assert {name.split(".")[0] for name in known} >= set(SECTIONS.values())
    assert [name for name in known if todays_name(name) != name] == []


@pytest.mark.parametrize("known", SETTLED.values(), ids=SETTLED)
def test_a_file_of_before_is_read_without_a_word(known: Recipe) -> None:
    written = as_written_before(known)
    assert {"watching", "shape"} <= written.keys()
    assert recipe_from_json(json.loads(json.dumps(written))) == known


def test_new_files_hold_new_names() -> None:
    assert recipe_as_json(FINETUNE).keys() >= {"logging", "shape", "training"}
    assert not recipe_as_json(FINETUNE).keys() & SECTIONS.keys()


@pytest.mark.parametrize(
    ("section", "name", "message"),
    [
        ("training", "spike", r"training\.max_loss_spike and training\.spike"),
        ("shape", "initial_deviation", r"shape\.init_std and shape\.initial_deviation"),
        ("watching", "keep", r"logging\.keep and watching\.keep"),
    ],
)
def test_a_file_with_both_names_of_a_setting_is_refused(section: str, name: str, message: str) -> None:
    value = recipe_as_json(PAPER)
    value.setdefault(section, {})[name] = 1
    with pytest.raises(FormatError, match=f"{message} are two names of one setting"):
        recipe_from_json(value)


def test_a_section_alone_is_read_under_todays_names() -> None:
    assert todays_section("shape", {"layers": 2, "initial_deviation": 0.5}) == {"layers": 2, "init_std": 0.5}
