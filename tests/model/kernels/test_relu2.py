"""The squared ReLU by a kernel against its plain twin, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from gpt1.model.layers import relu2
from tests.model.kernels.tools import CAN_RUN, WHY_NOT, assert_near, normal, results_and_gradients

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.relu2 import fused_relu2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_result_and_gradient_are_those_of_the_plain_twin(dtype: torch.dtype) -> None:
    x = normal(7, 300, dtype=dtype)
    found = results_and_gradients(lambda y: [fused_relu2(y)], x)
    wanted = results_and_gradients(lambda y: [relu2(y)], x.double())
    assert_near(found, wanted, {torch.float32: 1e-6, torch.bfloat16: 1e-2}[dtype])
