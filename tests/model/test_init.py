"""Weights start as the paper says, each from the seed and its own name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpt1.model import build_model
from gpt1.recipes.values import Shape
from tests.model.tools import MODERN, PAPER, SMALL_LSTM

WIDE = replace(PAPER, width=120, feed_forward=240)


@pytest.mark.parametrize("shape", [WIDE, replace(SMALL_LSTM, width=120, units=100)], ids=["transformer", "lstm"])
def test_matrices_are_normal_biases_zero_and_gains_one(shape: Shape) -> None:
    model = build_model(shape, 400)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        if name.endswith("gain"):
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            spread = 0.02 / parameter.numel() ** 0.5
            assert parameter.mean().item() == pytest.approx(0, abs=5 * spread), name
            assert parameter.std().item() == pytest.approx(0.02, abs=5 * spread), name
            assert 3 * 0.02 < parameter.abs().max().item() < 6 * 0.02, name


def test_the_deviation_is_the_shape_s() -> None:
    model = build_model(replace(WIDE, init_std=0.5), 400)
    assert model.tokens.std().item() == pytest.approx(0.5, rel=0.02)


def test_blocks_that_normalise_first_begin_by_passing_on_what_they_are_given() -> None:
    model = build_model(MODERN, 50)
    for block in model.blocks:
        assert not block.attention.out.weight.any()
        assert not block.feed_forward.down.weight.any()
        assert block.attention.qkv.weight.all()
    x = torch.randn(2, 5, MODERN.width)
    assert torch.equal(model.blocks[0](x, None), x)


def test_a_value_depends_on_seed_and_name_and_not_on_what_was_made_before() -> None:
    torch.manual_seed(1)
    one = build_model(PAPER, 50, seed=3).state_dict()
    torch.manual_seed(2)
    deeper = build_model(replace(PAPER, layers=3, norm="rms"), 60, seed=3).state_dict()
    same = [name for name in one if name in deeper and one[name].shape == deeper[name].shape]
    assert "blocks.1.feed_forward.down.weight" in same
    assert all(torch.equal(one[name], deeper[name]) for name in same)
    other = build_model(PAPER, 50, seed=4).state_dict()
    assert not torch.equal(one["tokens"], other["tokens"])
    values = [one[name] for name in one if name.endswith(("qkv.weight", "up.weight"))]
    assert len({float(value.flatten()[0]) for value in values}) == len(values)


def test_building_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    build_model(PAPER, 50)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_start_where_they_have_always_started() -> None:
    tokens = build_model(PAPER, 50, seed=0).tokens
    assert tokens[0, :3].tolist() == pytest.approx([0.00222024, -0.00141606, 0.00318080], abs=1e-8)
