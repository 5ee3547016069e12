"""One way to an answer: whoever asks, the same examples get the same probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import SettingError
from gpt1.finetuning.measure import evaluate_run, predictions_file
from gpt1.inference.answering import answer, reading_notices, task_of
from gpt1.inference.run import Run, load_run
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.examples import Row, example_to_answer
from gpt1.tasks.shapes import CHOICES, SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import make_run

MOODS = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))
ROWS = [{"text": make_text(1, seed), "label": MOODS.labels[seed % 2]} for seed in range(9)]


@pytest.fixture
def run(tmp_path: Path, words_tokenizer: Tokenizer) -> Run:
    return load_run(make_run(tmp_path / "run", words_tokenizer, MOODS, CATALOGUE["stsb"]), device="cpu")


def test_a_table_a_measuring_and_a_plain_answer_agree_to_the_last_digit(run: Run, tmp_path: Path) -> None:
    found = answer(run, MOODS, [example_to_answer(MOODS, Row(row, "rows", 1)) for row in ROWS])
    np.testing.assert_allclose(found.probabilities.sum(1), 1)
    told = [found.shares(place) for place in range(len(found))]
    assert [row["probabilities"] for row in run.predict(ROWS, task="moods")] == told
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    evaluate_run(run, task="moods", table=table, split="held")
    lines = predictions_file(run.path, "moods", "held").read_text().splitlines()
    assert [json.loads(line)["probabilities"] for line in lines] == told
    assert [json.loads(line)["prediction"] for line in lines] == [found.name(place) for place in range(len(found))]


def test_a_score_has_no_probabilities_to_tell(run: Run) -> None:
    task = task_of(run, "stsb")
    found = answer(run, task, [example_to_answer(task, Row({"a": "A cat.", "b": "A dog."}, "rows", 1))])
    assert found.shares(0) is None
    assert 0 <= float(found.name(0)) <= 5


def test_a_run_of_several_tasks_is_asked_by_name(run: Run) -> None:
    with pytest.raises(SettingError, match=r"several tasks; name one with `task`: moods, stsb"):
        task_of(run)
    with pytest.raises(SettingError, match=r"unknown task 'mood' of .*.*moods"):
        task_of(run, "mood")


def test_how_rows_were_read_is_told_only_where_it_matters() -> None:
    assert reading_notices(3, 0, np.array([[0, 5], [0, 4], [0, 2]]), 16) == []
    cut, unread, unknown = reading_notices(3, 1, np.array([[5, 5], [0, 4], [0, 2]]), 16)
    ends = "1 of 3 rows had more text than the model's 16 tokens; the ends were not read"
    assert cut == f"{ends}; a run of `gpt1.finetune(changes=['finetuning.windows=mean'])` reads them"
    assert reading_notices(3, 1, np.array([[0, 5]]), 16, shape=CHOICES) == [ends]
    assert unread == (
        "1 of 3 rows has nothing that is in the vocabulary; such an answer, however sure, tells nothing of the text"
    )
    assert "5 of 11 tokens are not in the vocabulary, in 1 of 3 examples most of them" in unknown
