"""What teachers say of each text: as they answer anybody, in the student's order of labels, at a temperature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gpt1.base.errors import InputError, SettingError
from gpt1.finetuning.batches import TEACHER, PackedBatch, PackingOptions, make_lesson
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.objective import TaskLearning
from gpt1.finetuning.teaching import TaskTeaching, ask_teachers, learned_task, read_texts
from gpt1.inference.answering import answer
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import Run, load_run
from gpt1.inference.teaching import Teaching
from gpt1.model import build_classifier, build_model
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example, Labelled
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import CONTEXT, make_examples, make_pretrained, make_task

SETTINGS = ("training.steps=3", "training.precision=fp32", "training.batch=8", "finetuning.ensemble=false")
MOODS = make_task()
KINDS = {
    "classes": MOODS,
    "pairs in both orders": make_task("pairs", "both"),
    "choices": make_task("stories", "choices"),
    "scores": make_task("grades", score_range=(0.0, 5.0)),
    "several labels": replace(make_task("topics"), labels_sep="|", metrics=("micro_f1",)),
}


def rows_of(task: Task, count: int = 24) -> Labelled:
    """Return rows; of several labels each has the one, both or none."""
    rows = make_examples(task, count + 4)
    if task.is_multilabel:
        labels = ((0,), (1,), (0, 1), ())
        rows = [replace(row, label=labels[place % 4]) for place, row in enumerate(rows)]
    return Labelled(task, {"train": rows[:count], "dev": rows[count:]})


def without_labels(rows: Labelled) -> list[Example]:
    return [replace(row, texts=tuple(f"{text} again" for text in row.texts), label=None) for row in rows.splits["dev"]]


def encoded(rows: Labelled, tokenizer: Tokenizer, context: int = CONTEXT) -> EncodedTask:
    return encode_task(rows.task, rows.splits, tokenizer, context)


@pytest.fixture(scope="module", params=KINDS)
def teacher(request: pytest.FixtureRequest, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("teacher") / "run"
    return finetune(trained, out, examples=rows_of(KINDS[request.param]), changes=SETTINGS, device="cpu")


def taught(run: Run, rows: Labelled, own: EncodedTask, tokenizer: Tokenizer, temperature: float) -> TaskTeaching:
    name, texts = rows.task.name, (Path("more.csv"), without_labels(rows))
    return ask_teachers(Teaching((run.path,), 0.25, temperature), [run], {name: rows}, {name: own}, tokenizer, texts)


def test_a_student_of_another_vocabulary_is_taught_what_the_teacher_answers_to_the_same_texts(
    teacher: Run, bytes_tokenizer: Tokenizer
) -> None:
    (task,) = teacher.tasks.values()
    rows = rows_of(task)
    own = encoded(rows, bytes_tokenizer, context=128)
    teaching = taught(teacher, rows, own, bytes_tokenizer, temperature=1.0)
    lesson = make_lesson(own, class_weights=False, teaching=teaching)
    asked = [*rows.splits["train"], *without_labels(rows)]
    np.testing.assert_allclose(lesson.taught, answer(teacher, task, asked).probabilities, atol=1e-6)
    assert lesson.split.labelled.tolist() == [True] * 24 + [False] * 4
    assert teaching.recorded.texts is not None
    assert teaching.recorded.texts.rows == 4


def test_the_loss_is_that_of_the_labels_and_that_of_what_is_taught(teacher: Run, words_tokenizer: Tokenizer) -> None:
    (task,) = teacher.tasks.values()
    rows = rows_of(task)
    own = encoded(rows, words_tokenizer)
    teaching = taught(teacher, rows, own, words_tokenizer, temperature=3.0)
    lesson = make_lesson(own, class_weights=False, teaching=teaching)
    packing = PackingOptions(vocab_size=words_tokenizer.vocab_size, context=CONTEXT)
    examples = np.array([0, 25, 3, 27, 26])  # three of them without labels
    batch = PackedBatch(lesson, examples, (task.name,), packing, (0, 0))
    assert batch.counts == {task.name: 5.0, "_lm": 5.0 * task.sequences, TEACHER: 5.0}
    part = batch.part(0, 5, 7)  # with two that fill it up
    body = build_model(teacher.recipe.shape, words_tokenizer.vocab_size + len(SPECIALS), seed=3)
    model = build_classifier(body, head_shapes(teacher.tasks), seed=3)
    objective = TaskLearning(model, lm_weight=0.5, tasks=teacher.tasks, teaching=teaching.recorded)
    assert objective.weights == {task.name: 0.75, "_lm": 0.5, TEACHER: 0.25}
    tensors = {name: torch.from_numpy(array) for name, array in part.arrays.items()}
    with torch.no_grad():
        sums = objective(tensors, None, **part.facts)
        alone = TaskLearning(model, lm_weight=0.5, tasks=teacher.tasks)(tensors, None, **part.facts)
        logits = logits_of(objective, tensors, part.facts)
    shares = tensors["taught"][:5]
    if task.is_multilabel:
        wanted = F.binary_cross_entropy_with_logits(logits / 3, shares, reduction="none").mean(-1)
        hard = F.binary_cross_entropy_with_logits(logits, tensors["shares"][:5], reduction="none").mean(-1)
    else:
        wanted = F.cross_entropy(logits / 3, shares, reduction="none")
        hard = F.cross_entropy(logits, tensors["shares"][:5], reduction="none")
    assert sums[TEACHER].item() == pytest.approx(9 * wanted.sum().item(), rel=1e-5)
    assert sums[task.name].item() == pytest.approx((hard[0] + hard[2]).item(), rel=1e-5)
    assert alone == {name: sums[name] for name in alone}


def logits_of(objective: TaskLearning, tensors: dict[str, torch.Tensor], facts: dict[str, str | int]) -> torch.Tensor:
    """Return the logits of the five examples, as the head gives them on the way."""
    found: list[torch.Tensor] = []
    hook = objective.model.register_forward_hook(lambda _module, _given, result: found.append(result[0][:5]))
    objective(tensors, None, **facts)
    hook.remove()
    return found[0]


def test_labels_in_another_order_are_the_students(trained: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    teacher = finetune(trained, tmp_path / "run", examples=rows_of(MOODS), changes=SETTINGS, device="cpu")
    turned = Labelled(replace(MOODS, name="feelings", labels=("good", "bad")), rows_of(MOODS).splits)
    shares = []
    for rows in (rows_of(MOODS), turned):
        name, own = rows.task.name, encoded(rows, words_tokenizer)
        teaching = ask_teachers(Teaching(("a",)), [teacher], {name: rows}, {name: own}, words_tokenizer, None)
        shares.append(teaching.shares(rows.task, own.splits["train"]))
    np.testing.assert_array_equal(shares[0], shares[1][:, ::-1])


def test_several_teachers_say_the_mean_of_what_they_say(
    trained: Path, tmp_path: Path, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    bases = [trained, make_pretrained(tmp_path / "bytes", bytes_tokenizer)]
    runs = [
        finetune(base, tmp_path / f"run-{place}", examples=rows_of(MOODS), changes=SETTINGS, device="cpu")
        for place, base in enumerate(bases)
    ]
    rows = {"moods": rows_of(MOODS)}
    own = {"moods": encoded(rows["moods"], words_tokenizer)}
    one, other, both = (
        ask_teachers(Teaching(("a",), 0.5, 2.0), some, rows, own, words_tokenizer, None).shares(
            MOODS, own["moods"].splits["train"]
        )
        for some in (runs[:1], runs[1:], runs)
    )
    np.testing.assert_allclose(both, (one + other) / 2)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (make_task(labels=("bad", "fair", "good")), r"its labels: bad, good, and here bad, fair, good"),
        (make_task(shape="pair"), r"its texts in a row: 1, and here 2"),
        (make_task(score_range=(0.0, 5.0)), r"its kind of answers: one label a row, and here scores"),
        (
            replace(MOODS, labels_sep="|", metrics=("micro_f1",)),
            r"its kind of answers: one label a row, and here several labels a row",
        ),
        (
            make_task(shape="tokens", fields=("text",)),
            r"its kind of answers: one label a row, and here a label for each word",
        ),
    ],
)
def test_who_has_learned_another_task_does_not_teach(task: Task, message: str, trained: Path, tmp_path: Path) -> None:
    teacher = finetune(trained, tmp_path / "run", examples=rows_of(MOODS), changes=SETTINGS, device="cpu")
    with pytest.raises(SettingError, match=f"run has learned another task than is to be learned: {message}"):
        learned_task(teacher, task)
    assert learned_task(teacher, replace(MOODS, name="another")) == MOODS
    with pytest.raises(SettingError, match="has learned no task yet"):
        learned_task(load_run(trained, device="cpu"), MOODS)


def test_texts_are_read_once_each_without_labels_and_without_those_that_have_one(tmp_path: Path) -> None:
    rows = Labelled(MOODS, {"train": [Example(("One text",), 0, 1)], "dev": [Example(("another",), 1, 2)]})
    table = tmp_path / "more.csv"
    table.write_text("text,label\nnew,good\none  TEXT,\nNew,\nanother,\nnewer,\n")
    found, told = read_texts(table, rows, "utf-8", skip_bad=False)
    assert [(row.texts, row.label) for row in found] == [(("new",), None), (("newer",), None)]
    assert f"{table}: 3 rows left out that stand there twice or among the labelled rows" in told
    table.write_text("body\nnewest\n")
    with pytest.raises(InputError, match=r"has no column 'text' \(columns: body\); its columns are to have the names"):
        read_texts(table, rows, "utf-8", skip_bad=False)
    table.write_text("text\none text\n")
    with pytest.raises(InputError, match=r"more.csv has no text that is not among the labelled rows"):
        read_texts(table, rows, "utf-8", skip_bad=False)
