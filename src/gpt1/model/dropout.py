"""Dropout (section 4.1 of the paper) whose masks are a pure function of where an element stands.

A mask depends on the seed and the step (`DropoutKey.word`), the place in the network (`site`), the index of the
sequence in the step's whole batch (`DropoutKey.rows`) and the position of the element inside that sequence: on nothing
that ran before, nor on how the batch was cut or padded. So micro-batches, ranks, activation checkpointing and a resumed
run all see the same masks, and no state of a random generator is kept.

Every row (all coordinates but the last) and every column gets a well-mixed 32-bit word; an element is kept if a short
hash of the two is above a threshold. Only that part is as big as the tensor: a few elementwise operations, which a
compiler fuses into the product. The arithmetic is int32 throughout, which every backend has.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from gpt1.model.fusing import fuses
from gpt1.model.packing import Packing

LOWEST = -(2**31)


class DropoutKey(NamedTuple):
    """What the masks of one micro-batch are drawn from."""

    word: Tensor  # 0-dim int32: hash of (seed, step)
    rows: Tensor  # [B] integers: index of each sequence in the whole batch of the step


class Site(IntEnum):
    """The places where something is dropped once; the places inside layers follow, see `layer_site`."""

    TOKENS = 0
    POSITIONS = 1
    OUTPUT = 2
    HEAD = 3  # for what is put on top of a network, such as a classifier


class Place(IntEnum):
    """The places where something is dropped in every layer."""

    INSIDE = 0  # attention weights; an LSTM's states
    BRANCH_1 = 1  # what attention, or an LSTM's projection, gives
    BRANCH_2 = 2  # what the feed-forward part gives


def layer_site(layer: int, place: Place) -> int:
    """Return the site of a place in a layer, a number no other place has."""
    return len(Site) + len(Place) * layer + place


def dropout_key(seed: int, step: int, rows: Tensor) -> DropoutKey:
    """Return the noise of a step for the sequences with these indices in its batch; `rows` is on the device."""
    word = _mix(_mix(torch.tensor(seed, dtype=torch.int32, device="cpu")) ^ step)
    # Filled on the device: a copy from the host would wait for it.
    return DropoutKey(torch.full((), int(word), dtype=torch.int32, device=rows.device), rows)


def dropout(x: Tensor, rate: float, noise: DropoutKey | None, site: int, packing: Packing | None = None) -> Tensor:
    """Zero a share `rate` of `x` [B, ..., C] (packed: [N, C]) and scale the rest; without noise, return `x`."""
    if noise is None or rate == 0:
        return x
    if fuses(x) and x.ndim == 2:
        places = (noise.rows,) if packing is None else (noise.rows, packing.sequence, packing.position)
        return _fused_drop()(x, threshold(rate), 1 / (1 - rate), noise.word, site, places)
    if packing is None:
        return drop_where(x, keep_mask(x.shape[1:], rate, noise, site), rate)
    return drop_where(x, kept(token_words(noise, site, packing), column_words(noise, site, x.shape[-1]), rate), rate)


def drop_table(table: Tensor, rate: float, noise: DropoutKey | None, site: int) -> Tensor:
    """Do as `drop` does to a table [R, C] that all sequences share: one mask for the whole step."""
    if noise is None or rate == 0:
        return table
    if fuses(table):
        return _fused_drop()(table, threshold(rate), 1 / (1 - rate), noise.word, site, ())
    rows, columns = table.shape
    return drop_where(table, table_mask(rows, columns, rate, noise, site), rate)


def drop_where(x: Tensor, keep: Tensor, rate: float) -> Tensor:
    """Zero what is not kept and scale the rest, so that the expectation stays."""
    return x * keep.to(x.dtype).mul_(1 / (1 - rate))


def drop_layer(
    y: Tensor, x: Tensor, rate: float, noise: DropoutKey | None, layer: int, packing: Packing | None
) -> Tensor:
    """Return what a layer made of `x`, but in a share `rate` of the sequences `x` itself (LayerDrop)."""
    if noise is None or rate == 0:
        return y
    keeps_B = row_words(noise, -1 - layer, []) >= threshold(rate)  # a site below all others
    keeps = keeps_B.view(-1, 1, 1) if packing is None else keeps_B[packing.sequence].unsqueeze(-1)
    return torch.where(keeps, y, x)


def keep_mask(shape: tuple[int, ...], rate: float, noise: DropoutKey, site: int) -> Tensor:
    """Return what `drop` keeps [B, *shape] of elements of this shape a sequence."""
    *middle, columns = shape
    return kept(row_words(noise, site, middle), column_words(noise, site, columns), rate)


def table_mask(rows: int, columns: int, rate: float, noise: DropoutKey, site: int) -> Tensor:
    """Return what `drop_table` keeps [rows, columns]."""
    return kept(_indexed(_key(noise, site), rows), column_words(noise, site, columns), rate)


def row_words(noise: DropoutKey, site: int, sizes: list[int]) -> Tensor:
    """Return a word for each sequence and index inside it [B, *sizes]."""
    words = _mix(_key(noise, site) ^ noise.rows.to(torch.int32))  # 64 bits would be mixed otherwise
    for size in sizes:
        words = _indexed(words, size)
    return words


def token_words(noise: DropoutKey, site: int, packing: Packing) -> Tensor:
    """Return a word for each token of a packed row [N]: those that `row_words` has for sequences and positions."""
    return _mix(row_words(noise, site, [])[packing.sequence] ^ packing.position.to(torch.int32))


def column_words(noise: DropoutKey, site: int, size: int) -> Tensor:
    """Return a word for each column [size], the same for all sequences."""
    return _indexed(_mix(_key(noise, site) ^ -1), size)  # -1: no row and no index has it


@torch.no_grad()
def kept(rows: Tensor, columns: Tensor, rate: float) -> Tensor:
    """Return which elements are kept [..., R, C], from their rows' words [..., R] and columns' words [..., C]."""
    x = rows.unsqueeze(-1) ^ columns.unsqueeze(-2)
    x *= -0x61C88647
    x ^= x >> 15  # copies of the sign come in from above: one bit of 32 is lost, and a pass over memory saved
    x *= 0x2C1B3C6D
    return x >= threshold(rate)


def threshold(rate: float) -> int:
    """Return the word below which a share `rate` of all words lies."""
    return min(LOWEST + round(rate * 2**32), -LOWEST - 1)


def _fused_drop() -> Callable[..., Tensor]:
    from gpt1.model.kernels.dropout import fused_drop

    return fused_drop


def _key(noise: DropoutKey, site: int) -> Tensor:
    return _mix(noise.word ^ site)


def _indexed(words: Tensor, size: int) -> Tensor:
    """Derive `size` words from each of `words`, along a new last dimension."""
    return _mix(words.unsqueeze(-1) ^ torch.arange(size, dtype=torch.int32, device=words.device))


@torch.no_grad()
def _mix(x: Tensor) -> Tensor:
    """Hash int32 words one to one, so that every bit of a word depends on every bit of the other (murmur3's finish)."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * -0x7A143595
    x = (x ^ ((x >> 13) & 0x7FFFF)) * -0x3D4D51CB
    return x ^ ((x >> 16) & 0xFFFF)
