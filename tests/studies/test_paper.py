"""The paper's figures agree with themselves."""

from __future__ import annotations

import pytest

from gpt1.inference.blimp import BLIMP, CHANCE
from gpt1.studies.paper import (
    ABLATED,
    ABLATIONS,
    ARMS,
    BETTER,
    FULL,
    OF_TASKS,
    SCALES,
    TABLES,
    normalised,
    whole_rows,
)
from gpt1.tasks.catalog import CATALOGUE


def test_averages_are_the_means_of_their_rows() -> None:
    for figures in ABLATIONS.values():
        mean = sum(figures[task] for task in ABLATED) / 8
        assert mean == pytest.approx(figures["average"], abs=0.07)  # 69.16 is printed as 69.1
    assert ABLATIONS.keys() == ARMS.keys()


def test_the_full_model_of_table_5_is_that_of_the_others() -> None:
    published = {row.task: row.paper for rows in TABLES.values() for row in rows if row.task not in ("mnli", "race")}
    assert all(published[task] == ABLATIONS[FULL][task] for task in ABLATED if task in published)
    matched, mismatched = (row.paper for row in TABLES["table-2"] if row.task == "mnli")
    assert (matched + mismatched) / 2 == pytest.approx(ABLATIONS[FULL]["mnli"], abs=0.06)


def test_the_paper_is_better_than_the_best_before_on_nine_of_twelve_tasks() -> None:
    tasks = whole_rows()
    better = [task for task, rows in tasks.items() if all(row.paper > row.previous for row in rows)]
    assert (len(better), len(tasks)) == (BETTER, OF_TASKS)
    assert set(tasks) - set(better) == {"rte", "sst2", "mrpc"}


def test_every_figure_is_of_a_split_and_a_metric_that_a_task_has() -> None:
    for row in (row for rows in TABLES.values() for row in rows):
        task = CATALOGUE[row.task]
        metric, _, group = row.metric.partition("/")
        assert row.split in task.dev_splits
        assert metric == task.metrics[0]
        assert not group or group in task.groups


def test_the_scale_goes_from_a_guess_to_the_best_of_the_time() -> None:
    for task, scale in SCALES.items():
        assert normalised(task, scale.chance / 100) == pytest.approx(0)
        assert normalised(task, scale.best / 100) == pytest.approx(1)
    assert normalised("rte", 0.5) is None
    assert (SCALES[BLIMP].chance, SCALES[BLIMP].best_is) == (100 * CHANCE, "a single person")
