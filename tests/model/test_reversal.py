"""What is reversed is the gradient and nothing else."""

from __future__ import annotations

import pytest
import torch

from gpt1.model.reversal import reverse_gradient


@pytest.mark.parametrize("factor", [0.0, 0.25, 3.0])
def test_values_pass_and_gradients_come_back_times_minus_the_factor(factor: float) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float64, requires_grad=True)
    passed = reverse_gradient(x, torch.tensor([factor], dtype=torch.float64))
    assert torch.equal(passed, x)
    (passed @ weight).square().sum().backward()
    plain = x.detach().requires_grad_()
    own = weight.detach().requires_grad_()
    (plain @ own).square().sum().backward()
    assert x.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(x.grad, -factor * plain.grad, rtol=0, atol=0)
    assert torch.equal(weight.grad, own.grad)  # type: ignore[arg-type]


def test_a_vector_in_16_bits_has_a_gradient_in_16_bits() -> None:
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    reverse_gradient(x, torch.tensor([0.5])).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.bfloat16
    assert x.grad.tolist() == [-0.5, -0.5]
