"""Batches of labelled examples: each example once an epoch, batch k from k alone, and counts that say what counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.finetuning.batches import LM, PackedBatch, PackingOptions, TaskBatches, TrainSet, make_lesson
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example
from gpt1.text.specials import special_ids
from gpt1.training.batches import NO_TARGET, MicroBatchArrays, share_of
from tests.finetuning.reference_data import VOCABULARY, Numbers
from tests.finetuning.tools import make_task
from tests.properties import examples

CALM = examples(60)
CONTEXT = 64
START, DELIMITER, EXTRACT = special_ids(VOCABULARY).values()
SHAPES = ("single", "pair", "both", "choices")


def encoded(task: Task, count: int, longest: int = 9) -> EncodedTask:
    """Return examples of random texts; the labels go round."""
    draw = random.Random(task.name)
    classes = task.choices or len(task.labels)
    rows = []
    for number in range(count):
        texts = [" ".join(str(draw.randrange(VOCABULARY)) for _ in range(draw.randint(1, longest)))] * task.texts
        texts = [text if part != 1 or task.shape != "choices" else "" for part, text in enumerate(texts)]
        rows.append(Example(tuple(texts), number % classes, number))
    return encode_task(task, {"train": rows}, Numbers(), CONTEXT)


def make_batches(
    counts: Sequence[int], *, batch: int = 4, seed: int = 0, shape: str = "single", drop_last: bool = False
) -> TaskBatches:
    """Return the batches of tasks a, b, ... of so many examples."""
    tasks = [encoded(make_task("abcdef"[index], shape), count) for index, count in enumerate(counts)]
    lessons = {task.task.name: make_lesson(task, class_weights=False) for task in tasks}
    return TaskBatches(
        lessons, batch=batch, seed=seed, packing=PackingOptions(VOCABULARY, CONTEXT), drop_last=drop_last
    )


def epoch(batches: TaskBatches, number: int) -> list[PackedBatch]:
    size = batches.batches_an_epoch
    return [batches.batch(k) for k in range(number * size, (number + 1) * size)]


# ---- which examples ----

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@CALM
@given(counts=COUNTS, batch=st.integers(1, 9), seed=st.integers(0, 2**31 - 1), number=st.integers(0, 50))
def test_every_example_of_every_task_is_seen_once_an_epoch(
    counts: list[int], batch: int, seed: int, number: int
) -> None:
    found = epoch(make_batches(counts, batch=batch, seed=seed), number)
    seen = Counter((each.lesson.task.name, int(example)) for each in found for example in each.examples)
    assert seen == {("abcdef"[task], example): 1 for task, count in enumerate(counts) for example in range(count)}
    sizes = Counter(len(each) for each in found)
    assert sizes[batch] >= sum(count // batch for count in counts)
    assert all(1 <= size <= batch for size in sizes)


@CALM
@given(counts=COUNTS, batch=st.integers(1, 9), number=st.integers(0, 9))
def test_with_drop_last_all_batches_are_whole_where_a_task_can_fill_one(
    counts: list[int], batch: int, number: int
) -> None:
    found = epoch(make_batches(counts, batch=batch, drop_last=True), number)
    seen = Counter((each.lesson.task.name, int(example)) for each in found for example in each.examples)
    assert set(seen.values()) == {1}
    for task, count in enumerate(counts):
        own = [len(each) for each in found if each.lesson.task.name == "abcdef"[task]]
        assert own == ([batch] * (count // batch) if count >= batch else [count])


def test_with_drop_last_other_examples_are_left_out_each_epoch() -> None:
    batches = make_batches([11], batch=4, drop_last=True)
    left_out = [set(range(11)) - {int(e) for each in epoch(batches, n) for e in each.examples} for n in range(30)]
    assert all(len(some) == 3 for some in left_out)
    assert set.union(*left_out) == set(range(11))


@CALM
@given(counts=COUNTS, order=st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_a_batch_is_the_same_whenever_it_is_asked_for(counts: list[int], order: list[int]) -> None:
    asked = make_batches(counts, seed=5)
    for k in [*order, *order]:
        fresh, again = make_batches(counts, seed=5).batch(k), asked.batch(k)
        assert fresh.examples.tolist() == again.examples.tolist()
        assert fresh.lesson.task == again.lesson.task
        assert fresh.key == again.key == (5, k)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    batches = make_batches([30, 30])
    orders = [tuple((each.lesson.task.name, *each.examples.tolist()) for each in epoch(batches, n)) for n in range(20)]
    assert len(set(orders)) == 20
    seeds = {tuple(make_batches([30], seed=seed).batch(0).examples.tolist()) for seed in range(20)}
    assert len(seeds) == 20


def test_batches_of_several_tasks_come_in_a_mixed_order_by_their_size() -> None:
    batches = make_batches([80, 40], batch=4)
    names = ["".join(each.lesson.task.name for each in epoch(batches, number)) for number in range(10)]
    assert all(Counter(name) == {"a": 20, "b": 10} for name in names)
    assert len(set(names)) == 10
    assert "aaaaaaaaaaaaaaaaaaaabbbbbbbbbb" not in names


def test_an_epoch_has_so_many_batches_and_tokens() -> None:
    batches = make_batches([11, 5], batch=4)
    assert batches.batches_an_epoch == 3 + 2
    tokens = sum(len(part(each).arrays["ids"]) for each in epoch(batches, 0))
    assert batches.tokens_a_batch * 5 == pytest.approx(tokens)


# ---- what they hold ----


def part(batch: PackedBatch, size: int | None = None) -> MicroBatchArrays:
    return batch.part(0, len(batch), size or len(batch))


def sequences_of(found: MicroBatchArrays) -> list[list[int]]:
    offsets = found.arrays["offsets"].tolist()
    return [found.arrays["ids"][start:end].tolist() for start, end in pairwise(offsets)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_part_holds_its_examples_and_each_token_predicts_the_next_of_its_own_sequence(shape: str) -> None:
    batch = make_batches([7], shape=shape).batch(0)
    found = part(batch)
    sequences = sequences_of(found)
    wanted = [ids.tolist() for example in batch.examples for ids in batch.lesson.split.sequences(int(example))]
    assert sequences == wanted
    targets = iter(found.arrays["targets"].tolist())
    weights = iter(found.arrays["token_weights"].tolist())
    for ids in sequences:
        assert [next(targets) for _ in ids] == [*ids[1:], NO_TARGET]
        assert [next(weights) for _ in ids][:-1] == pytest.approx([1 / (len(ids) - 1)] * (len(ids) - 1))
    assert found.arrays["shares"].argmax(1).tolist() == batch.lesson.split.labels[batch.examples].tolist()
    assert found.facts == {"task": "a", "longest": max(map(len, sequences))}
    assert found.sequences.tolist() == list(range(len(sequences)))
    assert found.arrays["examples"].tolist() == list(range(len(batch)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [1, 16])
def test_what_is_filled_up_counts_nothing(shape: str, block: int) -> None:
    task = encoded(make_task("a", shape), 3)
    lessons = {"a": make_lesson(task, class_weights=True)}
    batches = TaskBatches(lessons, batch=4, seed=0, packing=PackingOptions(VOCABULARY, CONTEXT, block=block))
    batch = batches.batch(0)
    real, filled = part(batch), part(batch, 5)
    tokens = sum(len(ids) for example in batch.examples for ids in task.splits["train"].sequences(int(example)))
    for name in ("targets", "token_weights"):
        assert filled.arrays[name][:tokens].tolist() == real.arrays[name][:tokens].tolist()
    assert (filled.arrays["targets"][tokens:] == NO_TARGET).all()
    assert not filled.arrays["token_weights"][tokens:].any()
    for name in ("shares", "weights"):
        assert len(filled.arrays[name]) == 5
        assert not filled.arrays[name][3:].any()
    assert set(filled.arrays["ids"][tokens:].tolist()) <= {START, EXTRACT}
    assert len(filled.arrays["ids"]) % block == 0
    count = 5 * task.task.sequences
    assert filled.sequences[:count].tolist() == list(range(count))
    assert (filled.sequences[count:] == -1).all()


def test_a_rank_without_examples_gets_filling_alone() -> None:
    batch = make_batches([3]).batch(0)
    (found,) = share_of(batch, 4, 2, rank=1, ranks=2)
    assert sequences_of(found)[1] == [START, EXTRACT]
    (empty,) = list(share_of(make_batches([1]).batch(0), 4, 2, rank=1, ranks=2))
    assert (empty.arrays["targets"] == NO_TARGET).all()
    assert not empty.arrays["weights"].any()
    assert not empty.arrays["token_weights"].any()


@CALM
@given(
    count=st.integers(1, 9),
    batch=st.integers(1, 9),
    micro=st.integers(1, 9),
    ranks=st.integers(1, 3),
    shape=st.sampled_from(SHAPES),
)
def test_parts_of_all_ranks_together_are_the_batch(count: int, batch: int, micro: int, ranks: int, shape: str) -> None:
    whole = make_batches([count], batch=batch, shape=shape).batch(0)
    parts = [found for rank in range(ranks) for found in share_of(whole, batch, micro, rank, ranks)]
    sizes = {len(found.arrays["weights"]) for found in parts}
    assert sizes == {micro}
    real = [found.arrays["weights"] > 0 for found in parts]
    places = np.concatenate([found.arrays["examples"][known] for found, known in zip(parts, real, strict=True)])
    assert sorted(places.tolist()) == list(range(len(whole)))
    weights = sum(float(found.arrays["weights"].sum()) for found in parts)
    sequences = sum(float(found.arrays["token_weights"][found.arrays["targets"] != NO_TARGET].sum()) for found in parts)
    assert weights == pytest.approx(whole.counts["a"])
    assert sequences == pytest.approx(whole.counts[LM], rel=1e-5)


# ---- what counts ----


def test_a_batch_counts_its_sequences_and_the_weights_of_its_examples() -> None:
    batches = make_batches([8, 8], shape="both")
    batch = batches.batch(0)
    own, other = ("a", "b") if batch.lesson.task.name == "a" else ("b", "a")
    assert batch.counts == {own: 4.0, other: 1.0, LM: 8.0}


def test_class_weights_count_rare_labels_as_much_as_frequent_ones() -> None:
    task = make_task("a")
    rows = [Example((str(number % VOCABULARY),), int(number == 7), number) for number in range(10)]
    lesson = make_lesson(encode_task(task, {"train": rows}, Numbers(), context=8), class_weights=True)
    assert lesson.weights[7] == pytest.approx(5.0)
    assert lesson.weights.sum() == pytest.approx(10.0)
    batches = TaskBatches({"a": lesson}, batch=5, seed=0, packing=PackingOptions(VOCABULARY, CONTEXT))
    for k in range(2):
        batch = batches.batch(k)
        assert batch.counts["a"] == pytest.approx(lesson.weights[batch.examples].sum())
        assert part(batch).arrays["weights"].tolist() == pytest.approx(lesson.weights[batch.examples].tolist())


@pytest.mark.parametrize("given_", [{"score_range": (0.0, 1.0)}, {"shape": "choices"}], ids=["scores", "choices"])
def test_only_classes_have_weights(given_: dict[str, object]) -> None:
    task = make_task("a", **given_)  # type: ignore[arg-type]
    count = task.texts
    rows = [Example(("1",) * count, 0, 0), Example(("2",) * count, 1, 1), Example(("3",) * count, 1, 2)]
    lesson = make_lesson(encode_task(task, {"train": rows}, Numbers(), context=16), class_weights=True)
    assert lesson.weights.tolist() == [1, 1, 1]


def test_numbers_have_the_precision_that_is_asked_for() -> None:
    lessons = {"a": make_lesson(encoded(make_task("a"), 3), class_weights=False)}
    for dtype in (np.float32, np.float64):
        found = part(
            TaskBatches(lessons, batch=3, seed=0, packing=PackingOptions(VOCABULARY, CONTEXT, dtype=dtype)).batch(0)
        )
        assert {found.arrays[name].dtype for name in ("shares", "weights", "token_weights")} == {np.dtype(dtype)}


# ---- word dropout ----


def thinned(shape: str, rate: float, *, examples: int = 12, seed: int = 0, k: int = 0) -> tuple[TrainSet, PackedBatch]:
    task = encoded(make_task("a", shape), examples, longest=12)
    lessons = {"a": make_lesson(task, class_weights=False)}
    packing = PackingOptions(VOCABULARY, CONTEXT, word_dropout=rate)
    return lessons["a"], TaskBatches(lessons, batch=examples, seed=seed, packing=packing).batch(k)


def is_part_of(some: list[int], all_: list[int]) -> bool:
    rest = iter(all_)
    return all(token in rest for token in some)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.95])
def test_word_dropout_leaves_words_out_and_never_a_special_token(shape: str, rate: float) -> None:
    lesson, batch = thinned(shape, rate)
    whole = [ids.tolist() for example in batch.examples for ids in lesson.split.sequences(int(example))]
    found = sequences_of(part(batch))
    for full, left in zip(whole, found, strict=True):
        assert is_part_of(left, full)
        assert [token for token in left if token >= VOCABULARY] == [token for token in full if token >= VOCABULARY]
        assert len(left) > 2  # something is left to read
    assert sum(map(len, found)) < sum(map(len, whole))


def test_about_the_share_that_was_asked_for_is_left_out() -> None:
    _, whole = thinned("single", 0.0, examples=400)
    _, batch = thinned("single", 0.2, examples=400)
    words = len(part(whole).arrays["ids"]) - 800
    left = len(part(batch).arrays["ids"]) - 800
    assert 1 - left / words == pytest.approx(0.2, abs=0.03)


def test_the_choices_of_an_example_lose_the_same_words_of_their_context() -> None:
    _, batch = thinned("choices", 0.3)
    found = sequences_of(part(batch))
    for example in range(len(batch)):
        contexts = {tuple(ids[: ids.index(DELIMITER)]) for ids in found[3 * example : 3 * example + 3]}
        assert len(contexts) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_word_dropout_is_the_same_however_a_batch_is_cut_and_another_in_the_next(shape: str) -> None:
    _, batch = thinned(shape, 0.3)
    whole = sequences_of(part(batch))
    parts = [ids for first in range(0, 12, 5) for ids in sequences_of(batch.part(first, min(5, 12 - first), 5))]
    assert parts[: len(whole)] == whole
    _, again = thinned(shape, 0.3)
    assert sequences_of(part(again)) == whole
    _, later = thinned(shape, 0.3, k=1)
    by_example = dict(zip(batch.examples.tolist(), whole[:: len(whole) // 12], strict=True))
    by_example_later = dict(zip(later.examples.tolist(), sequences_of(part(later))[:: len(whole) // 12], strict=True))
    assert sum(by_example[example] != by_example_later[example] for example in by_example) > 6


def test_targets_and_means_are_those_of_what_is_left() -> None:
    _, batch = thinned("pair", 0.4)
    found = part(batch)
    targets, weights = found.arrays["targets"], found.arrays["token_weights"]
    for number, (start, end) in enumerate(pairwise(found.arrays["offsets"].tolist())):
        ids = found.arrays["ids"][start:end].tolist()
        assert targets[start:end].tolist() == [*ids[1:], NO_TARGET], number
        assert weights[start : end - 1].sum() == pytest.approx(1.0, rel=1e-6)


def test_an_example_that_would_lose_everything_stays_whole() -> None:
    lesson, batch = thinned("single", 0.99)
    whole = [ids.tolist() for example in batch.examples for ids in lesson.split.sequences(int(example))]
    assert sum(left == full for left, full in zip(sequences_of(part(batch)), whole, strict=True)) > 6


def test_a_split_is_not_changed_by_what_is_made_of_it() -> None:
    lesson, batch = thinned("pair", 0.5)
    before = {name: array.copy() for name, array in lesson.split.arrays.items()}
    part(batch, 20)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(lesson.split, name), array)


def test_both_orders_of_a_pair_lose_the_same_words() -> None:
    task = make_task("a", "both")
    rows = [Example(("1 2 3 4 5", "11 12 13"), number % 2, number) for number in range(8)]
    lesson = make_lesson(encode_task(task, {"train": rows}, Numbers(), context=16), class_weights=False)
    packing = PackingOptions(VOCABULARY, CONTEXT, word_dropout=0.3)
    found = sequences_of(part(TaskBatches({"a": lesson}, batch=8, seed=0, packing=packing).batch(0)))
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert sorted(one) == sorted(other)


def test_a_short_choice_that_stays_whole_does_not_give_back_the_context_to_it_alone() -> None:
    task = make_task("a", "choices", choices=2)
    rows = [Example(("7", "", "1", "2 3 4 5 6 8 9 10"), 0, number) for number in range(16)]
    lesson = make_lesson(encode_task(task, {"train": rows}, Numbers(), context=16), class_weights=False)
    packing = PackingOptions(VOCABULARY, CONTEXT, word_dropout=0.5)
    found = sequences_of(part(TaskBatches({"a": lesson}, batch=16, seed=0, packing=packing).batch(0)))
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert (7 in one) == (7 in other)
