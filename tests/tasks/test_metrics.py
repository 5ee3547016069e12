"""Scores of answers, judged by scikit-learn and SciPy; and what is said where there is nothing to judge."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.catalog import CATALOGUE, GLUE, MULTILABEL_METRICS, Task
from gpt1.tasks.metrics import (
    accuracy,
    blind_score,
    commonest_score,
    constant_micro_f1,
    f1,
    glue_score,
    macro_f1,
    matthews,
    pearson,
    score_of_counts,
    scores,
    spearman,
)

NOTHING = np.array([], np.int64)
TOPICS = replace(CATALOGUE["sst2"], labels=("a", "b", "c", "d"), labels_sep="|", metrics=MULTILABEL_METRICS)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("rows", [1, 2, 17, 5000])
def test_metrics_of_classes_are_those_of_scikit_learn(classes, rows):
    draw = np.random.default_rng(classes * rows)
    for _ in range(20):
        labels = draw.integers(classes, size=rows)
        predictions = np.where(draw.random(rows) < 0.6, labels, draw.integers(classes, size=rows))
        assert accuracy(labels, predictions) == accuracy_score(labels, predictions)
        assert matthews(labels, predictions) == pytest.approx(_matthews_of_sklearn(labels, predictions), abs=1e-12)
        if classes == 2:
            expected = f1_score(labels, predictions, zero_division=0.0)
            assert f1(labels, predictions) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_matthews_is_that_of_scikit_learn_where_classes_are_absent_or_never_answered(pairs):
    labels, predictions = np.array(pairs).T
    assert matthews(labels, predictions) == pytest.approx(_matthews_of_sklearn(labels, predictions), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_macro_f1_of_classes_is_that_of_scikit_learn_also_where_some_are_absent(pairs):
    labels, predictions = np.array(pairs).T
    expected = f1_score(labels, predictions, average="macro", zero_division=0.0)
    assert macro_f1(labels, predictions) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
def test_what_counts_give_is_what_answers_give(pairs):
    labels, predictions = np.array(pairs).T
    counts = [np.bincount(some, minlength=3) for some in (labels[labels == predictions], predictions, labels)]
    for metric, judge in (("macro_f1", macro_f1), ("matthews", matthews), ("f1", f1)):
        assert score_of_counts(metric, *counts) == pytest.approx(judge(labels, predictions), abs=1e-12)


def _matthews_of_sklearn(labels, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wonders at a single label
        return matthews_corrcoef(labels, predictions)


@pytest.mark.parametrize("rows", [2, 3, 50, 5000])
@pytest.mark.parametrize("ties", [True, False])
def test_correlations_are_those_of_scipy(rows, ties):
    draw = np.random.default_rng(rows)
    compared = 0
    while compared < 20:
        labels = draw.integers(6, size=rows) / 2 if ties else draw.normal(size=rows)
        predictions = labels + draw.normal(size=rows)
        if ties:
            predictions = predictions.round(1)
        if len(set(labels)) > 1 and len(set(predictions)) > 1:
            assert pearson(labels, predictions) == pytest.approx(stats.pearsonr(labels, predictions)[0], abs=1e-12)
            assert spearman(labels, predictions) == pytest.approx(stats.spearmanr(labels, predictions)[0], abs=1e-12)
            compared += 1


def test_huge_and_tiny_numbers_correlate_as_others_do():
    labels = np.array([1.0, 2.0, 4.0, 3.0])
    for scale in (1e200, 1e-200, -1.0):
        assert pearson(labels * scale, labels) == pytest.approx(np.sign(scale), abs=1e-12)
    assert -1.0 <= pearson(np.arange(1e5), np.arange(1e5) * 0.1) <= 1.0


def test_what_is_not_defined_is_zero():
    never = np.zeros(5, np.int64)
    assert f1(never, never) == 0.0
    assert matthews(never, np.array([0, 1, 0, 1, 0])) == 0.0
    assert matthews(np.array([0, 1, 0, 1, 0]), never) == 0.0
    for metric in (pearson, spearman):
        assert metric(np.full(3, 0.1), np.array([1.0, 2.0, 3.0])) == 0.0  # the mean of three 0.1 is not quite 0.1
        assert metric(np.array([1.0, 2.0, 3.0]), np.full(3, 0.1)) == 0.0
        assert metric(np.array([1.0]), np.array([2.0])) == 0.0
    for metric in (accuracy, f1, matthews, pearson, spearman):
        assert metric(NOTHING, NOTHING) == 0.0


def test_millions_of_rows_overflow_nothing():
    labels = np.arange(3_000_000) % 2
    assert matthews(labels, labels) == 1.0
    assert matthews(labels, 1 - labels) == -1.0


def test_the_metrics_of_a_task_come_by_name_in_its_order():
    found = scores(CATALOGUE["mrpc"], np.array([1, 1, 0]), np.array([1, 0, 0]))
    assert list(found.items()) == [("f1", pytest.approx(2 / 3)), ("accuracy", pytest.approx(2 / 3))]
    assert list(scores(CATALOGUE["stsb"], np.array([1.0, 2.0]), np.array([0.5, 4.0]))) == ["pearson", "spearman"]


def test_groups_are_scored_apart_where_they_are_given():
    labels, predictions = np.array([0, 1, 2, 3]), np.array([0, 1, 2, 0])
    race = CATALOGUE["race"]
    assert scores(race, labels, predictions) == {"accuracy": 0.75}
    assert scores(race, labels, predictions, np.array([0, 1, 1, 1])) == {
        "accuracy": 0.75,
        "accuracy/middle": 1.0,
        "accuracy/high": 2 / 3,
    }
    assert list(scores(race, labels, predictions, np.array([1, 1, 1, -1]))) == ["accuracy", "accuracy/high"]
    assert scores(CATALOGUE["sst2"], labels, predictions, np.full(4, -1)) == {"accuracy": 0.75}


def test_rows_without_a_label_are_left_out():
    assert scores(CATALOGUE["sst2"], np.array([1, -1, 0]), np.array([1, 1, 1])) == {"accuracy": 0.5}
    labels = np.array([1.0, np.nan, 3.0])
    assert scores(CATALOGUE["stsb"], labels, np.array([1.0, 9.0, 2.0]))["pearson"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("task", "labels", "predictions", "message"),
    [
        ("sst2", [-1, -1], [0, 1], "no row has a label"),
        ("stsb", [np.nan], [1.0], "no row has a label"),
        ("sst2", [0, 1], [0], "1 predictions for 2 labels"),
        ("stsb", [1.0, 2.0], [1.0, np.nan], "1 predictions are not numbers"),
    ],
)
def test_what_cannot_be_scored_is_refused(task, labels, predictions, message):
    with pytest.raises(InputError, match=f"task '{task}': {message}"):
        scores(CATALOGUE[task], np.array(labels), np.array(predictions))


def task_scores(name: str) -> dict[str, dict[str, float]]:
    task: Task = CATALOGUE[name]
    return {split: dict.fromkeys(task.metrics, 0.5) for split in task.dev_splits}


def test_the_score_of_glue_is_a_mean_over_nine_tasks():
    found = {name: task_scores(name) for name in GLUE}
    assert len(found) == 9
    assert glue_score(found) == pytest.approx(0.5)
    # Two metrics count half each, and so do the two sets of MNLI; a figure of a group or of another task not at all.
    found["mrpc"]["dev"] |= {"f1": 0.9, "accuracy": 0.7}
    found["mnli"]["dev_matched"] = {"accuracy": 0.8}
    found["race"] = {"dev": {"accuracy": 0.9, "accuracy/high": 0.1}}
    assert glue_score(found) == pytest.approx((7 * 0.5 + 0.8 + 0.65) / 9)


def test_the_score_of_glue_needs_every_task_and_both_sets_of_mnli():
    found = {name: task_scores(name) for name in GLUE}
    with pytest.raises(SettingError, match="not given: rte, wnli"):
        glue_score({name: value for name, value in found.items() if name not in ("rte", "wnli")})
    del found["mnli"]["dev_mismatched"]
    with pytest.raises(SettingError, match="'mnli' is that of dev_matched and dev_mismatched, given: dev_matched"):
        glue_score(found)


def test_scoring_needs_numpy_alone():
    program = (
        "import sys; from gpt1.tasks.metrics import scores\n"
        "print(sorted({'sklearn', 'scipy', 'torch', 'click', 'rich', 'spacy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rows", [1, 2, 17, 500])
def test_metrics_of_several_labels_are_those_of_scikit_learn(rows):
    draw = np.random.default_rng(rows)
    for _ in range(20):
        labels = draw.integers(2, size=(rows, 4)) * [1, 1, 1, 0]
        predictions = np.where(draw.random((rows, 4)) < 0.6, labels, draw.integers(2, size=(rows, 4)))
        found = scores(TOPICS, labels, predictions)
        assert found["micro_f1"] == pytest.approx(f1_score(labels, predictions, average="micro", zero_division=0))
        assert found["macro_f1"] == pytest.approx(f1_score(labels, predictions, average="macro", zero_division=0))
        assert found["exact_match"] == pytest.approx(accuracy_score(labels, predictions))


def test_rows_whose_labels_are_not_known_are_left_out():
    labels = np.array([[1, 0, 0, 0], [-1, -1, -1, -1]])
    assert scores(TOPICS, labels, np.ones((2, 4), np.int64))["micro_f1"] == pytest.approx(0.4)


def test_what_answers_that_know_nothing_score_is_what_they_score() -> None:
    random = np.random.default_rng(0)
    labels = random.choice(3, 200_000, p=[0.6, 0.3, 0.1])
    always, in_shares = np.zeros_like(labels), random.permutation(labels)
    for metric, score in (("accuracy", accuracy), ("macro_f1", macro_f1), ("matthews", matthews)):
        best = max(score(labels, answers) for answers in (always, in_shares))
        assert blind_score(metric, [0.6, 0.3, 0.1]) == pytest.approx(best, abs=0.005)
    assert blind_score("pearson", [1.0]) is None


def test_always_giving_the_commonest_class_scores_what_the_metric_says_of_it():
    labels = np.array([0] * 7 + [1] * 2 + [2])
    always = np.zeros(10, np.int64)
    for metric, score in (("accuracy", accuracy), ("macro_f1", macro_f1), ("matthews", matthews)):
        assert commonest_score(metric, 0.7, 3) == pytest.approx(score(labels, always))
    assert commonest_score("f1", 0.7, 2) is None


@pytest.mark.parametrize("seed", range(5))
def test_no_constant_answer_of_several_labels_has_a_better_micro_f1(seed: int) -> None:
    labels = (np.random.default_rng(seed).random((40, 4)) < [0.7, 0.1, 0.4, 0.05]).astype(int)
    subsets = [np.array(one) for one in itertools.product([0, 1], repeat=4)]
    reached = [f1_score(labels, np.tile(one, (40, 1)), average="micro", zero_division=0.0) for one in subsets]
    best, count = constant_micro_f1(labels.mean(0).tolist())
    assert best == pytest.approx(max(reached))
    assert count == subsets[int(np.argmax(reached))].sum()
