"""Dropout in one Triton kernel: masks are hashed where they are needed and never stored, forwards and backwards.

The twin of the masks in `model/dropout.py`, which is its judge: the same elements are kept. Where code is compiled the
compiler fuses the plain form just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable


def fused_drop(x: Tensor, limit: int, scale: float, word: Tensor, site: int, places: tuple[Tensor, ...]) -> Tensor:
    """Return `x` [R, C] times `scale` where the hash of an element is at least `limit`, else 0.

    `places` tells what a row is: the number of each sequence, and of each row its sequence and its position there; the
    number alone, where each row is a sequence; nothing for a table, whose rows are counted.
    """
    return cast(Tensor, _Drop.apply(x, limit, scale, word, site, *places))  # type: ignore[no-untyped-call]


class _Drop(torch.autograd.Function):
    """The gradient goes the way of the value: through the same mask, made anew."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: int, scale: float, word: Tensor, site: int, *places: Tensor) -> Tensor:
        ctx.save_for_backward(word, *places)
        ctx.settings = limit, scale, site
        return _launch(x, limit, scale, word, site, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        limit, scale, site = ctx.settings
        word, *places = ctx.saved_tensors
        return (_launch(grad, limit, scale, word, site, places), *[None] * (4 + len(places)))


def _launch(x: Tensor, limit: int, scale: float, word: Tensor, site: int, places: Sequence[Tensor]) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    numbers, sequence, position = (*places, word, word, word)[:3]  # where there are none, pointers not followed
    _drop[(rows,)](
        *(x, y, word, numbers, sequence, position, site, columns, limit, scale),
        PLACES=len(places),
        BLOCK=triton.next_power_of_2(columns),
    )
    return y


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def mix(x):  # type: ignore[no-untyped-def]
    """Hash int32 words as `model/dropout.py` does."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * -0x7A143595
    x = (x ^ ((x >> 13) & 0x7FFFF)) * -0x3D4D51CB
    return x ^ ((x >> 16) & 0xFFFF)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def keeps(row_word, column_word, limit):  # type: ignore[no-untyped-def]
    """Whether elements are kept, from the words of their rows and columns."""
    x = (row_word ^ column_word) * -0x61C88647
    x = (x ^ (x >> 15)) * 0x2C1B3C6D
    return x >= limit


@triton.jit(do_not_specialize=["site", "limit"])  # type: ignore[misc, untyped-decorator, unused-ignore]
def _drop(  # type: ignore[no-untyped-def]
    x, y, word, numbers, sequence, position, site, columns, limit, scale, PLACES: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    key = mix(tl.load(word) ^ site)
    if PLACES == 0:
        row_word = mix(key ^ row)
    elif PLACES == 1:
        row_word = mix(key ^ tl.load(numbers + row).to(tl.int32))
    else:
        number = tl.load(numbers + tl.load(sequence + row)).to(tl.int32)
        row_word = mix(mix(key ^ number) ^ tl.load(position + row).to(tl.int32))
    column = tl.arange(0, BLOCK)
    keep = keeps(row_word, mix(mix(key ^ -1) ^ column), limit)
    at = row.to(tl.int64) * columns + column
    value = tl.load(x + at, column < columns, 0.0)
    kept = tl.where(keep, value.to(tl.float32) * scale, 0.0)
    tl.store(y + at, kept.to(value.dtype), column < columns)
