"""What fits into the time is decided by numbers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpt1.inspection.plan import Speed
from gpt1.recipes.catalog import AUTO, FINETUNE, SMALL
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


def test_labels_that_fit_are_learned_as_the_recipe_says() -> None:
    plan = plan_learning(RECIPE, 80_000, 2000, Speed(1000.0), HOUR)
    assert plan == LearningPlan(None, pytest.approx(ROOM * 80_000 * 3 / 1000))


def test_few_labels_take_longer_as_they_are_learned_again_in_parts() -> None:
    once = plan_learning(RECIPE, 80_000, 2000, Speed(1000.0), HOUR)
    again = plan_learning(RECIPE, 80_000, 900, Speed(1000.0), HOUR)
    alone = plan_learning(replace(RECIPE, finetuning=FINETUNE.finetuning), 80_000, 900, Speed(1000.0), HOUR)
    assert (again.seconds / once.seconds, alone.seconds / once.seconds) == (pytest.approx(3), pytest.approx(1))


def test_what_does_not_fit_is_cut_down_and_told() -> None:
    plan = plan_learning(RECIPE, 2_000_000, 20_000, Speed(1000.0), 2 * HOUR)
    assert plan.epochs == 2
    assert plan.seconds <= 2 * HOUR
    assert plan.why == "the labels are read 2 times, not 3, to fit into 2 h"
    less = plan_learning(RECIPE, 2_000_000, 20_000, Speed(1000.0), HOUR / 6)
    assert less.epochs == 0.2


def test_at_least_one_update_is_made_however_short_the_time_is() -> None:
    assert plan_learning(RECIPE, 80_000, 64, Speed(1000.0), 0.0).epochs == 0.5


def test_a_device_whose_updates_take_a_while_however_small_is_reckoned_with() -> None:
    assert plan_learning(RECIPE, 1, 3200, Speed(1e9, 0.1), HOUR).seconds == pytest.approx(ROOM * 3 * 100 * 0.1)


def test_an_unknown_speed_cuts_nothing_down() -> None:
    assert plan_learning(RECIPE, 10**9, 10**6, None, 1.0) == LearningPlan(None, 0.0)


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
