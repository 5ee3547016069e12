"""Table 5: four arms on the same rows, judged in pairs, gone on with where they were."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.runs.folder import read_run
from gpt1.studies import paper
from gpt1.studies.ablations import arm_average, study_ablations
from gpt1.studies.paper import ABLATIONS
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import lines_of
from tests.studies.tools import LSTM, TRAINING, Remembers, make_start, source, write_tasks

TWO = replace(TRAINING, seeds=2)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, start: Path, lstm: Path) -> Path:
    """A whole study of two tasks and two seeds, to be read and never changed."""
    folder = tmp_path_factory.mktemp("ablations")
    tasks = source(write_tasks(folder / "tasks", "rte", "sst2"), "rte", "sst2")
    study_ablations(start, folder / "out", source=tasks, training=TWO, lstm=lstm)
    return folder / "out"


def sections(study: Path) -> dict:  # type: ignore[type-arg]
    return json.loads((study / "study.json").read_text())["sections"]  # type: ignore[no-any-return]


def test_each_arm_is_trained_as_it_says_and_no_weights_are_kept(study: Path, start: Path, lstm: Path) -> None:
    for arm, scratch, weight, parent in (
        ("full", False, 0.5, start),
        ("scratch", True, 0.5, start),
        ("no-lm", False, 0.0, start),
        ("lstm", False, 0.5, lstm),
    ):
        for seed in (0, 1):
            run = study / "cells" / f"{arm}-rte-{seed}" / "run"
            record = read_run(run)
            settings = record.recipe.finetuning
            assert (settings.scratch, settings.lm_weight, record.seed) == (scratch, weight, seed)
            assert record.parent == str(parent.resolve())
            assert not (run / "checkpoints").exists()
            assert len((run / "predictions-rte-dev.jsonl").read_text().splitlines()) == 9


def test_the_table_holds_medians_spread_averages_and_the_papers_figures(study: Path) -> None:
    table = sections(study)["ablations"]
    assert list(table["arms"]) == ["full", "scratch", "no-lm", "lstm"]
    for arm in table["arms"]:
        for task in ("rte", "sst2"):
            cells = [json.loads((study / "cells" / f"{arm}-{task}-{s}" / "cell.json").read_text()) for s in (0, 1)]
            scores = [cell["result"]["scores"]["dev"]["accuracy"] for cell in cells]
            figure = table["tasks"][task][arm]
            assert figure["median"] == pytest.approx(sum(scores) / 2)
            assert (figure["worst"], figure["best"]) == (min(scores), max(scores))
            assert figure["seeds"] == {"0": scores[0], "1": scores[1]}
        average = table["average"][arm]
        ours = [table["tasks"][task][arm]["median"] for task in ("rte", "sst2")]
        assert average["median"] == pytest.approx(sum(ours) / 2)
        assert average["paper_percent"] == pytest.approx((ABLATIONS[arm]["rte"] + ABLATIONS[arm]["sst2"]) / 2)
    with (study / "ablations.csv").open() as file:
        rows = {(row["task"], row["arm"]): row for row in csv.DictReader(file)}
    assert len(rows) == 4 * 3
    assert float(rows["rte", "lstm"]["paper_percent"]) == 54.6


def test_the_full_model_is_held_against_each_other_arm_in_pairs(study: Path) -> None:
    pairs = sections(study)["differences"]["pairs"]
    assert [(pair["task"], pair["over"]) for pair in pairs] == [
        (task, arm) for task in ("rte", "sst2") for arm in ("scratch", "no-lm", "lstm")
    ]
    table = sections(study)["ablations"]["tasks"]
    for pair in pairs:
        arms = table[pair["task"]]
        assert pair["difference"] == pytest.approx(arms["full"]["median"] - arms[pair["over"]]["median"])
        assert pair["low"] <= pair["difference"] <= pair["high"]
        assert pair["examples"] == 9


def test_curves_are_those_that_the_runs_told(study: Path) -> None:
    curves = sections(study)["curves"]["tasks"]["rte"]["arms"]
    assert curves.keys() == {"full", "no-lm"}
    for arm in curves:
        told = [lines_of(study / "cells" / f"{arm}-rte-{seed}" / "run") for seed in (0, 1)]
        by_seed = [[line["dev_accuracy"] for line in lines if "dev_accuracy" in line] for lines in told]
        wanted = [sum(values) / 2 for values in zip(*by_seed, strict=True)]
        assert [point["median"] for point in curves[arm]] == pytest.approx(wanted)
    assert (study / "curves.csv").is_file()


@pytest.mark.parametrize("events", [1, 6])
def test_a_study_that_was_stopped_inside_a_cell_comes_to_the_same(
    tmp_path: Path, study: Path, start: Path, lstm: Path, events: int
) -> None:
    tasks, out = source(study.parent / "tasks", "rte", "sst2"), tmp_path / "out"
    shutil.copytree(study, out)
    shutil.rmtree(out / "cells" / "no-lm-rte-1")
    with pytest.raises(KeyboardInterrupt, match="stopped; 15 of 16 cells are done, and the same command goes on"):
        study_ablations(start, out, source=tasks, training=TWO, lstm=lstm, watcher=Remembers(stop_after=events))
    assert (out / "cells" / "no-lm-rte-1").is_dir()
    assert "no-lm" not in sections(out)["ablations"]["tasks"]["rte"]
    assert sections(out)["ablations"]["average"]["no-lm"] is None
    watcher = Remembers()
    study_ablations(start, out, source=tasks, training=TWO, lstm=lstm, watcher=watcher)
    assert watcher.made == ["no-lm-rte-1"]
    assert sections(out) == sections(study)


def test_another_recipe_is_not_mixed_in(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    study_ablations(start, tmp_path / "out", source=tasks, training=TRAINING)
    slower = replace(TRAINING, changes=[*TRAINING.changes, "optimizer.lr=1e-4"])
    with pytest.raises(InputError, match=r"other inputs: settings.optimizer.lr was 0.005, is 0.0001 now"):
        study_ablations(start, tmp_path / "out", source=tasks, training=slower)


def test_without_an_lstm_there_are_three_arms_and_ones_own_tasks_have_no_paper(tmp_path: Path, start: Path) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "storycloze"), "storycloze")
    found = study_ablations(start, tmp_path / "out", source=tasks, training=TRAINING)
    table = found.sections["ablations"]
    assert list(table["arms"]) == ["full", "scratch", "no-lm"]
    assert table["average"]["full"]["paper_percent"] is None


def test_an_arm_that_differs_in_more_than_the_network_is_refused(
    tmp_path: Path, start: Path, bytes_tokenizer: Tokenizer
) -> None:
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    other = make_start(tmp_path / "other", bytes_tokenizer, *LSTM)
    with pytest.raises(InputError, match=r"other was trained with another tokenizer than .*books"):
        study_ablations(start, tmp_path / "out", source=tasks, training=TRAINING, lstm=other)
    with pytest.raises(SettingError, match="is no LSTM but a transformer"):
        study_ablations(start, tmp_path / "out", source=tasks, training=TRAINING, lstm=start)


def test_an_ablation_may_have_a_rate_of_its_own_and_the_full_model_has_that_of_all(tmp_path: Path, start: Path) -> None:
    tasks, out = source(write_tasks(tmp_path / "tasks", "rte"), "rte"), tmp_path / "out"

    def study(**rates: float) -> list[str]:
        watcher = Remembers()
        found = study_ablations(start, out, source=tasks, training=TRAINING, rates=rates, watcher=watcher)
        assert found.about["rates"] == rates
        return watcher.lines

    told, *_ = study(scratch=0.01)
    assert told == "from scratch the learning rate is 0.01, whatever that of the others"
    rates = [read_run(out / "cells" / f"{arm}-rte-0" / "run").recipe.optimizer.lr for arm in ("full", "scratch")]
    assert rates == [5e-3, 0.01]
    with pytest.raises(SettingError, match="the rate of 'full' is that of all"):
        study(full=0.01)
    with pytest.raises(SettingError, match=r"unknown arm 'lstm' \(known: scratch, no-lm\)"):
        study(lstm=0.01)


def test_a_run_without_checkpoints_is_nothing_to_start_from(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = make_start(tmp_path / "run", words_tokenizer)
    shutil.rmtree(run / "checkpoints")
    tasks = source(write_tasks(tmp_path / "tasks", "rte"), "rte")
    with pytest.raises(InputError, match="has no checkpoint to start from; train it first"):
        study_ablations(run, tmp_path / "out", source=tasks, training=TRAINING)


def test_beside_the_papers_eight_tasks_stands_the_average_it_prints_else_that_of_the_same_tasks() -> None:
    scored: Any = {task: {arm: {"median": 0.5} for arm in paper.ABLATIONS} for task in paper.ABLATED}
    printed = [arm_average(arm, scored) for arm in paper.ABLATIONS]
    assert [one and one["paper_percent"] for one in printed] == [74.7, 59.9, 75.0, 69.1]
    two = arm_average("full", {task: scored[task] for task in ("cola", "rte")})
    assert two == {"median": 0.5, "paper_percent": pytest.approx((45.4 + 56.0) / 2), "tasks": 2}
    own = arm_average("full", {"cola": scored["cola"], "reviews": scored["rte"]})
    assert own is not None
    assert own["paper_percent"] is None
