from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import InputError, SettingError
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import Windows, validation_windows
from gpt1.training.batches import Batch
from tests.pretraining.tools import write_corpus
from tests.properties import examples

Make = Callable[..., TokenStream]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A maker of streams 0, 1, 2, ... so that a token tells its own place."""
    made: dict[tuple[int, int], TokenStream] = {}

    def stream(tokens: int, shard_tokens: int = 1 << 20) -> TokenStream:
        if (tokens, shard_tokens) not in made:
            folder = tmp_path_factory.mktemp("corpus")
            write_corpus(folder, {"train": range(tokens)}, shard_tokens=shard_tokens, vocab_size=max(tokens, 1))
            made[tokens, shard_tokens] = TokenStream(folder, "train")
        return made[tokens, shard_tokens]

    return stream


def epoch(windows: Windows, number: int) -> list[Batch]:
    return [windows.batch(k) for k in range(windows.batches_in(number), windows.batches_in(number + 1))]


def targets(batches: Iterable[Batch]) -> list[int]:
    """Return all targets in the order in which they are read."""
    return [int(id) for batch in batches for id in batch.arrays["targets"].ravel() if id != -1]


def check_shape(batch: Batch, context: int) -> None:
    """Check one batch of a stream 0, 1, 2, ...: inputs stand before their targets, padding is at the end and is 0."""
    ids, following = batch.arrays["ids"], batch.arrays["targets"]
    assert ids.dtype == following.dtype == np.int32
    assert ids.shape == following.shape == (len(batch), context)
    real = following != -1
    assert (following[real] == ids[real] + 1).all()
    assert (ids[~real] == 0).all()
    assert real[:, 0].all()
    assert (real[:, 1:] <= real[:, :-1]).all()
    assert (np.diff(following, axis=1)[real[:, 1:]] == 1).all()
    assert batch.counts == {"lm": real.sum()}


SIZES = {
    "tokens": st.integers(2, 80),
    "context": st.integers(1, 30),
    "batch": st.integers(1, 9),
    "shard_tokens": st.sampled_from([1, 3, 11, 1000]),
}


@examples(100)
@given(**SIZES, seed=st.integers(0, 2**31 - 1), number=st.integers(0, 40))
def test_every_token_but_the_first_is_a_target_exactly_once_an_epoch(
    make: Make, tokens: int, context: int, batch: int, shard_tokens: int, seed: int, number: int
) -> None:
    windows = Windows(make(tokens, shard_tokens), context=context, batch=batch, seed=seed)
    batches = epoch(windows, number)
    assert sorted(targets(batches)) == list(range(1, tokens))
    assert all(len(each) == batch for each in batches[:-1])
    assert 1 <= len(batches[-1]) <= batch
    for each in batches:
        check_shape(each, context)
    lengths = np.concatenate([(each.arrays["targets"] != -1).sum(axis=1) for each in batches])
    assert (lengths < context).sum() <= 2


@examples(50)
@given(**SIZES, order=st.lists(st.integers(0, 60), min_size=1, max_size=8))
def test_a_batch_is_the_same_whenever_and_by_whomever_it_is_asked_for(
    make: Make, tokens: int, context: int, batch: int, shard_tokens: int, order: list[int]
) -> None:
    asked = Windows(make(tokens, shard_tokens), context=context, batch=batch, seed=5)
    for k in [*order, *order]:
        fresh = Windows(make(tokens), context=context, batch=batch, seed=5)
        assert asked.place(k) == fresh.place(k)
        for name, array in fresh.batch(k).arrays.items():
            np.testing.assert_array_equal(asked.batch(k).arrays[name], array)


def test_threads_that_ask_at_the_same_time_get_the_same(make: Make) -> None:
    arguments = {"context": 7, "batch": 3, "seed": 1}
    alone, shared = Windows(make(20), **arguments), Windows(make(20), **arguments)
    asked = np.random.default_rng(0).integers(0, 2000, 2000).tolist()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(shared.place, asked)) == [alone.place(k) for k in asked]


@examples(50)
@given(**SIZES)
def test_places_count_through_the_epochs(make: Make, tokens: int, context: int, batch: int, shard_tokens: int) -> None:
    windows = Windows(make(tokens, shard_tokens), context=context, batch=batch, seed=2)
    counted = [
        (number, index)
        for number in range(4)
        for index in range(windows.batches_in(number + 1) - windows.batches_in(number))
    ]
    assert [windows.place(k) for k in range(len(counted))] == counted


def test_epochs_differ_in_order_and_in_offset(make: Make) -> None:
    windows = Windows(make(300), context=16, batch=4, seed=0)
    orders, offsets = set(), set()
    for number in range(40):
        read = targets(epoch(windows, number))
        orders.add(tuple(read))
        rows = np.concatenate([batch.arrays["ids"][:, 0] for batch in epoch(windows, number)])
        offsets.add(int(np.unique(rows)[1]) % 16)
    assert len(orders) == 40
    assert len(offsets) >= 12  # of 16; 40 fair draws miss five or more once in thousands


def test_seeds_differ(make: Make) -> None:
    reads = {tuple(targets([Windows(make(300), context=4, batch=8, seed=seed).batch(0)])) for seed in range(50)}
    assert len(reads) == 50


def test_every_place_of_the_stream_is_read_at_every_position_in_the_end(make: Make) -> None:
    windows = Windows(make(40), context=4, batch=3, seed=0)
    met: dict[int, set[int]] = {}
    for number in range(60):
        for batch in epoch(windows, number):
            for row in batch.arrays["targets"]:
                for position, id in enumerate(row):
                    met.setdefault(int(id), set()).add(position)
    assert all(met[id] == {0, 1, 2, 3} for id in range(4, 40))


def test_the_order_is_the_same_on_every_machine_and_in_every_version(make: Make) -> None:
    windows = Windows(make(20), context=4, batch=2, seed=7)
    first = [windows.batch(k).arrays["ids"].tolist() for k in range(3)]
    assert first == [  # the first window is short by one; 19 has no next token
        [[0, 1, 2, 0], [11, 12, 13, 14]],
        [[15, 16, 17, 18], [3, 4, 5, 6]],
        [[7, 8, 9, 10]],
    ]


def test_a_stream_of_two_tokens_has_one_target(make: Make) -> None:
    batch = Windows(make(2), context=3, batch=4, seed=0).batch(11)
    assert batch.arrays["ids"].tolist() == [[0, 0, 0]]
    assert batch.arrays["targets"].tolist() == [[1, -1, -1]]
    assert batch.counts == {"lm": 1.0}


def test_a_stream_of_one_token_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match="prepare more text"):
        Windows(make(1), context=3, batch=4, seed=0)
    with pytest.raises(InputError, match="prepare more text"):
        validation_windows(make(1), context=3, batch=4)


def test_a_part_of_an_epoch_is_rounded_up_to_whole_batches(make: Make) -> None:
    windows = Windows(make(101), context=1, batch=10, seed=0)  # 100 targets: 10 batches an epoch
    expected = {0.01: 1, 0.1: 1, 0.11: 2, 1: 10, 2.1: 21, 2.11: 22, 0.3: 3, 0.7: 7, 100: 1000, 1e-05: 1}
    assert {epochs: windows.batches_in(epochs) for epochs in expected} == expected


def test_batches_are_counted_from_zero(make: Make) -> None:
    with pytest.raises(IndexError, match="from 0, not -1"):
        Windows(make(9), context=2, batch=2, seed=0).batch(-1)


@examples(80)
@given(**SIZES, limit=st.none() | st.integers(2, 100))
def test_validation_reads_every_token_but_the_first_in_order(
    make: Make, tokens: int, context: int, batch: int, shard_tokens: int, limit: int | None
) -> None:
    batches = list(validation_windows(make(tokens, shard_tokens), context=context, batch=batch, limit=limit))
    for each in batches:
        check_shape(each, context)
    assert targets(batches) == list(range(1, min(tokens, limit or tokens)))
    assert all(len(each) == batch for each in batches[:-1])
    starts = [int(row[0]) for each in batches for row in each.arrays["ids"]]
    assert starts == [context * number for number in range(len(starts))]


def test_validation_of_too_few_tokens_is_refused_before_anything_is_read(make: Make) -> None:
    with pytest.raises(SettingError, match="at least 2 tokens are needed for one target, not 1"):
        validation_windows(make(9), context=2, batch=2, limit=1)


class Counting(TokenStream):
    """A stream that counts what is read of it."""

    def __init__(self, stream: TokenStream) -> None:
        self.__dict__.update(vars(stream))
        self.tokens_read = 0

    def read(self, starts: npt.ArrayLike, length: int) -> npt.NDArray[np.int32]:
        rows = super().read(starts, length)
        self.tokens_read += rows.size
        return rows


def test_validation_reads_no_more_than_it_is_asked_for(make: Make) -> None:
    stream = Counting(make(1000))
    list(islice(validation_windows(stream, context=10, batch=3), 2))
    assert stream.tokens_read == 2 * 3 * 11


def test_a_batch_far_along_reads_nothing_of_those_before_it(make: Make) -> None:
    stream = Counting(make(500))
    windows = Windows(stream, context=8, batch=4, seed=0)
    k = windows.batches_in(1000) + 3
    assert windows.place(k) == (1000, 3)
    windows.batch(k)
    assert 0 < stream.tokens_read <= 4 * 9
