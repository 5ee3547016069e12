"""Counted words are told before the network learns, on the rows that decide, and are the very ones that decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpt1.finetuning import counting
from gpt1.finetuning.counting import CountedWords, WordsReached, deal_evenly, dev_rows
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import Run
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import ENSEMBLE_FILE, EnsembleRecord
from gpt1.runs.events import Fold, Stepped
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, Told, encode, make_examples, make_pretrained, make_task

MOODS, SCORES = make_task(), make_task("scores", score_range=(0.0, 3.0))
CHANGES = (*SETTINGS, "finetuning.ensemble=true", "training.steps=2")
FIRST = "counting words (TF-IDF) reaches "


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("parent") / "run", bytes_tokenizer)


def learn(parent: Path, out: Path, encoded: EncodedTask, *changes: str, **more: object) -> Run:
    asked = {"encoded": encoded, "changes": (*CHANGES, *changes), "device": "cpu", "recipe": "finetune", **more}
    return finetune(parent, out, **asked)


@pytest.mark.parametrize(("dev", "folds"), [(16, 3), (16, 1), (24, 0)])
def test_what_is_told_first_is_what_decides_at_the_end(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, dev: int, folds: int
) -> None:
    told = Told()
    learn(
        parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 40, dev), f"finetuning.folds={folds}", listeners=[told]
    )
    (first,) = [line for line in told.lines if FIRST in line]
    steps = [place for place, event in enumerate(told.events) if isinstance(event, Stepped)]
    assert any(FIRST in str(event) for event in told.events[: steps[0]])
    decided = EnsembleRecord.read(tmp_path / "run" / ENSEMBLE_FILE).tasks["moods"]
    rows = decided.why.split(" on ")[1].split(" (")[0]
    assert first.startswith(f"moods: {FIRST}accuracy {100 * decided.scores['words']:.1f} (95 % interval ")
    assert f" on {rows}, and " in first


@pytest.mark.parametrize("windows", [False, True])
def test_a_pair_of_either_order_is_in_one_part_and_learned_for_dev_too(
    bytes_tokenizer: Tokenizer, windows: bool
) -> None:
    task = make_task("pairs", "both")
    rows = make_examples(task, 60)
    turned = [replace(row, texts=row.texts[::-1]) for row in rows]
    splits = {"train": [*rows, *turned[:30]], "dev": turned[30:]}
    encoded = encode_task(task, splits, bytes_tokenizer, 16 if windows else 512, windows=windows)
    assert encoded.has_windows is windows
    parts = deal_evenly(encoded)
    assert parts is not None
    assert parts[:30].tolist() == parts[60:].tolist()
    assert dev_rows(encoded) == []


def test_words_are_learned_once_by_all_seeds(
    parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned, learn_words = [], counting.learn_words

    def noting(*given: object) -> object:
        learned.append(given)
        return learn_words(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(counting, "learn_words", noting)
    learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 24, 8), seeds=2)
    assert len(learned) == FOLDS + 1


def test_a_run_that_is_decided_does_not_count_again(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    encoded, told = encode(MOODS, bytes_tokenizer, 24, 8), Told()
    learn(parent, tmp_path / "run", encoded)
    learn(parent, tmp_path / "run", encoded, resume=True, listeners=[told])
    assert FIRST not in told


def test_folds_are_told_apart_while_they_train(parent: Path, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    told = Told()
    run = learn(parent, tmp_path / "run", encode(MOODS, bytes_tokenizer, 24, 8), listeners=[told])
    folds = [event.fold for event in told.events if isinstance(event, Stepped)]
    assert folds[:2] == [None, None]
    heard = [fold for fold in folds if isinstance(fold, Fold)]
    assert [(fold.number, fold.of) for fold in heard] == [(1, 3), (1, 3), (2, 3), (2, 3), (3, 3), (3, 3)]
    assert heard[0].seconds_left > heard[-1].seconds_left == 0
    assert "cross-validation: fold 2 of 3" in (run.path / "log.txt").read_text()
    assert '"fold"' not in (run.path / "metrics.jsonl").read_text()


def test_where_nothing_is_left_to_win_that_is_said_with_a_shorter_way() -> None:
    every = WordsReached("moods", "accuracy", 1.0, (0.984, 1.0), 240, "240 rows cross-validated")
    assert every.leaves_nothing
    assert every.in_words() == (
        "moods: counting words (TF-IDF) reaches accuracy 100.0 (95 % interval 98.4 to 100.0) on 240 rows "
        "cross-validated, and nothing can do better there; `changes=['training.steps=1']` makes a run that answers as "
        "well there, without the minutes of training"
    )
    assert every.in_words(trains=False).endswith("cross-validated, and nothing can do better there")
    few = WordsReached("moods", "accuracy", 1.0, (0.86, 1.0), 24, "24 dev rows")
    assert not few.leaves_nothing
    assert few.in_words().endswith("nothing can do better there, though so few rows say little of others")
    most = WordsReached("moods", "accuracy", 0.996, (0.98, 0.999), 500, "500 dev rows")
    assert most.in_words().endswith("the network can win 0.4 points there at most")
    some = WordsReached("moods", "accuracy", 0.642, (0.6, 0.68), 523, "523 dev rows")
    assert some.in_words().endswith("on 523 dev rows, and the network is to do better")


def test_scores_have_an_interval_too(bytes_tokenizer: Tokenizer) -> None:
    (found,) = CountedWords({"scores": encode(SCORES, bytes_tokenizer, 60, 0)}, bytes_tokenizer).reached(FOLDS)
    assert found.metric == "pearson"
    assert found.interval[0] < found.score < found.interval[1]


def test_too_few_rows_are_not_told_of(bytes_tokenizer: Tokenizer) -> None:
    assert CountedWords({"moods": encode(MOODS, bytes_tokenizer, 30, 10)}, bytes_tokenizer).reached(0) == []


def test_parts_hold_all_labels_evenly_and_equal_texts_together(bytes_tokenizer: Tokenizer) -> None:
    encoded = encode(MOODS, bytes_tokenizer, 30, 0)
    part = counting.deal(encoded)
    assert part is not None
    labels = encoded.splits["train"].labels
    counts = [np.bincount(labels[part == number], minlength=2).tolist() for number in range(FOLDS)]
    assert counts == [[5, 5]] * 3
    assert counting.deal(encode(MOODS, bytes_tokenizer, 5, 0)) is None
