"""The GELU with its bias against its plain twin, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from gpt1.model.layers import gelu
from tests.model.kernels.tools import CAN_RUN, WHY_NOT, assert_near, normal, results_and_gradients

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.gelu import fused_bias_gelu

ERRORS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
SIZES = [(1, 3), (70, 300)]  # a part of a program; several each way


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_results_and_gradients_are_those_of_the_plain_twin(size: tuple[int, int], dtype: torch.dtype) -> None:
    x, bias = normal(*size, dtype=dtype), normal(size[1], seed=1)
    found = results_and_gradients(lambda x, bias: (fused_bias_gelu(x, bias),), x, bias)
    wanted = results_and_gradients(lambda x, bias: (gelu(x + bias),), x.double(), bias.double())
    assert_near(found, wanted, ERRORS[dtype])
