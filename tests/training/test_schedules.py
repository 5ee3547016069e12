from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpt1.recipes.values import SCHEDULES, Schedule
from gpt1.training.schedules import _RULES, constant, cosine, factor, linear, trapezoid

# 1,000 updates of which 100 warm up: update 101 is the first whose share of updates done, 0.1, ends the warm-up.
HUNDRED = {kind: Schedule(kind=kind, warmup_steps=100, warmup_share=1.0, cooldown_share=0.4) for kind in SCHEDULES}


def test_every_schedule_a_recipe_may_name_has_a_rule() -> None:
    assert sorted(_RULES) == sorted(SCHEDULES)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_first_update_of_a_warm_up_moves_nothing(kind: str) -> None:
    assert factor(HUNDRED[kind], 1, 1000) == 0.0


@pytest.mark.parametrize("kind", SCHEDULES)
def test_without_a_warm_up_the_first_update_is_whole(kind: str) -> None:
    assert factor(replace(HUNDRED[kind], warmup_steps=0), 1, 1000) == 1.0


@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_run_of_one_update_is_defined(kind: str) -> None:
    assert factor(HUNDRED[kind], 1, 1) == 0.0
    assert factor(replace(HUNDRED[kind], warmup_steps=0), 1, 1) == 1.0


@pytest.mark.parametrize(
    ("kind", "half_way_up", "peak", "after", "middle", "last"),
    [
        ("constant", 0.5, 1.0, 1.0, 1.0, 1.0),
        ("linear", 0.5 * 0.95, 0.9, 0.899, 0.5, 0.001),
        # Not begun anew at the warm-up's end: right after the peak the curve falls to where it would have been anyway.
        ("cosine", 0.5, 1.0, 0.5 * (1 + math.cos(math.pi * 0.101)), 0.5, 0.5 * (1 + math.cos(math.pi * 0.999))),
        ("trapezoid", 0.5, 1.0, 1.0, 1.0, 0.001 / 0.4),
    ],
)
def test_a_schedule_has_these_values(
    kind: str, half_way_up: float, peak: float, after: float, middle: float, last: float
) -> None:
    found = [factor(HUNDRED[kind], t, 1000) for t in (51, 101, 102, 501, 1000)]
    assert found == pytest.approx([half_way_up, peak, after, middle, last], abs=1e-12)


@pytest.mark.parametrize("rule", [linear, cosine, lambda x, w: trapezoid(x, w, 0.4)])
def test_all_but_constant_end_at_zero(rule) -> None:
    assert rule(1.0, 0.1) == pytest.approx(0.0, abs=1e-15)
    assert constant(1.0, 0.1) == 1.0


@pytest.mark.parametrize("rule", [constant, linear, cosine, lambda x, w: trapezoid(x, w, 0.4)])
def test_a_warm_up_longer_than_the_run_only_rises_to_where_the_run_ends(rule) -> None:
    assert rule(0.0, 2.0) == 0.0
    assert rule(0.5, 2.0) == pytest.approx(0.25 * (0.5 if rule is linear else 1.0))


def test_a_trapezoid_falls_straight_over_its_last_share() -> None:
    assert [trapezoid(x, 0.1, 0.4) for x in (0.6, 0.7, 0.8, 0.9, 1.0)] == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert trapezoid(1.0, 0.1, 0.0) == 1.0  # no cool-down


def test_where_warm_up_and_cooldown_meet_the_lower_one_holds() -> None:
    assert trapezoid(0.5, 1.0, 1.0) == 0.5
    assert trapezoid(0.75, 1.0, 1.0) == 0.25


def test_a_warm_up_in_updates_is_cut_to_its_share_of_a_short_run() -> None:
    paper = Schedule()
    assert factor(paper, 2001, 1_000_000) == 1.0
    assert factor(paper, 21, 1000) == 1.0  # a fiftieth of 1,000, not 2,000
