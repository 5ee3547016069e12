"""Have figures of new rows another distribution than those of rows that are known? By permutation, so with any ties.

A distance between two samples is held against those of the same rows dealt to them by chance. Of several figures that
are looked at, Holm's way keeps the chance that any is taken for changed where none has changed. With many rows next to
any difference is more than chance, so that one has to be of some size too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import Floats

ANSWERS, SURENESS, BITS, LENGTH, UNKNOWN = "answers", "sureness", "bits per byte", "tokens", "unknown tokens"
LEVEL = 0.01  # the chance that anything is noticed where nothing has changed
LEAST = 0.1  # of a distance, which is at most 1
DEALS = 2_000
_AT_ONCE = 100  # deals
_SAME = 1e-12  # what differs by less differs by rounding

# From which of the rows in their order are new ones [deals, rows] to a distance for each deal.
_Distance = Callable[[NDArray[np.bool_]], Floats]


@dataclass(frozen=True)
class Shift:
    """How far a figure of new rows is from that of known ones, and how likely so far a distance is by chance."""

    distance: float  # of the two shares at most, over all bounds; of names half the sum of differences
    chance: float  # corrected for how many figures are looked at

    @property
    def is_noticed(self) -> bool:
        """Whether it is more than chance, and of some size."""
        return self.chance <= LEVEL and self.distance >= LEAST


@dataclass(frozen=True)
class Moved:
    """A figure of known rows and of new ones, and how far they are apart."""

    shift: Shift
    before: float | dict[str, float]  # the median, of unknown tokens the mean; of answers their shares
    after: float | dict[str, float]


@dataclass(frozen=True)
class StrangeRow:
    """A row of the table that is least like the known ones."""

    row: int
    text: str
    figures: dict[str, float]  # in which hardly any known row is as far out


@dataclass(frozen=True)
class DriftReport:
    """What was found."""

    table: str
    rows: int
    bad: int  # that could not be used
    asked: int  # of those that could
    known: str  # which rows they are held against, in words
    cut: int  # longer than the context
    moved: dict[str, Moved]
    strangest: list[StrangeRow]

    @property
    def has_changed(self) -> bool:
        """Whether any figure is farther off than chance and by some size."""
        return any(one.shift.is_noticed for one in self.moved.values())

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        found = asdict(self)
        for name, one in self.moved.items():
            found["moved"][name]["is_noticed"] = one.shift.is_noticed
        return {"has_changed": self.has_changed, **found}


def find_shifts(
    known: Mapping[str, NDArray[np.generic]], new: Mapping[str, NDArray[np.generic]], names: Sequence[str] = ()
) -> dict[str, Shift]:
    """Return for each figure how far new rows are from known ones; those among `names` have no order, as labels."""
    found = {name: _shift(known[name], new[name], is_ordered=name not in names) for name in known}
    chances = for_several({name: one.chance for name, one in found.items()})
    return {name: Shift(one.distance, chances[name]) for name, one in found.items()}


def for_several(chances: Mapping[str, float]) -> dict[str, float]:
    """Return chances corrected for how many figures are looked at: Holm's way, by which they are taken for no less."""
    rank, least = len(chances), 0.0
    corrected = {}
    for name in sorted(chances, key=lambda name: chances[name]):
        least = corrected[name] = max(least, min(1.0, rank * chances[name]))
        rank -= 1
    return {name: corrected[name] for name in chances}


def distance_between(known: NDArray[np.generic], new: NDArray[np.generic], *, is_ordered: bool) -> float:
    """Return how far new rows are from known ones, from 0 to 1."""
    distance, is_new = _distance_and_order(known, new, is_ordered=is_ordered)
    return float(distance(is_new[None])[0])


def middle(values: NDArray[np.generic], name: str, *, is_ordered: bool) -> float | dict[str, float]:
    """Return what stands for all values of a figure: the median, of unknown tokens the mean, of answers shares."""
    if is_ordered:
        numbers = values.astype(np.float64)
        return float(np.mean(numbers) if name == UNKNOWN else np.median(numbers))
    kinds, counts = np.unique(values, return_counts=True)
    shares = dict(zip(kinds.tolist(), (counts / counts.sum()).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def tail_share(known: Floats, values: Floats) -> Floats:
    """Return for each value the share of known ones that are as high, counting itself: never quite none."""
    ordered = np.sort(known)
    as_high = len(ordered) - np.searchsorted(ordered, values, side="left")
    return np.asarray((as_high + 1) / (len(ordered) + 1), np.float64)


def _shift(known: NDArray[np.generic], new: NDArray[np.generic], *, is_ordered: bool) -> Shift:
    distance, is_new = _distance_and_order(known, new, is_ordered=is_ordered)
    seen = distance(is_new[None])[0]
    random, as_far = np.random.default_rng(len(is_new)), 1
    for _ in range(DEALS // _AT_ONCE):
        dealt = random.permuted(np.tile(is_new, (_AT_ONCE, 1)), axis=1)
        as_far += int((distance(dealt) >= seen - _SAME).sum())
    return Shift(float(seen), as_far / (DEALS + 1))


def _distance_and_order(
    known: NDArray[np.generic], new: NDArray[np.generic], *, is_ordered: bool
) -> tuple[_Distance, NDArray[np.bool_]]:
    """Return what tells the distance by which of the rows, in the order of their values, are new, and which are."""
    values, place = np.unique(np.concatenate((known, new)), return_inverse=True)
    order = np.argsort(place, kind="stable")
    distance = _between_orders(place[order]) if is_ordered else _between_names(place[order], len(values))
    return distance, (np.arange(len(place)) >= len(known))[order]


def _between_orders(place: NDArray[np.int64]) -> _Distance:
    """Return Kolmogorov's and Smirnov's distance: between the shares of rows up to a value, wherever it is largest."""
    ends = np.flatnonzero(np.append(np.diff(place), 1))

    def distance(is_new: NDArray[np.bool_]) -> Floats:
        new = np.cumsum(is_new, axis=1)[:, ends]
        known = ends + 1 - new
        return np.asarray(np.abs(new / new[:, -1:] - known / known[:, -1:]).max(1), np.float64)

    return distance


def _between_names(place: NDArray[np.int64], count: int) -> _Distance:
    """Return the distance in total variation: the share of rows that would have to have another name."""
    is_name = np.eye(count)[place]

    def distance(is_new: NDArray[np.bool_]) -> Floats:
        new = is_new @ is_name
        known = is_name.sum(0) - new
        gaps = np.abs(new / new.sum(1, keepdims=True) - known / known.sum(1, keepdims=True))
        return np.asarray(gaps.sum(1) / 2, np.float64)

    return distance
