"""Batches of labelled examples: which examples batch k has, and how their sequences are packed into one row of tokens.

An epoch is a shuffle of each task's examples, drawn by seed and epoch; of several tasks, each batch has examples of
one, and the batches of all tasks are shuffled too. Batch k is computed from k alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.shuffle import permutation
from gpt1.finetuning.teaching import TaskTeaching
from gpt1.tasks.answers import balanced_weights, soft_targets
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, join
from gpt1.tasks.packed import pack_sequences, window_cells
from gpt1.text.specials import special_ids
from gpt1.training.batches import NO_TARGET, MicroBatchArrays

# The terms of the language model, of teachers and of domains; a task's term has its name, which never begins so.
LM, TEACHER, DOMAIN = "_lm", "_teacher", "_domain"

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TrainSet:
    """A task's training examples, ready to be put into batches."""

    task: Task
    split: EncodedSplit
    weights: NDArray[np.float64]  # of each example; of several labels, of each of them
    taught: NDArray[np.float64] | None = None  # what teachers say of each answer [examples, answers]

    def counted(self, examples: Integers) -> float:
        """Return how much examples count; one without a label, of which nothing is added up, counts as one."""
        weights = self.weights[examples]
        own = float(weights.sum() if weights.ndim == 1 else weights.mean(1).sum())
        return own if self.taught is None else own + float((~self.split.labelled[examples]).sum())


def make_lesson(encoded: EncodedTask, *, class_weights: bool, teaching: TaskTeaching | None = None) -> TrainSet:
    """Return the examples of a task's training split, all alike or with rare labels counted more.

    With teachers those that they alone have answered come after them.
    """
    task, split = encoded.task, encoded.splits["train"]
    weights = np.ones(split.labels.shape)
    if class_weights and task.labels:
        weights = balanced_weights(task, split.labels)
    if teaching is None:
        return TrainSet(task, split, weights)
    if (more := teaching.unlabelled.get(task.name)) is not None:
        split, weights = join(split, more), np.concatenate((weights, np.zeros(more.labels.shape)))
    return TrainSet(task, split, weights, teaching.shares(task, split))


@dataclass(frozen=True)
class PackingOptions:
    """How examples become a row of tokens."""

    vocab_size: int  # without special tokens
    context: int  # tokens; no sequence has more
    block: int = 1  # the row's length, and that of the longest sequence, are rounded up to a multiple of this
    word_dropout: float = 0.0
    dtype: type[np.floating[Any]] = np.float32

    def rounded(self, longest: int) -> int:
        """Return what a row's longest sequence is taken for, so that few different sizes are met."""
        return min(-(-longest // self.block) * self.block, self.context)


@dataclass(frozen=True)
class PackedBatch:
    """The examples of one update, all of one task."""

    lesson: TrainSet
    examples: Integers
    tasks: tuple[str, ...]  # all that are learned
    packing: PackingOptions
    key: tuple[int, int]  # seed and number of the batch

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def counts(self) -> dict[str, float]:
        """How much each term counts: sequences, and the weights of examples; a task that is not here has no sum.

        The windows of an example count together as one.
        """
        task = self.lesson.task
        own = {task.name: self.lesson.counted(self.examples)}
        if self.lesson.taught is not None:
            own[TEACHER] = float(len(self.examples))
        if task.auxiliary_lm:
            own[LM] = float(len(self.examples) * task.sequences)
        return dict.fromkeys((*self.tasks, LM), 1.0) | own

    def part(self, first: int, real: int, size: int) -> MicroBatchArrays:
        """Return `real` examples from `first` on, filled up to `size` examples that have nothing to predict."""
        lesson, packing = self.lesson, self.packing
        chosen = self.examples[first : first + real]
        sequences = [sequence for example in chosen for sequence in lesson.split.sequences(int(example))]
        windows = self._windows(first, first + size)
        each = windows * lesson.task.sequences
        if packing.word_dropout:
            places = np.repeat(np.arange(first, first + real), each[:real])
            sequences = [self._thinned(ids, place) for ids, place in zip(sequences, places.tolist(), strict=True)]
        start, _, extract = special_ids(packing.vocab_size).values()
        filling = [np.array([start, extract])] * ((size - real) * lesson.task.sequences)
        row = pack_sequences([*sequences, *filling], block=packing.block, filler=start)

        counted = np.zeros(row.sequences, packing.dtype)
        share = np.repeat(windows[:real], each[:real])
        counted[: len(sequences)] = [1 / (len(ids) - 1) / of for ids, of in zip(sequences, share.tolist(), strict=True)]
        targets = np.full(len(row.ids), NO_TARGET, np.int32)
        if lesson.task.auxiliary_lm:
            follows = np.flatnonzero(row.position[1:] > 0)  # a token that has a successor in its own sequence
            follows = follows[row.sequence[follows] < len(sequences)]
            targets[follows] = row.ids[follows + 1]
        count, begin = int(each.sum()), int(self._windows(0, first).sum()) * lesson.task.sequences
        arrays = {
            **row.arrays(),
            "targets": targets,
            "token_weights": counted[row.sequence],
            "shares": _filled(soft_targets(lesson.task, lesson.split.labels[chosen]), size).astype(packing.dtype),
            "weights": _filled(lesson.weights[chosen], size).astype(packing.dtype),
            "examples": np.arange(first, first + size, dtype=np.int32),
        }
        facts: dict[str, str | int] = {"task": lesson.task.name, "longest": packing.rounded(row.longest)}
        if lesson.taught is not None:
            arrays["taught"] = _filled(lesson.taught[chosen], size).astype(packing.dtype)
            arrays["is_taught"] = _filled(np.ones_like(lesson.weights[chosen]), size).astype(packing.dtype)
        if lesson.split.windows is not None:
            arrays["windows"], facts["most_windows"] = window_cells(windows)
        # Filling behind the last example has places of its own, which no real sequence has.
        places = np.concatenate((np.arange(begin, begin + count), np.full(row.sequences - count, -1)))
        return MicroBatchArrays(arrays, places.astype(np.int32), facts)

    def _windows(self, first: int, end: int) -> Integers:
        """Return how many windows the examples of these places in the batch have; what fills it up has one each."""
        found = np.ones(end - first, np.int64)
        counts = self.lesson.split.windows
        if counts is not None:
            own = counts[self.examples[first:end]]
            found[: len(own)] = own
        return found

    def _thinned(self, ids: NDArray[Any], place: int) -> NDArray[Any]:
        """Leave some tokens of a sequence out, never special ones, and never all of a part.

        What a part loses depends on the part: it is the same in all sequences of an example, wherever it stands there.
        """
        kept = np.ones(len(ids), bool)
        specials = np.flatnonzero(ids >= self.packing.vocab_size)
        for before, after in pairwise(specials.tolist()):
            part = ids[before + 1 : after]
            name = zlib.crc32(part.tobytes())
            draws = np.random.Generator(np.random.Philox(key=self.key[0], counter=[self.key[1], place, name, 0]))
            stays = draws.random(len(part)) >= self.packing.word_dropout
            kept[before + 1 : after] = stays if stays.any() else True
        return ids[kept]


class TaskBatches:
    """Gives batch k of one or several tasks."""

    def __init__(
        self,
        lessons: Mapping[str, TrainSet],
        *,
        batch: int,
        seed: int,
        packing: PackingOptions,
        drop_last: bool = False,
    ) -> None:
        self._lessons, self._batch, self._seed, self._packing = dict(lessons), batch, seed, packing
        whole = [
            max(1, len(lesson.split) // batch) if drop_last else -(-len(lesson.split) // batch)
            for lesson in self._lessons.values()
        ]
        self._begins = np.cumsum([0, *whole])

    @property
    def batches_an_epoch(self) -> int:
        """How many batches an epoch of all tasks has."""
        return int(self._begins[-1])

    @property
    def tokens_a_batch(self) -> float:
        """How many tokens a batch has on average."""
        return sum(len(lesson.split.ids) for lesson in self._lessons.values()) / self.batches_an_epoch

    def batch(self, k: int) -> PackedBatch:
        """Return batch `k`, whatever was asked for before."""
        epoch, place = divmod(k, self.batches_an_epoch)
        place = int(permutation(self.batches_an_epoch, (self._seed, epoch))(place))
        index = int(np.searchsorted(self._begins, place, "right")) - 1
        lesson = list(self._lessons.values())[index]
        first = (place - int(self._begins[index])) * self._batch
        order = permutation(len(lesson.split), (self._seed, epoch, index))
        examples = order(np.arange(first, min(first + self._batch, len(lesson.split))))
        return PackedBatch(lesson, examples, tuple(self._lessons), self._packing, (self._seed, k))


def _filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    """Return rows filled up with zeros."""
    return np.concatenate((rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)))
