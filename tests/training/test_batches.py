"""How a batch is shared out, and how the next one is read while a device works."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt1.training.batches import NO_TARGET, Batch, Loader, share_of
from tests.properties import examples
from tests.waiting import eventually

CPU = torch.device("cpu")


def numbered(rows: int, first: int = 1) -> Batch:
    """Return a batch in which every row tells its number, counted from `first`."""
    numbers = np.arange(first, first + rows, dtype=np.int32)
    arrays = {"ids": numbers[:, None].repeat(3, 1), "targets": numbers[:, None].repeat(3, 1), "weight": numbers / 2}
    return Batch(arrays, {"lm": 3.0 * rows})


@examples(300)
@given(
    size=st.integers(1, 40),
    missing=st.integers(0, 39),
    micro=st.integers(1, 45),
    ranks=st.integers(1, 9),
)
def test_every_row_is_in_one_micro_batch_of_one_rank(size: int, missing: int, micro: int, ranks: int) -> None:
    batch = numbered(max(size - missing, 1))
    shares = [list(share_of(batch, size, micro, rank, ranks)) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1, "ranks must keep step"
    places = []
    for share in shares:
        for arrays, rows in ((part.arrays, part.sequences) for part in share):
            assert {len(array) for array in (*arrays.values(), rows)} == {micro}
            assert {name: array.dtype for name, array in arrays.items()} == {
                name: array.dtype for name, array in batch.arrays.items()
            }
            real = arrays["ids"][:, 0] > 0
            # a real row stands at its place in the batch, and all its arrays belong together
            assert (rows[real] == arrays["ids"][real, 0] - 1).all()
            assert (arrays["targets"][real] == arrays["ids"][real]).all()
            assert (arrays["weight"][real] == arrays["ids"][real, 0] / 2).all()
            # what fills a shape up has nothing to predict and weighs nothing
            assert (arrays["ids"][~real] == 0).all()
            assert (arrays["targets"][~real] == NO_TARGET).all()
            assert (arrays["weight"][~real] == 0).all()
            places += rows[real].tolist()
    assert sorted(places) == list(range(len(batch)))


def test_an_uneven_batch_is_filled_up() -> None:
    (first, rows), (second, more) = ((part.arrays, part.sequences) for part in share_of(numbered(5), 5, 3, 0, 1))
    assert (first["ids"][:, 0].tolist(), rows.tolist()) == ([1, 2, 3], [0, 1, 2])
    assert (second["targets"][:, 0].tolist(), more.tolist()) == ([4, 5, NO_TARGET], [3, 4, 5])


def test_a_rank_without_rows_works_on_filling() -> None:
    (part,) = share_of(numbered(2), 4, 2, 1, 2)
    assert (part.arrays["targets"] == NO_TARGET).all()
    assert part.sequences.tolist() == [2, 3]


# ---- the loader ----


class Source:
    """Batches that tell their number, and what was asked for."""

    def __init__(self, broken: tuple[int, ...] = ()) -> None:
        self.broken = broken
        self.asked: list[int] = []
        self.threads: set[str] = set()

    def batch(self, k: int) -> Batch:
        self.asked.append(k)
        self.threads.add(threading.current_thread().name)
        if k in self.broken:
            raise ValueError(f"batch {k} is broken")
        return numbered(4, first=100 * k + 1)


@pytest.fixture
def source() -> Source:
    return Source()


def loader_of(source: Source, micro: int = 4) -> Loader:
    return Loader(source, 4, micro, 0, 1, CPU)


def first_id(loaded: tuple[list[object], dict[str, float]]) -> int:
    return int(loaded[0][0].tensors["ids"][0, 0])  # type: ignore[attr-defined]


def test_batches_come_in_the_order_they_are_asked_for_and_are_read_once(source: Source) -> None:
    loader = loader_of(source, micro=3)
    for k in range(5):
        micros, counts = loader.load(k, k + 1)
        assert [micro.tensors["ids"][0, 0].item() for micro in micros] == [100 * k + 1, 100 * k + 4]
        assert [micro.sequences.tolist() for micro in micros] == [[0, 1, 2], [3, 4, 5]]
        assert counts == {"lm": 12.0}
    loader.close()
    assert source.asked[:5] == [0, 1, 2, 3, 4]
    assert source.asked[5:] in ([], [5])  # read ahead, if there was time
    assert all(name.startswith("batches") for name in source.threads)


def test_the_following_batch_is_read_before_it_is_asked_for(source: Source) -> None:
    loader = loader_of(source)
    loader.load(0, 7)
    eventually(lambda: source.asked == [0, 7], "batch 7 is read before it is asked for")
    loader.close()


def test_a_run_that_goes_back_gets_the_batch_it_asks_for_not_the_one_read_ahead(source: Source) -> None:
    loader = loader_of(source)
    loader.load(5, 6)
    assert first_id(loader.load(2, 3)) == 201
    assert first_id(loader.load(3, 5)) == 301
    assert first_id(loader.load(5, 6)) == 501
    loader.close()
    assert source.asked[:5] == [5, 6, 2, 3, 5]


def test_an_error_of_the_reading_thread_surfaces_where_its_batch_is_asked_for() -> None:
    source = Source(broken=(1,))
    loader = loader_of(source)
    assert first_id(loader.load(0, 1)) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="batch 1 is broken"):
            loader.load(1, 2)
    assert first_id(loader.load(2, 3)) == 201
    loader.close()


def test_a_broken_batch_that_was_read_ahead_in_vain_does_no_harm() -> None:
    loader = loader_of(Source(broken=(9,)))
    loader.load(0, 9)
    assert first_id(loader.load(1, 2)) == 101
    loader.close()


def test_a_closed_loader_leaves_no_thread(source: Source) -> None:
    before = threading.active_count()
    loader = loader_of(source)
    loader.load(0, 1)
    assert threading.active_count() == before + 1
    loader.close()
    assert threading.active_count() == before
