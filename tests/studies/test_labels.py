"""Few labels: how they are drawn, and three ways to learn from them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import SettingError
from gpt1.finetuning.data import Source
from gpt1.runs.folder import read_run
from gpt1.studies.labels import draw_order, study_labels
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.examples import Example
from tests.finetuning.tools import make_examples, make_task, write_table
from tests.studies.tools import TRAINING, Remembers, source, write_tasks

RTE = CATALOGUE["rte"]


def examples(*labels: float) -> list[Example]:
    return [Example(("a", "b"), label, row) for row, label in enumerate(labels, 1)]


def test_every_beginning_of_the_order_holds_the_classes_in_their_shares() -> None:
    train = examples(*([0] * 70 + [1] * 30))
    order = draw_order(RTE, train, seed=3)
    assert sorted(order) == list(range(100))
    for count in (10, 20, 50, 100):
        found = Counter(train[place].label for place in order[:count])
        assert abs(found[0] - 0.7 * count) <= 1
    assert {train[place].label for place in order[:2]} == {0, 1}


def test_a_rare_class_is_among_the_first() -> None:
    order = draw_order(RTE, examples(*([0] * 500 + [1] * 2)), seed=0)
    assert 500 in order[:2] or 501 in order[:2]


def test_scores_are_drawn_all_along_their_range() -> None:
    train = examples(*np.linspace(0, 5, 200))
    order = draw_order(CATALOGUE["stsb"], train, seed=1)
    drawn = sorted(float(train[place].label or 0) for place in order[:20])
    assert all(low <= score <= low + 0.51 for score, low in zip(drawn[::2], np.arange(0, 5, 0.5), strict=True))


def test_the_order_is_that_of_the_seed() -> None:
    train = examples(*([0, 1] * 30))
    assert draw_order(RTE, train, 1) == draw_order(RTE, train, 1) != draw_order(RTE, train, 2)
    assert draw_order(RTE, [], 1) == []


def test_all_ways_learn_from_the_same_rows_and_more_labels_hold_the_fewer(tmp_path: Path, start: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    watcher = Remembers()
    found = study_labels(start, out, source=tasks, training=TRAINING, counts=[8, 4], watcher=watcher)
    assert watcher.made == [f"{arm}-sst2-{count}-0" for count in (4, 8) for arm in ("full", "scratch", "tf-idf")]
    for arm, scratch in (("full", False), ("scratch", True)):
        record = read_run(out / "cells" / f"{arm}-sst2-4-0" / "run")
        assert record.examples == {"sst2": {"train": 4, "dev": 9}}
        assert record.recipe.finetuning.scratch is scratch
    identities = [read_run(out / "cells" / f"{arm}-sst2-4-0" / "run").identity for arm in ("full", "scratch")]
    assert identities[0] == identities[1]
    section = found.sections["labels"]["tasks"]["sst2"]
    assert {arm: [point["labels"] for point in points] for arm, points in section["arms"].items()} == {
        arm: [4, 8] for arm in ("full", "scratch", "tf-idf")
    }
    assert [(pair["labels"], pair["over"]) for pair in section["differences"]] == [
        (count, arm) for count in (4, 8) for arm in ("scratch", "tf-idf")
    ]
    lines = (out / "cells" / "tf-idf-sst2-8-0" / "predictions-sst2-dev.jsonl").read_text().splitlines()
    right = [json.loads(line)["label"] == json.loads(line)["prediction"] for line in lines]
    assert section["arms"]["tf-idf"][1]["median"] == pytest.approx(sum(right) / 9)


def test_a_table_is_learned_from_and_judged_on_its_test(tmp_path: Path, start: Path) -> None:
    task = make_task("mails")
    rows = make_examples(task, 40)
    named = {
        split: write_table(tmp_path / f"{split}.csv", task, some)
        for split, some in (("train", rows[:24]), ("dev", rows[24:32]), ("test", rows[32:]))
    }
    found = study_labels(
        start,
        tmp_path / "out",
        source=Source(**named),
        training=TRAINING,
        counts=[12],  # type: ignore[arg-type]
    )
    (section,) = found.sections["labels"]["tasks"].values()
    assert all(point["splits"] == ["test"] for points in section["arms"].values() for point in points)


def test_more_labels_than_there_are_or_fewer_than_classes_are_refused(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2")
    for count in (1, 17):
        with pytest.raises(SettingError, match=f"'sst2' can be learned from 2 to 16 labels here, not from {count}"):
            study_labels(start, tmp_path / "out", source=tasks, training=TRAINING, counts=[count])


def test_labels_that_may_be_scores_are_told(tmp_path: Path, start: Path) -> None:
    table = tmp_path / "stars.csv"
    table.write_text("text,label\n" + "".join(f"it was {row},{row % 4}.5\n" for row in range(40)))
    with pytest.raises(SettingError, match="not from 2; if the labels are scores, say `regression=True`"):
        study_labels(start, tmp_path / "out", source=Source(train=table), training=TRAINING, counts=[2])
