"""What is told of a task and of its data."""

from __future__ import annotations

import json

import pytest

from gpt1.base.errors import SettingError
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.describe import check_task, describe_catalogue, describe_check, in_lines, show_examples, show_task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example


def test_the_catalogue_is_told_in_columns():
    header, *rows = describe_catalogue()
    assert header == ("task", "shape", "answers", "metrics", "what is asked")
    assert [row[0] for row in rows] == list(CATALOGUE)
    assert [row[-1] for row in rows] == [task.title for task in CATALOGUE.values()]
    assert {row[0]: row[2] for row in rows}.items() >= {
        "stsb": "0 to 5",
        "mnli": "3 labels",
        "race": "4 choices",
    }.items()


def test_a_task_is_told_without_data():
    report = check_task("race")
    assert report == {"task": CATALOGUE["race"].as_json()}
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
    assert lines[-1].startswith("test: 1 example; 1 without a label; tokens")
    assert json.loads(json.dumps(report)) == json.loads(json.dumps(report))


def test_scores_are_told_by_their_range_and_mean(tmp_path):
    rows = [{"a": f"a {n}", "b": f"b {n}", "label": n / 2} for n in range(4)]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = check_task("stsb", data=str(tmp_path))
    assert describe_check(report)[-1] == "dev: 4 examples; scores 0 to 1.5, mean 0.750"
    assert "nothing to train on" in report["notices"][0]


def lines(task: str, *texts: str, label: int | float | None = 0, context: int = 512) -> list[str]:
    (shown,) = show_examples(CATALOGUE[task], [Example(texts, label, 7)], None, context)
    return in_lines(shown)


@pytest.mark.parametrize(
    ("task", "texts", "label", "expected"),
    [
        ("sst2", ("a fine film",), 1, ["row 7, label 1", "  [start] a fine film [extract]"]),
        (
            "rte",
            ("It rains.", "It is wet."),
            1,
            ["row 7, label not_entailment", "  [start] It rains. [delimiter] It is wet. [extract]"],
        ),
        (
            "stsb",
            ("one", "two"),
            2.5,
            ["row 7, label 2.5", "  [start] one [delimiter] two [extract]", "  [start] two [delimiter] one [extract]"],
        ),
        (
            "storycloze",
            ("Once.", "", "Good.", "Bad."),
            1,
            [
                "row 7, label 1",
                "  [start] Once. [delimiter] Good. [extract]",
                "  [start] Once. [delimiter] Bad. [extract]",
            ],
        ),
        ("sst2", ("who knows",), None, ["row 7, no label", "  [start] who knows [extract]"]),
    ],
)
def test_every_shape_is_shown_with_its_special_tokens(task, texts, label, expected):
    assert lines(task, *texts, label=label) == expected


def test_cuts_are_marked_where_they_were_made():
    assert lines("sst2", "a b c d e", context=5)[1:] == ["  [start] a b c [cut 2 tokens] [extract]"]
    assert lines("rte", "a b c d", "e f", context=8)[1:] == ["  [start] a b c [cut 1 token] [delimiter] e f [extract]"]
    assert lines("dpr", "a b c", "it", "x", "y z", context=7)[1:] == [
        "  [start] a [cut 2 tokens] it [delimiter] x [extract]",
        "  [start] a [cut 2 tokens] it [delimiter] y z [extract]",
    ]
    assert lines("dpr", "a b c", "it", "x", "y", context=5)[1] == "  [start] [cut 3 tokens] it [delimiter] x [extract]"


@pytest.mark.parametrize("context", [8, 20, 512])
def test_what_is_shown_is_what_is_encoded(words_tokenizer, context):
    task = CATALOGUE["mrpc"]
    example = Example(("Ann sold\n3 apples, so they say.", "Somebody lost the well-known map."), 1, 1)
    (shown,) = show_examples(task, [example], words_tokenizer, context)
    split = encode_task(task, {"train": [example]}, words_tokenizer, context).splits["train"]
    ids = {f"[{name}]": id for name, id in words_tokenizer.specials.items()}
    ids |= {token.replace("\n", r"\n"): id for id, token in enumerate(words_tokenizer.vocabulary.tokens)}
    for tokens, sequence in zip(shown.sequences, split.sequences(0), strict=True):
        assert [ids[token] for token in tokens if not token.startswith("[cut")] == sequence.tolist()
    assert shown.cut == split.cut[0]
    assert all("\n" not in token for tokens in shown.sequences for token in tokens)


def test_the_first_examples_of_a_split_are_shown_and_other_splits_refused(tmp_path):
    rows = [f'{{"text": "row {n}", "label": "{n % 2}"}}\n' for n in range(4)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(rows))
    shown, notices = show_task("sst2", str(tmp_path), 2)
    assert [example.row for example in shown] == [1, 2]
    assert "4 rows stand in train too" in notices[0]
    with pytest.raises(SettingError, match=r"unknown split 'test'.*known: train, dev"):
        show_task("sst2", str(tmp_path), 2, split="test")
