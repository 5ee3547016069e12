"""Weights in a byte each: how near they come, and what is refused."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import FormatError
from gpt1.runs.compact import GROUP, SCALES, compact, expanded


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 200),
    size=st.sampled_from([1e-6, 0.02, 1.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_no_weight_is_off_by_more_than_a_step_of_its_group(rows: int, columns: int, size: float, seed: int) -> None:
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size
    matrix[0, :GROUP] = 0  # a group of nothing
    small = compact({"w": matrix, "b": matrix[0]})
    assert small["w"].dtype == torch.int8
    found = expanded(small, "x")
    assert found.keys() == {"w", "b"}
    assert torch.equal(found["b"], matrix[0])
    for start in range(0, columns, GROUP):
        group, again = (one[:, start : start + GROUP] for one in (matrix, found["w"]))
        largest = group.abs().amax(1, keepdim=True)
        # Half a step of 1/127; rounding the scale to bf16 may clip the largest by half a step more.
        assert bool(((group - again).abs() <= largest / 127 * 1.01 + 1e-12).all())


def test_it_is_a_quarter_of_the_size() -> None:
    matrix = torch.randn(100, 512)
    assert sum(tensor.nbytes for tensor in compact({"w": matrix}).values()) < 0.26 * matrix.nbytes


def test_what_is_compact_already_stays_the_same() -> None:
    once = expanded(compact({"w": torch.randn(4, 130)}), "x")
    again = expanded(compact(once), "x")
    assert torch.allclose(once["w"], again["w"], rtol=0.01, atol=0)


def test_weights_that_are_no_bytes_are_left_alone() -> None:
    weights = {"w": torch.randn(3, 3), "b": torch.randn(3)}
    assert expanded(weights, "x") == weights


@pytest.mark.parametrize(
    "scales",
    [None, torch.ones(3, 1), torch.ones(4, 2), torch.ones(4, 1, dtype=torch.int32), torch.ones(4, 1) * 1j],
)
def test_bytes_without_scales_that_fit_are_refused_by_name(scales: torch.Tensor | None) -> None:
    small = compact({"w": torch.randn(4, 10)})
    del small["w" + SCALES]
    if scales is not None:
        small["w" + SCALES] = scales
    with pytest.raises(FormatError, match=r"step-1 is damaged: 'w' has no scales that fit it"):
        expanded(small, "step-1")
