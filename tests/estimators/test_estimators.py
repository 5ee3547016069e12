"""Estimators keep scikit-learn's contract as far as it is not about numbers, and are saved without pickle."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import re
import signal
import tempfile
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_set_params,
    check_valid_tag_types,
)

from gpt1 import GPTClassifier, GPTRegressor, finetune, load_run
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import whole_file
from gpt1.estimators import folders
from gpt1.estimators.estimators import ProgressLines
from gpt1.estimators.folders import in_new_folder
from gpt1.finetuning.batches import PackedBatch, TaskBatches
from gpt1.inference.predicting import predict_rows, task_of
from gpt1.inference.run import Run
from gpt1.model.costs import count_parameters
from gpt1.recipes.catalog import FINETUNE
from gpt1.recipes.catalog import recipe as make_recipe
from gpt1.recipes.changes import differences
from gpt1.recipes.derived import settled
from gpt1.records.ensemble import WORDS
from gpt1.runs.events import Evaluated
from gpt1.tasks.shapes import BOTH, PAIR
from tests.cli.tools import run as call
from tests.conftest import make_text
from tests.estimators.tools import ENOUGH, MOODS, PAIRS, SCORES, TEXTS, hasty
from tests.records import facts_in, lines_in


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def calmed(texts: list[str]) -> list[str]:
    return [text.replace("!", ".") for text in texts]


# ---- learning and answering ----


def test_a_classifier_learns_and_answers_in_the_words_of_its_labels(fitted: GPTClassifier) -> None:
    assert fitted.score(TEXTS, MOODS) == 1.0
    assert fitted.predict(TEXTS).tolist() == MOODS
    assert fitted.classes_.tolist() == ["glad", "sad"]
    assert fitted.n_features_in_ == 1


def test_probabilities_have_a_column_a_class_and_rows_that_sum_to_one(fitted: GPTClassifier) -> None:
    found = fitted.predict_proba(TEXTS)
    assert found.shape == (len(TEXTS), 2)
    assert np.abs(found.sum(1) - 1).max() < 1e-12
    assert (fitted.classes_[found.argmax(1)] == fitted.predict(TEXTS)).all()


def test_a_regressor_learns_scores_and_stays_in_their_range(scorer: GPTRegressor) -> None:
    assert scorer.score(TEXTS, SCORES) > 0.8
    found = scorer.predict(TEXTS)
    assert found.dtype == np.float64
    assert min(SCORES) <= found.min() < found.max() <= max(SCORES)


def test_answers_are_those_of_the_run(fitted: GPTClassifier, scorer: GPTRegressor) -> None:
    rows = [{"text": text} for text in TEXTS]
    answers = list(predict_rows(fitted.run_, rows))
    assert [row["prediction"] for row in answers] == fitted.predict(TEXTS).tolist()
    shares = [[row["probabilities"][name] for name in fitted.classes_] for row in answers]
    assert np.abs(np.array(shares) - fitted.predict_proba(TEXTS)).max() <= 1e-6
    assert [row["prediction"] for row in predict_rows(scorer.run_, rows)] == scorer.predict(TEXTS).tolist()


def test_a_pair_has_an_order_unless_it_is_symmetric(trained: Path, of_pairs: GPTClassifier) -> None:
    swapped = [(b, a) for a, b in PAIRS]
    assert task_of(of_pairs.run_).shape == PAIR
    assert not np.allclose(of_pairs.predict_proba(swapped), of_pairs.predict_proba(PAIRS))
    symmetric = hasty(trained, symmetric=True).fit(PAIRS, MOODS)
    assert task_of(symmetric.run_).shape == BOTH
    assert np.allclose(symmetric.predict_proba(swapped), symmetric.predict_proba(PAIRS), atol=1e-6)


def test_without_a_recipe_counted_words_answer_where_the_network_learned_nothing(trained: Path, tmp_path: Path) -> None:
    estimator = GPTClassifier(trained, lr=1e-7, epochs=1, device="cpu").fit(TEXTS, MOODS)
    assert WORDS in estimator.run_.ensembles["classification"].weights
    assert estimator.score(TEXTS, MOODS) == 1.0
    estimator.save(tmp_path / "saved")
    again = GPTClassifier.load(tmp_path / "saved", device="cpu")
    assert np.array_equal(again.predict_proba(TEXTS), estimator.predict_proba(TEXTS))


def test_a_text_that_is_too_long_is_told(fitted: GPTClassifier) -> None:
    with pytest.warns(
        UserWarning, match="1 of 2 rows had more text than the model's 16 tokens; the ends were not read"
    ):
        fitted.predict(["Ann sold nothing", make_text(20, seed=0)])


def test_all_rows_are_learned_and_the_last_epoch_is_kept(fitted: GPTClassifier) -> None:
    assert fitted.run_.record.examples == {"classification": {"train": len(TEXTS)}}
    assert fitted.run_.checkpoint.step == 14 * 3
    assert not hasattr(fitted, "dev_scores_")


def test_with_dev_a_tenth_of_the_rows_chooses_the_epoch(trained: Path) -> None:
    estimator = GPTClassifier(trained, dev=True, **{**ENOUGH, "epochs": 3}).fit(TEXTS, MOODS)
    assert estimator.run_.record.examples == {"classification": {"train": 32, "dev": 4}}
    assert list(estimator.dev_scores_) == ["accuracy"]
    scores = lines_in(estimator.run_.path / "metrics.jsonl")
    measured = {line["step"]: line["dev_accuracy"] for line in scores if "dev_accuracy" in line}
    assert estimator.dev_scores_["accuracy"] == max(measured.values()) == measured[estimator.run_.checkpoint.step]
    assert not hasattr(estimator.set_params(dev=False).fit(TEXTS, MOODS), "dev_scores_")


def test_too_few_rows_for_dev_are_an_error(trained: Path) -> None:
    with pytest.raises(InputError, match="dev: there are no dev rows, and 2 training rows are too few to spare some"):
        hasty(trained, dev=True).fit(TEXTS[2:4], MOODS[2:4])


# ---- arguments ----


def test_what_is_none_has_the_recipes_value(trained: Path) -> None:
    shape = replace(load_run(trained, device="cpu").recipe.shape, dropout=FINETUNE.shape.dropout)
    recipe = hasty(trained, recipe="finetune").fit(TEXTS, MOODS).run_.recipe
    assert differences(recipe, replace(FINETUNE, shape=shape)) == {"training.steps": (1, None)}


def test_without_a_recipe_a_small_base_has_one_that_suits_it_and_arguments_win(trained: Path) -> None:
    run = hasty(trained, recipe=None, batch=5).fit(TEXTS, MOODS).run_
    parameters = count_parameters(run.recipe.shape, run.record.vocab_size).total
    asked = make_recipe("auto", batch=5, steps=1)
    assert run.recipe == replace(settled(asked, parameters, len(TEXTS)), shape=run.recipe.shape)
    assert (run.recipe.name, run.recipe.derived, run.recipe.training.batch) == ("auto", (), 5)


def test_a_recipe_that_leaves_something_open_is_saved_with_the_estimator(trained: Path, tmp_path: Path) -> None:
    estimator = hasty(trained, recipe=make_recipe("auto", epochs=2)).fit(TEXTS, MOODS)
    estimator.save(tmp_path / "kept")
    assert GPTClassifier.load(tmp_path / "kept").recipe == make_recipe("auto", epochs=2)


def test_every_argument_reaches_the_recipe(trained: Path) -> None:
    given: dict[str, Any] = {"lr": 1e-3, "batch": np.int64(9), "lm_weight": 0, "layers": 1, "class_weights": True}
    given |= {"seed": 5, "epochs": 0.5, "settings": {"epochs": 7, "optimizer.clip": None, "shape.dropout": 0.25}}
    recipe = GPTClassifier(trained, **given, device="cpu").fit(TEXTS, MOODS).run_.recipe
    assert (recipe.optimizer.lr, recipe.optimizer.clip, recipe.shape.dropout) == (1e-3, None, 0.25)
    assert (recipe.training.batch, recipe.training.epochs, recipe.training.seed) == (9, 0.5, 5)
    assert (recipe.finetuning.lm_weight, recipe.finetuning.transfer_layers) == (0, 1)
    assert (recipe.finetuning.class_weights, recipe.finetuning.scratch) == (True, False)
    own = replace(FINETUNE, name="own", training=replace(FINETUNE.training, steps=1))
    assert hasty(trained, recipe=own, scratch=True).fit(TEXTS, MOODS).run_.recipe.finetuning.scratch


def test_arguments_are_looked_at_by_fit_alone(trained: Path) -> None:
    with pytest.raises(InputError, match="nowhere does not exist"):
        GPTClassifier("nowhere").fit(TEXTS, MOODS)
    with pytest.raises(SettingError, match=r"training\.batch takes int, not 'many'"):
        GPTClassifier(trained, batch="many").fit(TEXTS, MOODS)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no setting 'wamup_share'; did you mean 'warmup_share'"):
        GPTClassifier(trained, settings={"wamup_share": 1}).fit(TEXTS, MOODS)
    with pytest.raises(SettingError, match=r"shape\.layers is decided by .*, whose network is taken"):
        GPTClassifier(trained, settings={"shape.layers": 3}).fit(TEXTS, MOODS)


def test_a_regressor_has_no_weights_of_classes() -> None:
    names = set(GPTClassifier("run").get_params()) - set(GPTRegressor("run").get_params())
    assert names == {"class_weights", "metric"}
    with pytest.raises(TypeError, match="class_weights"):
        GPTRegressor("run", class_weights=True)  # type: ignore[call-arg]


# ---- the contract ----


@pytest.mark.parametrize("kind", [GPTClassifier, GPTRegressor])
@pytest.mark.parametrize(
    "check",
    [
        check_no_attributes_set_in_init,
        check_get_params_invariance,
        check_set_params,
        check_estimator_cloneable,
        check_estimator_repr,
        check_valid_tag_types,
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_numbers_hold(kind: Any, check: Any) -> None:
    check(kind.__name__, kind("run", epochs=2))


def test_scikit_learn_knows_what_they_are() -> None:
    assert is_classifier(GPTClassifier("run"))
    assert is_regressor(GPTRegressor("run"))
    assert get_tags(GPTClassifier("run")).input_tags.string
    assert get_tags(GPTClassifier("run")).target_tags.required


def test_a_clone_has_the_arguments_and_nothing_learned(fitted: GPTClassifier) -> None:
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert [name for name in vars(twin) if name.endswith("_")] == []
    assert GPTClassifier(**twin.set_params(lr=0.5).get_params()).lr == 0.5


@pytest.mark.parametrize("method", ["predict", "predict_proba", "save"])
def test_nothing_is_answered_before_fit(method: str) -> None:
    with pytest.raises(NotFittedError, match="This GPTClassifier instance is not fitted yet"):
        getattr(GPTClassifier("run"), method)(TEXTS)
    with pytest.raises(NotFittedError):
        GPTRegressor("run").score(TEXTS, SCORES)


def test_fit_returns_the_estimator_and_the_same_each_time(trained: Path) -> None:
    estimator = GPTClassifier(trained, **{**ENOUGH, "epochs": 2})
    assert estimator.fit(TEXTS, MOODS) is estimator
    first = estimator.predict_proba(TEXTS)
    assert (estimator.fit(TEXTS, MOODS).predict_proba(TEXTS) == first).all()
    assert not np.allclose(estimator.set_params(seed=1).fit(TEXTS, MOODS).predict_proba(TEXTS), first)


def test_a_new_fit_forgets_the_one_before(trained: Path) -> None:
    estimator = hasty(trained).fit(TEXTS, MOODS)
    estimator.fit(PAIRS[:3], [5, 7, 9])
    assert (estimator.classes_.tolist(), estimator.n_features_in_) == ([5, 7, 9], 2)


def test_a_copy_in_memory_answers_alike_though_the_first_is_gone(trained: Path, temporary: Path) -> None:
    estimator = hasty(trained).fit(TEXTS, MOODS)
    answers = estimator.predict_proba(TEXTS)
    for twin in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        assert twin.run_.path != estimator.run_.path
        assert (twin.predict_proba(TEXTS) == answers).all()
        assert twin.get_params() == estimator.get_params()
    packed = pickle.dumps(estimator)
    del estimator, twin
    gc.collect()
    assert list(temporary.iterdir()) == []
    assert (pickle.loads(packed).predict_proba(TEXTS) == answers).all()
    assert pickle.loads(pickle.dumps(GPTRegressor("run", lr=1.0))).lr == 1.0


def test_it_stands_at_the_end_of_a_pipeline(trained: Path) -> None:
    estimator = make_pipeline(FunctionTransformer(calmed), GPTClassifier(trained, **ENOUGH))
    assert estimator.fit(TEXTS, MOODS).score([f"{text}!" for text in TEXTS], MOODS) == 1.0
    assert estimator.classes_.tolist() == ["glad", "sad"]


def test_it_is_cross_validated(trained: Path, temporary: Path) -> None:
    found = cross_val_score(GPTClassifier(trained, **ENOUGH), TEXTS, MOODS, cv=2, error_score="raise")
    assert found.shape == (2,)
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_grid_of_settings_is_searched(trained: Path) -> None:
    search = GridSearchCV(GPTClassifier(trained, **ENOUGH), {"lr": [1e-7, 1e-2]}, cv=2, error_score="raise")
    search.fit(TEXTS, MOODS)
    assert search.best_params_ == {"lr": 1e-2}
    assert search.best_estimator_.score(TEXTS, MOODS) == 1.0


def test_two_processes_search_and_send_back_what_one_would_find(trained: Path) -> None:
    grid = {"lr": [1e-7, 1e-1]}
    found = [
        GridSearchCV(hasty(trained), grid, cv=2, n_jobs=jobs, error_score="raise")
        .fit(TEXTS, MOODS)
        .cv_results_["mean_test_score"]
        for jobs in (1, 2)
    ]
    assert (found[0] == found[1]).all()
    models = [
        cross_validate(hasty(trained), TEXTS, MOODS, cv=2, n_jobs=jobs, return_estimator=True)["estimator"]
        for jobs in (1, 2)
    ]
    for one, other in zip(*models, strict=True):
        assert np.allclose(one.predict_proba(TEXTS), other.predict_proba(TEXTS), atol=1e-6)


# ---- folders ----


def test_a_run_without_a_place_goes_with_its_estimator(trained: Path, temporary: Path) -> None:
    estimator = hasty(trained).fit(TEXTS, MOODS)
    assert [estimator.run_.path] == list(temporary.iterdir())
    estimator.fit(TEXTS, MOODS)
    gc.collect()
    assert [estimator.run_.path] == list(temporary.iterdir())
    del estimator
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_fit_that_fails_leaves_nothing(trained: Path, temporary: Path) -> None:
    with pytest.raises(SettingError):
        hasty(trained, layers=99).fit(TEXTS, MOODS)
    assert list(temporary.iterdir()) == []


def test_a_fit_that_is_stopped_leaves_nothing(trained: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = TaskBatches.batch

    def interrupt(batches: TaskBatches, k: int) -> PackedBatch:
        if k == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return make(batches, k)

    monkeypatch.setattr(TaskBatches, "batch", interrupt)
    with pytest.raises(KeyboardInterrupt, match="fit was stopped before its end; nothing was learned"):
        GPTClassifier(trained, **ENOUGH).fit(TEXTS, MOODS)
    assert list(temporary.iterdir()) == []


def test_a_process_that_got_a_copy_by_forking_leaves_the_folder(
    trained: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run | None = in_new_folder(lambda folder: load_run(trained, device="cpu"))
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        run = None
        gc.collect()
    assert run is None
    assert len(list(temporary.iterdir())) == 1


def test_a_run_with_a_place_stays_and_is_never_overwritten(trained: Path, tmp_path: Path, temporary: Path) -> None:
    estimator = hasty(trained, out=tmp_path / "run").fit(TEXTS, MOODS)
    answers = estimator.predict_proba(TEXTS)
    assert list(temporary.iterdir()) == []
    with pytest.raises(InputError, match="holds a run already; every fit needs an `out` of its own, or None"):
        estimator.fit(TEXTS, MOODS)
    del estimator
    gc.collect()
    again = GPTClassifier.load(tmp_path / "run", device="cpu")
    assert again.out is None
    assert (again.predict_proba(TEXTS) == answers).all()


def test_a_saved_estimator_is_the_same_when_loaded(trained: Path, tmp_path: Path) -> None:
    recipe = replace(FINETUNE, name="own", training=replace(FINETUNE.training, steps=1))
    estimator = hasty(trained, recipe=recipe, lr=np.float64(0.5)).fit(TEXTS, [mood == "sad" for mood in MOODS])
    estimator.save(tmp_path / "saved")
    again = GPTClassifier.load(tmp_path / "saved", device="cpu")
    assert (again.predict_proba(TEXTS) == estimator.predict_proba(TEXTS)).all()
    assert (again.classes_ == estimator.classes_).all()
    assert again.classes_.dtype == bool
    assert again.get_params() == {**estimator.get_params(), "init": str(trained.resolve())}
    assert (clone(again).fit(TEXTS, MOODS).classes_ == ["glad", "sad"]).all()
    sizes = [path.stat().st_size for path in (tmp_path / "saved").rglob("optimizer.safetensors")]
    assert sizes[0] < 1000  # what only training needs is not saved


def test_names_of_columns_and_scores_on_dev_are_saved_too(trained: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame(PAIRS, columns=["claim", "fact"])
    estimator = GPTRegressor(trained, dev=True, settings={"training.steps": 1}, device="cpu").fit(frame, SCORES)
    estimator.save(tmp_path / "saved")
    again = GPTRegressor.load(tmp_path / "saved", device="cpu")
    assert again.feature_names_in_.tolist() == ["claim", "fact"]
    assert again.dev_scores_ == estimator.dev_scores_
    assert (again.predict(frame) == estimator.predict(frame)).all()


def test_the_command_line_uses_what_was_saved(
    fitted: GPTClassifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted.save(tmp_path / "saved")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:6]))
    code, out, _ = call(capsys, "predict", str(tmp_path / "saved"), str(tmp_path / "new.jsonl"), "--device", "cpu")
    assert code == 0
    assert [json.loads(line)["prediction"] for line in out.splitlines()] == MOODS[:6]


def test_nothing_is_overwritten_by_saving(fitted: GPTClassifier, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(mine.txt\); choose a new or empty folder"):
        fitted.save(tmp_path)
    fitted.save(tmp_path / "saved")
    with pytest.raises(InputError, match="choose a new or empty folder"):
        fitted.save(tmp_path / "saved")


@pytest.mark.parametrize("file", ["estimator.json", "log.txt", "run.json"])
def test_a_save_that_was_killed_can_be_made_again(
    fitted: GPTClassifier, tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path) -> AbstractContextManager[IO[bytes]]:
        if path.name == file:
            raise SystemExit
        return whole_file(path)

    saved = tmp_path / "saved"
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(folders, "whole_file", killed)
        fitted.save(saved)
    (saved / "checkpoints" / "step-00000001.123.tmp").mkdir()
    (saved / "a diary.txt").touch()
    with pytest.raises(InputError, match=r"holds other files \(a diary.txt, .*; choose a new or empty folder"):
        fitted.save(saved)
    (saved / "a diary.txt").unlink()
    fitted.save(saved)
    assert (GPTClassifier.load(saved, device="cpu").predict(TEXTS) == fitted.predict(TEXTS)).all()
    assert list(saved.rglob("*.tmp")) == []


def test_what_is_no_estimator_is_not_loaded(fitted: GPTClassifier, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has learned no task yet"):
        GPTClassifier.load(trained)
    fitted.save(tmp_path / "saved")
    with pytest.raises(SettingError, match="holds an estimator for classification; GPTRegressor is for regression"):
        GPTRegressor.load(tmp_path / "saved")
    file = tmp_path / "saved" / "estimator.json"
    whole = facts_in(file)
    for changes, message in [
        ({"format": "other"}, "is no estimator of this version of gpt1"),
        ({"version": 9}, "is no estimator of this version of gpt1"),
        ({"arguments": {}}, "is damaged: arguments.init is missing"),
        ({"learned": {"classes_": {"dtype": "<i8", "values": ["x"]}}}, "is damaged: invalid literal"),
        ({"arguments": {**whole["arguments"], "out": "/tmp/elsewhere"}}, "out is not what a file may decide"),
        ({"arguments": {**whole["arguments"], "speed": 1}}, "no estimator of this version of gpt1: .*'speed'"),
    ]:
        file.write_text(json.dumps({**whole, **changes}))
        with pytest.raises(FormatError, match=message):
            GPTClassifier.load(tmp_path / "saved")


def test_an_estimator_whose_folder_was_taken_away_says_so(trained: Path, tmp_path: Path) -> None:
    estimator = hasty(trained, out=tmp_path / "run").fit(TEXTS, MOODS)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot read the estimator's run"):
        estimator.save(tmp_path / "saved")


def test_texts_that_the_vocabulary_does_not_have_are_warned_of(trained: Path, fitted: GPTClassifier) -> None:
    with pytest.warns(UserWarning, match="not in the vocabulary|nothing that is in the vocabulary") as told:
        fitted.predict(["재미있었다", "보고싶었다"])
    unread, unknown = (str(one.message) for one in told)
    assert unread.startswith("2 of 2 rows have nothing that is in the vocabulary")
    assert unknown.startswith("10 of 10 tokens are not in the vocabulary, in 2 of 2 examples most of them")
    texts = [f"{'영화' if row % 2 else '연기'} 좋았다" for row in range(8)]
    labels = [row % 2 for row in range(8)]
    with pytest.raises(ValueError, match=r"are not in the vocabulary, and from so little nothing can be learned"):
        GPTClassifier(trained, epochs=1, device="cpu").fit(texts, labels)
    with pytest.warns(UserWarning, match=r"in 8 of 32 examples most of them; the network takes them all for the same"):
        GPTClassifier(trained, epochs=1, device="cpu").fit([*texts, *TEXTS[:8] * 3], labels * 4)


def test_any_run_that_was_fine_tuned_on_one_task_can_be_loaded(trained: Path, tmp_path: Path) -> None:
    rows = "".join(f"{text},{mood}\n" for text, mood in zip(TEXTS, MOODS, strict=True))
    (tmp_path / "moods.csv").write_text(f"review,mood\n{rows}")
    columns = {"text": "review", "label": "mood"}
    run = finetune(trained, tmp_path / "run", train=tmp_path / "moods.csv", columns=columns, device="cpu")
    model = GPTClassifier.load(tmp_path / "run", device="cpu")
    assert model.classes_.tolist() == sorted(set(MOODS))
    answers = [answer["prediction"] for answer in run.predict([{"review": text} for text in TEXTS])]
    assert model.predict(TEXTS).tolist() == answers
    assert clone(model).init == run.record.parent
    model.save(tmp_path / "copy")
    assert GPTClassifier.load(tmp_path / "copy", device="cpu").predict(TEXTS).tolist() == answers
    with pytest.raises(SettingError, match="has learned classification; GPTRegressor is for regression"):
        GPTRegressor.load(tmp_path / "run")


def test_how_a_training_goes_is_printed_when_that_is_asked_for(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hasty(trained).fit(TEXTS, MOODS)
    assert capsys.readouterr().out == ""
    GPTClassifier(trained, epochs=2, device="cpu", verbose=True, dev=True).fit(TEXTS, MOODS)
    lines = capsys.readouterr().out.splitlines()
    steps = [line for line in lines if re.fullmatch(r"update \d+/\d+, loss \d+\.\d{4}", line)]
    looks = [re.fullmatch(r"update (\d+), dev accuracy \d\.\d{4}, dev loss \d+\.\d{4}", line) for line in lines]
    assert steps
    assert len([look for look in looks if look]) == 2


def test_what_is_waited_for_after_a_training_is_printed_too(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimator = hasty(trained, recipe=None, verbose=True).fit(TEXTS, MOODS)
    lines = capsys.readouterr().out.splitlines()
    follows = next(place for place, line in enumerate(lines) if line.startswith("cross-validation follows: the netw"))
    assert "3 more times, on two thirds of the rows each" in lines[follows]
    steps = [line for line in lines if "update" in line and "loss" in line]
    assert [line.rpartition("update 1/1, ")[0] for line in steps] == ["", *(f"fold {n} of 3, " for n in (1, 2, 3))]
    assert lines.index(steps[0]) < follows < lines.index(steps[1])
    assert estimator.report_.why is not None
    assert f"classification: {estimator.report_.why}" in lines


def test_each_look_at_dev_is_told_with_its_own_update(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ProgressLines()
    lines(Evaluated(21, {"dev_loss": 0.5}))
    lines(Evaluated(28, {"dev_loss": 0.25}))
    assert capsys.readouterr().out == "update 21, dev loss 0.5000\nupdate 28, dev loss 0.2500\n"


def test_what_cannot_be_used_is_a_value_error_as_scikit_learn_expects(trained: Path) -> None:
    with pytest.raises(ValueError, match="X has no rows"):
        GPTClassifier(trained).fit([], [])
    with pytest.raises(ValueError, match="symmetric is for pairs"):
        GPTClassifier(trained, symmetric=True).fit(TEXTS, MOODS)


# ---- several labels a row ----

MANY = np.array(
    [
        [int(mood == "glad"), int("cat" in text), int(number % 3 == 0)]
        for number, (text, mood) in enumerate(zip(TEXTS, MOODS, strict=True))
    ]
)


@pytest.fixture(scope="module")
def of_several(trained: Path) -> GPTClassifier:
    return GPTClassifier(trained, **{**ENOUGH, "epochs": 40}).fit(TEXTS, MANY)


def test_a_matrix_of_several_labels_is_learned_and_comes_back(of_several: GPTClassifier) -> None:
    found, shares = of_several.predict(TEXTS), of_several.predict_proba(TEXTS)
    assert of_several.classes_.tolist() == [0, 1, 2]
    assert found.shape == shares.shape == MANY.shape
    assert found.dtype.kind == "i"
    np.testing.assert_array_equal(found, shares >= 0.5)
    assert (found[:, :2] == MANY[:, :2]).mean() > 0.95
    assert of_several.score(TEXTS, found) == 1


def test_an_estimator_of_several_labels_is_saved_and_loaded(of_several: GPTClassifier, tmp_path: Path) -> None:
    of_several.save(tmp_path / "saved")
    again = GPTClassifier.load(tmp_path / "saved", device="cpu")
    np.testing.assert_array_equal(again.predict(TEXTS[:9]), of_several.predict(TEXTS[:9]))


def test_a_frame_names_its_labels_and_a_sparse_matrix_is_read(trained: Path) -> None:
    names = ["glad", "cat", "third"]
    named = hasty(trained).fit(TEXTS, pd.DataFrame(MANY, columns=names))
    assert task_of(named.run_).labels == tuple(names)
    assert named.predict(TEXTS[:3]).shape == (3, 3)
    bare = hasty(trained, dev=True).fit(TEXTS, csr_matrix(MANY))
    assert task_of(bare.run_).labels == ("0", "1", "2")
    assert bare.dev_scores_.keys() == {"micro_f1", "macro_f1", "exact_match"}


def test_several_labels_go_through_pipelines_and_searches(trained: Path, of_several: GPTClassifier) -> None:
    right = (of_several.predict(TEXTS) == MANY).all(axis=1).mean()
    assert of_several.score(TEXTS, MANY) == of_several.score(TEXTS, csr_matrix(MANY)) == right
    piped = make_pipeline(FunctionTransformer(calmed), hasty(trained)).fit(TEXTS, pd.DataFrame(MANY))
    assert piped.predict(TEXTS).shape == MANY.shape
    assert piped.classes_.tolist() == [0, 1, 2]
    assert cross_val_score(hasty(trained), TEXTS, MANY, cv=2, scoring="f1_micro", error_score="raise").shape == (2,)
    grid: dict[str, Any] = {"lr": [1e-7, 1e-1]}
    search = GridSearchCV(hasty(trained), grid, cv=2, n_jobs=2, error_score="raise").fit(TEXTS, csr_matrix(MANY))
    assert search.best_estimator_.predict(TEXTS).shape == MANY.shape
