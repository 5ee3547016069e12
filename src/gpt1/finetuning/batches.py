"""Batches of labelled examples: which examples batch k has, and how their sequences are packed into one row of tokens.

An epoch is a shuffle of each task's examples, drawn by seed and epoch; of several tasks, each batch has examples of
one, and the batches of all tasks are shuffled too. Batch k is computed from k alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.shuffle import permutation
from gpt1.finetuning.augmenting import Mixing, TextChanges, mixing
from gpt1.finetuning.teaching import TaskTeaching
from gpt1.tasks.answers import balanced_weights, soft_targets
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, join
from gpt1.tasks.packed import PackedRow, pack_sequences, packed_places, window_cells
from gpt1.tasks.shapes import TOKENS
from gpt1.tasks.tagging import NO_WORD
from gpt1.text.specials import special_ids
from gpt1.training.batches import NO_TARGET, MicroBatchArrays

# The terms of the language model, of teachers, R-Drop and domains; a task's term has its name, which never begins so.
LM, TEACHER, R_DROP, DOMAIN = "_lm", "_teacher", "_r_drop", "_domain"
COPIES = 2  # examples beside a part that its own may be mixed with: its first one's partner and its last one's

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TrainSet:
    """A task's training examples, ready to be put into batches."""

    task: Task
    split: EncodedSplit
    weights: NDArray[np.float64]  # of each example; of several labels, or of labels of words, of each of them
    taught: NDArray[np.float64] | None = None  # what teachers say of each answer [examples, answers]

    def counted(self, examples: Integers) -> float:
        """Return how much examples count; one without a label, of which nothing is added up, counts as one."""
        weights = self.weights[examples]
        if self.task.labels_words:
            return float(weights.sum())
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
    if split.places is not None:
        weights = weights * (split.labels != NO_WORD)
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
    changes: TextChanges | None = None
    mixup: float = 0.0
    passes: int = 1  # in which each example is read, with other dropout each time
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

        The windows of an example count together as one, and so do the passes in which it is read.
        """
        task, examples = self.lesson.task, float(len(self.examples))
        own = {task.name: self.lesson.counted(self.examples)}
        if self._mixing is not None:
            own[task.name] = float(self._mixed(np.arange(len(self.examples)))[1].sum())
        if self.lesson.taught is not None:
            own[TEACHER] = examples
        if self.packing.passes > 1:
            own[R_DROP] = examples
        if task.auxiliary_lm:
            own[LM] = examples * task.sequences
        return dict.fromkeys((*self.tasks, LM), 1.0) | own

    def part(self, first: int, real: int, size: int) -> MicroBatchArrays:
        """Return `real` examples from `first` on, filled up to `size` examples that have nothing to predict.

        Behind them stand those that they are mixed with, where these are in another part, and then all once more for
        each further pass.
        """
        lesson, packing = self.lesson, self.packing
        chosen, passes = self.examples[first : first + real], packing.passes
        copies = self._copies(first, first + real)
        read = self._sequences(first, real)
        windows = np.append(self._windows(first, first + real), np.ones(size - real, np.int64))  # filling has one
        each = windows * lesson.task.sequences
        start, _, extract = special_ids(packing.vocab_size).values()
        filling = [np.array([start, extract])] * lesson.task.sequences
        copied = [ids for place in copies for ids in (filling if place < 0 else self._sequences(place, 1))]
        once = [*read, *filling * (size - real), *copied]
        row = pack_sequences(once * passes, block=packing.block, filler=start)

        counted = np.zeros((passes, len(once)), packing.dtype)
        share = np.repeat(windows[:real], each[:real])
        learned = np.zeros((passes, len(once)), np.int64)
        learned[:, : len(read)] = [self._learned_tokens(ids) for ids in read]
        counted[:, : len(read)] = 1 / learned[:, : len(read)] / share
        beyond = row.sequences - counted.size
        weight = np.append(counted.ravel() / passes, np.zeros(beyond, packing.dtype))
        arrays = {
            **row.arrays(),
            "targets": self._targets(row, np.append(learned.ravel(), np.zeros(beyond, np.int64))),
            "token_weights": weight[row.sequence],
            **(
                self._of_words(chosen, first, row)
                if lesson.task.labels_words
                else self._of_examples(first, real, size, copies)
            ),
        }
        facts: dict[str, str | int] = {"task": lesson.task.name, "longest": packing.rounded(row.longest)}
        if lesson.taught is not None:
            arrays["taught"] = self._examples(lesson.taught[chosen], size)
            arrays["is_taught"] = self._examples(np.ones_like(lesson.weights[chosen]), size) / passes
        if lesson.split.windows is not None and not lesson.task.labels_words:
            arrays["windows"], facts["most_windows"] = window_cells(np.tile(windows, passes))
        if self._mixing is not None:
            arrays |= self._mixers(first, real, size, copies)
        if passes > 1:
            arrays["is_real"] = _filled(np.ones(real, packing.dtype), size)
        return MicroBatchArrays(arrays, self._places(first, int(each.sum()), copies, row.sequences), facts)

    def _sequences(self, first: int, real: int) -> list[NDArray[Any]]:
        """Return the sequences of the examples from a place on, changed as the options say."""
        lesson, packing = self.lesson, self.packing
        found = []
        for place, example in enumerate(self.examples[first : first + real].tolist(), first):
            for ids in lesson.split.sequences(example):
                new = ids if packing.changes is None else self._reworded(ids, place, packing.changes)
                found.append(self._thinned(new, place) if packing.word_dropout else new)
        return found

    def _targets(self, row: PackedRow, learned: Integers) -> NDArray[np.int32]:
        """Return what each token is to predict: the next one, of so many tokens of each sequence."""
        targets = np.full(len(row.ids), NO_TARGET, np.int32)
        if self.lesson.task.auxiliary_lm:
            follows = np.flatnonzero(row.position[1:] > 0)  # a token that has a successor in its own sequence
            follows = follows[row.position[follows] < learned[row.sequence[follows]]]
            targets[follows] = row.ids[follows + 1]
        return targets

    def _examples(self, values: NDArray[Any], size: int) -> NDArray[Any]:
        """Return values of examples filled up, once for each pass."""
        filled = _filled(values, size).astype(self.packing.dtype)
        return filled if self.packing.passes == 1 else np.concatenate([filled] * self.packing.passes)

    def _in_each_pass(self, places: Sequence[int], further: int) -> NDArray[np.int32]:
        """Return places by which noise is drawn: each pass has its own, so many further on than the one before."""
        once = np.array(places, np.int32)
        each = [np.where(once < 0, once, once + number * further) for number in range(self.packing.passes)]
        return np.concatenate(each).astype(np.int32)

    def _places(self, first: int, count: int, copies: Sequence[int], sequences: int) -> NDArray[np.int32]:
        """Return the place of each sequence in the whole batch.

        Filling behind the last example has places of its own, which no real sequence has.
        """
        own, begin = self.lesson.task.sequences, int(self._windows(0, first).sum()) * self.lesson.task.sequences
        copied = [place * own + number if place >= 0 else -1 for place in copies for number in range(own)]
        all_in_a_pass = int(self._windows(0, len(self.examples)).sum()) * own
        places = self._in_each_pass([*range(begin, begin + count), *copied], all_in_a_pass)
        return np.concatenate((places, np.full(sequences - len(places), -1, np.int32)))

    # ---- mix-up ----

    @cached_property
    def _mixing(self) -> Mixing | None:
        return mixing(len(self.examples), self.packing.mixup, self.key) if self.packing.mixup else None

    def _copies(self, first: int, end: int) -> list[int]:
        """Return the places of examples of other parts that those of this one are mixed with; -1: filling."""
        if self._mixing is None:
            return []
        wanted = self._mixing.partners[first:end].tolist()
        other = sorted({place for place in wanted if not first <= place < end})
        return [*other, *[-1] * (COPIES - len(other))]

    def _mixed(self, places: Integers) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return which share each answer should have, and the weights of examples, mixed where examples are."""
        lesson = self.lesson
        shares, weights = _labels_of(lesson, self.examples[places])
        if self._mixing is None:
            return shares, weights
        with_shares, with_weights = _labels_of(lesson, self.examples[self._mixing.partners[places]])
        own, other = self._mixing.shares[places] * weights, (1 - self._mixing.shares[places]) * with_weights
        both = own + other
        parts = np.divide(own, both, out=np.ones_like(both), where=both > 0)[:, None]
        return parts * shares + (1 - parts) * with_shares, both

    def _mixers(self, first: int, real: int, size: int, copies: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return with which example of a pass each one is mixed, and how much of itself stays."""
        assert self._mixing is not None
        stands = {place: number for number, place in enumerate(range(first, first + real))}
        stands |= {place: size + number for number, place in enumerate(copies) if place >= 0}
        partners = [stands[place] for place in self._mixing.partners[first : first + real].tolist()]
        shares = _filled(self._mixing.shares[first : first + real], size).astype(self.packing.dtype)
        return {"partners": np.array([*partners, *range(real, size)], np.int32), "mix_shares": shares}

    # ---- windows, and texts that change ----

    def _of_examples(self, first: int, real: int, size: int, copies: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return what is to be answered to examples, filled up to `size`, in each pass."""
        shares, weights = self._mixed(np.arange(first, first + real))
        return {
            "shares": self._examples(shares, size),
            "weights": self._examples(weights, size) / self.packing.passes,
            "examples": self._in_each_pass([*range(first, first + size), *copies], len(self.examples)),
        }

    def _of_words(self, chosen: Integers, first: int, row: PackedRow) -> dict[str, NDArray[Any]]:
        """Return what is to be answered to the words of examples, and one more that counts nothing, at the row's end.

        A word has a number of its own in the whole batch, which tells its noise from that of others.
        """
        lesson, dtype = self.lesson, self.packing.dtype
        places, there = packed_places(lesson.split, chosen)
        shares = soft_targets(lesson.task, lesson.split.labels[chosen][there])
        numbers = (np.arange(first, first + len(chosen))[:, None] * there.shape[1] + np.arange(there.shape[1]))[there]
        return {
            "places": np.append(places, len(row.ids) - 1).astype(np.int32),
            "shares": _filled(shares, len(places) + 1).astype(dtype),
            "weights": _filled(lesson.weights[chosen][there], len(places) + 1).astype(dtype),
            "examples": np.append(numbers, -1).astype(np.int32),
        }

    def _learned_tokens(self, ids: NDArray[Any]) -> int:
        """Return how many tokens of a sequence the language model learns: of a text that stands twice, those of one."""
        if self.lesson.task.shape != TOKENS:
            return len(ids) - 1
        return int(np.flatnonzero(ids == special_ids(self.packing.vocab_size)["delimiter"])[0])

    def _windows(self, first: int, end: int) -> Integers:
        """Return how many windows the examples of these places in the batch have."""
        own, counts = self.examples[first:end], self.lesson.split.windows
        return np.ones(len(own), np.int64) if counts is None else counts[own].astype(np.int64)

    def _reworded(self, ids: NDArray[Any], place: int, changes: TextChanges) -> NDArray[Any]:
        """Change the words of a sequence's parts; what would not fit then has no longer words than before."""
        specials = np.flatnonzero(ids >= self.packing.vocab_size).tolist()
        parts = [ids[: specials[0] + 1]]
        for before, after in pairwise(specials):
            parts += [changes.changed(ids[before + 1 : after], self.key, place), ids[after : after + 1]]
        found = np.concatenate(parts)
        return found if len(found) <= self.packing.context else self._reworded(ids, place, changes.keep_length())

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
        tokens = sum(len(lesson.split.ids) for lesson in self._lessons.values())
        return self._packing.passes * tokens / self.batches_an_epoch

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


def _labels_of(lesson: TrainSet, examples: Integers) -> tuple[NDArray[Any], NDArray[Any]]:
    return soft_targets(lesson.task, lesson.split.labels[examples]), lesson.weights[examples]


def _filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    """Return rows filled up with zeros."""
    return np.concatenate((rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)))
