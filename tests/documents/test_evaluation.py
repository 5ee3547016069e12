"""An evaluation as blocks: scores, what is mixed up, how far confidence can be trusted, and mistakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpt1.documents.blocks import Block
from gpt1.documents.evaluation import evaluation_blocks, task_scores
from gpt1.documents.figures import between, figure, score
from gpt1.documents.terminal import render
from gpt1.records.evaluation import Cut, Evaluation
from gpt1.tasks.assessment import ClassRates, Confusion, assess, hold_against
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.unknowns import Unknown

MOODS = Task(
    name="moods",
    title="moods",
    shape="single",
    labels=("glad", "sad", "so-so"),
    metrics=("accuracy",),
    fields=("text",),
)


def measured(task: Task, split: str = "dev", examples: int = 24) -> Evaluation:
    """Return what there is to say of answers that are drawn."""
    draw = np.random.default_rng(examples)
    width = 5 if task.score_range else len(task.labels) or task.choices
    if task.score_range:
        labels = draw.uniform(0, 5, examples)
        width = 6
    else:
        labels = draw.integers(width, size=examples)
    groups = draw.integers(2, size=examples) if task.groups else None
    found = assess(task, labels, hold_against(task, labels, draw.dirichlet(np.ones(width), examples)), groups=groups)
    right = "the right ending" if task.choices else ""
    mistakes = [replace(one, text="[start] it was so [extract]", right_text=right) for one in found.mistakes]
    about = {"task": task.name, "split": split, "step": 30, "unlabelled": 0, "context": 16, "cut": Cut(0, 0)}
    return Evaluation(**{**vars(found), **about, "mistakes": mistakes})


def shown(blocks: list[Block]) -> str:
    return render(blocks, width=100, is_terminal=False)


def words(text: str) -> str:
    return " ".join(text.split())


def test_scores_stand_with_their_intervals_in_a_row_for_each_split() -> None:
    dev, test = measured(MOODS), measured(MOODS, "test", 30)
    text = shown(task_scores([dev, test], {}))
    heading, header, *rows = text.splitlines()
    assert heading == "moods"
    assert header.split() == ["split", "examples", "accuracy", "commonest", "label", "ECE", "Brier", "log", "loss"]
    for place, one in enumerate((dev, test)):
        assert rows[2 * place].split()[:3] == [one.split, str(one.examples), score(one.metrics["accuracy"])]
        assert rows[2 * place].split()[-3] == figure(one.calibration.ece)
        assert words(rows[2 * place + 1]).startswith(f"update 30 {between(one.intervals['accuracy'])}")


def test_every_task_has_a_table_of_its_own() -> None:
    text = shown(task_scores([measured(MOODS), measured(CATALOGUE["stsb"])], {}))
    assert text.startswith("moods\n")
    assert "\n\nstsb\n" in text


def test_the_share_of_right_answers_is_told_where_it_is_no_metric_of_the_task() -> None:
    found = measured(CATALOGUE["cola"])
    assert "accuracy" not in found.metrics
    text = shown(task_scores([found], {}))
    assert score(found.right / found.examples) in text
    assert between(found.intervals["accuracy"]) in text
    assert score(found.metrics["matthews"]).replace("\u2212", "-") in text


def test_classes_are_told_by_confusion_rates_calibration_and_mistakes() -> None:
    found = measured(MOODS)
    text = shown(evaluation_blocks(found))
    assert text.startswith("moods dev: what is mixed up, and how surely\n")
    counts = [f"glad {' '.join(map(str, found.confusion.counts[0]))}", "label, answered: glad sad so-so"]
    glad = found.classes[0]
    rates = f"glad {100 * glad.precision:.1f} {100 * glad.recall:.1f} {100 * glad.f1:.1f} {glad.support}"
    last = found.calibration.bins[-1]
    row = " ".join(
        [between((last.from_, last.to)), str(last.count), f"{100 * last.confidence:.1f}", f"{100 * last.accuracy:.1f}"]
    )
    for part in (*counts, rates, "confidence examples its mean accuracy", row):
        assert part in words(text)
    worst = found.mistakes[0]
    sure = f"{100 * worst.probability:.0f} % sure"
    head = f"example {worst.index + 1}: answered {worst.prediction}, {sure}; right is {worst.label}"
    assert f"The surest mistakes\n{head}\n    it was so\n" in text
    assert text.endswith(f"\n{len(found.mistakes) - 5} more")


def test_what_was_not_counted_or_not_read_is_told() -> None:
    found = replace(measured(MOODS), unlabelled=2, cut=Cut(6, 90), unknown=Unknown(50, 100, 12))
    text = shown(evaluation_blocks(found))
    assert "2 examples had no label and were not counted.\n" in text
    assert "6 examples had more text than 16 tokens and lost the rest.\n" in text
    assert "in 12 of 26 examples most of them; the network takes them all for the same" in text


def test_scores_are_told_by_correlations_residuals_and_the_largest_errors() -> None:
    found = measured(CATALOGUE["stsb"])
    text = shown([*task_scores([found], {}), *evaluation_blocks(found)])
    assert figure(found.residuals["mean_absolute_error"]) in text
    assert "mean absolute error" in words(text)
    assert "The largest errors" in text
    assert f"({found.mistakes[0].error:+.3f})" in text
    assert "answered:" not in text
    assert "ECE" not in text


def test_choices_are_told_with_the_right_answers() -> None:
    found = measured(CATALOGUE["race"])
    text = shown([*task_scores([found], {}), *evaluation_blocks(found)])
    assert "accuracy (middle)" in words(text)
    assert "Right would have been\n    the right ending\n" in text
    assert "label, answered" not in text


def test_of_many_classes_the_commonest_mistakes_and_the_most_frequent_labels_are_listed() -> None:
    labels = [f"a class with quite a long name {index}" for index in range(30)]
    counts = np.zeros((30, 30), int)
    counts[3, 4], counts[5, 6], counts[7, 7] = 2, 9, 30
    rates = [ClassRates(name, precision=0.5, recall=0.5, f1=0.5, support=index) for index, name in enumerate(labels)]
    many = replace(measured(MOODS), confusion=Confusion(labels, counts.tolist()), classes=rates)
    text = shown(evaluation_blocks(many))
    assert f"label answered times {labels[5]} {labels[6]} 9 {labels[3]} {labels[4]} 2" in words(text)
    assert "What is mixed up most, of 30 labels." in text
    assert f"All 30 labels label precision recall F1 examples {labels[29]} 50.0 50.0 50.0 29" in words(text)
    assert "and 10 more. " in text
    assert max(map(len, text.splitlines())) <= 100


def test_who_makes_no_mistakes_has_none_told() -> None:
    assert shown(evaluation_blocks(replace(measured(MOODS), mistakes=[]))).endswith("There were no mistakes.")
