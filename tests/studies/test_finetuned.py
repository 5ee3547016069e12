"""A fine-tuning as a cell: by which recipe it is made, alike in all arms, and what is told of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import SettingError
from gpt1.recipes.catalog import AUTO, FINETUNE, PAPER
from gpt1.recipes.changes import settings
from gpt1.recipes.derived import settled
from gpt1.runs.folder import read_run
from gpt1.studies.cells import Cell
from gpt1.studies.finetuned import Arm, FinetuningSettings, Rows, finetuning_cell
from gpt1.studies.labels import study_labels
from gpt1.studies.material import InitRun, open_start
from gpt1.tasks.encoded import EncodedTask
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import encode, make_task
from tests.studies.tools import Remembers, make_start, source, write_tasks

FAST = FinetuningSettings(changes=("training.steps=1", "training.precision=fp32"), device="cpu")
DERIVED = ("optimizer.lr", "training.batch", "training.epochs")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> InitRun:
    """A base that is large enough for a rate of its own."""
    sizes = ("shape.layers=4", "shape.width=128", "shape.feed_forward=512")
    return open_start(make_start(tmp_path_factory.mktemp("wide") / "wide", words_tokenizer, *sizes))


def rows(encoded: EncodedTask) -> Rows:
    return Rows(encoded.task.name, "rows", len(encoded.splits["train"]), lambda: encoded)


def inputs(cell: Cell) -> Mapping[str, Any]:
    found: Any = cell.inputs["settings"]
    return {name: found[name] for name in DERIVED}


def test_what_is_derived_is_derived_alike_for_all_arms(wide: InitRun, lstm: Path, words_tokenizer: Tokenizer) -> None:
    arms = [Arm("full", wide), Arm("scratch", wide, ["finetuning.scratch=true"]), Arm("lstm", open_start(lstm))]
    few, many = (encode(make_task(), words_tokenizer, train) for train in (200, 600))
    asked = replace(FAST, base=wide)
    for encoded, batch, epochs in ((few, 16, 12), (many, 32, 8)):
        found = [inputs(finetuning_cell(arm, rows(encoded), asked, 0)) for arm in arms]
        wanted = settings(settled(AUTO, wide.parameters, len(encoded.splits["train"])))
        assert found == [{name: wanted[name] for name in DERIVED}] * 3
        assert (found[0]["training.batch"], found[0]["training.epochs"]) == (batch, epochs)
    assert 6.25e-5 < found[0]["optimizer.lr"] < 1e-3
    alone = inputs(finetuning_cell(arms[2], rows(few), FAST, 0))
    assert alone["optimizer.lr"] > found[0]["optimizer.lr"]  # of a smaller base


def test_a_study_by_a_named_recipe_and_one_of_the_papers_size_is_by_that(
    wide: InitRun, words_tokenizer: Tokenizer
) -> None:
    encoded = encode(make_task(), words_tokenizer)
    papers = replace(wide, shape=PAPER.shape)
    for asked in (replace(FAST, recipe="finetune", base=wide), replace(FAST, base=papers)):
        found = inputs(finetuning_cell(Arm("full", wide), rows(encoded), asked, 0))
        assert found == {name: settings(FINETUNE)[name] for name in DERIVED}


def test_what_was_derived_is_told_and_kept_with_the_study(tmp_path: Path, start: Path) -> None:
    tasks, out, watcher = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out", Remembers()
    found = study_labels(start, out, source=tasks, training=FAST, counts=[4, 8], watcher=watcher)
    parameters = f"{open_start(start).parameters / 1e6:.1f} M parameters"
    lines = [f"recipe auto: rate 1.00e-03 for {parameters}, batches of 16 for {count} examples" for count in (4, 8)]
    assert [note for note in found.notes if note.startswith("recipe")] == lines
    recipe = read_run(out / "cells" / "full-sst2-8-0" / "run").recipe
    assert (recipe.name, recipe.optimizer.lr, recipe.training.batch) == ("auto", 1e-3, 16)


def test_a_study_goes_on_by_the_recipe_it_was_begun_with(tmp_path: Path, start: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "sst2"), "sst2"), tmp_path / "out"
    study_labels(start, out, source=tasks, training=replace(FAST, recipe="finetune"), counts=[4])
    shutil.rmtree(out / "cells" / "scratch-sst2-4-0")
    study_labels(start, out, source=tasks, training=FAST, counts=[4, 8])
    for arm in ("full-sst2-4-0", "scratch-sst2-4-0", "full-sst2-8-0"):
        kept = json.loads((out / "cells" / arm / "cell.json").read_text())["inputs"]["settings"]
        assert {name: kept[name] for name in DERIVED} == {name: settings(FINETUNE)[name] for name in DERIVED}


def test_a_cell_tells_the_tasks_own_losses_and_how_it_answers_what_it_learned(
    wide: InitRun, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    encoded = encode(make_task(), words_tokenizer, 40)
    encoded = replace(encoded, splits={"train": encoded.splits["train"], "dev": encoded.splits["train"]})
    changes = ("training.steps=4", "training.precision=fp32", "logging.log_every=2", "finetuning.lm_weight=5")
    asked = replace(FAST, changes=changes)
    found = finetuning_cell(Arm("full", wide), rows(encoded), asked, 0).compute(tmp_path, lambda event: None)
    assert [point["step"] for point in found["losses"]] == [1, 2, 4]
    assert all(0 < point["loss"] < 2 for point in found["losses"])  # however much the language model counts
    assert found["train"] == found["scores"]["dev"][encoded.task.metrics[0]]  # the same rows


def test_an_arm_whose_network_cannot_do_what_is_asked_is_refused_before_any_cell_is_made(
    wide: InitRun, lstm: Path, words_tokenizer: Tokenizer
) -> None:
    both_ways = [*FAST.changes, "finetuning.bidirectional=true", "finetuning.lm_weight=0"]
    asked, few = replace(FAST, changes=both_ways, base=wide), rows(encode(make_task(), words_tokenizer, 20))
    assert finetuning_cell(Arm("full", wide), few, asked, 0).inputs
    with pytest.raises(SettingError, match="wants attention that looks both ways, and an LSTM has none"):
        finetuning_cell(Arm("lstm", open_start(lstm)), few, asked, 0)
    with pytest.raises(SettingError, match="no text is masked while a task is learned"):
        finetuning_cell(Arm("full", wide, ["training.masked_share=0.5"]), few, FAST, 0)
