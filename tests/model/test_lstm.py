"""The LSTM against a literal loop over positions."""

from __future__ import annotations

import pytest
import torch

from gpt1.model import build_model
from gpt1.model.dropout import Place, Site, keep_mask, layer_site, table_mask
from gpt1.recipes.catalog import PAPER_LSTM
from tests.model.tools import SMALL_LSTM, VOCAB, batch, gradients, loss_and_gradients, noise_for, relative_error, shaken
from tests.reference import lstm as reference
from tests.reference.transformer import loss as reference_loss


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
def test_outputs_loss_and_gradients_are_those_of_the_formulas(dropping: bool) -> None:
    model, (ids, targets, weights) = shaken(SMALL_LSTM), batch()
    rate, width, units, length = SMALL_LSTM.dropout, SMALL_LSTM.width, SMALL_LSTM.units, ids.shape[1]
    noise = noise_for(len(ids), first=4) if dropping else None
    masks = noise and {
        "tokens": table_mask(VOCAB, width, rate, noise, Site.TOKENS),
        "states": keep_mask((length, units), rate, noise, layer_site(0, Place.INSIDE)),
        "branch_1": keep_mask((length, width), rate, noise, layer_site(0, Place.BRANCH_1)),
    }

    parameters = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    hidden, output = reference.forward(parameters, ids, units, masks, rate)
    loss = reference_loss(hidden, output, targets, weights)

    found_hidden, found_output = model(ids, noise)
    assert relative_error({"h": found_hidden, "o": found_output}, {"h": hidden, "o": output}) < 1e-10
    found_loss, found_gradients = loss_and_gradients(model, noise)
    assert found_loss.item() == pytest.approx(loss.item(), rel=1e-10)
    assert relative_error(found_gradients, gradients(loss, parameters)) < 1e-10


def test_the_paper_has_one_layer_of_2_048_units_projected_to_the_width() -> None:
    with torch.device("meta"):
        model = build_model(PAPER_LSTM.shape, 40_478)
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == {
        "tokens": (40_478, 768),
        "blocks.0.input.weight": (4 * 2048, 768),
        "blocks.0.input.bias": (4 * 2048,),
        "blocks.0.recurrent.weight": (4 * 2048, 2048),
        "blocks.0.out.weight": (768, 2048),
        "blocks.0.out.bias": (768,),
    }
