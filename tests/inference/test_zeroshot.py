"""Tasks that were never taught: scores as the literal rules give them, thresholds, shots, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.run import Run, load_run
from gpt1.inference.zeroshot import best_threshold, zeroshot
from gpt1.tasks.metrics import matthews
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, PEOPLE, THINGS, make_text
from tests.finetuning.tools import make_pretrained
from tests.reference import lstm, transformer
from tests.reference import zeroshot as reference

CONTEXT = 64
ROWS = 9


def rows_of(task: str) -> list[dict[str, Any]]:
    """Return rows of a task in the layout of its files."""
    found: list[dict[str, Any]] = []
    for row in range(ROWS):
        who, deed, thing = PEOPLE[row % 8], DEEDS[row % 8], THINGS[row % 7]
        text = f"{who} {deed} {thing}"
        if task in ("cola", "sst2"):
            found.append({"text": text, "label": str(row % 2)})
        elif task == "dpr":
            told = f"{text}, and he dreamt of {thing}."
            found.append({"text": told, "pronoun": "he", "choices": [who, "Tom"], "label": row % 2})
        else:
            answers = [f"{PEOPLE[place]} {DEEDS[row % 5]} it." for place in range(4 if task == "race" else 2)]
            asked = {"question": f"Who {deed} it?"} if task == "race" else {}
            found.append({"context": f"{text}.", **asked, "choices": answers, "label": row % len(answers)})
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """All tasks that have rules, in a folder; dev and train have the same rows."""
    for task in ("cola", "sst2", "race", "storycloze", "dpr"):
        (tmp_path / "data" / task).mkdir(parents=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(task))
        for split in ("train", "dev"):
            (tmp_path / "data" / task / f"{split}.jsonl").write_text(lines)
    return tmp_path / "data"


@pytest.fixture(scope="module", params=["transformer", "lstm"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run of each kind with random weights that are far from nothing."""
    kind = ["shape.kind=lstm", "shape.layers=1", "shape.units=12"] if request.param == "lstm" else ["shape.layers=2"]
    changes = [*kind, f"shape.context={CONTEXT}", "training.precision=fp64", "shape.init_std=0.4"]
    folder = make_pretrained(tmp_path_factory.mktemp(request.param) / "run", words_tokenizer, *changes)
    return load_run(folder, device="cpu")


def literal(run: Run) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return the reference network with the run's weights."""
    weights = {name: tensor.detach().double() for name, tensor in run.model.named_parameters()}
    shape = run.recipe.shape
    if shape.kind == "lstm":
        return lambda ids: lstm.forward(weights, ids, shape.units)  # type: ignore[no-untyped-call, no-any-return]
    return lambda ids: transformer.forward(weights, ids, shape)  # type: ignore[no-untyped-call, no-any-return]


def wanted_scores(task: str, run: Run) -> list[list[float]]:
    encode, forward = run.tokenizer.encode, literal(run)
    found = []
    for row in rows_of(task):
        if task in ("cola", "sst2"):
            rule = reference.cola if task == "cola" else reference.sst2
            found.append(rule(row["text"], encode, forward))  # type: ignore[no-untyped-call]
        elif task == "dpr":
            found.append(reference.dpr(row["text"], "he", row["choices"], encode, forward))  # type: ignore[no-untyped-call]
        else:
            asked = row["context"], row.get("question", ""), row["choices"]
            found.append(reference.choices(*asked, encode, forward))  # type: ignore[no-untyped-call]
    return found


def quiet(text: str) -> None:
    """Take no notice."""


@pytest.mark.parametrize("task", ["cola", "sst2", "race", "storycloze", "dpr"])
def test_scores_are_those_of_the_literal_rules(task: str, run: Run, data: Path) -> None:
    found = zeroshot(run, task, data=data, notice=quiet)
    wanted = np.array(wanted_scores(task, run))
    np.testing.assert_allclose([line.scores for line in found.lines], wanted, rtol=1e-10)
    answers = wanted[:, 0] > np.median(wanted) if task == "cola" else wanted.argmax(1)
    assert [int(line.prediction) for line in found.lines] == answers.astype(int).tolist()
    labels = np.array([int(row["label"]) for row in rows_of(task)])
    right = matthews(labels, answers.astype(int)) if task == "cola" else (answers == labels).mean()
    assert found.metrics["matthews" if task == "cola" else "accuracy"] == pytest.approx(right)
    assert (found.examples, found.step, found.split) == (ROWS, 3, "dev")


def test_a_threshold_tuned_on_train_is_named_so_and_is_the_best_there(run: Run, data: Path) -> None:
    found = zeroshot(run, "cola", data=data, notice=quiet)
    scores = np.array([line.scores[0] for line in found.lines])  # train has the same rows as dev
    labels = np.array([int(row["label"]) for row in rows_of("cola")])
    every = [matthews(labels, (scores > place).astype(int)) for place in [*scores, scores.min() - 1]]
    assert found.metrics["matthews_tuned_on_train"] == pytest.approx(max(every))
    assert found.metrics["matthews_tuned_on_train"] >= found.metrics["matthews"]
    assert found.thresholds.keys() == {"matthews", "matthews_tuned_on_train"}
    assert found.thresholds["matthews"] == pytest.approx(np.median(scores))


def test_a_threshold_parts_what_can_be_parted() -> None:
    assert 2 < best_threshold(np.array([3.0, 1.0, 2.0, 4.0]), np.array([1, 0, 0, 1])) < 3
    assert best_threshold(np.array([1.0, 1.0]), np.array([0, 1])) == 1.0


def test_what_stands_before_changes_the_scores(run: Run, data: Path) -> None:
    none, two = (zeroshot(run, "storycloze", data=data, shots=shots, notice=quiet) for shots in (0, 2))
    assert none.lines[0].scores != two.lines[0].scores


def test_a_run_that_has_learned_a_task_can_be_asked_too(tmp_path: Path, words_tokenizer: Tokenizer, data: Path) -> None:
    from gpt1.tasks.catalog import CATALOGUE
    from tests.inference.tools import make_run

    run = load_run(make_run(tmp_path / "run", words_tokenizer, CATALOGUE["rte"]), device="cpu")
    found = zeroshot(run, "sst2", data=data, notice=quiet)
    assert found.examples == ROWS
    assert np.isfinite([line.scores for line in found.lines]).all()


def test_rows_without_labels_are_answered_and_not_scored(run: Run, data: Path) -> None:
    rows = "".join(json.dumps({"text": make_text(1, seed)}) + "\n" for seed in range(3))
    (data / "sst2" / "test.jsonl").write_text(rows)
    found = zeroshot(run, "sst2", data=data, split="test", notice=quiet)
    assert found.metrics == {}
    assert [line.label for line in found.lines] == [None] * 3


def test_a_task_without_dev_is_asked_about_its_test(run: Run, tmp_path: Path) -> None:
    row = {
        "text": "The cook met the nurse. Of course he cooked.",
        "pronoun": "he",
        "choices": ["the cook", "the nurse"],
    }
    (tmp_path / "pronoun").mkdir()
    (tmp_path / "pronoun" / "test.jsonl").write_text(json.dumps(row | {"label": 0}) + "\n")
    found = zeroshot(run, "gpt1.demo.tasks:PRONOUN", data=tmp_path, notice=quiet)
    assert (found.examples, found.split) == (1, "test")


def told(run: Run, task: str, data: Path, **given: Any) -> Sequence[str]:
    lines: list[str] = []
    zeroshot(run, task, data=data, notice=lines.append, **given)
    return lines


def test_a_person_is_told_of_what_does_not_fit(run: Run, data: Path) -> None:
    row = {"context": make_text(30, 1), "choices": ["It was sold.", "It was lost."], "label": 0}
    (data / "storycloze" / "dev.jsonl").write_text(json.dumps(row) + "\n")
    lines = told(run, "storycloze", data, shots=1)
    assert f"1 of 1 examples are longer than {CONTEXT} tokens; their beginnings are not read" in lines
    assert any("fewer than 1 solved example fit" in line for line in lines)


def test_what_cannot_be_asked_is_refused(run: Run, data: Path) -> None:
    for task, message in (
        ("rte", "could answer 'rte'"),
        ("colla", r"unknown task 'colla'; did you mean 'cola'\?"),
    ):
        with pytest.raises(SettingError, match=message):
            zeroshot(run, task, data=data, notice=quiet)
    with pytest.raises(InputError, match="has no rows of task 'sst2'"):
        zeroshot(run, "sst2", data=data.parent, notice=quiet)
    with pytest.raises(SettingError, match="shots are 0 or more"):
        zeroshot(run, "sst2", data=data, shots=-1, notice=quiet)


def test_ruined_weights_are_not_answers(tmp_path: Path, words_tokenizer: Tokenizer, data: Path) -> None:
    folder = make_pretrained(tmp_path / "run", words_tokenizer, f"shape.context={CONTEXT}")
    run = load_run(folder, device="cpu")
    with torch.no_grad():
        run.model.tokens.fill_(torch.nan)
    with pytest.raises(InputError, match="its weights are ruined"):
        zeroshot(run, "sst2", data=data, notice=quiet)
