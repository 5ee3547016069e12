"""Tasks from the hub, in the form the library gives them; from folders here, as tests reach no network."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from gpt1.base.errors import InputError, MissingDependency, SettingError
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.examples import Example
from gpt1.tasks.hub import read_hub
from gpt1.tasks.preparing import read_task

needs_datasets = pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="needs the hub extra")


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Write splits as the hub keeps them: parquet, with classes as numbers that have names."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    def write(label_names: list[str] | None, label: str = "label", **splits: dict[str, list[Any]]) -> str:
        import datasets

        folder = tmp_path / "named" / "data"
        folder.mkdir(parents=True, exist_ok=True)
        for split, columns in splits.items():
            rows = datasets.Dataset.from_dict(columns)
            if label_names and label in columns:
                rows = rows.cast_column(label, datasets.ClassLabel(names=label_names))
            rows.to_parquet(str(folder / f"{split}-00000-of-00001.parquet"))
        return f"hub:{folder.parent}"

    return write


pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library are not ours


@needs_datasets
def test_classes_with_our_names_and_a_test_split_without_labels_are_read(save):
    rows = {"sentence1": ["a", "c"], "sentence2": ["b", "d"], "label": [0, 1], "idx": [7, 9]}
    place = save(
        ["entailment", "not_entailment"], train=rows, validation=rows, test=rows | {"label": [-1, -1], "idx": [0, 1]}
    )
    found = read_hub(CATALOGUE["rte"], place)
    assert found.splits == {
        "train": [Example(("a", "b"), 0, 1), Example(("c", "d"), 1, 2)],
        "dev": [Example(("a", "b"), 0, 1), Example(("c", "d"), 1, 2)],
        "test": [Example(("a", "b"), None, 1, index=0), Example(("c", "d"), None, 2, index=1)],
    }


@needs_datasets
@pytest.mark.parametrize(
    ("task", "names", "columns", "expected"),
    [
        (
            "sst2",
            ["negative", "positive"],
            {"sentence": ["good ", "bad"], "label": [1, 0]},
            [(("good ",), 1), (("bad",), 0)],
        ),
        (
            "qqp",
            ["not_duplicate", "duplicate"],
            {"question1": ["a", "c"], "question2": ["b", ""], "label": [1, 0]},
            [(("a", "b"), 1), (("c", ""), 0)],
        ),
        (
            "qnli",
            ["entailment", "not_entailment"],
            {"question": ["a", "c"], "sentence": ["b", "d"], "label": [0, 1]},
            [(("a", "b"), 0), (("c", "d"), 1)],
        ),
        (
            "stsb",
            None,
            {"sentence1": ["a", "c"], "sentence2": ["b", "d"], "label": [2.5, 0.0]},
            [(("a", "b"), 2.5), (("c", "d"), 0.0)],
        ),
        (
            "scitail",
            None,
            {"premise": ["a", "c"], "hypothesis": ["b", "d"], "label": ["entails", "neutral"]},
            [(("a", "b"), 0), (("c", "d"), 1)],
        ),
        (
            "dpr",
            ["0", "1"],
            {"sentence": ["He ran."], "pronoun": ["he"], "candidates": [["A", "B"]], "label": [1]},
            [(("He ran.", "he", "A", "B"), 1)],
        ),
    ],
)
def test_columns_and_labels_are_known_by_what_the_hub_calls_them(save, task, names, columns, expected):
    found = read_hub(CATALOGUE[task], save(names, train=columns))
    assert [(example.texts, example.label) for example in found.splits["train"]] == expected


@needs_datasets
def test_race_has_letters_for_answers_and_its_level_in_the_id(save):
    columns = {
        "example_id": ["high19088.txt", "middle1.txt"],
        "article": ["long", "short"],
        "question": ["q", "r"],
        "options": [["w", "x", "y", "z"]] * 2,
        "answer": ["D", "A"],
    }
    found = read_hub(CATALOGUE["race"], save(None, train=columns))
    assert [(example.label, example.group) for example in found.splits["train"]] == [(3, 1), (0, 0)]


@needs_datasets
def test_rows_nobody_agreed_on_are_left_out_of_every_split_and_told(save):
    columns = {"premise": list("ace"), "hypothesis": list("bdf"), "label": [0, -1, 2]}
    names = ["entailment", "neutral", "contradiction"]
    found = read_hub(CATALOGUE["snli"], save(names, train=columns, test=columns))
    assert [[example.row for example in examples] for examples in found.splits.values()] == [[1, 3], [1, 3]]
    assert sum("1 row without a label left out (2)" in notice for notice in found.notices) == 2


@needs_datasets
def test_both_dev_sets_of_mnli_are_found(save):
    columns = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, 1]}
    names = ["entailment", "neutral", "contradiction"]
    place = save(names, train=columns, validation_matched=columns, validation_mismatched=columns)
    assert list(read_hub(CATALOGUE["mnli"], place).splits) == ["train", "dev_matched", "dev_mismatched"]


@needs_datasets
def test_a_hub_task_is_read_and_completed_like_any_other(save):
    columns = {"sentence": [f"row {n}" for n in range(20)], "label": [n % 2 for n in range(20)]}
    found = read_task("cola", data=save(["unacceptable", "acceptable"], train=columns))
    assert {split: len(examples) for split, examples in found.splits.items()} == {"train": 18, "dev": 2}


@needs_datasets
def test_what_cannot_be_read_is_told(save, tmp_path):
    task = CATALOGUE["rte"]
    place = save(None, train={"text": ["a"], "label": ["entailment"]})
    with pytest.raises(
        InputError, match=r"none of the columns of 'rte': expected a, b or sentence1, .* found text, label"
    ):
        read_hub(task, place)
    with pytest.raises(InputError, match=r"cannot read hub:.*absent"):
        read_hub(task, f"hub:{tmp_path / 'absent'}")
    with pytest.raises(InputError, match="cannot read"):
        read_hub(task, f"{place}:nope")


@needs_datasets
def test_a_dataset_without_a_split_of_ours_says_which_it_has(save):
    place = save(None, test={"a": ["x"], "b": ["y"], "label": ["entailment"]})
    with pytest.raises(InputError, match=r"no split of task 'mnli': expected train, validation_matched, .* found test"):
        read_hub(CATALOGUE["mnli"], place)


def test_a_dataset_in_several_parts_is_asked_which():
    from gpt1.tasks.hub import _config

    task = CATALOGUE["rte"]
    assert _config(task, "hub:glue", ["cola", "rte"]) == "rte"
    assert _config(task, "hub:one", ["plain_text"]) == "plain_text"
    assert _config(CATALOGUE["scitail"], "hub:x", ["dgem_format", "tsv_format"]) == "tsv_format"
    with pytest.raises(SettingError, match=r"hub:x has several parts; say which, as hub:x:NAME \(names: one, two\)"):
        _config(task, "hub:x", ["one", "two"])


def test_without_the_library_there_is_an_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependency, match=r"hub:glue needs the library datasets: pip install 'gpt1\[hub\]'"):
        read_task("rte", data="hub:glue")
