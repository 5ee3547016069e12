"""What fits into the time is decided by numbers alone."""

from __future__ import annotations

import pytest

from gpt1.inspection.plan import Speed
from gpt1.recipes.catalog import AUTO, SMALL
from gpt1.recipes.derived import settled
from gpt1.starting.planning import (
    FEWEST_UPDATES,
    LITTLE_TEXT,
    MOST_READINGS,
    ROOM,
    SMALLEST_BATCH,
    LearningPlan,
    ReadingPlan,
    plan_learning,
    plan_reading,
    reading_changes,
)

HOUR = 3600.0
RECIPE = settled(AUTO, 33_500_000, 2000)  # 3 epochs of 32


UPDATE = 0.5  # seconds


def test_labels_that_fit_are_learned_as_the_recipe_says() -> None:
    plan = plan_learning(RECIPE, 2000, UPDATE, HOUR, again=False)
    assert plan == LearningPlan(pytest.approx(ROOM * 63 * 3 * UPDATE))
    assert plan.changes() == []


def test_few_labels_take_longer_as_they_are_learned_again_in_parts() -> None:
    again = plan_learning(RECIPE, 900, UPDATE, HOUR, again=True)
    alone = plan_learning(RECIPE, 900, UPDATE, HOUR, again=False)
    assert again.seconds == pytest.approx(3 * alone.seconds)


def test_where_cross_validation_does_not_fit_a_part_is_held_out_in_its_place() -> None:
    whole = plan_learning(RECIPE, 900, UPDATE, HOUR, again=True)
    plan = plan_learning(RECIPE, 900, UPDATE, whole.seconds - 1, again=True)
    assert (plan.epochs, plan.changes()) == (None, ["finetuning.folds=1"])
    assert plan.seconds == pytest.approx(whole.seconds * 5 / 9)
    assert plan.why.startswith("a third of the rows is held out once, in place of cross-validation, to fit into")


def test_where_not_even_that_fits_labels_are_read_fewer_times() -> None:
    plan = plan_learning(RECIPE, 900, UPDATE, 80, again=True)
    assert plan.changes() == ["training.epochs=2", "finetuning.folds=1"]
    assert plan.seconds <= 80
    assert plan.why == (
        "the labels are read 2 times, not 3, and a third of the rows is held out once, in place of cross-validation, "
        "to fit into 1 min"
    )


def test_what_does_not_fit_is_cut_down_and_told() -> None:
    plan = plan_learning(RECIPE, 20_000, UPDATE, HOUR / 3, again=False)
    assert plan.changes() == ["training.epochs=2"]
    assert plan.seconds <= HOUR / 3
    assert plan.why == "the labels are read 2 times, not 3, to fit into 20 min"
    assert plan_learning(RECIPE, 20_000, UPDATE, 94, again=False).epochs == 0.2


def test_at_least_one_update_is_made_however_short_the_time_is() -> None:
    assert plan_learning(RECIPE, 64, UPDATE, 0.0, again=True).epochs == 0.5


def read(tokens: int, speed: Speed | None, seconds: float = HOUR, size: int = 10**8) -> ReadingPlan | str:
    return plan_reading(SMALL, tokens=tokens, text_bytes=size, speed=speed, seconds=seconds)


def test_a_text_is_read_a_few_times_where_there_is_time() -> None:
    plan = read(10_000_000, Speed(1e6))
    assert isinstance(plan, ReadingPlan)
    tokens = plan.updates * plan.batch * SMALL.shape.context
    assert 0.99 * MOST_READINGS * 10_000_000 < tokens <= MOST_READINGS * 10_000_000
    assert plan.batch == SMALL.training.batch


def test_where_time_is_short_less_is_read_in_smaller_batches() -> None:
    plan = read(10_000_000, Speed(500.0))
    assert isinstance(plan, ReadingPlan)
    assert plan.batch == SMALLEST_BATCH
    assert ROOM * plan.seconds <= HOUR


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (read(50_000, Speed(1e6), size=LITTLE_TEXT - 1), "it has 200 kB, and below 200 kB there is little to learn"),
        (read(10**7, Speed(10.0)), f"fewer than {FEWEST_UPDATES} change little"),
        (read(10**7, Speed(1e6), seconds=-5), "0 updates fit into 1 s"),
        (read(10**7, Speed(1e6, 1e4)), "0 updates fit into 1 h"),
        (read(1000, Speed(1e6)), "0 updates fit into this text"),
        (read(10**7, None), "how fast this device is cannot be told"),
    ],
)
def test_why_a_text_is_not_read_is_told(plan: ReadingPlan | str, why: str) -> None:
    assert isinstance(plan, str)
    assert why in plan


def test_a_reading_is_gentler_than_the_training_of_the_recipe() -> None:
    changes = reading_changes(SMALL, ReadingPlan(400, 8, 1.0))
    assert "optimizer.lr=0.0009" in changes
    assert "optimizer.matrix_lr=0.006" in changes
    assert "logging.evaluate_every=100" in changes
    assert "logging.keep_weights=none" in changes
