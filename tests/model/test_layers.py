"""The small layers: types in and out, and what each one leaves alone."""

from __future__ import annotations

import pytest
import torch

from gpt1.model.layers import ACTIVATIONS, LayerNorm, Linear, RMSNorm, Rotary, UnitRMS, make_norm
from gpt1.recipes.values import ACTIVATIONS as NAMES


def filled(layer: torch.nn.Module) -> torch.nn.Module:
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    return layer


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "layer",
    [Linear(8, 8, True), Linear(8, 8, False), LayerNorm(8, True), LayerNorm(8, False), RMSNorm(8), Rotary(4, 8)],
    ids=["linear", "linear without bias", "layer norm", "layer norm without bias", "rms norm", "rotary"],
)
def test_what_comes_out_has_the_type_of_what_goes_in_and_weights_stay_in_full_precision(
    layer: torch.nn.Module, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 3, 4, 8).to(dtype)
    assert filled(layer)(x).dtype == dtype
    assert {parameter.dtype for parameter in layer.parameters()} <= {torch.float32}


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_a_norm_of_16_bits_is_computed_in_32(kind: str) -> None:
    norm = filled(make_norm(kind, 512, bias=True))
    x = (100 * torch.randn(4, 512)).bfloat16()
    assert torch.equal(norm(x), norm(x.float()).bfloat16())


def test_only_a_layer_norm_has_a_bias_and_only_where_asked() -> None:
    found = [sorted(dict(make_norm(kind, 4, bias).named_parameters())) for kind in ("layer", "rms") for bias in (1, 0)]
    assert found == [["bias", "gain"], ["gain"], ["gain"], ["gain"]]


def test_the_dot_product_of_rotated_vectors_depends_on_their_distance_alone() -> None:
    rotary = Rotary(64, 16)
    q, k = torch.randn(2, 16, dtype=torch.float64)
    q, k = (rotary(x.expand(1, 1, 64, 16))[0, 0] for x in (q, k))
    products = q @ k.T
    for distance in (0, 1, 7, 40):
        line = products.diagonal(-distance)
        torch.testing.assert_close(line, line[:1].expand_as(line), rtol=0, atol=1e-5)
    assert products[7, 0] != pytest.approx(products[0, 0].item(), abs=1e-3)


def test_a_rotation_and_a_norm_of_a_head_may_change_places() -> None:
    rotary, norm = Rotary(64, 16), UnitRMS()
    x = torch.randn(2, 3, 64, 16)
    torch.testing.assert_close(rotary(norm(x)), norm(rotary(x)))
    torch.testing.assert_close(norm(x).square().mean(-1), torch.ones(2, 3, 64), rtol=1e-4, atol=0)


def test_rotation_tables_are_no_part_of_what_is_saved() -> None:
    assert Rotary(64, 16).state_dict() == {}


def test_every_activation_a_shape_may_name_is_there() -> None:
    assert set(ACTIVATIONS) == set(NAMES)
    x = torch.tensor([-2.0, 0.0, 3.0])
    assert ACTIVATIONS["relu2"](x).tolist() == [0.0, 0.0, 9.0]
    assert ACTIVATIONS["gelu"](x).tolist() == pytest.approx([-0.045402, 0.0, 2.996363], abs=1e-6)
