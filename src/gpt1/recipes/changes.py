"""Changing one recipe into another by names: `training.batch=32`; what differs between two; what names were before."""

from __future__ import annotations

import ast
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from gpt1.base.errors import FormatError, SettingError, did_you_mean, tell_renamed
from gpt1.base.records import LARGEST
from gpt1.recipes.values import AUGMENTATIONS, DERIVED, NO_WINDOWS, Finetuning, Recipe, Training

_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)  # which would read them anew each time
Setting = bool | int | float | str | None
OF_DOMAINS = ("domain_weight", "domain_ramp", "target_lm")  # which mean something with texts of a target domain
_NONE_WORDS = ("none", "null", "off")
_BOOL_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def settings(recipe: Recipe) -> dict[str, Setting]:
    """Return every setting of a recipe under its dotted name; of one that is derived, from what."""
    found: dict[str, Setting] = {}
    for part in fields(recipe):
        value = getattr(recipe, part.name)
        if is_dataclass(value):
            found.update({f"{part.name}.{field.name}": getattr(value, field.name) for field in fields(value)})
    return found | {name: f"derived from {DERIVED[name]}" for name in recipe.derived}


def change(recipe: Recipe, assignments: Iterable[str]) -> Recipe:
    """Return the recipe with settings changed as `a.b=c` says; a name that only one part has needs no dots."""
    changes = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise SettingError(f"a setting is changed as name=value, such as training.batch=32, not '{assignment}'")
        changes[name.strip()] = text.strip()
    return with_settings(recipe, changes)


def with_settings(recipe: Recipe, changes: Mapping[str, object]) -> Recipe:
    """Return the recipe with some settings changed; strings are read as the setting's own type."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        if (today := todays_name(name)) != name:
            tell_renamed(name, today)
        part, field = _full_name(recipe, today).split(".")
        parts.setdefault(part, {})[field] = _typed(getattr(recipe, part), field, value, f"{part}.{field}")
    given = {f"{part}.{field}" for part, values in parts.items() for field in values}
    changed = {part: replace(getattr(recipe, part), **values) for part, values in parts.items()}
    return replace(recipe, **changed, derived=tuple(name for name in recipe.derived if name not in given))


def differences(one: Recipe, other: Recipe) -> dict[str, tuple[Setting, Setting]]:
    """Return the settings in which two recipes differ, with both values."""
    left, right = settings(one), settings(other)
    return {name: (left[name], right[name]) for name in left if left[name] != right[name]}


def recipe_as_json(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as a JSON object; what is derived is told of one that leaves anything open."""
    found = asdict(recipe)
    derived = list(found.pop("derived"))
    # Those of before are to stay what they were.
    if found["finetuning"]["windows"] == NO_WINDOWS:
        del found["finetuning"]["windows"]
    if all(found["finetuning"][name] == getattr(Finetuning, name) for name in OF_DOMAINS):
        for name in OF_DOMAINS:
            del found["finetuning"][name]
    if not found["shape"]["layer_drop"]:
        del found["shape"]["layer_drop"]
    if not found["shape"]["global_tokens"]:
        del found["shape"]["global_tokens"]
    if not recipe.training.masked_share:
        del found["training"]["masked_share"]
    if recipe.training.mask_rate == Training().mask_rate:
        del found["training"]["mask_rate"]
    if not recipe.finetuning.bidirectional:
        del found["finetuning"]["bidirectional"]
    for name in AUGMENTATIONS:
        if not found["finetuning"][name]:
            del found["finetuning"][name]
    if not found["training"]["fused"]:
        del found["training"]["fused"]
    return {**found, "derived": derived} if derived else found


def recipe_from_json(value: Any) -> Recipe:
    """Return the recipe that `recipe_as_json` wrote, or an older version did; what that lacks has its default."""
    try:
        flat = {}
        derived = value.get("derived", [])
        if not isinstance(derived, list) or not all(isinstance(name, str) for name in derived):
            raise TypeError("'derived' holds no names of settings")
        for part, values in value.items():
            if part not in ("name", "about", "derived"):
                if not isinstance(values, dict):
                    raise TypeError(f"'{part}' holds no settings")
                flat.update({f"{part}.{name}": setting for name, setting in values.items()})
        name, about = value["name"], value.get("about", "")
        if not isinstance(name, str) or not isinstance(about, str):
            raise TypeError("its name is not a string")
        base = Recipe(name=name, about=about)
        return replace(with_settings(base, todays_names(flat)), derived=tuple(derived))
    except (AttributeError, KeyError, TypeError, SettingError) as error:
        raise FormatError(f"this is no recipe of this version of gpt1: {error}") from None


def _full_name(recipe: Recipe, name: str) -> str:
    known = settings(recipe)
    if name in known:
        return name
    ends = [full for full in known if full.split(".")[1] == name]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise SettingError(f"'{name}' may be {' or '.join(ends)}; say which")
    near = did_you_mean(name, [*known, *(full.split(".")[1] for full in known)])
    listed = f"`gpt1.recipe(name={recipe.name!r})` lists them"
    raise SettingError(f"recipe '{recipe.name}' has no setting '{name}'{near} ({listed})")


def _typed(part: Any, field: str, value: Any, name: str) -> Any:
    hint = _hints(type(part))[field]
    kinds = get_args(hint) if get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if isinstance(value, str) and str not in kinds:
        value = _read(value, kinds)
    if float in kinds and type(value) is int:
        value = float(value) if abs(value) <= LARGEST else math.inf
    if int in kinds and type(value) is float and value.is_integer():  # 1e6 is a way of writing a whole number
        value = int(value)
    too_large = value in (math.inf, -math.inf) or (type(value) is int and abs(value) > LARGEST)
    if type(value) not in kinds or too_large:  # 1e999 is a way of writing infinity
        wanted = " or ".join("none" if kind is types.NoneType else kind.__name__ for kind in kinds)
        raise SettingError(f"{name} takes {wanted}, not {value!r}")
    return value


def _read(text: str, kinds: tuple[Any, ...]) -> Any:
    """Read a number, a truth value or none; anything else stays a string, which the caller refuses."""
    word = text.lower()
    if bool in kinds and word in _BOOL_WORDS:
        return _BOOL_WORDS[word]
    if types.NoneType in kinds and word in _NONE_WORDS:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


# What settings were called before: people may still type it, and files of then hold it.
SECTIONS = {"watching": "logging"}
SETTINGS = {
    "training.spike": "training.max_loss_spike",
    "training.record": "training.cuda_graphs",
    "training.distribution": "training.parallelism",
    "shape.initial_deviation": "shape.init_std",
}
_ENDS = {old.split(".")[1]: new.split(".")[1] for old, new in SETTINGS.items()}


def todays_name(name: str) -> str:
    """Return what a setting is called today, with its section or, where it was typed so, without."""
    section, dot, end = name.partition(".")
    return SETTINGS.get(name) or (f"{SECTIONS.get(section, section)}.{end}" if dot else _ENDS.get(name, name))


def todays_names(values: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a file holds by dotted names, under today's; one that it holds twice is refused."""
    found: dict[str, object] = {}
    for name, value in values.items():
        today = todays_name(name)
        if today in found:
            held = next(other for other in values if todays_name(other) == today)
            raise FormatError(f"{held} and {name} are two names of one setting")
        found[today] = value
    return found


def todays_section(section: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of one section that a file holds, under today's names."""
    found = todays_names({f"{section}.{name}": value for name, value in values.items()})
    return {name.partition(".")[2]: value for name, value in found.items()}
