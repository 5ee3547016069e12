"""Tables while they learn: looked up and dropped, their gradients added where they belong, in Triton kernels.

The twins of `Model.working` and of looking up in what it gives (`model/network.py`), which are their judges: the same
elements are dropped. Forwards a table becomes its dropped copy in one pass; backwards the gradient of that copy goes
through the same mask into the table's own. The gradient of what was looked up is as sparse as what was looked up: of
equal tokens the first adds up those of all, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gpt1.model.dropout import DropoutKey, threshold
from gpt1.model.kernels.dropout import keeps, mix

ROWS, COLUMNS = 8, 256  # of a table, at a time


class Dropping(NamedTuple):
    """How a table is dropped; at rate 0 it is not."""

    rate: float
    noise: DropoutKey | None
    site: int

    def numbers(self, any_tensor: Tensor) -> tuple[Tensor, int, int, float]:
        """Return what a kernel makes masks of; without noise the pointer is not followed."""
        if not self.drops:
            return any_tensor, 0, 0, 1.0
        return cast(DropoutKey, self.noise).word, self.site, threshold(self.rate), 1 / (1 - self.rate)

    @property
    def drops(self) -> bool:
        """Whether anything is dropped."""
        return self.noise is not None and self.rate > 0


def learning_table(weight: nn.Parameter, dropping: Dropping, dtype: torch.dtype, rows: int) -> Tensor:
    """Return the dropped table in another type, filled up to so many rows; backwards, add to `weight.grad`."""
    return cast(Tensor, _Table.apply(weight, dropping, dtype, rows))  # type: ignore[no-untyped-call]


class Lookup(NamedTuple):
    """Rows that are taken from a dropped table."""

    weight: nn.Parameter
    table: Tensor
    places: Tensor  # [N]
    dropping: Dropping


def learning_rows(lookups: Sequence[Lookup]) -> Tensor:
    """Return the sum of the rows [N, C] taken from one or two tables; backwards, add to their weights' `grad`."""
    return cast(Tensor, _Rows.apply(lookups[0].weight, lookups))  # type: ignore[no-untyped-call]


class _Table(torch.autograd.Function):
    """Keeps nothing."""

    @staticmethod
    def forward(ctx: Any, weight: nn.Parameter, dropping: Dropping, dtype: torch.dtype, rows: int) -> Tensor:
        ctx.settings = weight, dropping
        return dropped(weight, dropping, dtype, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, ...]:
        weight, dropping = ctx.settings
        R, C = weight.shape
        _add_dropped[triton.cdiv(R, ROWS), triton.cdiv(C, COLUMNS)](
            *(grad.contiguous(), weight.grad, *dropping.numbers(weight), R, C),
            DROP=dropping.drops,
            ROWS=ROWS,
            COLUMNS=COLUMNS,
        )
        return None, None, None, None


class _Rows(torch.autograd.Function):
    """Keeps where it looked."""

    @staticmethod
    def forward(ctx: Any, any_weight: Tensor, lookups: Sequence[Lookup]) -> Tensor:
        first, last = lookups[0], lookups[-1]
        ctx.settings = [(lookup.weight, lookup.dropping) for lookup in lookups]
        ctx.save_for_backward(*(lookup.places for lookup in lookups))
        return looked_up(first.table, first.places, *((last.table, last.places) if len(lookups) == 2 else ()))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_NC: Tensor) -> tuple[None, None]:
        N, C = grad_NC.shape
        for (weight, dropping), place_N in zip(ctx.settings, ctx.saved_tensors, strict=True):
            _add_rows[(N,)](
                *(grad_NC.contiguous(), weight.grad, place_N, *dropping.numbers(weight), N, C),
                DROP=dropping.drops,
                TOKENS=triton.next_power_of_2(N),
                BLOCK=triton.next_power_of_2(C),
            )
        return None, None


def dropped(weight: Tensor, dropping: Dropping, dtype: torch.dtype, rows: int) -> Tensor:
    """Do as `learning_table` does, outside autograd."""
    R, C = weight.shape
    table = torch.empty((rows, C), dtype=dtype, device=weight.device)
    _drop_table[triton.cdiv(rows, ROWS), triton.cdiv(C, COLUMNS)](
        *(weight, table, *dropping.numbers(weight), R, rows, C),
        DROP=dropping.drops,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
    )
    return table


def looked_up(table: Tensor, places_N: Tensor, *second: Tensor) -> Tensor:
    """Return rows of a table [N, C], or their sums with those of a second one, of which places are given too."""
    N, C = len(places_N), table.shape[1]
    x_NC = table.new_empty(N, C)
    other, other_places_N = second or (table, places_N)
    _look_up[(N,)](
        *(table, other, places_N, other_places_N, x_NC, C), TWO=len(second) > 0, BLOCK=triton.next_power_of_2(C)
    )
    return x_NC


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def table_keeps(word, site, row, column, limit):  # type: ignore[no-untyped-def]
    """Which elements of these rows [R, 1] and columns [1, C] of a table are kept."""
    key = mix(tl.load(word) ^ site)
    return keeps(mix(key ^ row), mix(mix(key ^ -1) ^ column), limit)


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _drop_table(  # type: ignore[no-untyped-def]
    x, y, word, site, limit, scale, rows, filled, columns, DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    at = row.to(tl.int64) * columns + column
    value = tl.load(x + at, (row < rows) & (column < columns), 0.0).to(tl.float32)
    if DROP:
        value = tl.where(table_keeps(word, site, row, column, limit), value * scale, 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), (row < filled) & (column < columns))


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _add_dropped(  # type: ignore[no-untyped-def]
    grad, total, word, site, limit, scale, rows, columns, DROP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    inside = (row < rows) & (column < columns)
    at = row.to(tl.int64) * columns + column
    value = tl.load(grad + at, inside, 0.0).to(tl.float32)
    if DROP:
        value = tl.where(table_keeps(word, site, row, column, limit), value * scale, 0.0)
    tl.store(total + at, tl.load(total + at, inside, 0.0) + value, inside)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _look_up(first, second, place, other_place, y, columns, TWO: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    token, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(first + tl.load(place + token).to(tl.int64) * columns + column, inside, 0.0)
    if TWO:
        other = tl.load(second + tl.load(other_place + token).to(tl.int64) * columns + column, inside, 0.0)
        value = (value.to(tl.float32) + other.to(tl.float32)).to(value.dtype)
    tl.store(y + token.to(tl.int64) * columns + column, value, inside)


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _add_rows(  # type: ignore[no-untyped-def]
    grad,
    total,
    place,
    word,
    site,
    limit,
    scale,
    tokens,
    columns,
    DROP: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the gradients of all tokens that are equal to a program's own, if that is the first of them."""
    token, column, any_token = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, TOKENS)
    inside = column < columns
    row = tl.load(place + token)
    equal = (tl.load(place + any_token, any_token < tokens, -1) == row) & (any_token < tokens)
    if tl.max((equal & (any_token < token)).to(tl.int32), 0) == 0:
        value = tl.zeros((BLOCK,), tl.float32)
        one = token
        while one < tokens:
            value += tl.load(grad + one.to(tl.int64) * columns + column, inside, 0.0).to(tl.float32)
            one = tl.min(tl.where(equal & (any_token > one), any_token, tokens), 0)
        if DROP:
            value = tl.where(table_keeps(word, site, row.to(tl.int32), column, limit), value * scale, 0.0)
        at = total + row.to(tl.int64) * columns + column
        tl.store(at, tl.load(at, inside, 0.0) + value, inside)
