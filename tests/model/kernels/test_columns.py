"""Sums over columns against those of torch, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.model.kernels.tools import CAN_RUN, WHY_NOT, assert_near, normal

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.columns import add_parts, column_sums, pack_columns

SIZES = [(1, 3), (70, 300)]  # a part of a program; several each way


@pytest.mark.parametrize("size", SIZES)
def test_columns_are_summed_in_float32(size: tuple[int, int]) -> None:
    x = normal(*size, dtype=torch.bfloat16)
    found = column_sums(x)
    assert found.dtype == torch.float32
    assert_near([found], [x.double().sum(0)], 1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_three_matrices_are_put_side_by_side_and_summed_on_the_way(size: tuple[int, int]) -> None:
    parts = [normal(*size, seed=seed, dtype=torch.bfloat16) for seed in range(3)]
    packed, sums = pack_columns(*parts)
    wanted = torch.cat(parts, 1)
    assert torch.equal(packed, wanted)
    assert_near([sums.sum(0)], [wanted.double().sum(0)], 1e-6)


@pytest.mark.parametrize("kinds", [1, 3])
def test_parts_are_added_to_the_totals_that_are_there_or_alone(kinds: int) -> None:
    parts = normal(150, kinds, 40)
    assert_near(add_parts(parts, None), list(parts.double().sum(0)), 1e-6)
    totals = [torch.ones_like(parts[0, 0]) for _ in range(kinds)]
    assert add_parts(parts, totals) is totals
    assert_near(totals, [1 + x for x in parts.double().sum(0)], 1e-6)
