"""Costs by formula are those of the networks themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpt1.model import build_model
from gpt1.model.costs import SCORES, count_parameters, layer_flops_per_token
from gpt1.recipes.catalog import PAPER, PAPER_LSTM, RECIPES
from gpt1.recipes.values import Shape


def test_the_papers_model_has_the_papers_parameters() -> None:
    parameters = count_parameters(PAPER.shape, 40_478)
    assert parameters.total == 116_534_784
    assert parameters.layers == 12 * 7_087_872
    assert parameters.embeddings == (40_478 + 512) * 768


@pytest.mark.parametrize(
    "shape",
    [
        *(recipe.shape for recipe in RECIPES.values()),
        replace(PAPER.shape, bias=False, norm_first=True),
        replace(PAPER.shape, norm="rms", tied=False, positions="rotary"),
        replace(PAPER_LSTM.shape, bias=False, tied=False),
    ],
)
def test_the_formula_counts_what_the_model_has(shape: Shape) -> None:
    with torch.device("meta"):
        model = build_model(shape, 1000)
    assert count_parameters(shape, 1000).total == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("window", "first"), [(None, 0), (64, 0), (64, 4), (200, 1), (512, 8)])
def test_scores_cost_what_is_looked_at(window: int | None, first: int) -> None:
    shape = replace(PAPER.shape, window=window, global_tokens=first)
    looked_at = sum(i - j < (window or shape.context) or j < first for i in range(shape.context) for j in range(i + 1))
    wanted = 12 * shape.width * looked_at / shape.context
    assert layer_flops_per_token(shape)[SCORES] == pytest.approx(wanted, rel=0.02)
