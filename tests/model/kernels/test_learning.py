"""Blocks whose backward pass adds to gradients itself, against autograd, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpt1.model import build_model, linear_cross_entropy, network, transformer
from gpt1.model.dropout import DropoutKey
from gpt1.model.layers import adding_in_products
from gpt1.recipes.values import Shape
from tests.model.kernels.test_block import shake
from tests.model.kernels.tools import CAN_RUN, DEVICE, ON_GPU, WHY_NOT, noise_of, packed
from tests.model.tools import relative_error

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

SHAPE = Shape(layers=2, width=32, heads=2, feed_forward=48, context=11, dropout=0.2)
VOCAB = 23
DTYPE, ERROR = (torch.bfloat16, 5e-2) if ON_GPU else (torch.float32, 1e-4)


def loss_and_gradients(adds: bool, noise: DropoutKey | None, shape: Shape) -> dict[str, torch.Tensor]:
    model = build_model(shape, VOCAB, compute=DTYPE if adds else torch.float32, fused=False).to(DEVICE)
    shake(model)
    named = dict(model.named_parameters())
    for parameter in named.values():
        parameter.grad = torch.full_like(parameter, 0.5)
    ids = torch.arange(22, device=DEVICE) % VOCAB
    copies = {name: weights.detach().to(DTYPE, copy=True) for name, weights in named.items()} if adds else {}
    with adding_in_products(model, copies) as additions, additions.of_pass(is_first=False):
        hidden, output = model(ids, noise, packed(9, 2, 11))
        weights = torch.linspace(0.5, 1.5, 22, device=DEVICE)
        loss = linear_cross_entropy(hidden, output, ids.flip(0), weights, VOCAB)
        loss.backward()
    return {"loss": loss.detach(), **{name: parameter.grad for name, parameter in named.items()}}  # type: ignore[misc]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (transformer, network):
        monkeypatch.setattr(room, "fuses", lambda x: True)


@pytest.mark.filterwarnings("ignore:overflow")  # where an activation is 0
@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, norm="rms"), replace(SHAPE, width=288, heads=9, layers=1)])
@pytest.mark.parametrize("noise", [None, noise_of(5, 3, 8)])
def test_loss_and_gradients_are_those_of_autograd(noise: DropoutKey | None, shape: Shape) -> None:
    if ON_GPU and noise is not None:
        pytest.skip("there the plain network's attention drops by the library's masks")
    found, wanted = loss_and_gradients(True, noise, shape), loss_and_gradients(False, noise, shape)
    assert relative_error(found, wanted) < ERROR
