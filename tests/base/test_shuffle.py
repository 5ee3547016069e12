from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.shuffle import draw, permutation
from tests.properties import examples


def chi_squared(counts: list[int], cells: int) -> float:
    """Return how far counts are from equal, in standard deviations of the chi-squared statistic; below 4 is chance."""
    expected = sum(counts) / cells
    statistic = sum((count - expected) ** 2 for count in counts) / expected + (cells - len(counts)) * expected
    return float((statistic - (cells - 1)) / (2 * (cells - 1)) ** 0.5)


def test_all_indices_come_out_once_for_every_small_range() -> None:
    for n in range(301):
        for key in (0, (7, n)):
            assert sorted(permutation(n, key)(np.arange(n)).tolist()) == list(range(n))


@examples(25)
@given(n=st.integers(1, 200_000), key=st.integers() | st.tuples(st.integers(), st.integers()))
def test_all_indices_come_out_once_for_any_range_and_key(n: int, key: int | tuple[int, ...]) -> None:
    met = np.zeros(n, int)
    np.add.at(met, permutation(n, key)(np.arange(n)), 1)
    assert (met == 1).all()


@examples(50)
@given(n=st.integers(1, 2**62), seed=st.integers(0, 1000))
def test_an_index_goes_to_its_place_whatever_else_is_asked_for(n: int, seed: int) -> None:
    order = permutation(n, seed)
    indices = np.unique(np.random.default_rng(seed).integers(0, n, 50))
    places = order(indices)
    assert places.dtype == np.int64
    assert places.min() >= 0
    assert places.max() < n
    assert len(np.unique(places)) == len(indices)
    assert [int(order(index)) for index in indices[:5]] == places[:5].tolist()
    assert order(indices.reshape(1, -1, 1)).tolist() == places.reshape(1, -1, 1).tolist()


@pytest.mark.parametrize("outside", [[-1], [3, 10]])
def test_an_index_outside_the_range_is_refused(outside: list[int]) -> None:
    with pytest.raises(IndexError, match=r"not all in range\(10\)"):
        permutation(10, 0)(outside)


def test_keys_give_different_orders() -> None:
    keys = [
        *range(200),
        *((seed, epoch) for seed in range(20) for epoch in range(20)),
        (1, 2, 3),
        (12, 3, 4),
        (1, 23),
        -1,
    ]
    assert len({tuple(permutation(50, key)(np.arange(50))) for key in keys}) == len(keys)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_every_order_of_a_few_is_equally_likely(n: int) -> None:
    drawn = Counter(tuple(permutation(n, (n, key))(np.arange(n)).tolist()) for key in range(4000))
    assert set(drawn) <= set(permutations(range(n)))
    assert chi_squared(list(drawn.values()), factorial(n)) < 4


@pytest.mark.parametrize("n", [10, 97])
def test_an_element_is_equally_likely_at_every_place(n: int) -> None:
    drawn = np.array([permutation(n, (0, key))([0, 1, n - 1]) for key in range(4000)])
    for places in drawn.T:
        assert chi_squared(np.bincount(places, minlength=n).tolist(), n) < 4


@pytest.mark.parametrize("n", [30, 100_003])
@pytest.mark.parametrize("apart", [1, 2, 317])  # 317 is the radix of the larger range
def test_elements_that_stood_near_each_other_are_not_near_any_more(n: int, apart: int) -> None:
    places = np.concatenate([permutation(n, key)(np.arange(n)) / n for key in range(max(1, 60_000 // n))])
    correlation = np.corrcoef(places[:-apart], places[apart:])[0, 1]
    assert abs(correlation) < 4 / len(places) ** 0.5 + 1 / n  # without replacement, neighbours repel by 1/n


def test_steps_between_neighbours_are_spread_evenly() -> None:
    n = 100_000
    steps = np.diff(permutation(n, 3)(np.arange(n))) % n
    assert chi_squared(np.bincount(steps * 100 // n).tolist(), 100) < 4


def test_the_order_is_the_same_on_every_machine_and_in_every_version() -> None:
    assert permutation(10, (1, 2))(np.arange(10)).tolist() == [2, 0, 8, 7, 3, 5, 1, 6, 9, 4]
    assert permutation(10**12, 5)([0, 1, 10**12 - 1]).tolist() == [2635893438, 25497656996, 269134849631]
    assert [draw(1000, (7, epoch)) for epoch in range(4)] == [65, 66, 19, 450]


def test_draws_are_even_and_not_those_of_a_permutation() -> None:
    keys = [(seed, epoch) for seed in range(40) for epoch in range(100)]
    drawn = np.array([draw(16, key) for key in keys])
    placed = np.array([permutation(16, key)(0) for key in keys])
    assert chi_squared(np.bincount(drawn, minlength=16).tolist(), 16) < 4
    assert chi_squared(np.bincount(16 * drawn + placed, minlength=256).tolist(), 256) < 4
    assert draw(1, 0) == 0


def test_a_numpy_integer_is_as_good_a_key_as_the_number_it_stands_for() -> None:
    assert draw(1000, (np.int64(7), np.int32(3))) == draw(1000, (7, 3))
