"""Attention by blocks is attention in a band, and drops what full attention would drop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gpt1.model.attention import Looking, attend
from gpt1.model.dropout import DropoutKey, keep_mask
from tests.model.tools import noise_for, relative_error

B, H, D = 2, 3, 8
SITE, RATE = 9, 0.3


def queries_keys_values(length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(B, H, length, D, generator=generator, dtype=torch.float64) for _ in range(3)]
    return [x.to(dtype).requires_grad_() for x in draw]


def banded(q: Tensor, k: Tensor, v: Tensor, window: int, keep: Tensor | None) -> Tensor:
    """Attend in full, with every score outside the band at -1e9."""
    i = torch.arange(q.shape[2])
    distance = i.unsqueeze(1) - i
    scores = (q @ k.mT / math.sqrt(D)).masked_fill((distance < 0) | (distance >= window), -1e9)
    weights = scores.softmax(-1)
    return (weights if keep is None else weights * keep / (1 - RATE)) @ v


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize(
    ("length", "window"), [(12, 4), (13, 4), (15, 4), (5, 4), (4, 4), (3, 4), (12, 1), (12, 11), (12, 12), (1, 1)]
)
def test_a_window_is_full_attention_in_a_band(length: int, window: int, dropping: bool) -> None:
    inputs = queries_keys_values(length)
    noise = noise_for(B, first=3) if dropping else None
    keep = keep_mask((H, length, length), RATE, noise, SITE) if noise else None
    weight = torch.randn(B, H, length, D, dtype=torch.float64)
    found, wanted = (
        attend(*inputs, rate=RATE, noise=noise, site=SITE, looking=Looking(window)),
        banded(*inputs, window, keep),
    )
    assert found.shape == wanted.shape
    assert relative_error({"y": found}, {"y": wanted}) < 1e-12
    slopes = [dict(zip("qkv", torch.autograd.grad(y, inputs, weight), strict=True)) for y in (found, wanted)]
    assert relative_error(*slopes) < 1e-9  # of a window of one token the queries' gradients are 0, but for rounding


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
def test_no_window_is_a_window_over_everything(dropping: bool) -> None:
    inputs = queries_keys_values(9)
    noise = noise_for(B) if dropping else None
    keep = keep_mask((H, 9, 9), RATE, noise, SITE) if noise else None
    found = attend(*inputs, rate=RATE, noise=noise, site=SITE)
    assert relative_error({"y": found}, {"y": banded(*inputs, 9, keep)}) < 1e-12


def test_nothing_is_dropped_at_rate_0() -> None:
    inputs = queries_keys_values(9)
    for window in (None, 4):
        with_noise, without = (
            attend(*inputs, rate=0.0, noise=n, site=SITE, looking=Looking(window)) for n in (noise_for(B), None)
        )
        assert torch.equal(with_noise, without)


def largest_tensor(length: int, window: int, dropping: bool) -> int:
    """Return the elements of the largest tensor that attention in a window makes."""
    sizes = [0]

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            made = function(*args, **(kwargs or {}))
            sizes.append(made.numel() if isinstance(made, Tensor) else 0)
            return made

    inputs = queries_keys_values(length, torch.float32)
    with Watch():
        attend(*inputs, rate=RATE, noise=noise_for(B) if dropping else None, site=SITE, looking=Looking(window))
    return max(sizes)


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
def test_memory_grows_with_length_times_window_and_not_with_length_squared(dropping: bool) -> None:
    short, long = (largest_tensor(length, 32, dropping) for length in (2048, 4096))
    assert 0 < short <= B * H * 2048 * 64
    assert long == 2 * short


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("window", [None, 16])
def test_a_gpu_drops_about_the_share_it_should(window: int | None) -> None:
    q = torch.zeros(4, 4, 128, 64, device="cuda", dtype=torch.bfloat16)
    y = attend(
        q, q, torch.ones_like(q), rate=RATE, noise=on_gpu(noise_for(4)), site=SITE, looking=Looking(window)
    ).float()
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    first = y[:, :, 0]  # it attends to itself alone: all or nothing
    assert ((first == 0) | ((first - 1 / (1 - RATE)).abs() < 0.01)).all()
    assert y.std().item() > 0.05


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("window", [None, 4])
def test_a_gpu_in_float64_drops_what_a_cpu_drops(window: int | None) -> None:
    inputs = queries_keys_values(13)
    wanted = attend(*inputs, rate=RATE, noise=noise_for(B), site=SITE, looking=Looking(window))
    moved = [x.cuda() for x in inputs]
    found = attend(*moved, rate=RATE, noise=on_gpu(noise_for(B)), site=SITE, looking=Looking(window)).cpu()
    assert relative_error({"y": found}, {"y": wanted}) < 1e-12


def on_gpu(noise: DropoutKey) -> DropoutKey:
    return DropoutKey(noise.word.cuda(), noise.rows.cuda())
