"""What is told of a task and of its data."""

from __future__ import annotations

import json

import pytest

from gpt1.tasks.catalog import CATALOGUE, task_as_json
from gpt1.tasks.describe import check_task, describe_catalogue, describe_check


def test_the_catalogue_is_told_in_columns():
    lines = describe_catalogue()
    assert [line.split()[0] for line in lines] == list(CATALOGUE)
    assert lines[3].split("  ")[0] == "stsb"
    assert [line[lines[0].index("CoLA") :] for line in lines] == [task.title for task in CATALOGUE.values()]


def test_a_task_is_told_without_data():
    report = check_task("race")
    assert report == {"task": task_as_json(CATALOGUE["race"])}
    assert describe_check(report) == [
        "task     race",
        "title    RACE: which of four answers does the passage give?",
        "shape    choices: [start] context question [delimiter] each of choices [extract]",
        "label    label: 4 choices",
        "metrics  accuracy",
        "files    train.jsonl, dev.jsonl, test.jsonl; or RACE/train/middle/*.txt, RACE/train/high/*.txt, "
        "RACE/dev/middle/*.txt, 3 more",
        "groups   level: middle, high, scored apart too",
    ]


def test_both_orders_and_a_range_are_told():
    lines = describe_check(check_task("stsb"))
    assert "shape    both: [start] a [delimiter] b [extract] and [start] b [delimiter] a [extract]" in lines
    assert "label    label: 0 to 5" in lines
    assert "metrics  pearson, spearman (pearson decides)" in lines


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 8), ("dev", 2)):
        rows = [
            {"text": f"{split} row {n} " + "long " * (n == 0) * 9, "label": str(int(n % 4 == 0))} for n in range(count)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "test.jsonl").write_text('{"text": "who knows"}\n')
    return tmp_path


def test_the_splits_labels_and_lengths_of_data_are_told(folder, bytes_tokenizer):
    report = check_task("sst2", data=str(folder), tokenizer=bytes_tokenizer, context=16)
    train = report["splits"]["train"]
    assert train["labels"] == {"0": 6, "1": 2}
    assert (train["tokens"]["longest"], train["tokens"]["cut_examples"]) == (16, 1)
    assert report["splits"]["test"]["labelled"] == 0
    lines = describe_check(report)
    assert lines[-3].startswith("train: 8 examples; 0 75.0 %, 1 25.0 %; tokens of a sequence: median ")
    assert lines[-3].endswith("longest 16; 1 examples cut to 16")
    assert lines[-1].startswith("test: 1 examples; 1 without a label; tokens")
    assert json.loads(json.dumps(report)) == json.loads(json.dumps(report))


def test_scores_are_told_by_their_range_and_mean(tmp_path):
    rows = [{"a": f"a {n}", "b": f"b {n}", "label": n / 2} for n in range(4)]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = check_task("stsb", data=str(tmp_path))
    assert describe_check(report)[-1] == "dev: 4 examples; scores 0 to 1.5, mean 0.750"
    assert "nothing to train on" in report["notices"][0]
