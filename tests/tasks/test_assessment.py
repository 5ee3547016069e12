"""What is said of answers beyond their score, judged by scikit-learn and SciPy where they know it, else by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import (
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    precision_recall_fscore_support,
    root_mean_squared_error,
)

from gpt1.base.errors import InputError
from gpt1.tasks import assessment
from gpt1.tasks.answers import soft_targets
from gpt1.tasks.assessment import BINS, MISTAKES, MOST_CONFUSED, MOST_SHARES, answer_name, hold_against, joined, wilson
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.metrics import scores
from gpt1.tasks.shapes import SINGLE


def assess(task: Task, labels: Any, probabilities: Any, **more: Any) -> dict[str, Any]:
    """Assess answers that are all there at once."""
    return assessment.assess(task, labels, hold_against(task, labels, probabilities), **more).as_json()


def topics(classes: int, metrics: tuple[str, ...] = ("accuracy",)) -> Task:
    names = tuple(f"topic {index}" for index in range(classes))
    return Task(name="topics", title="topics", shape=SINGLE, labels=names, metrics=metrics, fields=("text",))


def random_answers(classes: int, count: int, seed: int) -> tuple[Any, Any, Any]:
    """Return labels, probabilities that lean towards them, and the likeliest classes."""
    draws = np.random.default_rng(seed)
    labels = draws.integers(classes, size=count)
    logits = draws.normal(size=(count, classes)) * 2
    logits[np.arange(count), labels] += 1
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return labels, probabilities, probabilities.argmax(1)


# ---- classes ----


@pytest.mark.parametrize(("classes", "count"), [(2, 1), (2, 60), (3, 200), (9, 30), (40, 25)])
def test_confusion_and_the_figures_of_each_class_are_those_of_scikit_learn(classes: int, count: int) -> None:
    labels, probabilities, predictions = random_answers(classes, count, seed=classes)
    found = assess(topics(classes), labels, probabilities)
    every = range(classes)
    assert found["confusion"]["labels"] == [f"topic {index}" for index in every]
    assert found["confusion"]["counts"] == confusion_matrix(labels, predictions, labels=every).tolist()
    theirs = precision_recall_fscore_support(labels, predictions, labels=every, zero_division=0)
    ours = [[one[name] for one in found["classes"]] for name in ("precision", "recall", "f1", "support")]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert found["right"] == (labels == predictions).sum()


@pytest.mark.parametrize(("classes", "count"), [(2, 60), (3, 200), (9, 30)])
def test_brier_score_and_log_likelihood_are_those_of_scikit_learn(classes: int, count: int) -> None:
    labels, probabilities, _ = random_answers(classes, count, seed=classes)
    found = assess(topics(classes), labels, probabilities)["calibration"]
    theirs = brier_score_loss(labels, probabilities, labels=range(classes), scale_by_half=False)
    assert found["brier"] == pytest.approx(theirs, rel=1e-12)
    assert found["nll"] == pytest.approx(log_loss(labels, probabilities, labels=range(classes)), rel=1e-12)


def test_a_right_answer_thought_impossible_costs_much_but_not_infinitely_much() -> None:
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = assess(topics(2), np.array([1, 1]), sure)["calibration"]
    assert found["nll"] == pytest.approx(log_loss([1, 1], sure, labels=[0, 1]), rel=1e-12)
    assert 10 < found["nll"] < 20


def test_metrics_are_those_of_the_task_and_groups_are_handed_on() -> None:
    task = CATALOGUE["race"]
    labels, probabilities, predictions = random_answers(4, 50, seed=1)
    groups = np.arange(50) % 2
    found = assess(task, labels, probabilities, groups=groups)
    assert found["metrics"] == scores(task, labels, predictions, groups)
    assert found["metrics"].keys() > {"accuracy"}


# ---- calibration ----


def test_the_calibration_error_is_the_weighted_gap_between_confidence_and_accuracy() -> None:
    confidence = np.array([0.95, 0.97, 0.95, 0.97, 0.55, 0.65])  # bins 14 (four), 8 and 9
    labels = np.array([0, 0, 0, 1, 1, 0])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    found = assess(topics(2), labels, probabilities)["calibration"]
    assert [(one["count"], one["accuracy"]) for one in found["bins"]] == [(1, 0.0), (1, 1.0), (4, 0.75)]
    assert [one["confidence"] for one in found["bins"]] == pytest.approx([0.55, 0.65, 0.96])
    assert [(one["from"], one["to"]) for one in found["bins"]] == [(8 / 15, 9 / 15), (9 / 15, 10 / 15), (14 / 15, 1.0)]
    assert found["ece"] == pytest.approx((1 * 0.55 + 1 * 0.35 + 4 * 0.21) / 6)


def test_answers_as_often_right_as_they_claim_have_no_calibration_error() -> None:
    probabilities = np.tile([0.75, 0.25], (8, 1))
    labels = np.array([0, 0, 0, 1] * 2)
    assert assess(topics(2), labels, probabilities)["calibration"]["ece"] == 0.0


def test_a_bin_holds_its_upper_end_and_certainty_is_in_the_last() -> None:
    third = 1 / 3
    probabilities = np.array([[third, third, third], [1.0, 0.0, 0.0]])
    bins = assess(topics(3), np.array([0, 0]), probabilities)["calibration"]["bins"]
    assert [one["to"] for one in bins] == [5 / BINS, 1.0]


# ---- how far the score can be trusted ----


@pytest.mark.parametrize(("right", "count"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (801, 872)])
def test_the_interval_of_an_accuracy_is_wilsons(right: int, count: int) -> None:
    theirs = binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert wilson(right, count) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_other_metrics_have_intervals_that_hold_them_and_narrow_with_the_number_of_examples() -> None:
    task = topics(2, ("f1", "matthews", "accuracy"))
    widths = []
    for count in (50, 800):
        found = assess(task, *random_answers(2, count, seed=3)[:2])
        assert list(found["intervals"]) == ["accuracy", "f1", "matthews"]
        for name, (low, high) in found["intervals"].items():
            assert low < found["metrics"][name] < high
        widths.append(found["intervals"]["f1"][1] - found["intervals"]["f1"][0])
    assert widths[1] < widths[0] / 2


def test_accuracy_has_its_interval_where_the_task_is_judged_by_something_else() -> None:
    labels, probabilities, _ = random_answers(2, 40, seed=0)
    found = assess(CATALOGUE["cola"], labels, probabilities)
    assert list(found["metrics"]) == ["matthews"]
    assert found["intervals"]["accuracy"] == [*wilson(found["right"], 40)]


def test_the_same_answers_always_have_the_same_assessment() -> None:
    answers = random_answers(2, 40, seed=0)[:2]
    assert assess(CATALOGUE["mrpc"], *answers) == assess(CATALOGUE["mrpc"], *answers)


# ---- mistakes ----


def test_the_surest_mistakes_come_first_and_right_answers_never() -> None:
    confidence = np.array([0.6, 0.9, 0.99, 0.9, 0.7])
    probabilities = np.stack([1 - confidence, confidence], axis=1)
    found = assess(topics(2), np.array([0, 0, 1, 0, 0]), probabilities)["mistakes"]
    assert [one["index"] for one in found] == [1, 3, 4, 0]
    assert found[0] == {"index": 1, "label": "topic 0", "prediction": "topic 1", "probability": 0.9}


def test_only_the_worst_mistakes_are_kept() -> None:
    labels, probabilities, _ = random_answers(5, 400, seed=2)
    assert len(assess(topics(5), labels, probabilities)["mistakes"]) == MISTAKES


# ---- choices and scores ----


def test_choices_have_calibration_and_mistakes_but_no_confusion() -> None:
    labels, probabilities, _ = random_answers(2, 30, seed=5)
    found = assess(CATALOGUE["storycloze"], labels, probabilities)
    assert found.keys() == {"examples", "metrics", "right", "intervals", "calibration", "mistakes"}
    assert {type(one["label"]) for one in found["mistakes"]} == {int}


def test_scores_have_residuals_and_the_worst_of_them() -> None:
    labels, predictions = np.array([0.0, 2.5, 5.0, 4.0]), np.array([1.0, 2.5, 2.0, 4.5])
    found = assess(CATALOGUE["stsb"], labels, soft_targets(CATALOGUE["stsb"], predictions))
    assert found.keys() == {"examples", "metrics", "intervals", "residuals", "mistakes"}
    assert found["residuals"] == {
        "mean_absolute_error": pytest.approx(mean_absolute_error(labels, predictions)),
        "root_mean_squared_error": pytest.approx(root_mean_squared_error(labels, predictions)),
    }
    assert [one["index"] for one in found["mistakes"]] == [2, 0, 3, 1]
    assert found["mistakes"][0] == {"index": 2, "label": 5.0, "prediction": 2.0, "error": -3.0}
    assert list(found["intervals"]) == ["pearson", "spearman"]


@pytest.mark.parametrize(
    ("task", "answer", "name"), [("rte", 1, "not_entailment"), ("race", 3, 3), ("stsb", 2.25, 2.25)]
)
def test_an_answer_is_named_as_a_person_reads_it(task: str, answer: float, name: str | float) -> None:
    found = answer_name(CATALOGUE[task], np.float64(answer))
    assert (found, type(found)) == (name, type(name))


# ---- the whole ----


@pytest.mark.parametrize("name", ["sst2", "mnli", "race", "stsb"])
def test_an_assessment_is_plain_json(name: str) -> None:
    task = CATALOGUE[name]
    columns = len(task.labels) or task.choices or 6
    labels, probabilities, _ = random_answers(columns, 30, seed=7)
    found = assess(task, labels.astype(float) if task.score_range else labels, probabilities)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_nothing_to_measure_is_said() -> None:
    with pytest.raises(InputError, match="task 'topics': no row has a label"):
        assess(topics(2), np.array([], int), np.zeros((0, 2)))


@pytest.mark.parametrize("task", [CATALOGUE["sst2"], CATALOGUE["storycloze"], CATALOGUE["stsb"]], ids=lambda t: t.name)
def test_answers_in_portions_of_any_order_are_those_of_the_whole(task: Task) -> None:
    draws = np.random.default_rng(0)
    probabilities = draws.dirichlet(np.ones(6 if task.score_range else 2), 50)
    labels = draws.uniform(0, 5, 50) if task.score_range else draws.integers(2, size=50)
    order = draws.permutation(50)
    parts = [(some, hold_against(task, labels[some], probabilities[some])) for some in np.split(order, [7, 8, 30])]
    whole = hold_against(task, labels, probabilities)
    assert assessment.assess(task, labels, joined(parts)) == assessment.assess(task, labels, whole)
    assert (joined(parts).likeliest == whole.likeliest).all()
    assert (joined(parts).shares == whole.shares).all()


def test_of_very_many_classes_the_pairs_mixed_up_most_are_told_and_each_class_has_its_figures() -> None:
    classes, count = MOST_CONFUSED + 1, 3000
    draws = np.random.default_rng(0)
    labels, answers = draws.integers(classes, size=count), draws.integers(classes, size=count)
    labels[:40], answers[:40] = 3, 5
    labels[40:60], answers[40:60] = 5, 3
    found = assess(topics(classes), labels, np.eye(classes)[answers] * 0.9)
    told = found["confusion"]
    assert told["pairs"][:2] == [
        {"label": "topic 3", "answer": "topic 5", "count": 40},
        {"label": "topic 5", "answer": "topic 3", "count": 20},
    ]
    assert len(told["pairs"]) == MOST_CONFUSED
    wrong = {(label, answer) for label, answer in zip(labels, answers, strict=True) if label != answer}
    assert told["other_pairs"] == len(wrong) - MOST_CONFUSED
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, answers, labels=range(classes), zero_division=0
    )
    for place, one in enumerate(found["classes"]):
        figures = [one["precision"], one["recall"], one["f1"], one["support"]]
        assert figures == pytest.approx([precision[place], recall[place], f1[place], support[place]])


def test_what_is_kept_of_answers_does_not_grow_with_the_square_of_the_classes() -> None:
    def size(classes: int) -> int:
        labels = np.arange(50)
        found = hold_against(topics(classes), labels, np.full((50, classes), 1 / classes))
        kept = sum(getattr(found, name).nbytes for name in found.__dataclass_fields__)
        return kept + len(json.dumps(assessment.assess(topics(classes), labels, found).as_json()))

    assert size(4000) < 4.5 * size(1000)


def test_of_many_classes_the_likeliest_are_told_and_equal_ones_in_their_order() -> None:
    probabilities = np.full((2, MOST_SHARES + 50), 0.001)
    probabilities[0, 120], probabilities[0, 7] = 0.5, 0.3
    places = assessment.likeliest(probabilities)
    assert places.shape == (2, MOST_SHARES)
    assert places[0, :2].tolist() == [120, 7]
    assert (np.diff(places[0, 2:]) > 0).all()
    assert assessment.likeliest(probabilities[:, :MOST_SHARES]).tolist() == [list(range(MOST_SHARES))] * 2
