"""Counting words: a baseline that is not made of straw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpt1.studies.baseline import answer_by_words, score_by_words
from gpt1.tasks.examples import Example
from tests.finetuning.tools import make_examples, make_task


@pytest.mark.parametrize("shape", ["single", "choices"])
def test_words_that_tell_the_label_are_found(shape: str) -> None:
    task = make_task(shape=shape)
    rows = make_examples(task, 160)
    answers = answer_by_words(task, rows[:120], rows[120:])
    assert (answers == [row.label for row in rows[120:]]).mean() > 0.9


def test_two_texts_are_compared_and_not_only_read() -> None:
    words = [f"word{number}" for number in range(60)]
    rows = [Example((words[row % 60], words[(row if row % 2 else row + 7) % 60]), row % 2, row) for row in range(240)]
    answers = answer_by_words(make_task(shape="pair"), rows[:120], rows[120:])
    assert (answers == [row.label for row in rows[120:]]).mean() > 0.95


def test_scores_stay_in_their_range() -> None:
    task = make_task(shape="both", score_range=(0.0, 5.0))
    rows = make_examples(task, 60)
    answers = answer_by_words(task, rows[:30], rows[30:])
    assert answers.min() >= 0
    assert answers.max() <= 5
    assert np.corrcoef(answers, [float(row.label or 0) for row in rows[30:]])[0, 1] > 0.8


# As README and docs/studies.md have them.
@pytest.mark.parametrize(
    ("name", "figure"),
    [("rte", 61.4), ("stsb", 73.4), ("storycloze", 67.1), pytest.param("sst2", 81.3, marks=pytest.mark.slow)],
)
def test_it_is_strong_on_real_tasks(data: Path, name: str, figure: float) -> None:
    ((split, _, found),) = score_by_words(name, data / "tasks")
    assert split == "dev"
    assert 100 * next(iter(found.values())) == pytest.approx(figure, abs=0.3)


def test_by_itself_it_tells_the_score_of_each_task(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        rows = [{"text": text, "label": label} for text, label in [("a fine film", 1), ("a poor film", 0)] * 4]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "gpt1.studies.baseline", str(tmp_path), "sst2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "sst2 dev, 8 rows: accuracy 100.0\n"
