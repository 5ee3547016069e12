"""Blocks and tables that add to their gradients themselves, against autograd, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from gpt1.model import Model, build_model, linear_cross_entropy, network, transformer
from gpt1.model.dropout import DropoutKey
from gpt1.model.layers import adding_in_products
from gpt1.recipes.values import Shape
from tests.model.kernels.tools import CAN_RUN, DEVICE, ON_GPU, WHY_NOT, noise_of, normal, packed
from tests.model.tools import MODERN, relative_error

pytest.importorskip("triton", reason="the kernels need Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

SHAPE = Shape(layers=2, width=32, heads=2, feed_forward=48, context=11, dropout=0.2)
VOCAB = 23
DTYPE, ERROR = (torch.bfloat16, 5e-2) if ON_GPU else (torch.float32, 1e-4)
BEFORE = 0.5  # what stands in all gradients beforehand


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (transformer, network):
        monkeypatch.setattr(room, "fuses", lambda x: True)


def made(shape: Shape, compute: torch.dtype) -> Model:
    model = build_model(shape, VOCAB, compute=compute).to(DEVICE)
    for number, parameter in enumerate(model.parameters()):
        parameter.data += 0.2 * normal(*parameter.shape, seed=number)
        parameter.grad = torch.full_like(parameter, BEFORE)
    return model


def copies_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: weights.detach().to(DTYPE, copy=True) for name, weights in model.named_parameters()}


def loss_and_gradients(model: Model, noise: DropoutKey | None) -> dict[str, Tensor]:
    """Return the loss, and how gradients have changed."""
    ids = torch.arange(22, device=DEVICE) % 9  # some of them several times, in several sequences
    hidden, output = model(ids, noise, packed(9, 2, 11))
    weights = torch.linspace(0.5, 1.5, 22, device=DEVICE)
    loss = linear_cross_entropy(hidden, output, ids.flip(0), weights, VOCAB)
    loss.backward()
    changes = {name: parameter.grad - BEFORE for name, parameter in model.named_parameters()}  # type: ignore[operator]
    return {"loss": loss.detach(), **changes}


SHAPES = {
    "the paper's": SHAPE,
    "wider than a piece": replace(SHAPE, width=288, heads=9, layers=1),
    "a root mean square": replace(SHAPE, norm="rms"),
    "rotary, norms first, an output of its own": replace(MODERN, tied=False),
}


@pytest.mark.filterwarnings("ignore:overflow")  # where an activation is 0
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("noise", [None, noise_of(5, 3, 8)], ids=["nothing dropped", "dropout"])
def test_loss_and_gradients_are_those_of_autograd(noise: DropoutKey | None, shape: Shape) -> None:
    if ON_GPU and noise is not None:
        pytest.skip("there the plain network's attention drops by the library's masks")
    wanted = loss_and_gradients(made(shape, torch.float32), noise)
    model = made(shape, DTYPE)
    with adding_in_products(model, copies_of(model)) as additions, additions.of_pass(is_first=False):
        found = loss_and_gradients(model, noise)
    assert relative_error(found, wanted) < ERROR


def test_the_first_pass_of_a_step_writes_the_gradients_of_matrices_whatever_was_there() -> None:
    wanted = loss_and_gradients(made(SHAPE, torch.float32), None)
    model = made(SHAPE, DTYPE)
    with adding_in_products(model, copies_of(model)) as additions, additions.of_pass(is_first=True):
        found = loss_and_gradients(model, None)
    assert len(additions.written_whole) == 4 * SHAPE.layers
    for name in additions.written_whole:
        found[name] += BEFORE  # there was nothing left of it
    assert relative_error(found, wanted) < ERROR


def test_kernels_are_for_shapes_they_know_and_weights_that_learn() -> None:
    model = made(SHAPE, DTYPE)
    first, second = model.blocks
    first.attention.out.weight.requires_grad_(False)
    assert [part.can_add() for part in (first, second, model)] == [False, True, True]  # type: ignore[operator]
    model.tokens.requires_grad_(False)
    assert not model.can_add()
    for other in (MODERN, replace(SHAPE, norm="rms"), replace(SHAPE, activation="relu2"), replace(SHAPE, heads=4)):
        assert not made(other, DTYPE).blocks[0].can_add()  # type: ignore[operator]


def test_afterwards_autograd_is_asked_again() -> None:
    model = made(SHAPE, torch.float32)
    with adding_in_products(model, copies_of(model)):
        assert model.additions is not None
    assert model.additions is None
    assert {block.additions for block in model.blocks} == {None}
    assert relative_error(loss_and_gradients(model, None), loss_and_gradients(made(SHAPE, torch.float32), None)) < 1e-6
