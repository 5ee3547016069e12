"""Settings are judged by rows for training that were not learned, and by no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError
from gpt1.recipes.catalog import AUTO
from gpt1.recipes.changes import change
from gpt1.recipes.derived import settled
from gpt1.recipes.values import FOLDS
from gpt1.runs.events import Event, Stepped
from gpt1.runs.folder import read_run
from gpt1.tasks.encoded import examples_by_text
from gpt1.text.tokenizer import Tokenizer
from gpt1.tuning.judging import Judge, learnable, parts_of, updates_of
from tests.finetuning.tools import encode, make_pretrained, make_task

RECIPE = change(settled(AUTO, 2_000_000, 48), ["training.precision=fp32", "training.epochs=2", "training.batch=8"])


@pytest.fixture(scope="module")
def base(bytes_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("judging") / "base", bytes_tokenizer)


def judge(base: Path, tokenizer: Tokenizer, folds: int, heard: list[Event] | None = None) -> Judge:
    listeners = [] if heard is None else [heard.append]
    return Judge(str(base), encode(make_task(), tokenizer), RECIPE, folds, "cpu", listeners)


def test_each_fold_learns_the_other_rows_and_nothing_of_dev(
    base: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    heard: list[Event] = []
    found = list(judge(base, bytes_tokenizer, FOLDS, heard).judge(tmp_path, []))
    assert len(found) == FOLDS
    assert all(0 <= one.score <= 1 and one.interval[0] <= one.score <= one.interval[1] for one in found)
    for number in range(FOLDS):
        assert read_run(tmp_path / f"part-{number}").examples == {"moods": {"train": 32}}
    steps = [one for one in heard if isinstance(one, Stepped)]
    assert steps
    assert all(one.fold is not None and one.fold.of == FOLDS for one in steps)


def test_a_fold_that_lies_in_the_folder_is_not_learned_again(
    base: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    first = list(judge(base, bytes_tokenizer, 2).judge(tmp_path, ["optimizer.lr=1e-3"]))
    heard: list[Event] = []
    assert list(judge(base, bytes_tokenizer, 2, heard).judge(tmp_path, ["optimizer.lr=1e-3"])) == first
    assert not [one for one in heard if isinstance(one, Stepped)]


def test_updates_are_those_that_a_training_makes(base: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    judged = judge(base, bytes_tokenizer, 1)
    next(judged.judge(tmp_path, ["training.epochs=3"]))
    assert judged.updates(["training.epochs=3"]) == 12
    assert (tmp_path / "part-0" / "checkpoints" / "step-00000012").is_dir()
    assert updates_of(change(RECIPE, ["training.steps=7"]), 48) == 7


def test_what_can_be_learned_from_has_rows_for_training_alone(bytes_tokenizer: Tokenizer) -> None:
    task = encode(make_task(), bytes_tokenizer)
    assert "dev" in task.splits
    assert "dev" in task.examples
    assert (set(learnable(task).splits), learnable(task).examples) == ({"train"}, {})


def test_equal_texts_are_in_one_part_and_labels_are_dealt_evenly(bytes_tokenizer: Tokenizer) -> None:
    task = encode(make_task(), bytes_tokenizer)
    parts, train = parts_of(task), task.splits["train"]
    assert all(len(set(parts[own])) == 1 for own in examples_by_text(task, train).values())
    counts = [np.bincount(train.labels[parts == part]) for part in range(FOLDS)]
    assert np.ptp(counts, axis=0).max() <= 2


def test_too_few_rows_are_told(bytes_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="5 rows for training are too few to judge settings by"):
        parts_of(encode(make_task(), bytes_tokenizer, train=5))
