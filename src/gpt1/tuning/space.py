"""Which settings of fine-tuning are searched, and between which values: the one place that says so.

The rate and the epochs are searched around what the recipe derives for the base and the table. What leaves words out
(augmentation) and dropout are searched too, since they cost nothing; the language model's weight and further
augmentations only where a range is asked for. A setting that a person has set is not searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpt1.base.errors import SettingError, unknown
from gpt1.recipes.changes import change, settings
from gpt1.recipes.values import Recipe

RATE, EPOCHS = "optimizer.lr", "training.epochs"
WORD_DROPOUT, DROPOUT, LM_WEIGHT = "finetuning.word_dropout", "shape.dropout", "finetuning.lm_weight"
R_DROP = "finetuning.r_drop"
FURTHER = ("finetuning.span_deletion", "finetuning.word_swaps", "finetuning.mixup", R_DROP)
SEARCHABLE = (RATE, EPOCHS, WORD_DROPOUT, DROPOUT, LM_WEIGHT, *FURTHER)

RATE_TIMES = 5.0  # up and down, of what the recipe has
EPOCHS_TIMES = 2.0
MOST_WORD_DROPOUT, MOST_DROPOUT = 0.2, 0.3
LEAST_DROPOUT = 0.05  # beside R-Drop, to which two passes without any would be the same
_DIGITS = 3  # of a value that is tried, so that a person can type it

Values = Mapping[str, float]


@dataclass(frozen=True)
class Range:
    """Between which values a setting is searched; a rate by its logarithm, epochs in whole numbers."""

    name: str
    low: float
    high: float

    @property
    def is_log(self) -> bool:
        """Whether half and twice are as far."""
        return self.name == RATE

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing between two numbers."""
        return self.name == EPOCHS

    def holds(self, value: float) -> bool:
        """Whether a value is one that can be tried."""
        return self.low <= value <= self.high and (not self.is_whole or float(value).is_integer())

    def rounded(self, value: float) -> float:
        """Return a value in few digits, within the range; a whole number and an end of the range as they are."""
        if self.is_whole:
            return value
        short = float(f"{value:.{_DIGITS}g}") if self.is_log else round(value, _DIGITS)
        return min(max(short, self.low), self.high)

    def in_words(self) -> str:
        """Return it as a person asks for it."""
        return f"{self.name}={in_digits(self.low)}:{in_digits(self.high)}"


def search_space(recipe: Recipe, asked: Iterable[str], changes: Iterable[str]) -> list[Range]:
    """Return what is searched around a recipe that is settled, in which `changes` are what a person has set.

    `asked` restricts ranges: `optimizer.lr=1e-5:1e-3`.
    """
    ranges = {one.name: one for one in _usual(recipe)}
    restricted = [_read(recipe, text) for text in asked]
    names = [one.name for one in restricted]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingError(f"{twice[0]} has {names.count(twice[0])} ranges; leave out all but one")
    if R_DROP in names:
        ranges[DROPOUT] = Range(DROPOUT, LEAST_DROPOUT, MOST_DROPOUT)
    ranges |= {one.name: one for one in restricted}
    kept = {_full_name(one.partition("=")[0]) for one in changes}
    if both := [name for name in names if name in kept]:
        raise SettingError(f"{both[0]} is set, so it cannot be searched as well; leave out one of the two")
    if recipe.training.steps is not None:  # epochs then mean nothing
        if EPOCHS in names:
            raise SettingError(
                f"training.steps is set, by which the updates are counted, so {EPOCHS} cannot be searched; leave out "
                "one of the two"
            )
        kept.add(EPOCHS)
    found = [ranges[name] for name in SEARCHABLE if name in ranges and name not in kept]
    if not found:
        raise SettingError("all that could be searched is set, so there is nothing to search")
    return found


def _usual(recipe: Recipe) -> list[Range]:
    rate, epochs = recipe.optimizer.lr, recipe.training.epochs
    return [
        Range(RATE, float(f"{rate / RATE_TIMES:.{_DIGITS}g}"), float(f"{rate * RATE_TIMES:.{_DIGITS}g}")),
        Range(EPOCHS, max(1.0, math.floor(epochs / EPOCHS_TIMES)), max(2.0, math.ceil(epochs * EPOCHS_TIMES))),
        Range(WORD_DROPOUT, 0.0, MOST_WORD_DROPOUT),
        Range(DROPOUT, 0.0, MOST_DROPOUT),
    ]


def _read(recipe: Recipe, text: str) -> Range:
    """Return the range that a person asks for, both of whose ends the setting can have."""
    name, equals, ends = text.partition("=")
    low, colon, high = ends.partition(":")
    if not equals or not colon:
        raise SettingError(f"a range is NAME=LOW:HIGH, such as optimizer.lr=1e-5:1e-3, not '{text}'")
    name = _full_name(name)
    if name not in SEARCHABLE:
        raise unknown("setting to search", name, SEARCHABLE)
    found = Range(name, *(_end(recipe, name, end) for end in (low, high)))
    if not found.low < found.high:
        raise SettingError(f"the range of {name} ends at {found.high:g}, which is not above {found.low:g}")
    return found


def _full_name(name: str) -> str:
    """Return the name of what can be searched, also where it was said without its section."""
    name = name.strip()
    return next((full for full in SEARCHABLE if name in (full, full.partition(".")[2])), name)


def _end(recipe: Recipe, name: str, text: str) -> float:
    value = settings(change(recipe, [f"{name}={text}"]))[name]
    if not isinstance(value, float) or (name == EPOCHS and not value.is_integer()):
        raise SettingError(f"{name} is searched in whole numbers, not from or to {text}")
    return value


def usual_values(recipe: Recipe, space: Sequence[Range]) -> dict[str, float]:
    """Return what a settled recipe has for what is searched."""
    known = settings(recipe)
    return {one.name: float(str(known[one.name])) for one in space}


def as_changes(values: Values) -> list[str]:
    """Return values as a person sets them, to the last digit: what is tried is what is kept."""
    return [f"{name}={in_digits(value)}" for name, value in values.items()]


def in_digits(value: float) -> str:
    """Return a value as a person types it, with all of its digits."""
    return repr(float(value)).removesuffix(".0")
