"""How long a training takes with its cross-validation is told once, when a few updates have shown it."""

from __future__ import annotations

from dataclasses import replace

from gpt1.finetuning.forecasting import Forecast, in_fold
from gpt1.runs.events import Event, Fold, Noticed, Stepped


def stepped(step: int, seconds_left: float) -> Stepped:
    return Stepped(step, 150, step, 1.0, {}, 1e-4, 1.0, 1e3, seconds_left, 0, None)


def forecast(folds: int) -> list[str | None]:
    told: list[str | None] = []
    hear = Forecast(told.append)
    hear.expect(folds)
    for event in (stepped(1, 900.0), stepped(10, 28.0), stepped(20, 26.0)):
        hear(event)
    return told


def test_it_is_told_once_and_not_by_the_first_update() -> None:
    assert forecast(3) == [
        "training takes about 30 s, and the cross-validation after it (3 more trainings on two thirds of the rows) "
        "about 1 min"
    ]
    assert forecast(1) == ["training takes about 30 s, and one more after it, on two thirds of the rows, about 20 s"]


def test_without_cross_validation_nothing_is_told() -> None:
    assert forecast(0) == []


def test_the_updates_of_a_fold_say_which_it_is_and_how_long_all_that_are_left_take() -> None:
    heard: list[Event] = []
    for number in (1, 2):
        hear = in_fold(heard.append, number, 3, lambda: 20.0)
        hear(stepped(10, 5.0))
        hear(Noticed("of the fold, not of the run"))
    wanted = [replace(stepped(10, 5.0), fold=fold) for fold in (Fold(2, 3, 25.0), Fold(3, 3, 5.0))]
    assert heard == wanted
    assert wanted[0].where == "fold 2 of 3, update 10/150"


def test_a_forecast_is_not_made_by_the_updates_of_a_fold() -> None:
    told: list[str | None] = []
    forecast = Forecast(told.append)
    forecast.expect(3)  # of a run that goes on behind its last update
    in_fold(forecast, 0, 3, lambda: 20.0)(stepped(10, 28.0))
    assert told == []
