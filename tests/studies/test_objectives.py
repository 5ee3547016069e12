"""What looking both ways is worth: three arms on the same rows, judged in pairs, gone on with where they were."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.run import load_run
from gpt1.pretraining.pretrain import pretrain
from gpt1.report import report
from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from gpt1.runs.folder import read_run
from gpt1.studies.objectives import ToRead, study_objectives
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN
from tests.studies.tools import TRAINING, Remembers, make_start, source, write_tasks

TWO = replace(TRAINING, seeds=2)
MASKED = "training.masked_share=0.5"


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> tuple[Path, Path]:
    """Two runs with random weights that say that they were trained alike, but for masked batches."""
    folder = tmp_path_factory.mktemp("bases")
    return make_start(folder / "a", words_tokenizer), make_start(folder / "b", words_tokenizer, MASKED)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, bases: tuple[Path, Path]) -> Path:
    """A whole study of two tasks and two seeds, to be read and never changed."""
    folder = tmp_path_factory.mktemp("objectives")
    tasks = source(write_tasks(folder / "tasks", "rte", "sst2"), "rte", "sst2")
    study_objectives(bases, folder / "out", source=tasks, training=TWO)
    return folder / "out"


def section(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((study / "study.json").read_text())["sections"]["objectives"]
    return found


def test_arms_differ_in_the_base_and_in_how_they_read_alone(study: Path, bases: tuple[Path, Path]) -> None:
    recipes = {}
    for arm, base, both_ways in (("causal", 0, False), ("mixed", 1, False), ("both-ways", 1, True)):
        for seed in (0, 1):
            record = read_run(study / "cells" / f"{arm}-rte-{seed}" / "run")
            settings = record.recipe.finetuning
            assert (settings.bidirectional, settings.lm_weight) == (both_ways, 0)
            assert record.parent == str(bases[base].resolve())
            recipes[arm, seed] = replace(record.recipe, finetuning=replace(settings, bidirectional=False))
    assert all(recipes[arm, seed] == recipes["causal", seed] for arm, seed in recipes)


def test_the_table_holds_medians_and_means_over_tasks_and_each_pair_of_arms_is_compared(study: Path) -> None:
    found = section(study)
    for arm in ("causal", "mixed", "both-ways"):
        for task in ("rte", "sst2"):
            cells = [json.loads((study / "cells" / f"{arm}-{task}-{s}" / "cell.json").read_text()) for s in (0, 1)]
            scores = [cell["result"]["scores"]["dev"]["accuracy"] for cell in cells]
            assert found["tasks"][task][arm]["median"] == pytest.approx(sum(scores) / 2)
            assert found["tasks"][task][arm]["seeds"] == {"0": scores[0], "1": scores[1]}
        each = [found["tasks"][task][arm]["median"] for task in ("rte", "sst2")]
        assert found["average"][arm] == pytest.approx(sum(each) / 2)
    pairs = [(pair["task"], pair["arm"], pair["over"]) for pair in found["pairs"]]
    compared = [("both-ways", "causal"), ("both-ways", "mixed"), ("mixed", "causal")]
    assert pairs == [(task, *arms) for task in ("rte", "sst2") for arms in compared]
    for pair in found["pairs"]:
        arms = found["tasks"][pair["task"]]
        assert pair["difference"] == pytest.approx(arms[pair["arm"]]["median"] - arms[pair["over"]]["median"])
        assert pair["low"] <= pair["difference"] <= pair["high"]
    with (study / "objectives.csv").open() as file:
        rows = {(row["task"], row["arm"]): float(row["median"]) for row in csv.DictReader(file)}
    assert rows["average", "mixed"] == pytest.approx(found["average"]["mixed"])
    assert len(rows) == 3 * 3


def test_a_report_and_a_terminal_show_it(study: Path, tmp_path: Path) -> None:
    page = report([study], tmp_path / "report.html").read_text()
    for words in (
        "Left to right, or both ways",
        "mixed, fine-tuned both ways over left to right",
        "No arm has the aux",
    ):
        assert words in page


@pytest.mark.parametrize("events", [1, 6])
def test_a_study_that_was_stopped_inside_a_cell_comes_to_the_same(
    tmp_path: Path, study: Path, bases: tuple[Path, Path], events: int
) -> None:
    tasks, out = source(study.parent / "tasks", "rte", "sst2"), tmp_path / "out"
    shutil.copytree(study, out)
    shutil.rmtree(out / "cells" / "both-ways-rte-1")
    with pytest.raises(KeyboardInterrupt, match="stopped; 11 of 12 cells are done, and the same command goes on"):
        study_objectives(bases, out, source=tasks, training=TWO, watcher=Remembers(stop_after=events))
    assert section(out)["average"]["both-ways"] is None
    watcher = Remembers()
    study_objectives(bases, out, source=tasks, training=TWO, watcher=watcher)
    assert watcher.made == ["both-ways-rte-1"]
    assert section(out) == section(study)


def test_both_networks_are_made_of_a_corpus_and_go_on_where_they_were(corpus: Path, tmp_path: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    steps = "training.steps=12"
    asked = ToRead(corpus, "tiny", [*SMALL_RUN, "shape.context=40", steps])
    with pytest.raises(SettingError, match="name a `folder` for them"):
        study_objectives(asked, tmp_path / "out", source=tasks, training=TRAINING)
    # One was begun and stopped: it goes on.
    begun = [*SMALL_RUN, "shape.context=40", steps, "training.masked_share=0"]
    pretrain("tiny", corpus, tmp_path / "bases" / "causal", changes=begun, device="cpu", minutes=0)
    watcher = Remembers()
    given = {"source": tasks, "training": TRAINING, "folder": tmp_path / "bases"}
    found = study_objectives(asked, tmp_path / "out", **given, watcher=watcher)  # type: ignore[arg-type]
    assert any(line.startswith("causal: going on from update") for line in watcher.lines)
    one, other = (load_run(tmp_path / "bases" / name, device="cpu") for name in ("causal", "mixed"))
    assert (one.recipe.training.masked_share, other.recipe.training.masked_share) == (0, 0.5)
    assert list_checkpoints(one.path)[-1][0] == list_checkpoints(other.path)[-1][0] == 12
    networks = found.sections["objectives"]["networks"]
    assert networks["causal"].keys() == {"bits_per_byte", "valid_loss"}
    assert networks["mixed"].keys() == {"bits_per_byte", "valid_loss", "masked_loss"}
    assert found.about["runs"] == {"causal": str(one.path), "mixed": str(other.path)}
    again = study_objectives(asked, tmp_path / "out", **given)  # type: ignore[arg-type]
    assert again.sections == found.sections


def test_networks_that_differ_in_more_are_refused_or_told_of(
    tmp_path: Path, bases: tuple[Path, Path], words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    causal, mixed = bases
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")

    def refused(one: Path, other: Path, message: str) -> None:
        with pytest.raises((SettingError, InputError), match=message):
            study_objectives((one, other), tmp_path / "out", source=tasks, training=TRAINING)
        assert not (tmp_path / "out").exists()

    refused(mixed, causal, "is to have read from left to right alone, and masked batches were mixed in")
    refused(causal, causal, r"has read from left to right alone; `gpt1.pretrain\(changes=")
    other_words = make_start(tmp_path / "words", bytes_tokenizer, MASKED)
    refused(causal, other_words, "was trained with another tokenizer than")
    wide = make_start(tmp_path / "wide", words_tokenizer, MASKED, "shape.layers=1")
    refused(causal, wide, r"shape.layers is 2 in .* and 1 in .*; pre-train both alike")
    longer = make_start(tmp_path / "longer", words_tokenizer, MASKED)
    model = load_checkpoint(list_checkpoints(longer)[0][1]).model
    save_checkpoint(longer, 9, model, {}, {"cost": 0.9})
    refused(causal, longer, "has made 3 updates and .* 9; pre-train both as long")
    slower = make_start(tmp_path / "slower", words_tokenizer, MASKED, "optimizer.lr=1e-4")
    watcher = Remembers()
    study_objectives((causal, slower), tmp_path / "out", source=tasks, training=TRAINING, watcher=watcher)
    assert any("differ in more than the objective: optimizer.lr is 0.002 and 0.0001" in line for line in watcher.lines)


def test_networks_that_read_other_text_are_refused(tmp_path: Path, corpus: Path, words_tokenizer: Tokenizer) -> None:
    from gpt1.corpus.prepare import prepare
    from tests.conftest import make_text

    (tmp_path / "other.txt").write_text(make_text(200, seed=99))
    words_tokenizer.save(tmp_path / "tokenizer.json")
    prepare([tmp_path / "other.txt"], tmp_path / "tokenizer.json", tmp_path / "other", valid=0.0, workers=1)
    changes = [*SMALL_RUN, "training.steps=2"]
    pretrain("tiny", corpus, tmp_path / "causal", changes=changes, device="cpu")
    pretrain("tiny", tmp_path / "other", tmp_path / "mixed", changes=[*changes, MASKED], device="cpu")
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    with pytest.raises(SettingError, match="has read other text than"):
        study_objectives((tmp_path / "causal", tmp_path / "mixed"), tmp_path / "out", source=tasks, training=TRAINING)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("shape.window=4", "wants attention that looks both ways"),
        ("training.masked_share=0", "the second network reads masked batches too"),
    ],
)
def test_networks_that_cannot_both_be_made_are_refused_before_the_first_one_reads(
    setting: str, said: str, corpus: Path, tmp_path: Path
) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    asked = ToRead(corpus, "tiny", [*SMALL_RUN, setting])
    with pytest.raises(SettingError, match=said):
        study_objectives(asked, tmp_path / "out", source=tasks, training=TRAINING, folder=tmp_path / "bases")
    assert not (tmp_path / "bases").exists()
