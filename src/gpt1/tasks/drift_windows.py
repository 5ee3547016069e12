"""Have rows that come one after another changed? Held against known rows by windows, for as long as rows come.

Who looks again and again finds something some day where nothing has changed. So the k-th window has a level of its own,
`LEVEL / (k (k + 1))`; all of them together are LEVEL, however many there will be and whatever windows have in common.
Where several look, each at its share of what comes, LEVEL is shared between them.
No number of deals reaches levels so low. Bounds take their place: of numbers that of Dvoretzky, Kiefer and Wolfowitz
for two samples, with the constant that Wei and Dudley (2012) found to be enough; of names Serfling's (1974) for every
set of names, of which the distance is the largest. The distances, figures and what counts as some size are drift.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.drift import Moved, Shift, distance_between, for_several, middle

WINDOW = 200  # rows
KINDS = 8  # of names: the rarest of more count as one, for there are too many sets of them
OTHERS = "others"


@dataclass(frozen=True)
class Window:
    """What was found of some rows that came one after another."""

    number: int  # from 1
    moved: dict[str, Moved]  # by figure; its chance is corrected for all windows and figures

    @property
    def has_changed(self) -> bool:
        """Whether any figure is farther off than chance and by some size."""
        return any(one.shift.is_noticed for one in self.moved.values())


class DriftWindows:
    """Known rows, and of those that come as many as a window has: figures only."""

    def __init__(
        self,
        known: Mapping[str, NDArray[np.generic]],
        names: Sequence[str] = (),
        *,
        window: int = WINDOW,
        watchers: int = 1,
    ) -> None:
        self._known, self._names, self._window, self._watchers = known, names, window, watchers
        self._coming: dict[str, list[NDArray[np.generic]]] = {name: [] for name in known}
        self._waiting, self._number = 0, 0

    def add(self, figures: Mapping[str, NDArray[np.generic]]) -> Iterator[Window]:
        """Take rows as they come, and yield what was found of each window that they fill."""
        rows, start = len(next(iter(figures.values()))), 0
        while start < rows:
            stop = min(rows, start + self._window - self._waiting)
            for name, coming in self._coming.items():
                coming.append(figures[name][start:stop])
            self._waiting += stop - start
            start = stop
            if self._waiting == self._window:
                yield self._full()

    def _full(self) -> Window:
        new = {name: np.concatenate(values) for name, values in self._coming.items()}
        self._coming = {name: [] for name in new}
        self._waiting, self._number = 0, self._number + 1
        found = {name: _held(name, self._known[name], new[name], is_ordered=name not in self._names) for name in new}
        looks = self._watchers * self._number * (self._number + 1)
        chances = for_several({name: one.shift.chance for name, one in found.items()})
        corrected = {name: Shift(one.shift.distance, min(1.0, looks * chances[name])) for name, one in found.items()}
        return Window(self._number, {name: replace(one, shift=corrected[name]) for name, one in found.items()})


def _held(name: str, known: NDArray[np.generic], new: NDArray[np.generic], *, is_ordered: bool) -> Moved:
    """Return how far a figure of new rows is from that of known ones, and by which chance at most."""
    if not is_ordered:
        known, new, kinds = _by_kinds(known, new)
    distance = distance_between(known, new, is_ordered=is_ordered)
    rows = len(known), len(new)
    chance = numbers_bound(distance, *rows) if is_ordered else names_bound(distance, *rows, kinds)
    before, after = (middle(values, name, is_ordered=is_ordered) for values in (known, new))
    return Moved(Shift(distance, chance), before, after)


def _by_kinds(
    known: NDArray[np.generic], new: NDArray[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.generic], int]:
    """Return names with the rarest as one, and how many there are. Which are rare is told by both alike."""
    kinds, counts = np.unique(np.concatenate((known, new)), return_counts=True)
    if len(kinds) <= KINDS:
        return known, new, len(kinds)
    kept = kinds[np.argsort(-counts, kind="stable")[: KINDS - 1]]
    folded = [np.where(np.isin(values, kept), values, OTHERS) for values in (known, new)]
    return folded[0], folded[1], KINDS


def numbers_bound(distance: float, known: int, new: int) -> float:
    """Return what the chance of so far a distance between two samples of numbers is at most."""
    return min(1.0, math.exp(1 - 2 * distance**2 * known * new / (known + new)))


def names_bound(distance: float, known: int, new: int, kinds: int) -> float:
    """Return what the chance of so far a distance between two samples of so many names is at most."""
    if kinds < 2:
        return 1.0
    most = max(known, new)
    rows = known * new / (known + new) * most / (most + 1)
    return min(1.0, math.exp(math.log(2**kinds - 2) - 2 * distance**2 * rows))
