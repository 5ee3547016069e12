"""Products with an activation or a gradient on the way against the formulas: cuBLASLt's on a GPU, their twins here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.model.kernels.products import epilogues_fit, gelu_linear
from tests.model.kernels.tools import ON_GPU, assert_near, normal

SIZES = [(40, 24, 48), (7, 6, 10)]  # rows, width, wider: such as cuBLASLt takes, and such as it does not
DTYPE, ERROR = (torch.bfloat16, 1e-2) if ON_GPU else (torch.float32, 1e-5)


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def given(rows: int, width: int, wider: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    sizes = (rows, width), (wider, width), (wider,), (rows, width), (width, wider)
    x, up, bias, grad, down = (normal(*size, seed=seed, dtype=DTYPE) for seed, size in enumerate(sizes))
    return x, up, bias, grad, down


@pytest.mark.parametrize("size", SIZES)
def test_a_product_has_its_bias_and_its_activation(size: tuple[int, int, int]) -> None:
    x, up, bias, _, _ = given(*size)
    y, before = gelu_linear(x, up, bias)
    wanted = x.double() @ up.double().T + bias.double()
    assert_near([before, y], [wanted, gelu(wanted)], ERROR)


@pytest.mark.skipif(not ON_GPU, reason="no GPU here")
def test_on_a_gpu_the_library_computes_what_comes_along_where_sizes_suit_it() -> None:
    assert [epilogues_fit(*given(*size)[:2]) for size in SIZES] == [True, False]
    assert not epilogues_fit(*(x.float() for x in given(*SIZES[0])[:2]))


def test_results_of_sixteen_bits_are_near_those_of_the_operators_of_torch() -> None:
    x, up, bias, _, _ = given(*SIZES[0])
    y, before = gelu_linear(x, up, bias)
    assert_near([y], [F.gelu(before.double(), approximate="tanh")], ERROR)
