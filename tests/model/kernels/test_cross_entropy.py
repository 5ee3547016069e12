"""The fused kernel against its plain twin: on a GPU, or where TRITON_INTERPRET=1 asks for Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from gpt1.model.loss import plain_cross_entropy_
from tests.model.kernels.tools import CAN_RUN, DEVICE, WHY_NOT

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.cross_entropy import fused_cross_entropy_, fused_times


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("vocab_size", "width"), [(1, 1), (100, 128), (4096, 4096), (4097, 4224), (4200, 4352), (8191, 8192), (9000, 9000)]
)
def test_losses_and_gradients_are_those_of_the_plain_twin(vocab_size: int, width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (5 * torch.randn(6, width, generator=generator)).to(DEVICE, dtype)
    logits[3, : min(vocab_size, 50)] += 20
    targets = torch.randint(0, vocab_size, (6,), generator=generator).to(DEVICE)
    targets[1], targets[4] = -1, vocab_size - 1
    weights = torch.rand(6, generator=generator).to(DEVICE)

    torch.testing.assert_close(
        fused_cross_entropy_(logits, targets, None, vocab_size), plain_cross_entropy_(logits, targets, None, vocab_size)
    )
    found, wanted = logits.clone(), logits.clone()
    torch.testing.assert_close(
        fused_cross_entropy_(found, targets, weights, vocab_size),
        plain_cross_entropy_(wanted, targets, weights, vocab_size),
    )
    torch.testing.assert_close(found, wanted)
    assert not found[:, vocab_size:].any()
    assert not found[1].any()


def test_a_gradient_is_multiplied_and_narrowed_in_one_go() -> None:
    x, factor = torch.randn(70, 90).to(DEVICE), torch.tensor(0.3, device=DEVICE)
    torch.testing.assert_close(fused_times(x, factor, torch.bfloat16), (x * factor).bfloat16())
    torch.testing.assert_close(fused_times(x[:, 20:], factor, torch.float32), x[:, 20:] * factor)
