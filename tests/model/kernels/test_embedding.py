"""Tables dropped as a whole, and what is looked up in them, against their twins, on a GPU or in the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpt1.model.dropout import DropoutKey, Site, drop_table
from tests.model.kernels.tools import CAN_RUN, DEVICE, WHY_NOT, assert_near, noise_of, normal, packed, slopes

pytest.importorskip("triton", reason="the kernel needs Triton")
if not CAN_RUN:
    pytest.skip(WHY_NOT, allow_module_level=True)

from gpt1.model.kernels.embedding import Tables, fused_embedding

RATE, WIDTH, ROWS = 0.3, 40, 16
PACKING, NOISE = packed(4, 9), noise_of(7, 2)
IDS = torch.tensor([3, 3, 0, 8, 3, 1, 10, 3, 3, 3, 0, 3, 9], device=DEVICE)  # a token seven times, some never


def tables(
    tokens: Tensor,
    positions: Tensor,
    noise: DropoutKey | None,
    adds: bool = False,
    compute: torch.dtype = torch.float32,
) -> Tables:
    return Tables(tokens, positions, RATE, noise, ROWS, compute, adds)


def learned() -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(normal(11, WIDTH, seed=1)), nn.Parameter(normal(9, WIDTH, seed=2))


def plain(tokens: Tensor, positions: Tensor, noise: DropoutKey | None) -> tuple[Tensor, Tensor]:
    kept = drop_table(tokens.cpu(), RATE, at_home(noise), Site.TOKENS).to(DEVICE)
    kept_positions = drop_table(positions.cpu(), RATE, at_home(noise), Site.POSITIONS).to(DEVICE)
    return F.embedding(IDS, kept) + F.embedding(PACKING.position, kept_positions), F.pad(kept, (0, 0, 0, ROWS - 11))


def at_home(noise: DropoutKey | None) -> DropoutKey | None:
    return None if noise is None else DropoutKey(noise.word.cpu(), noise.rows.cpu())


@pytest.mark.parametrize("noise", [None, NOISE])
def test_vectors_table_and_gradients_are_the_plain_twins(noise: DropoutKey | None) -> None:
    found, wanted = [], []
    grads = normal(13, WIDTH, seed=3), normal(ROWS, WIDTH, seed=4)
    for results, into in (
        (lambda a, b: fused_embedding(IDS, PACKING, tables(a, b, noise)), found),
        (lambda a, b: plain(a, b, noise), wanted),
    ):
        leaves = learned()
        given = results(*leaves)
        into += [*(x.detach() for x in given), *torch.autograd.grad(list(given), leaves, grads)]
    assert_near(found, wanted, 1e-5)


def test_working_copies_are_in_the_type_that_is_computed_in() -> None:
    x, table = fused_embedding(IDS, PACKING, tables(*learned(), NOISE, compute=torch.bfloat16))
    assert x.dtype == table.dtype == torch.bfloat16
    wanted_x, wanted_table = plain(*learned(), NOISE)
    assert_near([x, table], [wanted_x.detach(), wanted_table.detach()], 1e-2)
    assert not table[11:].any()


def test_gradients_are_added_to_those_that_are_there() -> None:
    grads = [normal(13, WIDTH, seed=3), normal(ROWS, WIDTH, seed=4)]
    alone = learned()
    wanted = torch.autograd.grad(list(fused_embedding(IDS, PACKING, tables(*alone, NOISE))), alone, grads)
    leaves = learned()
    for leaf in leaves:
        leaf.grad = torch.ones_like(leaf)
    torch.autograd.backward(list(fused_embedding(IDS, PACKING, tables(*leaves, NOISE, adds=True))), grads)
    assert_near([leaf.grad for leaf in leaves if leaf.grad is not None], [x + 1 for x in wanted], 1e-5)


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_are_slopes(which: int) -> None:
    def vectors_and_table(table: Tensor) -> Tensor:
        both = [*learned()]
        both[which] = table  # type: ignore[call-overload]
        return torch.cat(fused_embedding(IDS, PACKING, tables(*both, NOISE)))

    by_gradient, by_difference = slopes(vectors_and_table, learned()[which].detach())
    assert by_gradient == pytest.approx(by_difference, rel=1e-2)
