"""The loss by which parts of a network are given up is the loss as it is measured elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import load_run
from gpt1.pretraining.measure import measure_corpus
from gpt1.pruning import held_out as module
from gpt1.pruning.held_out import HeldOut, HeldOutRows, find_held_out
from gpt1.tasks.catalog import Task
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task, write_table
from tests.records import facts_in

TASKS = (make_task(), make_task("pairs", "both"), make_task("grades", score_range=(0.0, 5.0)))


def found(run: Path, corpus: Path | None = None, table: Path | None = None) -> HeldOut:
    return find_held_out(load_run(run, device="cpu"), corpus, table, lambda text: None)


def summed(held_out: HeldOut, run: Path) -> float:
    return sum(loss.item() for loss in held_out.losses(load_run(run, device="cpu").model))


def test_the_loss_of_text_is_that_of_its_validation(trained: Path, corpus: Path) -> None:
    measured = measure_corpus(load_run(trained, device="cpu"), corpus)
    for held_out in (found(trained), found(trained, corpus)):
        assert held_out.loss(load_run(trained, device="cpu").model) == pytest.approx(measured["valid_loss"], rel=1e-5)
        assert summed(held_out, trained) == pytest.approx(measured["valid_loss"] * measured["targets"], rel=1e-5)
        assert held_out.what == f"{measured['targets'] + 1:,.0f} tokens of text for validation"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_loss_of_rows_is_that_of_what_a_run_has_measured(task: Task, trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / f"{task.name}.csv", task, make_examples(task, 60))
    extra = {"symmetric": True} if task.shape == "both" else {"regression": True} if task.score_range else {}
    run = finetune(trained, tmp_path / "run", train=table, changes=SETTINGS, device="cpu", **extra).path  # type: ignore[arg-type]
    (evaluation,) = run.glob("evaluation-*-dev.json")
    held_out = found(run)
    loss = held_out.loss(load_run(run, device="cpu").model)
    rows = facts_in(evaluation)["examples"]
    assert held_out.what == f"{rows} rows"
    assert summed(held_out, run) == pytest.approx(loss * rows, rel=1e-4)
    assert loss == pytest.approx(load_run(run, device="cpu").checkpoint.progress["tiebreak"], rel=1e-5)
    other = found(run, table=table)
    assert other.what == "60 rows"


def test_of_many_rows_some_are_looked_at_always_the_same(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS", 7)
    task = TASKS[0]
    table = write_table(tmp_path / "moods.csv", task, make_examples(task, 60))
    run = finetune(trained, tmp_path / "run", train=table, changes=SETTINGS, device="cpu").path
    one, other = found(run, table=table), found(run, table=table)
    assert isinstance(one, HeldOutRows)
    assert isinstance(other, HeldOutRows)
    assert one.what == "7 rows"
    first, second = (next(held_out.rows())[1] for held_out in (one, other))
    assert first.ids.tolist() == second.ids.tolist()
    assert math.isfinite(one.loss(load_run(run, device="cpu").model))


def test_what_cannot_be_looked_at_is_refused(
    trained: Path, corpus: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    with pytest.raises(SettingError, match="name either a `corpus` or a `table`, not both"):
        found(trained, corpus, tmp_path / "rows.csv")
    with pytest.raises(SettingError, match="has learned no task yet"):
        found(trained, table=tmp_path / "rows.csv")
    foreign = make_pretrained(tmp_path / "foreign", bytes_tokenizer)
    with pytest.raises(InputError, match="was made with another tokenizer than the run"):
        found(foreign, corpus)
    with pytest.raises(SettingError, match="was imported and has no corpus of its own"):
        found(foreign)
    task = TASKS[0]
    table = write_table(tmp_path / "moods.csv", task, make_examples(task, 60))
    run = finetune(trained, tmp_path / "run", train=table, changes=SETTINGS, device="cpu").path
    table.unlink()
    with pytest.raises(InputError, match=r"moods.csv.*name other rows with `table`, or text with `corpus`"):
        found(run)
