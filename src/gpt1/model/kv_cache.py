"""The KV cache: every layer's keys and values, or an LSTM's state, of sequences that go on.

Sequences lie in rows and have each a length of their own. Room for whole contexts is made once; a token writes its keys
and values in place, and attention looks at views. What is the same for all layers of a pass stands in its `CacheStep`.
Global tokens (`model/global_tokens.py`) are looked at beside what is in the window. Special tokens come with a
sequence's beginning: a next token is one of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.model.global_tokens import SPECIALS_BEHIND, GlobalTokens
from gpt1.model.packing import Packing, pack
from gpt1.recipes.values import LSTM, Shape

# R rows, S positions of a context, H heads, D width per head, U units of an LSTM; N tokens of a pass; G global tokens.

# On a GPU, what is looked at begins and ends at multiples of this: for every new size its library makes a new plan,
# and that takes longer than writing a hundred tokens.
WHOLE = 256

Rows = slice | Tensor


class CacheStep(NamedTuple):
    """Where the tokens of one pass stand in a memory: sequences that begin, or the next token of some."""

    memory: KVCache
    packing: Packing
    rows: Rows  # of each sequence
    row: Tensor  # [N] of each token
    seen: slice | None  # the positions that next tokens look at; where sequences begin, they look at themselves
    allowed: Tensor | None  # [N, 1, 1, seen + G]: which of those each one may look at; None: all
    places: Tensor | None = None  # [N, G]: where the global tokens stand that next tokens look at besides

    def past(self, layer: int) -> LayerCache:
        """Return one layer's part of the memory."""
        return LayerCache(self.memory.first[layer], self.memory.second[layer], self)

    def keep_global(self, found: GlobalTokens) -> None:
        """Note which tokens are global of sequences that begin; of the first ones it is known."""
        assert self.memory.places is not None
        self.memory.places[self.rows, : found.places.shape[1]] = found.places


class LayerCache(NamedTuple):
    """One layer's part of a memory during a pass."""

    first: Tensor  # keys [R, H, S, D]; an LSTM's outputs [R, U]
    second: Tensor  # values [R, H, S, D]; an LSTM's cells [R, U]
    reading: CacheStep

    @property
    def goes_on(self) -> bool:
        """Whether the pass reads one more token of each sequence, rather than sequences from their beginning."""
        return self.reading.seen is not None

    def keep(self, k_HND: Tensor, v_HND: Tensor) -> None:
        """Write the keys and values of the pass."""
        row, position = self.reading.row, self.reading.packing.position
        self.first[row, :, position] = k_HND.transpose(0, 1)
        self.second[row, :, position] = v_HND.transpose(0, 1)

    def attend(self, q_HND: Tensor) -> Tensor:
        """Return what the next tokens gather from their sequences, themselves among them."""
        k_NHSD, v_NHSD = self._seen(self.first), self._seen(self.second)
        q_NH1D = q_HND.transpose(0, 1).unsqueeze(2)
        y_NH1D = F.scaled_dot_product_attention(q_NH1D, k_NHSD, v_NHSD, attn_mask=self.reading.allowed)
        return y_NH1D.squeeze(2).transpose(0, 1)

    def _seen(self, kept_RHSD: Tensor) -> Tensor:
        """Return the keys or values that the next tokens look at."""
        seen, places_NG = kept_RHSD[self.reading.rows][:, :, self.reading.seen], self.reading.places
        if places_NG is None:
            return seen
        picked_NGHD = kept_RHSD[self.reading.row.unsqueeze(1), :, places_NG]
        return torch.cat((seen, picked_NGHD.transpose(1, 2)), dim=2)

    def state(self) -> tuple[Tensor, Tensor]:
        """Return the outputs and cells [N, U] that an LSTM left."""
        return self.first[self.reading.rows], self.second[self.reading.rows]

    def keep_state(self, output_NU: Tensor, cell_NU: Tensor) -> None:
        """Write an LSTM's outputs and cells."""
        self.first[self.reading.rows] = output_NU
        self.second[self.reading.rows] = cell_NU


class KVCache:
    """Rows for sequences that go on, of which the first `len(lengths)` are in use."""

    def __init__(self, shape: Shape, rows: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self.window, self.rows, self.device = shape.window or shape.context, rows, device
        self._context, self._whole = shape.context, 1 if device.type == "cpu" else WHOLE
        size = (shape.units,) if shape.kind == LSTM else (shape.heads, shape.context, shape.width // shape.heads)
        # Zeros, because what is not allowed is multiplied by 0 all the same.
        self.first, self.second = (
            [torch.zeros(rows, *size, dtype=dtype, device=device) for _ in range(shape.layers)] for _ in range(2)
        )
        self.lengths: list[int] = []  # tokens of each row in use
        self.places: Tensor | None = None  # [R, G] of each row's global tokens; beyond the context: not there
        if shape.global_tokens:
            self.places = torch.full((rows, shape.global_tokens + SPECIALS_BEHIND), shape.context, device=device)

    def begin(self, rows: Sequence[int], lengths: Sequence[int]) -> CacheStep:
        """Let sequences of these lengths begin in these rows, whatever stood there; a new row follows the last one."""
        for row, length in zip(rows, lengths, strict=True):
            self.lengths[row : row + 1] = [length]
        packing = pack(torch.tensor(lengths, device=self.device), max(lengths))
        rows_N = torch.tensor(rows, device=self.device)
        return CacheStep(self, packing, rows_N, rows_N[packing.sequence], None, None)

    def go_on(self, rows: Sequence[int]) -> CacheStep:
        """Let the sequences in these rows have one more token."""
        places = self.advance(rows)
        row_N, position_N = torch.tensor([list(rows), places], device=self.device)
        seen = self.seen(places)
        first_ones = list(rows) == list(range(len(rows)))  # then a view will do, in place of a copy
        where = slice(len(rows)) if first_ones else row_N
        exact = min(places) == max(places) and seen.stop - seen.start == min(places[0] + 1, self.window)
        exact = exact and self.places is None
        return self._next(where, row_N, position_N, seen, exact=exact)

    def advance(self, rows: Sequence[int], tokens: int = 1) -> list[int]:
        """Count so many more tokens for the sequences in these rows, and return where the first stands in each."""
        places = [self.lengths[row] for row in rows]
        for row in rows:
            self.lengths[row] += tokens
        return places

    def seen(self, places: Sequence[int]) -> slice:
        """Return the positions that tokens at these places may look at: a few more than they do, on a GPU."""
        first, behind = max(0, min(places) + 1 - self.window), max(places) + 1
        return slice(first - first % self._whole, min(-(-behind // self._whole) * self._whole, self._context))

    def next_of_first(self, position_N: Tensor, seen: slice) -> CacheStep:
        """Return how the first rows read one more token each, at positions that only the device knows."""
        row_N = torch.arange(len(position_N), device=self.device)
        return self._next(slice(len(position_N)), row_N, position_N, seen, exact=False)

    def _next(self, where: Rows, row_N: Tensor, position_N: Tensor, seen: slice, *, exact: bool) -> CacheStep:
        """Return how next tokens are read; what is exactly what each may look at is not hidden from any."""
        allowed = looked_at_NG = None
        if not exact:
            key_S = torch.arange(seen.start, seen.stop, device=self.device)
            last_N1 = position_N.unsqueeze(-1)
            allowed = (key_S <= last_N1) & (key_S > last_N1 - self.window)
            if self.places is not None:
                places_NG = self.places[where]
                allowed = torch.cat((allowed, places_NG <= last_N1 - self.window), dim=1)
                looked_at_NG = places_NG.clamp(max=self._context - 1)
            allowed = allowed[:, None, None]
        one_each = torch.arange(len(row_N) + 1, dtype=torch.int32, device=self.device)
        packing = Packing(one_each, one_each[:-1].long(), position_N, seen.stop)
        return CacheStep(self, packing, where, row_N, seen, allowed, looked_at_NG)

    def leave(self, row: int) -> None:
        """Give a row up; the last one moves to its place."""
        last = self.lengths.pop()
        if row < len(self.lengths):
            self.lengths[row] = last
            for layer in (*self.first, *self.second):
                layer[row] = layer[len(self.lengths)]
            if self.places is not None:
                self.places[row] = self.places[len(self.lengths)]
