"""Where kernels of our own stand in for plain code; that they do as it does, `tests/model/kernels` shows."""

from __future__ import annotations

import torch

from gpt1.model.fusing import fuses
from tests.model.kernels.tools import DEVICE, ON_GPU


def test_kernels_are_for_a_gpu_and_at_most_single_precision() -> None:
    assert fuses(torch.zeros(2, device=DEVICE)) == ON_GPU
    assert not fuses(torch.zeros(2))
    assert not fuses(torch.zeros(2, device=DEVICE, dtype=torch.float64))


def test_what_is_compiled_is_left_to_the_compiler() -> None:
    @torch.compile(backend="eager")
    def plus_one_where_it_fuses(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if fuses(x) else x

    x = torch.zeros(2, device=DEVICE)
    assert torch.equal(plus_one_where_it_fuses(x), x)
