"""Packed attention with our own masks against its plain twin, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpt1.model.attention import attend_packed
from gpt1.model.dropout import DropoutKey
from gpt1.model.packing import Packing
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

from gpt1.model.kernels import attention
from gpt1.model.kernels.attention import fused_attention
from gpt1.model.kernels.masks import masks_at

HEADS, WIDTH, SITE, RATE = 2, 16, 11, 0.3
# 32 bits do not fit a GPU's tiles, and the interpreter does not multiply bf16.
DTYPES = [torch.float16, torch.bfloat16 if ON_GPU else torch.float32]
ERRORS = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def fused(qkv: Tensor, packing: Packing, noise: DropoutKey | None) -> tuple[Tensor]:
    return (fused_attention(qkv, masks_at(RATE, noise, SITE, packing)),)


def plain(qkv: Tensor, packing: Packing, noise: DropoutKey | None) -> tuple[Tensor]:
    q, k, v = (x.transpose(0, 1) for x in qkv.unbind(1))
    y = attend_packed(q, k, v, packing=packing, rate=RATE, noise=noise, site=SITE, window=None)
    return (y.transpose(0, 1),)


@pytest.mark.parametrize("noise", [None, noise_of(7, 2, 9)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_and_gradients_are_those_of_the_plain_twin(dtype: torch.dtype, noise: DropoutKey | None) -> None:
    packing = packed(5, 130, 1)
    qkv = normal(136, 3, HEADS, WIDTH, dtype=dtype)
    found = results_and_gradients(lambda x: fused(x, packing, noise), qkv)
    wanted = results_and_gradients(lambda x: plain(x, packing, noise), qkv.double())
    assert_near(found, wanted, ERRORS[dtype])


@pytest.mark.parametrize("blocks", [((128, 64, 4, 2), (64, 64, 4, 2)), ((64, 32, 4, 2), (16, 64, 4, 2))])
def test_other_blocks_drop_the_same_weights(
    blocks: tuple[tuple[int, ...], tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, noise = packed(140), noise_of(4)
    qkv = normal(140, 3, 1, WIDTH, dtype=DTYPES[-1])
    wanted = results_and_gradients(lambda x: fused(x, packing, noise), qkv)
    monkeypatch.setattr(attention, "FORWARD", blocks[0])
    monkeypatch.setattr(attention, "BACKWARD", blocks[1])
    assert_near(results_and_gradients(lambda x: fused(x, packing, noise), qkv), wanted, ERRORS[DTYPES[-1]])


def test_a_sequence_alone_has_the_masks_it_has_among_others() -> None:
    qkv = normal(40, 3, HEADS, WIDTH, dtype=DTYPES[-1])
    together = results_and_gradients(lambda x: fused(x, packed(12, 20, 8), noise_of(7, 2, 9)), qkv)[0]
    alone = results_and_gradients(lambda x: fused(x, packed(20), noise_of(2)), qkv[12:32])[0]
    torch.testing.assert_close(together[12:32], alone, rtol=0, atol=0)


@pytest.mark.skipif(ON_GPU, reason="differences need more than 16 bits")
def test_the_gradient_is_the_slope_of_the_dropped_function() -> None:
    qkv = normal(30, 3, 1, WIDTH)
    by_gradient, by_differences = slopes(lambda x: fused(x, packed(21, 9), noise_of(1, 2))[0], qkv)
    assert by_gradient == pytest.approx(by_differences, rel=2e-3)
