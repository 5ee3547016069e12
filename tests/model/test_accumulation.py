"""Gradients that products add to what is there, against those of autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpt1.model.layers import Linear, adding_in_products

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def layer() -> Linear:
    made = Linear(6, 4, bias=True).to(DEVICE)
    generator = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
        parameter.grad = torch.ones_like(parameter)
    return made


def gradients(made: Linear, x: Tensor, *, adds: bool = True) -> list[Tensor]:
    x = x.clone().requires_grad_()
    copies = {f".{name}": weights.detach().bfloat16() for name, weights in made.named_parameters()} if adds else {}
    with adding_in_products(made, copies):
        made(x).square().sum().backward()
    assert made.copies is None
    return [x.grad, made.weight.grad, made.bias.grad]  # type: ignore[list-item, union-attr]


@pytest.mark.parametrize("size", [(5, 6), (2, 3, 6)])
def test_gradients_are_added_to_what_was_there(size: tuple[int, ...]) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(1)).to(DEVICE, torch.bfloat16)
    for found, wanted in zip(gradients(layer(), x), gradients(layer(), x, adds=False), strict=True):
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=5e-2)


def test_the_buffers_of_gradients_stay_where_they_are() -> None:
    made = layer()
    homes = [parameter.grad for parameter in made.parameters()]
    gradients(made, torch.randn(5, 6, dtype=torch.bfloat16, device=DEVICE))
    assert all(parameter.grad is home for parameter, home in zip(made.parameters(), homes, strict=True))


def test_what_does_not_learn_is_left_alone() -> None:
    made = layer()
    made.weight.requires_grad_(False)
    gradients(made, torch.randn(5, 6, dtype=torch.bfloat16, device=DEVICE))
    assert torch.equal(made.weight.grad, torch.ones_like(made.weight))
    assert not torch.equal(made.bias.grad, torch.ones_like(made.bias))


def test_in_the_weights_own_type_autograd_does_it() -> None:
    made, same = layer(), layer()
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    for found, wanted in zip(gradients(made, x), gradients(same, x, adds=False), strict=True):
        assert torch.equal(found, wanted)
