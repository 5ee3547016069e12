"""Attention in a window with global tokens against its plain twin, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpt1.model.attention import Looking, attend_packed
from gpt1.model.dropout import DropoutKey
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.packing import Packing
from tests.model.kernels.tools import (
    CAN_RUN,
    DEVICE,
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

from gpt1.model.kernels import windows
from gpt1.model.kernels.windows import window_attention

HEADS, WIDTH, SITE, RATE = 2, 16, 11, 0.3
DTYPES = [torch.float16, torch.bfloat16 if ON_GPU else torch.float32]
ERRORS = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
GONE = 9999  # beyond every sequence
PLACES = {
    "a window": None,
    "first ones": [[0, 1]] * 3,
    "special ones": [[0, 3, 4], [0, 70, 129], [0, GONE, GONE]],
    "more than a tile": [[*range(17), GONE], [*range(3, 20), 100], [*range(18)]],
}


def places_of(name: str) -> Tensor | None:
    places = PLACES[name]
    return None if places is None else torch.tensor(places, device=DEVICE)


def fused(
    x: Tensor, packing: Packing, window: int, places: Tensor | None, noise: DropoutKey | None
) -> tuple[Tensor, ...]:
    given = {"packing": packing, "window": window, "places_BG": places, "rate": RATE, "noise": noise, "site": SITE}
    return (window_attention(*x.unbind(1), **given),)


def plain(
    x: Tensor, packing: Packing, window: int, places: Tensor | None, noise: DropoutKey | None
) -> tuple[Tensor, ...]:
    q, k, v = (part.transpose(0, 1) for part in x.unbind(1))
    looking = Looking(window, None if places is None else GlobalTokens(places))
    y = attend_packed(q, k, v, packing=packing, rate=RATE, noise=noise, site=SITE, looking=looking)
    return (y.transpose(0, 1),)


@pytest.mark.parametrize("noise", [None, noise_of(7, 2, 9)], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("window", [1, 20, 64, 100])
@pytest.mark.parametrize("name", PLACES)
def test_results_and_gradients_are_those_of_the_plain_twin(name: str, window: int, noise: DropoutKey | None) -> None:
    packing, places = packed(5, 130, 1), places_of(name)
    x = normal(136, 3, HEADS, WIDTH, dtype=DTYPES[1])
    found = results_and_gradients(lambda x: fused(x, packing, window, places, noise), x)
    wanted = results_and_gradients(lambda x: plain(x, packing, window, places, noise), x.double())
    assert_near(found, wanted, ERRORS[DTYPES[1]])


def test_sixteen_bits_stay_near_their_twin() -> None:
    packing, places, noise = packed(5, 130, 1), places_of("special ones"), noise_of(7, 2, 9)
    x = normal(136, 3, HEADS, WIDTH, dtype=torch.float16)
    found = results_and_gradients(lambda x: fused(x, packing, 20, places, noise), x)
    wanted = results_and_gradients(lambda x: plain(x, packing, 20, places, noise), x.double())
    assert_near(found, wanted, ERRORS[torch.float16])


@pytest.mark.parametrize("blocks", [((128, 32, 4, 2), (64, 128, 4, 2)), ((32, 64, 4, 2), (16, 32, 4, 2))])
def test_other_blocks_give_the_same(
    blocks: tuple[tuple[int, ...], tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, places, noise = packed(140), torch.tensor([[0, 77, 139]], device=DEVICE), noise_of(4)
    x = normal(140, 3, 1, WIDTH, dtype=DTYPES[1])
    wanted = results_and_gradients(lambda x: fused(x, packing, 33, places, noise), x)
    monkeypatch.setattr(windows, "FORWARD", blocks[0])
    monkeypatch.setattr(windows, "BACKWARD", blocks[1])
    assert_near(results_and_gradients(lambda x: fused(x, packing, 33, places, noise), x), wanted, ERRORS[DTYPES[1]])


@pytest.mark.skipif(ON_GPU, reason="differences need more than 16 bits")
def test_the_gradient_is_the_slope_of_the_dropped_function() -> None:
    packing, places = packed(21, 9), torch.tensor([[0, 20], [0, 4]])
    by_gradient, by_differences = slopes(
        lambda x: fused(x, packing, 3, places, noise_of(1, 2))[0], normal(30, 3, 1, WIDTH)
    )
    assert by_gradient == pytest.approx(by_differences, rel=2e-3)


@pytest.mark.filterwarnings("default")  # the compiler's own
def test_a_compiler_takes_it_as_one_operation() -> None:
    packing, places, noise = packed(21, 9), torch.tensor([[0, 20], [0, 4]], device=DEVICE), noise_of(1, 2)
    x = normal(30, 3, 1, WIDTH, dtype=DTYPES[1])
    compiled = torch.compile(lambda x: fused(x, packing, 3, places, noise), backend="aot_eager", fullgraph=True)
    found = results_and_gradients(compiled, x)
    wanted = results_and_gradients(lambda x: fused(x, packing, 3, places, noise), x)
    assert_near(found, wanted, ERRORS[DTYPES[1]])
