"""What settings are worth: networks learn parts of the training rows by them, and answer the others.

The rows are dealt once, labels evenly and equal texts together (`finetuning/counting.py`), so that all trials are
judged by the same rows. Rows for dev and for the test are taken away before: no trial can see one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError
from gpt1.base.wording import many
from gpt1.finetuning.counting import deal_evenly
from gpt1.finetuning.ensembling import chosen, keep, without_part
from gpt1.finetuning.finetune import FOR_A_PART, finetune
from gpt1.finetuning.forecasting import in_fold, seconds_in_all
from gpt1.inference.answering import answer_split
from gpt1.inference.run import LAST, Run, load_run
from gpt1.linear.ensemble import judging_thresholds, own_thresholds
from gpt1.recipes.changes import change
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Event, Listener, Stepped
from gpt1.tasks.answers import Floats, log_likelihoods
from gpt1.tasks.assessment import Interval, assess, hold_against
from gpt1.tasks.encoded import EncodedTask

# Folds are short, and begun anew after a kill: what lies on the disk at the end is enough.
_SAVE_LITTLE = ("logging.save_every=1000000", "logging.keep_every=none", "logging.keep_weights=none")
_ANSWERS = "answers"


def learnable(encoded: EncodedTask) -> EncodedTask:
    """Return a task with its rows for training, and nothing of any other row."""
    return replace(encoded, splits={"train": encoded.splits["train"]}, examples={})


def parts_of(task: EncodedTask) -> NDArray[np.int64]:
    """Return in which part each row for training is, or refuse a table of too few."""
    train = task.splits["train"]
    if (found := deal_evenly(task)) is None:
        raise InputError(
            f"{many(len(train), 'row')} for training are too few to judge settings by: there must be six different "
            "texts, and two labels in any two thirds of them; add rows"
        )
    return found


def updates_of(recipe: Recipe, rows: int) -> int:
    """Return how many updates so many rows are learned in."""
    epochs = -(-rows // recipe.training.batch) * recipe.training.epochs
    return recipe.training.steps or max(1, round(epochs))


@dataclass(frozen=True)
class Judged:
    """What rows that were not learned say, of all that were answered by then."""

    score: float
    interval: Interval
    loss: float  # minus the mean log-likelihood of their labels


class Judge:
    """Who tries settings: from which base, on which rows, of whose parts so many are held out one after the other."""

    def __init__(
        self,
        base: str,
        task: EncodedTask,
        recipe: Recipe,
        folds: int,
        device: str | None,
        listeners: Sequence[Listener],
    ) -> None:
        self._base, self._task, self._recipe, self._folds = base, learnable(task), recipe, folds
        self._device, self._listeners = device, listeners
        self._parts = parts_of(task)
        self._seconds_each = 0.0  # of a fold, until it is known

    def judge(self, folder: Path, changes: Sequence[str]) -> Iterator[Judged]:
        """Yield what settings are worth after each fold; a fold that lies in the folder already is not learned again.

        Who has heard enough stops asking.
        """
        answers: dict[str, Floats] = {}
        for number in range(self._folds):
            inside = self._parts == number
            run = self._trained(folder / f"part-{number}", changes, number)
            rows = chosen(self._task.splits["train"], inside)
            keep(answers, _ANSWERS, inside, answer_split(run, self._task.task, rows)[0])
            yield self._judged(answers[_ANSWERS], self._parts <= number)

    def updates(self, changes: Sequence[str]) -> int:
        """Return how many updates a trial of these settings makes, in all folds."""
        recipe = change(self._recipe, changes)
        return sum(updates_of(recipe, int((self._parts != number).sum())) for number in range(self._folds))

    def _trained(self, folder: Path, changes: Sequence[str], number: int) -> Run:
        finetune(
            self._base,
            folder,
            encoded=without_part(self._task, self._parts, number),
            recipe=self._recipe,
            changes=[*FOR_A_PART, *_SAVE_LITTLE, *changes],
            resume=True,
            device=self._device,
            listeners=[self._reckon, *(self._in_fold(one, number) for one in self._listeners)],
        )
        return load_run(folder, device=self._device, step=LAST)

    def _in_fold(self, listener: Listener, number: int) -> Listener:
        return in_fold(listener, number, self._folds, lambda: self._seconds_each)

    def _reckon(self, event: Event) -> None:
        if isinstance(event, Stepped) and 1 < event.step < event.steps:
            self._seconds_each = seconds_in_all(event)

    def _judged(self, answers: Floats, asked: NDArray[np.bool_]) -> Judged:
        task, labels, found = self._task.task, self._task.splits["train"].labels[asked], answers[asked]
        own = own_thresholds(task, found, labels, with_thresholds=False)
        answered = hold_against(task, labels, found, judging_thresholds(task, found, labels, own))
        assessed, metric = assess(task, labels, answered), task.metrics[0]
        loss = -float(log_likelihoods(task, labels, found).mean())
        return Judged(float(assessed.metrics[metric]), assessed.intervals[metric], loss)
