"""What teachers say of the texts that a student learns: a share for each answer (soft labels), also without a label.

Teachers are asked once, before the training, and as they answer anybody: their network, counted words, or both. They
read texts with their own vocabulary, so that it may be another than the student's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.base.wording import many, some
from gpt1.inference.answering import plain_probabilities
from gpt1.inference.run import Run
from gpt1.inference.teaching import Teaching
from gpt1.records.run import RecordedTeaching, RecordedTexts
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, encode_examples, text_key
from gpt1.tasks.examples import Example, Labelled, same_texts
from gpt1.tasks.readers import read_further
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.temperature import tempered
from gpt1.text.tokenizer import Tokenizer

_TEXTS = "texts"  # what the split of texts without labels is called


@dataclass(frozen=True, eq=False)
class TaskTeaching:
    """What teachers have said."""

    recorded: RecordedTeaching
    unlabelled: Mapping[str, EncodedSplit]  # by task: what they alone have answered
    said: Mapping[str, Mapping[bytes, Floats]]  # by task and text, at the temperature

    def shares(self, task: Task, split: EncodedSplit) -> Floats:
        """Return what teachers say of each answer to each example [examples, answers]."""
        said = self.said[task.name]
        return np.stack([said[text_key(split, example)] for example in range(len(split))])


def read_texts(path: Path, rows: Labelled, encoding: str, *, skip_bad: bool) -> tuple[list[Example], list[str]]:
    """Return the texts of a table, each once and without its label, and what to tell of them.

    Those that stand among the labelled rows are left out: train has them, and dev and test are to be new.
    """
    task = replace(rows.task, dev_splits=(), test_splits=(_TEXTS,))
    try:
        found, told = read_further(task, path, _TEXTS, encoding=encoding, skip_bad=skip_bad)
    except InputError as error:
        cause, *remedy = str(error).split("; ")
        if "columns=" not in "".join(remedy):
            raise
        raise InputError(f"{cause}; its columns are to have the names that they have in the labelled table") from None
    return new_texts(path, rows, found, told)


def new_texts(path: Path, rows: Labelled, found: Sequence[Example], told: list[str]) -> tuple[list[Example], list[str]]:
    """Return texts that do not stand among labelled rows, each once and without its label, and what to tell of them."""
    known = {text for examples in rows.splits.values() for text in same_texts(rows.task, examples)}
    new: dict[tuple[str, ...], Example] = {}
    for text, example in zip(same_texts(rows.task, found), found, strict=True):
        if text not in known:
            new.setdefault(text, replace(example, label=None))
    if not new:
        raise InputError(f"{path} has no text that is not among the labelled rows; name others, or leave it out")
    if left := len(found) - len(new):
        told.append(f"{path}: {many(left, 'row')} left out that stand there twice or among the labelled rows")
    return list(new.values()), told


def ask_teachers(
    teaching: Teaching,
    runs: Sequence[Run],
    rows: Mapping[str, Labelled],
    tasks: Mapping[str, EncodedTask],
    tokenizer: Tokenizer,
    texts: tuple[Path, Sequence[Example]] | None,
) -> TaskTeaching:
    """Return what teachers say of the rows to learn from, and of texts, by how the student's tokenizer reads them."""
    unlabelled, said, recorded = {}, {}, None
    for name, encoded in tasks.items():
        task, train = encoded.task, encoded.splits["train"]
        examples = list(rows[name].splits["train"])
        keys = [text_key(train, example) for example in range(len(train))]
        if texts is not None:
            path, more = texts
            split = encode_examples(task, more, tokenizer, encoded.context, windows=encoded.has_windows)
            unlabelled[name] = split
            recorded = RecordedTexts(str(path.resolve()), _identity(split), len(split))
            examples += more
            keys += [text_key(split, example) for example in range(len(split))]
        shares = np.mean([_answers(run, task, examples, teaching.temperature) for run in runs], axis=0)
        said[name] = dict(zip(keys, shares, strict=True))
    return TaskTeaching(teaching.recorded(runs, recorded), unlabelled, said)


def _answers(run: Run, task: Task, examples: Sequence[Example], temperature: float) -> Floats:
    """Return what a teacher answers at a temperature, in the order of the student's labels."""
    learned = learned_task(run, task)
    unlabelled = [replace(example, label=None) for example in examples]
    split = encode_examples(learned, unlabelled, run.tokenizer, run.recipe.shape.context, windows=run.has_windows)
    found = tempered(learned, plain_probabilities(run, learned, split), temperature)
    return found[:, [learned.labels.index(label) for label in task.labels]] if task.labels else found


def learned_task(run: Run, task: Task) -> Task:
    """Return the task of a teacher that is the student's: of the same name, or its only one."""
    learned = run.tasks.get(task.name) or next(iter(run.tasks.values()))
    if task.name not in run.tasks and len(run.tasks) > 1:
        raise SettingError(f"{run.path} has not learned '{task.name}', but {some(list(run.tasks))}")
    for what, own, wanted in (
        ("texts in a row", learned.texts, task.texts),
        ("kind of answers", _kind(learned), _kind(task)),
        ("labels", some(sorted(learned.labels)), some(sorted(task.labels))),
        ("range of scores", learned.score_range, task.score_range),
    ):
        if own != wanted:
            raise SettingError(
                f"{run.path} has learned another task than is to be learned: its {what}: {own}, and here {wanted}"
            )
    return learned


def _kind(task: Task) -> str:
    if task.score_range is not None:
        return "scores"
    if task.labels_words:
        return "a label for each word"
    return "choices" if task.shape == CHOICES else "several labels a row" if task.is_multilabel else "one label a row"


def _identity(split: EncodedSplit) -> str:
    return hashlib.sha256(split.ids.tobytes() + split.offsets.tobytes()).hexdigest()
