"""A fitted estimator tells what it is worth as the command line does, wherever it goes."""

from __future__ import annotations

import copy
import pickle
import shutil
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from gpt1 import GPTClassifier, GPTRegressor, finetune
from gpt1.documents.figures import score
from gpt1.finetuning.results import results
from gpt1.records.calibration import CALIBRATION_FILE
from gpt1.records.ensemble import ENSEMBLE_FILE
from gpt1.records.seeds import RESULT_FILE
from tests.estimators.tools import MOODS, SCORES, TEXTS, hasty


@pytest.fixture(scope="module")
def by_folds(trained: Path) -> GPTClassifier:
    """A classifier of which cross-validation decided that counted words answer."""
    return GPTClassifier(trained, lr=1e-7, epochs=1, device="cpu").fit(TEXTS, MOODS)


def test_where_nothing_was_measured_that_is_said(fitted: GPTClassifier) -> None:
    found = fitted.report_
    assert found.verdict.startswith("What it is worth was not measured: all 36 rows were trained on, without cross-")
    assert (found.measured, found.is_of_use, found.who_answers, found.why) == ((), None, ("network",), None)
    assert (found.temperature, found.how_sure, found.thresholds) == (None, None, None)
    assert " ".join(str(found).split()) == found.verdict


def test_rows_for_dev_are_told_with_their_yardsticks_as_the_command_line_has_them(trained: Path) -> None:
    estimator = hasty(trained, recipe=None, dev=True).fit(TEXTS, MOODS)
    found, told = estimator.report_, results(estimator.run_)["tasks"]["classification"]["dev"]
    on_dev, folds = found.measured
    assert (on_dev.examples, on_dev.metric, on_dev.score) == (4, "accuracy", estimator.dev_scores_["accuracy"])
    assert on_dev.interval == tuple(told["intervals"]["accuracy"])
    assert (on_dev.words, on_dev.commonest) == (told["words"]["accuracy"], told["commonest"])
    assert folds.examples == 32
    assert told["verdict"] in found.verdict
    assert (found.is_of_use, found.may_be_chance) == (told["is_of_use"], told["may_be_chance"])
    assert found.is_flattered == told["is_flattered"]
    assert not hasattr(clone(estimator), "report_")
    assert estimator.set_params(dev=False, recipe="finetune").fit(TEXTS, MOODS).report_.measured == ()


def test_where_cross_validation_decided_it_tells_what_a_run_is_worth(by_folds: GPTClassifier) -> None:
    found, decided = by_folds.report_, results(by_folds.run_)["decided"]["classification"]
    (folds,) = found.measured
    assert (folds.rows, folds.examples) == ("36 rows, by cross-validation, which also chose who answers", 36)
    assert (folds.words, folds.commonest) == (decided["scores"]["words"], decided["commonest"])
    assert folds.interval is not None
    assert folds.interval[0] < folds.score <= folds.interval[1]
    assert (found.who_answers, found.why) == (tuple(decided["weights"]), decided["why"])
    assert found.temperature == decided["temperature"]
    assert found.is_of_use is False
    assert found.verdict.startswith("No gain: no better than counting words (accuracy")


def test_printed_it_is_a_few_lines_in_any_encoding(by_folds: GPTClassifier) -> None:
    shown, (folds,) = str(by_folds.report_), by_folds.report_.measured
    assert repr(by_folds.report_) == shown
    assert len(shown.splitlines()) < 20
    assert max(map(len, shown.splitlines())) <= 100
    assert shown.isascii()
    for name in ("this run", "counting words (TF-IDF)", "always the commonest label"):
        assert name in shown
    assert score(folds.score) in shown
    assert by_folds.report_.how_sure is not None
    assert by_folds.report_.how_sure[1:20] in shown


def test_it_cannot_be_changed_and_goes_wherever_the_estimator_goes(by_folds: GPTClassifier, tmp_path: Path) -> None:
    found = by_folds.report_
    with pytest.raises(FrozenInstanceError):
        found.verdict = "excellent"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(by_folds)).report_ == copy.deepcopy(by_folds).report_ == found
    by_folds.save(tmp_path / "saved")
    assert GPTClassifier.load(tmp_path / "saved", device="cpu").report_ == found


def test_it_is_still_known_when_the_folder_is_gone(trained: Path, tmp_path: Path) -> None:
    estimator = hasty(trained, dev=True, out=tmp_path / "run").fit(TEXTS, MOODS)
    shutil.rmtree(tmp_path / "run")
    assert estimator.report_.measured[0].examples == 4


def test_of_several_labels_and_of_scores_it_has_their_metrics(trained: Path) -> None:
    several = np.array([[int(mood == "glad"), int("cat" in text)] for text, mood in zip(TEXTS, MOODS, strict=True)])
    matrix = hasty(trained, recipe=None, dev=True).fit(TEXTS, several).report_
    assert {one.metric for one in matrix.measured} == {"micro_f1"}
    by_split = matrix.measured[0]
    assert by_split.commonest == pytest.approx(4 / 7)  # of always giving the same labels
    assert matrix.thresholds is not None
    assert matrix.thresholds[1:] in " ".join(str(matrix).split())
    settings = {"training.steps": 1}
    scores = GPTRegressor(trained, dev=True, settings=settings, device="cpu").fit(TEXTS, SCORES).report_
    assert {one.metric for one in scores.measured} == {"pearson"}
    assert scores.verdict.endswith(".")


def test_any_run_that_is_loaded_tells_it_too(trained: Path, tmp_path: Path) -> None:
    rows = "".join(f"{text},{mood}\n" for text, mood in zip(TEXTS, MOODS, strict=True))
    (tmp_path / "moods.csv").write_text(f"review,mood\n{rows}")
    columns = {"text": "review", "label": "mood"}
    run = finetune(
        trained, tmp_path / "run", train=tmp_path / "moods.csv", columns=columns, changes=["training.steps=1"]
    )
    told = results(run)["tasks"]["moods"]
    loaded = GPTClassifier.load(tmp_path / "run", device="cpu").report_
    assert [one.score for one in loaded.measured][: len(told)] == [one["metrics"]["accuracy"] for one in told.values()]
    assert told["dev"]["verdict"] in loaded.verdict
    for file in (tmp_path / "run").glob("evaluation-*.json"):
        file.unlink()
    for name in (ENSEMBLE_FILE, CALIBRATION_FILE, RESULT_FILE):
        (tmp_path / "run" / name).unlink()
    stopped = GPTClassifier.load(tmp_path / "run", device="cpu").report_
    assert stopped.verdict == "What it is worth is not known: its training is not at its end."


def test_rows_that_were_kept_aside_but_not_measured_are_not_said_to_be_learned(trained: Path, tmp_path: Path) -> None:
    hasty(trained, dev=True, out=tmp_path / "run").fit(TEXTS, MOODS)
    (tmp_path / "run" / "evaluation-classification-dev.json").unlink()
    found = GPTClassifier.load(tmp_path / "run", device="cpu").report_
    assert found.verdict == "What it is worth is not known: nothing that was measured is kept with it."
