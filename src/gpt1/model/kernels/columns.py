"""Sums over columns, which are the gradients of biases, in Triton kernels.

Programs add up columns over rows of their own and leave parts of the sums; one kernel adds the parts, and the sums to
the gradients that are there: no atomics, one order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

COLUMNS, ROWS, WARPS = 256, 8, 4  # at a time
CHUNKS = 64  # of the rows, each a program's that adds up columns
FEWEST = 32  # rows of a chunk
PART_COLUMNS, PARTS = 32, 128  # at a time
KINDS = 3  # of sums that are added at once, at most


def column_sums(x_NF: Tensor) -> Tensor:
    """Return the sum of each column [F] in float32."""
    return add_parts(column_parts(x_NF.contiguous()).unsqueeze(1), None)[0]


def column_parts(x_NF: Tensor) -> Tensor:
    """Return parts of the sums of columns [P, F] in float32."""
    N, F = x_NF.shape
    rows, chunks = chunks_of(N)
    parts_PF = x_NF.new_empty(chunks, F, dtype=torch.float32)
    _sum[(triton.cdiv(F, COLUMNS), chunks)](*(x_NF, parts_PF, N, F, rows), ROWS=ROWS, COLUMNS=COLUMNS, num_warps=WARPS)
    return parts_PF


def pack_columns(first_NF: Tensor, second_NF: Tensor, third_NF: Tensor) -> tuple[Tensor, Tensor]:
    """Return three matrices side by side [N, 3 F], and parts of the sums of their columns [P, 3 F] in float32."""
    N, F = first_NF.shape
    rows, chunks = chunks_of(N)
    packed_NF, parts_PF = first_NF.new_empty(N, 3 * F), first_NF.new_empty(chunks, 3 * F, dtype=torch.float32)
    _pack[(triton.cdiv(F, COLUMNS), chunks, 3)](
        *(first_NF.contiguous(), second_NF.contiguous(), third_NF.contiguous(), packed_NF, parts_PF, N, F, rows),
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        num_warps=WARPS,
    )
    return packed_NF, parts_PF


def add_parts(parts_PKF: Tensor, totals: Sequence[Tensor] | None) -> Sequence[Tensor]:
    """Return the K sums over parts [F]; where there are totals, these with the sums added to them."""
    P, K, F = parts_PKF.shape
    into = list(parts_PKF.new_empty(K, F)) if totals is None else totals
    pointers = (into[min(kind, K - 1)] for kind in range(KINDS))  # those beyond K are not followed
    _add_parts[(triton.cdiv(F, PART_COLUMNS), K)](
        *(parts_PKF, *pointers, P, K, F),
        ADDS=totals is not None,
        ROWS=PARTS,
        COLUMNS=PART_COLUMNS,
        num_warps=WARPS,
    )
    return into


def chunks_of(rows: int) -> tuple[int, int]:
    """Return how many rows a program adds up, and how many programs there are for all rows."""
    chunk = max(FEWEST, triton.cdiv(rows, CHUNKS))
    return chunk, triton.cdiv(rows, chunk)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _sum(x, parts, rows, columns, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    across = column < columns
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    for start in range(first, last, ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        total += tl.load(x + row.to(tl.int64) * columns + column, (row < last) & across, 0.0).to(tl.float32)
    tl.store(parts + tl.program_id(1) * columns + column, tl.sum(total, 0)[None, :], across)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _pack(  # type: ignore[no-untyped-def]
    first, second, third, packed, parts, rows, columns, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    across = column < columns
    part = tl.program_id(2)
    source = first
    if part == 1:
        source = second
    if part == 2:
        source = third
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    start = tl.program_id(1) * chunk
    last = tl.minimum(start + chunk, rows)
    for begin in range(start, last, ROWS):
        row = (begin + tl.arange(0, ROWS))[:, None]
        inside = (row < last) & across
        x = tl.load(source + row.to(tl.int64) * columns + column, inside, 0.0)
        tl.store(packed + row.to(tl.int64) * (3 * columns) + part * columns + column, x, inside)
        total += x.to(tl.float32)
    into = parts + tl.program_id(1) * (3 * columns) + part * columns + column
    tl.store(into, tl.sum(total, 0)[None, :], across)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _add_parts(  # type: ignore[no-untyped-def]
    parts, first, second, third, count, kinds, columns, ADDS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    kind = tl.program_id(1)
    into = first
    if kind == 1:
        into = second
    if kind == 2:
        into = third
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, count, ROWS):
        part = (start + tl.arange(0, ROWS))[:, None]
        at = (part * kinds + kind) * columns + column[None, :]
        total += tl.load(parts + at, (part < count) & (column < columns)[None, :], 0.0)
    value = tl.sum(total, 0)
    if ADDS:
        value += tl.load(into + column, column < columns, 0.0)
    tl.store(into + column, value, column < columns)
