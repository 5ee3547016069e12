"""Dropout, sum and norm in one kernel against its plain twin, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.model.dropout import DropoutKey, dropout
from tests.model.kernels.tools import (
    CAN_RUN,
    ON_GPU,
    WHY_NOT,
    assert_near,
    noise_of,
    normal,
    packed,
    results_and_gradients,
    slopes,
)

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels import norm
from gpt1.model.kernels.masks import masks_at
from gpt1.model.kernels.norm import Norm, fused_drop_add_norm, fused_norm

SITE, RATE, EPSILON, WIDTH = 5, 0.3, 1e-5, 40
PACKING, NOISE = packed(4, 6), noise_of(7, 2)
ERRORS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def fused(
    centred: bool, noise: DropoutKey | None, x: Tensor, branch: Tensor, gain: Tensor, *biases: Tensor
) -> tuple[Tensor, Tensor]:
    branch_bias, bias = biases or (None, None)
    masks = masks_at(RATE, noise, SITE, PACKING)
    return fused_drop_add_norm(x, branch, branch_bias, Norm(gain, bias, EPSILON, centred), masks)


def plain(
    centred: bool, noise: DropoutKey | None, x: Tensor, branch: Tensor, gain: Tensor, *biases: Tensor
) -> tuple[Tensor, Tensor]:
    branch_bias, bias = biases or (0, 0)
    total = x + dropout(branch + branch_bias, RATE, noise, SITE, PACKING)
    if centred:
        return F.layer_norm(total, (WIDTH,), gain, None, EPSILON) + bias, total
    return F.rms_norm(total, (WIDTH,), gain, EPSILON) + bias, total


def given(dtype: torch.dtype, biases: int) -> list[Tensor]:
    rows = [normal(10, WIDTH, seed=seed, dtype=dtype) for seed in (1, 2)]
    return [*rows, *(normal(WIDTH, seed=seed) for seed in range(3, 4 + biases))]


@pytest.mark.parametrize("noise", [None, NOISE])
@pytest.mark.parametrize("biases", [0, 2])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_and_gradients_are_those_of_the_plain_twin(
    dtype: torch.dtype, centred: bool, biases: int, noise: DropoutKey | None
) -> None:
    values = given(dtype, biases)
    found = results_and_gradients(partial(fused, centred, noise), *values)
    wanted = results_and_gradients(partial(plain, centred, noise), *(x.double() for x in values))
    assert_near(found, wanted, ERRORS[dtype])


def test_the_sum_may_be_left_unused() -> None:
    values = given(torch.float32, 2)
    found = results_and_gradients(lambda *x: fused(True, NOISE, *x)[:1], *values)
    wanted = results_and_gradients(lambda *x: plain(True, NOISE, *x)[:1], *(x.double() for x in values))
    assert_near(found, wanted, 1e-5)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_alone_is_that_of_the_plain_twin(dtype: torch.dtype, centred: bool) -> None:
    def plain_norm(x: Tensor, gain: Tensor, bias: Tensor) -> list[Tensor]:
        return [F.layer_norm(x, (WIDTH,), gain, bias, EPSILON) if centred else F.rms_norm(x, (WIDTH,), gain, EPSILON)]

    def fused_alone(x: Tensor, gain: Tensor, bias: Tensor) -> list[Tensor]:
        return [fused_norm(x, Norm(gain, bias if centred else None, EPSILON, centred))]

    x, *others = normal(5, 2, WIDTH, seed=1, dtype=dtype), normal(WIDTH, seed=3), normal(WIDTH, seed=4)
    unused = () if centred else others[1:]

    def both(function: object) -> list[Tensor]:
        wide = function is plain_norm
        values = [y.double() if wide else y for y in (x, *others[: 2 - len(unused)])]
        apart = [y.double() if wide else y for y in unused]
        return results_and_gradients(lambda *y: function(*y, *apart), *values)  # type: ignore[operator]

    assert_near(both(fused_alone), both(plain_norm), ERRORS[dtype])


def test_other_launches_drop_the_same_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    values = given(torch.float32, 2)
    wanted = results_and_gradients(partial(fused, True, NOISE), *values)
    monkeypatch.setattr(norm, "ROWS", 8)
    monkeypatch.setattr(norm, "BACKWARD_SHAPE", (2, 4, 2))  # each program takes several turns
    assert_near(results_and_gradients(partial(fused, True, NOISE), *values), wanted, 1e-6)


@pytest.mark.skipif(ON_GPU, reason="one trial is enough")
def test_the_gradient_is_the_slope_of_the_dropped_function() -> None:
    x, *others = given(torch.float32, 2)
    by_gradient, by_differences = slopes(lambda branch: fused(True, NOISE, x, branch, *others[1:])[0], others[0])
    assert by_gradient == pytest.approx(by_differences, rel=2e-3)
