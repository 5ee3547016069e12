"""Causal self-attention (section 3.1 of the paper), over all that came before or over a sliding window of it.

Where it is asked to look both ways, each position sees the whole of its sequence, and nothing of what fills a grid up.

Where weights are dropped the scores are written out and the masks are our own, but for full attention on a GPU: there
the fused kernels drop by themselves, with masks from torch's generator (to be seeded for each step and micro-batch).
A window is computed block by block, in time and memory of T x window; it drops what full attention would drop.
A packed row is attended to by a kernel that knows where sequences begin; where there is none, over a grid and back.
With a past, keys and values are kept for the tokens to come, and a token that goes on looks at what was kept.
"""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpt1.base.torch_internals import packed_attention
from gpt1.model.dropout import (
    DropoutKey,
    Place,
    column_words,
    drop_where,
    dropout,
    keep_mask,
    kept,
    layer_site,
    row_words,
)
from gpt1.model.fusing import fuses
from gpt1.model.kv_cache import LayerCache
from gpt1.model.layers import Linear, Rotary, UnitRMS
from gpt1.model.packing import Packing
from gpt1.recipes.values import Shape

# B sequences, T positions, C width, H heads, D width per head; in a packed row, N tokens for B and T.
# In a window: N blocks of W positions; S = 2 W keys that a block may look at, its own and those of the block before.

# Fastest first; each takes what the ones before it cannot.
BACKENDS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]

SHORT = 256  # tokens up to which a CPU learns faster without its fused kernel, whose gradient is slow


class Attention(nn.Module):
    """Queries, keys and values from one projection; heads attend; one projection brings them together."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.heads, self.window, self.dropout = shape.heads, shape.window, shape.dropout
        self.weights_site, self.branch_site = layer_site(layer, Place.INSIDE), layer_site(layer, Place.BRANCH_1)
        self.qkv = Linear(shape.width, 3 * shape.width, shape.bias)
        self.out = Linear(shape.width, shape.width, shape.bias)
        # What queries and keys go through before they meet. A rotation leaves lengths alone: the order is free.
        self.prepare = nn.ModuleList()
        if shape.positions == "rotary":
            self.prepare.append(Rotary(shape.context, shape.width // shape.heads))
        if shape.qk_norm:
            self.prepare.append(UnitRMS())
        self._rotates_and_normalises = len(self.prepare) == 2

    def forward(
        self,
        x_BTC: Tensor,
        noise: DropoutKey | None,
        packing: Packing | None = None,
        past: LayerCache | None = None,
        bidirectional: bool = False,
    ) -> Tensor:
        """Return what each position gathers from itself and those of its sequence before it, or from all of it."""
        q, k, v = self._queries_keys_values(x_BTC, packing)
        if past is not None:
            past.keep(k, v)
        if past is not None and past.goes_on:
            y = past.attend(q)
        else:
            attending = attend if packing is None else partial(attend_packed, packing=packing)
            y = attending(
                *(q, k, v),
                rate=self.dropout,
                noise=noise,
                site=self.weights_site,
                window=self.window,
                causal=not bidirectional,
            )
        return dropout(self.out(y.transpose(-3, -2).flatten(-2)), self.dropout, noise, self.branch_site, packing)

    def weights(self, x_BTC: Tensor) -> Tensor:
        """Return how much each position takes from each one [B, H, T, T], in float32: what `forward` never holds."""
        q_BHTD, k_BHTD, _ = self._queries_keys_values(x_BTC, None)
        ones_TT = torch.ones(x_BTC.shape[1], x_BTC.shape[1], dtype=torch.bool, device=x_BTC.device)
        allowed_TT = ones_TT.tril() if self.window is None else ones_TT.tril().triu(1 - self.window)
        return _weights(q_BHTD.float(), k_BHTD.float(), allowed_TT)

    def _queries_keys_values(self, x_BTC: Tensor, packing: Packing | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return what meets in attention, heads before positions: [B, H, T, D], or of a packed row [H, N, D]."""
        qkv = self.qkv(x_BTC).unflatten(-1, (3, self.heads, -1))
        if packing is not None and self._rotates_and_normalises and fuses(qkv):
            from gpt1.model.kernels.queries import fused_queries_keys

            rotary = cast(Rotary, self.prepare[0])
            found = fused_queries_keys(qkv, packing.position, rotary.cosines, rotary.sines)
            q, k, v = (x_NHD.transpose(0, 1) for x_NHD in found)
            return q, k, v
        q, k, v = qkv.transpose(-4, -2).unbind(-3)
        for part in self.prepare:
            q, k = part(q, packing), part(k, packing)
        return q, k, v


def attend(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTD: Tensor,
    *,
    rate: float,
    noise: DropoutKey | None,
    site: int,
    window: int | None,
    causal: bool = True,
    lengths_B: Tensor | None = None,
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) v over the last `window` positions, the own one among them (None: over all).

    Unless it is `causal`, over what comes after too: all of the sequence, or its first `lengths_B` positions.
    """
    H, T = q_BHTD.shape[1:3]
    assert causal or window is None, "recipes refuse a window that would look both ways"
    if window is not None and window < T:
        return _attend_in_blocks(q_BHTD, k_BHTD, v_BHTD, rate, noise, site, window)
    keeping = noise is None or rate == 0
    seen_B11T = None if causal or lengths_B is None else _seen(lengths_B, T)
    if q_BHTD.is_cuda and q_BHTD.dtype != torch.float64:
        return _fused(q_BHTD, k_BHTD, v_BHTD, 0.0 if keeping else rate, causal, seen_B11T)
    if keeping and (T > SHORT or not q_BHTD.requires_grad):
        return _fused(q_BHTD, k_BHTD, v_BHTD, 0.0, causal, seen_B11T)
    allowed = torch.ones(T, T, dtype=torch.bool, device=q_BHTD.device)
    allowed = allowed.tril() if causal else allowed if seen_B11T is None else seen_B11T
    keep_BHTT = None if noise is None or rate == 0 else keep_mask((H, T, T), rate, noise, site)
    return _written_out(q_BHTD, k_BHTD, v_BHTD, allowed, keep_BHTT, rate)


def _seen(lengths_B: Tensor, T: int) -> Tensor:
    """Return which keys are of the sequence and not of what fills it up [B, 1, 1, T]; of an empty one, the first."""
    seen_BT = torch.arange(T, device=lengths_B.device) < lengths_B.clamp(min=1).unsqueeze(-1)
    return seen_BT[:, None, None, :]


def attend_packed(
    q_HND: Tensor,
    k_HND: Tensor,
    v_HND: Tensor,
    *,
    packing: Packing,
    rate: float,
    noise: DropoutKey | None,
    site: int,
    window: int | None,
    causal: bool = True,
) -> Tensor:
    """Do as `attend` does, for each sequence of a packed row."""
    if q_HND.is_cuda and q_HND.dtype in (torch.bfloat16, torch.float16) and window is None:
        q_NHD, k_NHD, v_NHD = (x.transpose(0, 1) for x in (q_HND, k_HND, v_HND))
        dropout, offsets = 0.0 if noise is None else rate, packing.offsets
        y_NHD = packed_attention(
            q_NHD, k_NHD, v_NHD, offsets=offsets, longest=packing.longest, dropout=dropout, causal=causal
        )
        return y_NHD.transpose(0, 1)
    q, k, v = (packing.to_grid(x.transpose(0, 1)).transpose(1, 2) for x in (q_HND, k_HND, v_HND))
    lengths_B = packing.offsets.diff()
    y_BHTD = attend(q, k, v, rate=rate, noise=noise, site=site, window=window, causal=causal, lengths_B=lengths_B)
    return packing.from_grid(y_BHTD.transpose(1, 2)).transpose(0, 1)


def _fused(
    q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, rate: float, causal: bool, seen_B11T: Tensor | None
) -> Tensor:
    """Attend by the library's kernels and drop by the library's masks."""
    if not q_BHTD.is_cuda:  # no choice of kernels there
        return F.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, seen_B11T, rate, causal)
    with sdpa_kernel(BACKENDS, set_priority=True):
        return F.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, seen_B11T, rate, causal)


def _written_out(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, keep: Tensor | None, rate: float) -> Tensor:
    """Attend where it is allowed, by the formula, and drop the weights that are not kept."""
    weights = _weights(q, k, allowed)
    return (weights if keep is None else drop_where(weights, keep, rate)) @ v


def _weights(q: Tensor, k: Tensor, allowed: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) over what is allowed."""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.mT
    return scores.masked_fill_(~allowed, -torch.inf).softmax(-1)


def _attend_in_blocks(
    q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, rate: float, noise: DropoutKey | None, site: int, W: int
) -> Tensor:
    """Attend to the last W positions: a block of W queries looks at its own keys and at those of the block before."""
    B, H, T, D = q_BHTD.shape
    N = -(-T // W)
    fill = N * W - T
    q_BHNWD = F.pad(q_BHTD, (0, 0, 0, fill)).view(B, H, N, W, D)
    k_BHNSD, v_BHNSD = _with_block_before(k_BHTD, W), _with_block_before(v_BHTD, W)
    allowed_NWS = _band(N, W, q_BHTD.device)
    if noise is None or rate == 0:
        # Every block as a head of its own: the fused kernels know four dimensions.
        q, k, v = (x.flatten(1, 2) for x in (q_BHNWD, k_BHNSD, v_BHNSD))
        y_BHNWD = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_NWS.repeat(H, 1, 1)).view(B, H, N, W, D)
    else:
        rows_BHNW = F.pad(row_words(noise, site, [H, T]), (0, fill)).view(B, H, N, W)
        columns_NS = F.pad(column_words(noise, site, T), (W, fill)).unfold(0, 2 * W, W)
        y_BHNWD = _written_out(q_BHNWD, k_BHNSD, v_BHNSD, allowed_NWS, kept(rows_BHNW, columns_NS, rate), rate)
    return y_BHNWD.flatten(2, 3)[:, :, :T]


def _with_block_before(x_BHTD: Tensor, W: int) -> Tensor:
    """Return the blocks [B, H, N, S, D] of a sequence, each behind the one before it (zeros before the first)."""
    B, H, T, D = x_BHTD.shape
    x_BHMWD = F.pad(x_BHTD, (0, 0, W, -T % W)).view(B, H, -1, W, D)
    return torch.cat((x_BHMWD[:, :, :-1], x_BHMWD[:, :, 1:]), dim=3)


def _band(N: int, W: int, device: torch.device) -> Tensor:
    """Return which keys each query of each block may look at [N, W, S]: the last W, none before the sequence."""
    query_W1 = torch.arange(W, 2 * W, device=device).unsqueeze(-1)  # counted from the first key of the block before
    key_S = torch.arange(2 * W, device=device)
    band_WS = (key_S <= query_W1) & (key_S > query_W1 - W)
    starts_N11 = torch.arange(-W, (N - 1) * W, W, device=device).view(N, 1, 1)
    return band_WS & (starts_N11 + key_S >= 0)
