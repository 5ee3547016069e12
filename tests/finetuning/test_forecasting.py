"""How long a training takes with its cross-validation is told once, when a few updates have shown it."""

from __future__ import annotations

from gpt1.finetuning.forecasting import Forecast
from gpt1.runs.events import Stepped


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
