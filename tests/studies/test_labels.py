"""Few labels: how they are drawn, and three ways to learn from them."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1.base.errors import SettingError
from gpt1.finetuning.data import Source
from gpt1.records.study import CellCounts, CellRecord
from gpt1.runs.folder import read_run
from gpt1.studies.folder import read_study
from gpt1.studies.labels import draw_order, study_labels
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import make_examples, make_task, write_table
from tests.studies.tools import TRAINING, Remembers, make_start, rows_of, source, write_tasks

NETWORKS = ("full", "scratch", "chosen")
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
        assert (record.tasks["sst2"].dev_splits, record.tasks["sst2"].test_splits) == ((), ("dev",))  # decides nothing
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


def test_windows_are_refused_before_anything_is_learned_and_what_networks_do_not_read_is_told(
    tmp_path: Path, start: Path
) -> None:
    task = make_task("mails")
    rows = [replace(row, texts=(" ".join([*row.texts] * 20),)) for row in make_examples(task, 24)]
    tables = Source(
        train=write_table(tmp_path / "train.csv", task, rows[:16]),
        test=write_table(tmp_path / "test.csv", task, rows[16:]),
    )
    windows = replace(TRAINING, changes=(*TRAINING.changes, "finetuning.windows=mean"))
    with pytest.raises(SettingError, match=r"studies read no windows: .* leave `finetuning\.windows` out"):
        study_labels(start, tmp_path / "out", source=tables, training=windows, counts=[12])
    assert not (tmp_path / "out").exists()
    found = study_labels(start, tmp_path / "out", source=tables, training=replace(TRAINING, recipe="auto"), counts=[12])
    told = [note for note in found.notes if "longer than 40 tokens" in note]
    assert told
    assert all(note.endswith("; studies read no windows, and TF-IDF counts whole texts") for note in told)
    assert read_run(tmp_path / "out" / "cells" / "full-train-12-0" / "run").recipe.finetuning.windows == "off"


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


def test_several_labels_a_row_are_not_studied(tmp_path: Path, start: Path) -> None:
    table = tmp_path / "topics.csv"
    table.write_text("text,label\n" + "".join(f"it was {row},{'a|b' if row % 2 else 'a'}\n" for row in range(40)))
    with pytest.raises(SettingError, match="may have several labels; studies are of one label a row"):
        study_labels(start, tmp_path / "out", source=Source(train=table, labels_sep="|"), training=TRAINING, counts=[2])


# ---- counts, arms, parts ----


def test_all_labels_of_each_task_are_a_count_and_more_than_a_task_has_are_left_out(tmp_path: Path, start: Path) -> None:
    data = write_tasks(tmp_path / "tasks", "sst2", "cola")
    fewer = (data / "cola" / "train.jsonl").read_text().splitlines(keepends=True)[:8]
    (data / "cola" / "train.jsonl").write_text("".join(fewer))
    tasks, watcher = source(data, "sst2", "cola"), Remembers()
    found = study_labels(
        start,
        tmp_path / "out",
        source=tasks,
        training=TRAINING,
        counts=["all", 20, 12, 4],
        arms=["tf-idf"],
        watcher=watcher,
    )
    points = {task: one["arms"]["tf-idf"] for task, one in found.sections["labels"]["tasks"].items()}
    assert {task: [point["labels"] for point in own] for task, own in points.items()} == {
        "sst2": [4, 12, 16],
        "cola": [4, 8],
    }
    told = [
        "sst2 has 16 labels to learn from: 20 are left out",
        "cola has 8 labels to learn from: 12 and 20 are left out",
    ]
    assert [line for line in watcher.lines if "left out" in line] == told
    assert [note for note in found.notes if "left out" in note] == told
    assert found.about["counts"] == [4, 12, 20, "all"]
    assert found == read_study(tmp_path / "out")


def test_from_scratch_there_may_be_a_rate_of_its_own(tmp_path: Path, start: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    found = study_labels(start, out, source=tasks, training=TRAINING, counts=[4], scratch_lr=0.25)
    rates = [read_run(out / "cells" / f"{arm}-sst2-4-0" / "run").recipe.optimizer.lr for arm in ("full", "scratch")]
    assert rates == [5e-3, 0.25]
    assert "from scratch the learning rate is 0.25, whatever that of the others" in found.notes


def test_networks_are_compared_alone_whatever_the_recipe_and_what_is_chosen_stands_beside_them(
    tmp_path: Path, start: Path
) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    training = replace(TRAINING, changes=[*TRAINING.changes, "finetuning.ensemble=true"])
    arms = ["chosen", "tf-idf", "pre-trained", "scratch"]
    found = study_labels(start, out, source=tasks, training=training, counts=[8], arms=arms)
    chosen = {arm: read_run(out / "cells" / f"{arm}-sst2-8-0" / "run").recipe.finetuning for arm in NETWORKS}
    assert {arm: settings.ensemble for arm, settings in chosen.items()} == {
        "full": False,
        "scratch": False,
        "chosen": True,
    }
    kept = {
        arm: CellRecord.read(out / "cells" / f"{arm}-sst2-8-0" / "cell.json").inputs["settings"] for arm in NETWORKS
    }
    assert ["finetuning.ensemble" in one for one in kept.values()] == [False, False, True]
    section = found.sections["labels"]
    assert section["arms"]["chosen"] == "what fine-tuning chooses"
    assert {(pair["arm"], pair["over"]) for pair in section["tasks"]["sst2"]["differences"]} == {
        ("full", "scratch"),
        ("full", "tf-idf"),
        ("chosen", "tf-idf"),
        ("chosen", "full"),
    }
    without = study_labels(start, out, source=tasks, training=TRAINING, counts=[8])  # the same cells
    assert without.cells.done == without.cells.planned == 3
    assert "chosen" not in without.sections["labels"]["arms"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"arms": ["scrach"]}, "unknown arm 'scrach'; did you mean 'scratch'"),
        ({"arms": []}, "name at least one of `arms`"),
        ({"counts": ["some"]}, "numbers of labels and 'all', not 'some'"),
        ({"arms": ["chosen"], "scratch_lr": 1e-3}, "`scratch_lr` is the rate of the arm 'scratch', which is not"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_first(
    tmp_path: Path, start: Path, asked: dict[str, Any], message: str
) -> None:
    absent = source(tmp_path / "absent", "sst2")
    with pytest.raises(SettingError, match=message):
        study_labels(start, tmp_path / "out", source=absent, training=TRAINING, **{"counts": [4], **asked})


BARE = """
import sys

sys.modules.update(dict.fromkeys(sys.argv[5].split()))  # importing them fails, as if they were not installed
from gpt1.finetuning.data import Source
from gpt1.studies.labels import study_labels
from tests.studies.tools import Remembers
from gpt1.studies.finetuned import FinetuningSettings

start, data, out, part = sys.argv[1:5]
training = FinetuningSettings(changes=sys.argv[6:], device="cpu", seeds=2)
source, watcher = Source(tasks=["sst2"], data=data), Remembers()
arms = ["pre-trained", "scratch", "tf-idf", "chosen"]
asked = {"source": source, "training": training, "counts": [4, "all"], "arms": arms}
study_labels(start, out, **asked, part=(int(part), 2), watcher=watcher)
print(*watcher.made, sep="\\n")
print(*watcher.lines, sep="\\n", file=sys.stderr)
"""
ABSENT = "sklearn scipy pyarrow spacy ftfy click rich rensa zstandard pandas datasets transformers"


def test_parts_make_the_networks_where_only_what_trains_is_installed_and_the_rest_is_made_elsewhere(
    tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    start = make_start(tmp_path / "books", bytes_tokenizer)
    data, out = write_tasks(tmp_path / "tasks", "sst2"), tmp_path / "out"
    many = "".join(json.dumps(row) + "\n" for row in rows_of("sst2", 100))
    (data / "sst2" / "dev.jsonl").unlink()
    (data / "sst2" / "dev.jsonl.xz").write_bytes(lzma.compress(many.encode()))
    said = [
        subprocess.Popen(
            [sys.executable, "-c", BARE, start, data, out, number, ABSENT, *TRAINING.changes],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in "12"
    ]  # side by side
    made: list[str] = []
    for process in said:
        printed, told = process.communicate()
        assert process.returncode == 0, told
        assert "for later: 4 cells with counted words, since scikit-learn is not installed" in told
        made += printed.split()
        assert len(printed.split()) == 4
    assert sorted(made) == sorted(
        f"{arm}-sst2-{n}-{seed}" for arm in ("full", "scratch") for n in (4, 16) for seed in (0, 1)
    )
    assert [path.name for path in out.iterdir()] == ["cells"]

    training, watcher = replace(TRAINING, seeds=2), Remembers()
    arms = ["pre-trained", "scratch", "tf-idf", "chosen"]
    tasks = source(data, "sst2")
    found = study_labels(start, out, source=tasks, training=training, counts=[4, "all"], arms=arms, watcher=watcher)
    assert sorted(watcher.already) == sorted(made)
    assert found.cells == CellCounts(16, 16)
    points = found.sections["labels"]["tasks"]["sst2"]["arms"]
    assert {arm: [point["labels"] for point in own] for arm, own in points.items()} == {
        arm: [4, 16] for arm in ("full", "scratch", "tf-idf", "chosen")
    }
