"""What studies are made from: runs to start from, labelled tasks, and what tells each from every other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpt1.base.errors import InputError, SettingError
from gpt1.base.wording import some
from gpt1.finetuning.data import Source, read_labelled
from gpt1.inference.run import BEST, find_checkpoint
from gpt1.model.costs import count_parameters
from gpt1.recipes.values import LSTM, Shape
from gpt1.runs.checkpoints import list_checkpoints, read_state, weights_hash
from gpt1.runs.folder import read_run, run_folder, run_tokenizer
from gpt1.studies.cells import Watcher
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example, Labelled


@dataclass(frozen=True)
class InitRun:
    """A pre-trained run to start from."""

    path: Path
    name: str
    tokenizer: str  # its fingerprint
    shape: Shape
    learned: tuple[str, ...] = ()  # the tasks of which it has seen labels

    @cached_property
    def identity(self) -> dict[str, object]:
        """What tells its weights and words from all others: those of the checkpoint that fine-tuning takes."""
        return weights_identity(find_checkpoint(self.path, BEST).path) | {"tokenizer": self.tokenizer}

    @cached_property
    def parameters(self) -> int:
        """How many numbers it has learned."""
        return count_parameters(self.shape, read_run(self.path).vocab_size).total

    @property
    def blocks(self) -> int:
        """How many blocks can be taken over."""
        return 1 if self.shape.kind == LSTM else self.shape.layers


def open_start(path: str | Path, name: str | None = None) -> InitRun:
    """Open a run to start from."""
    folder = run_folder(path)
    record = read_run(folder)
    if not list_checkpoints(folder):
        raise InputError(f"{folder} has no checkpoint to start from; train it first")
    learned = tuple(record.tasks)
    return InitRun(
        folder, name or folder.resolve().name, run_tokenizer(folder).fingerprint, record.recipe.shape, learned
    )


def tell_start(start: InitRun, watcher: Watcher) -> None:
    """Tell where a run that is called pre-trained is not what the paper starts from."""
    if start.shape.kind == LSTM:
        watcher.say(f"{start.path} is an LSTM, not the paper's Transformer")
    tell_labels(start, watcher)


def tell_labels(start: InitRun, watcher: Watcher) -> None:
    """Tell of which tasks a run has seen labels before."""
    if start.learned:
        watcher.say(f"{start.path} is fine-tuned: it has seen labels of {some(start.learned)}")


def weights_identity(checkpoint: Path) -> dict[str, object]:
    """Return what tells the weights of a checkpoint from all others."""
    return {"step": read_state(checkpoint)["step"], "weights": weights_hash(checkpoint)}


class TaskData:
    """A labelled task: its rows, and the same as networks read it, encoded once for all that read alike."""

    def __init__(self, labelled: Labelled) -> None:
        self.labelled = labelled
        self._encoded: dict[tuple[str, int], EncodedTask] = {}

    @property
    def task(self) -> Task:
        """What kind of rows they are."""
        return self.labelled.task

    @property
    def train(self) -> list[Example]:
        """The rows to learn from."""
        return self.labelled.splits.get("train", [])

    def judged(self, splits: Sequence[str], group: str = "") -> int:
        """Return on how many examples a figure of these splits (of a group of theirs) stands: those with labels."""
        number = self.task.groups.index(group) if group else None
        examples = (example for split in splits for example in self.labelled.splits.get(split, []))
        return sum(example.label is not None and number in (None, example.group) for example in examples)

    @cached_property
    def identity(self) -> str:
        """What tells these rows from all others."""
        digest = hashlib.sha256(json.dumps(self.task.as_json(), sort_keys=True).encode())
        for split, examples in self.labelled.splits.items():
            digest.update(f"\n{split} {len(examples)}".encode())
            for example in examples:
                digest.update(json.dumps([example.texts, example.label, example.group]).encode())
        return digest.hexdigest()

    def encoded_for(self, start: InitRun) -> EncodedTask:
        """Return the task as the network of a run reads it."""
        key = start.tokenizer, start.shape.context
        if key not in self._encoded:
            tokenizer = run_tokenizer(start.path)
            self._encoded[key] = encode_task(self.task, self.labelled.splits, tokenizer, start.shape.context)
        return self._encoded[key]


def read_tasks(source: Source, watcher: Watcher) -> dict[str, TaskData]:
    """Read labelled tasks by name, and tell what a person should know of them."""
    if source.more is not None:
        raise SettingError("studies draw rows, and of rows made of others they do not know which belong together")
    found: dict[str, TaskData] = {}
    for labelled in read_labelled(source):
        if labelled.task.name in found:
            raise SettingError(f"two tasks are called '{labelled.task.name}'; study them apart")
        refuse_words(labelled.task, "a study")
        if labelled.task.is_multilabel:
            raise SettingError(
                f"rows of '{labelled.task.name}' may have several labels; studies are of one label a row"
            )
        found[labelled.task.name] = TaskData(labelled)
        for text in labelled.notices:
            watcher.say(f"{labelled.task.name}: {text}")
    return found


def check_learnable(tasks: Mapping[str, TaskData]) -> None:
    """Refuse tasks without rows to learn from, or without rows to judge by."""
    for name, one in tasks.items():
        if not one.train:
            raise InputError(f"task '{name}' has no training rows, so there is nothing to learn it from")
        judged = (*one.task.dev_splits, *one.task.test_splits)
        if not any(example.label is not None for split in judged for example in one.labelled.splits.get(split, [])):
            raise InputError(f"task '{name}' has no labelled rows for dev or test to judge by; name some with `dev`")


def check_same_words(one: InitRun, others: Sequence[InitRun], why: str) -> None:
    """Refuse runs that were trained with different tokenizers."""
    for other in others:
        if other.tokenizer != one.tokenizer:
            raise InputError(f"{other.path} was trained with another tokenizer than {one.path}; {why}")
