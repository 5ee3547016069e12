"""The simulation of failures agrees with the closed form where there is one, and with common sense elsewhere."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.failures import ELASTIC, SPARE, WAIT, WAYS, Job, best_interval, daly, expected_hours, simulate, young

ROOT = Path(__file__).parent.parent.parent
DRAWS = 400
JOB = Job(work=20.0, nodes=8, node_mtbf=16.0, save=0.02, restart=0.1)  # a failure every two hours
SIGMAS = 4  # by which a mean of draws may miss what is expected; the draws are the same each time


def mean(job: Job, interval: float, way: str = SPARE) -> tuple[float, float]:
    """Return the mean of many draws, and its standard error."""
    hours = simulate(job, interval, way, DRAWS, seed=0)
    return float(hours.mean()), float(hours.std(ddof=1)) / math.sqrt(DRAWS)


@pytest.mark.parametrize("interval", [0.05, 0.2, 0.5, 2.0])
@pytest.mark.parametrize("job", [JOB, replace(JOB, node_mtbf=160.0), replace(JOB, restart=1.0)])
def test_with_a_spare_node_the_mean_is_that_of_the_closed_form(job: Job, interval: float) -> None:
    found, error = mean(job, interval)
    assert abs(found - expected_hours(job, interval)) < SIGMAS * error
    assert error < 0.05 * found


def test_where_nothing_fails_only_saving_costs() -> None:
    safe = replace(JOB, node_mtbf=1e12)
    for way in WAYS:
        assert simulate(safe, 0.5, way, 3, seed=0) == pytest.approx(20 + 40 * 0.02)


@pytest.mark.parametrize(("save", "near"), [(0.0002, 0.01), (0.002, 0.02), (0.02, 0.05)])
def test_young_and_daly_find_the_best_interval_daly_the_nearer(save: float, near: float) -> None:
    job = replace(JOB, save=save)
    best = best_interval(job)
    assert abs(daly(job) - best) < near * best
    assert abs(daly(job) - best) <= abs(young(job) - best) + 1e-3 * best
    for other in (best / 3, 3 * best):
        assert expected_hours(job, best) < expected_hours(job, other)


def test_saves_that_lag_behind_lose_more_and_more_draws_say_how_much() -> None:
    lagging = replace(JOB, behind=0.5)
    at_once, error = mean(JOB, 0.2)
    later, other_error = mean(lagging, 0.2)
    failures = at_once / JOB.mtbf
    assert later - at_once == pytest.approx(
        0.5 * failures, abs=0.2 * failures + SIGMAS * math.hypot(error, other_error)
    )


def test_going_on_with_fewer_nodes_beats_waiting_for_a_repair_and_a_spare_beats_both() -> None:
    broken = replace(JOB, node_mtbf=80.0, repair=4.0)
    hours = [mean(broken, 0.5, way)[0] for way in (SPARE, ELASTIC, WAIT)]
    assert hours == sorted(hours)
    assert hours[2] - hours[0] == pytest.approx(4.0 * hours[2] / (broken.mtbf + 4.0), rel=0.15)


def test_a_repair_that_takes_no_time_costs_one_restart_more_at_most() -> None:
    spare, error = mean(JOB, 0.2)
    elastic, _ = mean(JOB, 0.2, ELASTIC)
    failures = elastic / JOB.mtbf
    assert spare - SIGMAS * error < elastic < spare + 2 * failures * (JOB.restart + JOB.save) + SIGMAS * error


def test_the_same_seed_gives_the_same_hours() -> None:
    first, again, other = (simulate(JOB, 0.2, ELASTIC, 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_it_is_a_command_and_its_help_tells_how() -> None:
    for arguments, told in ((["--help"], "--gpu-hours"), (["--draws", "9", "--gpu-hours", "800"], "every 12.5 h")):
        call = [sys.executable, "-m", "benchmarks.failures", *arguments]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
        assert told in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--gpu-hours", "500", "--repair-hours", "1"]])
def test_the_page_shows_what_the_command_prints(arguments: list[str]) -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    call = [sys.executable, "-m", "benchmarks.failures", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert f"    {' '.join(['python', *call[1:]])}\n\n```text\n{done.stdout}```\n" in page
