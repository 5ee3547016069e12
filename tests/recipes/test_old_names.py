"""Settings under the names they had before: typed, they work and the new name is told; in files they are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpt1 import recipe
from gpt1.base.errors import FormatError
from gpt1.base.renamed import Renamed
from gpt1.recipes.catalog import FINETUNE, PAPER, RECIPES
from gpt1.recipes.changes import change, recipe_as_json, recipe_from_json, settings, with_settings
from gpt1.recipes.old_names import SECTIONS, SETTINGS, todays_name, todays_section
from gpt1.recipes.values import Recipe

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


@pytest.mark.parametrize("known", RECIPES.values(), ids=RECIPES)
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
