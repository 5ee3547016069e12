"""Rows for development where a task comes without: a tenth of the training rows, drawn evenly and always the same.

Classes keep their shares, and so do labels of which a row may have several; scores are drawn all along their range,
groups of a task keep theirs. Equal texts stay
together on one side, and so do the questions about one passage: what is to be judged on must not have been learnt.
A label seen once, and a text that carries two labels, stay in training. The draw is a function of the rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import cast

from gpt1.base.shuffle import draw, permutation
from gpt1.base.wording import many
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example, Labelled, same_texts
from gpt1.tasks.shapes import CHOICES

ONE_IN = 10  # training rows goes to development
SEED = 0

Unit = list[int]  # places of examples that may not be parted

_TRAIN, _DEV = "train", "dev"
_SIDES = {_TRAIN: 1 - 1 / ONE_IN, _DEV: 1 / ONE_IN}  # and their shares of the rows


def with_dev(labelled: Labelled) -> Labelled:
    """Return the task with rows for development: its own, or where it has none, some of the training rows."""
    task, train = labelled.task, labelled.splits.get("train", [])
    if not train or any(split in labelled.splits for split in task.dev_splits):
        return labelled
    dev = draw_dev(task, train)
    if not dev:
        said = f"there are no dev rows, and {many(len(train), 'training row')} are too few to spare some"
        return replace(labelled, notices=(*labelled.notices, said))
    how = "evenly over the scores" if task.score_range else "evenly over the labels" if task.labels else "by chance"
    said = (
        f"there are no dev rows: {many(len(dev), 'row')} of the {len(train):,} in train kept for dev, "
        f"drawn {how} and always the same"
    )
    kept = set(dev)
    splits = {
        "train": [example for place, example in enumerate(train) if place not in kept],
        task.dev_splits[0]: [train[place] for place in dev],
    }
    rest = {split: examples for split, examples in labelled.splits.items() if split != "train"}
    return Labelled(task, splits | rest, (*labelled.notices, said))


def draw_dev(task: Task, train: Sequence[Example]) -> list[int]:
    """Return the places of the training examples that go to development, in their order."""
    units = _units(task, train)
    if task.score_range is not None:
        return sorted(place for unit in _along_the_scores(units, train) for place in unit)
    if task.is_multilabel or task.labels_words:  # of words each label counts as often as it is there
        return sorted(place for unit in _iteratively(units, train) for place in unit)
    strata: dict[Hashable, list[Unit]] = {}
    for unit in units:
        strata.setdefault(train[unit[0]].label if task.labels else train[unit[0]].group, []).append(unit)
    # In the order of labels, not of rows: the key of a draw is the number of its stratum.
    drawn = (_tenth(strata[name], number) for number, name in enumerate(sorted(strata, key=repr)))
    return sorted(place for stratum in drawn for unit in stratum for place in unit)


def draw_units(units: Sequence[Unit], count: int, key: int = 0) -> list[Unit]:
    """Return so many of the units, drawn by chance."""
    order = permutation(len(units), (SEED, key))(range(count))
    return [units[place] for place in order.tolist()]


def _units(task: Task, train: Sequence[Example]) -> list[Unit]:
    """Return the examples that may go to development, those that may not be parted as one."""
    together: dict[Hashable, Unit] = {}
    for place, texts in enumerate(same_texts(task, train)):
        # A passage comes with many questions, and whoever has read it for one knows it for all.
        together.setdefault(texts[0] if task.shape == CHOICES else texts, []).append(place)
    if not task.labels:
        return list(together.values())
    return [unit for unit in together.values() if len({train[place].label for place in unit}) == 1]


def _tenth(units: list[Unit], key: int) -> list[Unit]:
    """Return units with about a tenth of the rows, at least one where there are two."""
    if len(units) < 2:
        return []
    wanted = max(1, round(sum(map(len, units)) / ONE_IN))
    drawn, rows = [], 0
    shuffled = draw_units(units, len(units), key)
    for unit in shuffled[1:]:  # the first stays in training, whatever its size
        if rows + len(unit) <= wanted:
            drawn.append(unit)
            rows += len(unit)
    return drawn or [min(shuffled, key=len)]


def _iteratively(units: list[Unit], train: Sequence[Example]) -> list[Unit]:
    """Return units with about a tenth of the rows of each label (iterative stratification; Sechidis et al., 2011).

    The label with the fewest rows left is shared out first, as later ones can make up for what it does to theirs; a row
    goes to the side that lacks most rows of it, of equals to the one that lacks most rows. Rows without a label are
    shared out last.
    """
    shuffled = draw_units(units, len(units))
    labels = [cast(tuple[int, ...], train[unit[0]].label) for unit in shuffled]
    left = Counter(label for unit, own in zip(shuffled, labels, strict=True) for label in own * len(unit))
    lacking = {side: {label: share * count for label, count in left.items()} for side, share in _SIDES.items()}
    rows = {side: share * sum(map(len, units)) for side, share in _SIDES.items()}
    drawn: list[Unit] = []
    waiting = dict(enumerate(shuffled))
    while waiting:
        rarest = min((label for label in left if left[label]), key=lambda label: (left[label], label), default=None)
        for place in [place for place in waiting if rarest is None or rarest in labels[place]]:
            unit = waiting.pop(place)
            side = max(_SIDES, key=lambda one: (lacking[one].get(rarest, 0) if rarest is not None else 0, rows[one]))
            if side == _DEV:
                drawn.append(unit)
            rows[side] -= len(unit)
            for label in labels[place]:
                lacking[side][label] -= len(unit)
                left[label] -= len(unit)
    return drawn


def _along_the_scores(units: list[Unit], train: Sequence[Example]) -> list[Unit]:
    """Return one unit of each ten neighbours in the order of their scores, none of more than a tenth of the rows."""
    ordered = sorted(units, key=lambda unit: (train[unit[0]].label, unit[0]))
    drawn = []
    for start in range(0, len(ordered), ONE_IN):
        neighbours = ordered[start : start + ONE_IN]
        whole = len(neighbours) > ONE_IN // 2 or start == 0
        small = [unit for unit in neighbours if len(unit) <= max(1, len(train) // ONE_IN)]
        if whole and small and len(ordered) > 1:
            drawn.append(small[draw(len(small), (SEED, start))])
    return drawn
