"""How long a fine-tuning takes with what follows it, told once its first updates have shown it."""

from __future__ import annotations

from gpt1.base.wording import duration
from gpt1.finetuning.ensembling import times_as_long
from gpt1.runs.events import Event, Stepped
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
        if not self._folds or not isinstance(event, Stepped) or not 1 < event.step < event.steps:
            return
        training = event.seconds_left / (1 - event.step / event.steps)
        after = (
            "one more after it, on two thirds of the rows,"
            if self._folds == 1
            else f"the cross-validation after it ({self._folds} more trainings on two thirds of the rows)"
        )
        takes = duration(training * times_as_long(self._folds))
        self._notify(f"training takes about {duration(training)}, and {after} about {takes}")
        self._folds = 0
