"""How long a fine-tuning takes with what follows it, and how far the cross-validation is that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpt1.base.wording import duration
from gpt1.finetuning.ensembling import times_as_long
from gpt1.runs.events import Event, Fold, Listener, Stepped
from gpt1.training.session import Notify


class Forecast:
    """Hears a training, and tells how long it takes where a cross-validation follows; else the live line tells it."""

    def __init__(self, notify: Notify) -> None:
        self._folds = 0  # of the cross-validation that follows
        self._notify = notify

    def expect(self, folds: int) -> None:
        """Reckon with a cross-validation of so many folds."""
        self._folds = folds

    def __call__(self, event: Event) -> None:
        """Tell it at the first figures but one: the first update takes longer than others."""
        if not self._folds or not isinstance(event, Stepped) or event.fold or not 1 < event.step < event.steps:
            return
        training = seconds_in_all(event)
        after = (
            "one more after it, on two thirds of the rows,"
            if self._folds == 1
            else f"the cross-validation after it ({self._folds} more trainings on two thirds of the rows)"
        )
        takes = duration(training * times_as_long(self._folds))
        self._notify(f"training takes about {duration(training)}, and {after} about {takes}")
        self._folds = 0


def seconds_in_all(event: Stepped) -> float:
    """Return how long a training takes that is not at its end, by what is left of it."""
    return event.seconds_left / (1 - event.step / event.steps)


def in_fold(listener: Listener, number: int, of: int, seconds_each: Callable[[], float]) -> Listener:
    """Return a listener that hears how far a training of a cross-validation is, and nothing else of it.

    It is training `number` (from 0 on) of so many, each of which takes about so many seconds, as far as is known then.
    """

    def hear(event: Event) -> None:
        if isinstance(event, Stepped):
            listener(replace(event, fold=Fold(number + 1, of, event.seconds_left + (of - number - 1) * seconds_each())))

    return hear
