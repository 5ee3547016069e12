"""Tables of vectors, dropped as a whole, and the vectors that tokens and positions take from them, in Triton kernels.

The twin of `drop_table` and two look-ups in `model/network.py`, which are its judges. Forwards a table is read once,
and its working copy written once. Backwards a program takes a row of a table: what its product left there, and the
gradients of all tokens that took it, in their order, go through the mask and are added where the row's belongs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt1.model.dropout import DropoutKey, Site
from gpt1.model.kernels.tables import Dropping, dropped, looked_up, table_keeps
from gpt1.model.packing import Packing

TOKENS = 4  # of those that took a row, at a time
WARPS = 4


class Tables(NamedTuple):
    """The tables of tokens and positions, and how they are used."""

    tokens: Tensor
    positions: Tensor
    rate: float
    noise: DropoutKey | None
    rows: int  # of the working copy of the first: at least its own
    compute: torch.dtype
    adds: bool  # gradients are added to those that the tables have

    def dropping(self, site: Site) -> Dropping:
        """Return how one of them is dropped."""
        return Dropping(self.rate, self.noise, site)


def fused_embedding(ids_N: Tensor, packing: Packing, tables: Tables) -> tuple[Tensor, Tensor]:
    """Return the vectors of tokens [N, C] and the working copy of the tokens' table, zeros behind its rows."""
    results = _Embedding.apply(tables.tokens, tables.positions, ids_N, packing, tables)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor], results)


class _Embedding(torch.autograd.Function):
    """Keeps the tokens and where they stand."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, positions: Tensor, ids_N: Tensor, packing: Packing, tables: Tables
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(ids_N, tokens, positions)
        ctx.given = packing, tables
        compute = tables.compute
        tokens_VC = dropped(tokens, tables.dropping(Site.TOKENS), compute, tables.rows)
        positions_TC = dropped(positions, tables.dropping(Site.POSITIONS), compute, len(positions))
        x_NC = looked_up(tokens_VC, ids_N.contiguous(), positions_TC, packing.position)
        return x_NC, tokens_VC

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor, grad_VC: Tensor) -> tuple[Tensor | None, ...]:
        ids_N, tokens, positions = ctx.saved_tensors
        packing, tables = ctx.given
        grad_NC = grad_NC.contiguous()
        of_tokens = _gradient(tokens, grad_NC, ids_N, grad_VC.contiguous(), Site.TOKENS, tables)
        of_positions = _gradient(positions, grad_NC, packing.position, None, Site.POSITIONS, tables)
        return of_tokens, of_positions, None, None, None


def _gradient(
    table: Tensor, grad_NC: Tensor, taken_N: Tensor, grad_RC: Tensor | None, site: Site, tables: Tables
) -> Tensor | None:
    dropping = tables.dropping(site)
    sorted_N, order_N = taken_N.sort(stable=True)
    rows, columns = table.shape
    starts = torch.searchsorted(sorted_N, torch.arange(rows + 1, device=table.device), out_int32=True)
    total = cast(Tensor, table.grad) if tables.adds else torch.empty_like(table)
    _gather[(rows,)](
        *(grad_NC, order_N, starts, grad_NC if grad_RC is None else grad_RC, total),
        *(*dropping.numbers(table), columns),
        PRODUCT=grad_RC is not None,
        ADDS=tables.adds,
        DROP=dropping.drops,
        TOKENS=TOKENS,
        BLOCK=triton.next_power_of_2(columns),
        num_warps=WARPS,
    )
    return None if tables.adds else total


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _gather(  # type: ignore[no-untyped-def]
    grad,
    order,
    starts,
    product,
    total,
    word,
    site,
    limit,
    scale,
    columns,
    PRODUCT: tl.constexpr,
    ADDS: tl.constexpr,
    DROP: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    value = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, TOKENS):
        which = start + tl.arange(0, TOKENS)
        token = tl.load(order + which, which < last, 0)[:, None]
        taken = tl.load(grad + token * columns + column[None, :], (which < last)[:, None] & inside[None, :], 0.0)
        value += tl.sum(taken.to(tl.float32), 0)
    at = row.to(tl.int64) * columns + column
    if PRODUCT:
        value += tl.load(product + at, inside, 0.0).to(tl.float32)
    if DROP:
        value = tl.where(table_keeps(word, site, row, column, limit), value * scale, 0.0)
    if ADDS:
        value += tl.load(total + at, inside, 0.0)
    tl.store(total + at, value, inside)
