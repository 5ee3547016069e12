"""A packed row as a grid and back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt1.model.packing import grid_packing, pack
from tests.properties import examples

CALM = examples(60)
LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=8).filter(any)


@CALM
@given(LENGTHS, st.integers(0, 3))
def test_a_grid_holds_each_sequence_and_zeros_behind_it(lengths: list[int], more: int) -> None:
    packing = pack(torch.tensor(lengths), longest=max(lengths) + more)
    x = torch.arange(1, sum(lengths) + 1).float()[:, None, None] * torch.ones(2, 3)
    grid = packing.to_grid(x)
    assert grid.shape == (len(lengths), max(lengths) + more, 2, 3)
    for row, part in zip(grid, x.split(lengths), strict=True):
        assert torch.equal(row[: len(part)], part)
        assert not row[len(part) :].any()
    assert torch.equal(packing.from_grid(grid), x)


@CALM
@given(LENGTHS)
def test_positions_restart_with_each_sequence(lengths: list[int]) -> None:
    packing = pack(torch.tensor(lengths))
    assert packing.position.tolist() == [place for length in lengths for place in range(length)]
    assert packing.sequence.tolist() == [number for number, length in enumerate(lengths) for _ in range(length)]
    assert packing.offsets.dtype == torch.int32
    assert packing.offsets.tolist() == [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    assert packing.longest == max(lengths)


def test_gradients_take_the_same_way_and_none_comes_from_what_is_behind_a_sequence() -> None:
    packing = pack(torch.tensor([3, 1, 4]))
    x = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 4, 5, dtype=torch.float64)
    (packing.to_grid(x) * weights).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, packing.from_grid(weights))
    grid = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    packing.from_grid(grid).sum().backward()
    assert grid.grad is not None
    assert torch.equal(grid.grad, packing.to_grid(torch.ones(8, 5, dtype=torch.float64)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_a_grid_has_the_type_of_its_row(dtype: torch.dtype) -> None:
    packing = pack(torch.tensor([2, 1]))
    assert packing.to_grid(torch.ones(3, dtype=dtype)).dtype == dtype


def test_a_grid_read_row_by_row_is_packed_as_sequences_of_one_length() -> None:
    found, wanted = grid_packing(3, 5, torch.device("cpu")), pack(torch.tensor([5, 5, 5]))
    assert found.longest == wanted.longest
    for x, y in zip(found[:3], wanted[:3], strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y)
