"""Queries and keys prepared by one kernel against the layers they stand for, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpt1.model.layers import Rotary, UnitRMS
from tests.model.kernels.tools import CAN_RUN, DEVICE, WHY_NOT, assert_near, normal, packed, results_and_gradients

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.queries import fused_queries_keys

PACKING, HEADS, WIDTH = packed(4, 6), 3, 20  # a half of which is no power of 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_and_gradients_are_those_of_the_layers(dtype: torch.dtype) -> None:
    rotary, unit = Rotary(8, WIDTH).to(DEVICE), UnitRMS()

    def plain(qkv_N3HD: Tensor) -> list[Tensor]:
        q, k, v = qkv_N3HD.transpose(0, 2).unbind(1)  # heads before positions, as attention has them
        return [x.transpose(0, 1) for x in (unit(rotary(q, PACKING)), unit(rotary(k, PACKING)), v)]

    def fused(qkv_N3HD: Tensor) -> tuple[Tensor, ...]:
        return fused_queries_keys(qkv_N3HD, PACKING.position, rotary.cosines, rotary.sines)

    qkv_N3HD = normal(10, 3, HEADS, WIDTH, dtype=dtype)
    found, wanted = results_and_gradients(fused, qkv_N3HD), results_and_gradients(plain, qkv_N3HD.double())
    assert_near(found, wanted, {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype])
