"""Causal self-attention (section 3.1 of the paper), over all that came before or over a sliding window of it.

Where it is asked to look both ways, each position sees the whole of its sequence, and nothing of what fills a grid up.

Where weights are dropped the scores are written out and the masks are our own, but for full attention on a GPU: there
the fused kernels drop by themselves, with masks from torch's generator (to be seeded for each step and micro-batch).
A window is computed block by block, in time and memory of T x window; it drops what full attention would drop. Global
tokens are further keys of each block, and as queries they are computed once more, over all that came before. On a GPU
in 16 bits a kernel of our own does all of that, with our own masks.
A packed row is attended to by a kernel that knows where sequences begin; where there is none, over a grid and back.
With a past, keys and values are kept for the tokens to come, and a token that goes on looks at what was kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

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
from gpt1.model.global_tokens import GlobalTokens
from gpt1.model.kv_cache import LayerCache
from gpt1.model.layers import Linear, Rotary, UnitRMS
from gpt1.model.packing import Packing, grid_packing
from gpt1.recipes.values import Shape

# B sequences, T positions, C width, H heads, D width per head; in a packed row, N tokens for B and T.
# In a window: N blocks of W positions; S = 2 W keys that a block may look at, its own and those of the block before;
# G global tokens, which stand as further keys behind those.

# Fastest first; each takes what the ones before it cannot.
BACKENDS = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]

SIXTEEN_BITS = torch.bfloat16, torch.float16
SHORT = 256  # tokens up to which a CPU learns faster without its fused kernel, whose gradient is slow


class Attention(nn.Module):
    """Queries, keys and values from one projection; heads attend; one projection brings them together."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.heads, self.window, self.dropout = shape.heads, shape.window, shape.dropout
        in_window = shape.window is not None and shape.window < shape.context
        self.kernel = _window_kernel(shape.width // shape.heads) if in_window else None
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
        everywhere: GlobalTokens | None = None,
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
            looking = Looking(self.window, everywhere, self.kernel, causal=not bidirectional)
            y = attending(q, k, v, rate=self.dropout, noise=noise, site=self.weights_site, looking=looking)
        return dropout(self.out(y.transpose(-3, -2).flatten(-2)), self.dropout, noise, self.branch_site, packing)

    def weights(self, x_BTC: Tensor, everywhere: GlobalTokens | None) -> Tensor:
        """Return how much each position takes from each one [B, H, T, T], in float32: what `forward` never holds."""
        q_BHTD, k_BHTD, _ = self._queries_keys_values(x_BTC, None)
        T = x_BTC.shape[1]
        allowed = torch.ones(T, T, dtype=torch.bool, device=x_BTC.device)
        if self.window is not None:
            allowed = allowed.triu(1 - self.window)
        if everywhere is not None:
            is_global_BT = (everywhere.places.unsqueeze(-1) == torch.arange(T, device=x_BTC.device)).any(1)
            allowed = (allowed | is_global_BT.unsqueeze(1) | is_global_BT.unsqueeze(2)).unsqueeze(1)
        return _weights(q_BHTD.float(), k_BHTD.float(), allowed.tril())

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


class Looking(NamedTuple):
    """Where positions look: at the last `window`, the own one among them (None: at all), and at global ones.

    The kernel is for GPUs, in 16 bits. Unless it is causal they look at what comes after too; recipes refuse a window
    that would look both ways.
    """

    window: int | None
    everywhere: GlobalTokens | None = None
    kernel: Callable[..., Tensor] | None = None
    causal: bool = True

    def fuses(self, q: Tensor) -> bool:
        """Whether the kernel takes these queries."""
        return self.kernel is not None and q.is_cuda and q.dtype in SIXTEEN_BITS


EVERYWHERE = Looking(None)


def _window_kernel(width: int) -> Callable[..., Tensor] | None:
    """Return the kernel for windows where there is a GPU and it knows heads so wide; say so where it cannot be had."""
    if not torch.cuda.is_available():
        return None
    try:
        from gpt1.model.kernels.attention import HEAD_WIDTHS
        from gpt1.model.kernels.windows import window_attention
    except ImportError:
        warnings.warn("Triton is not installed: windows are computed without their kernel, more slowly", stacklevel=2)
        return None
    return window_attention if width in HEAD_WIDTHS else None


def attend(
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTD: Tensor,
    *,
    rate: float,
    noise: DropoutKey | None,
    site: int,
    looking: Looking = EVERYWHERE,
    lengths_B: Tensor | None = None,
) -> Tensor:
    """Return softmax(q k^T / sqrt(D)) v over the positions that each one looks at.

    Unless it is causal, what comes after is looked at too: all of the sequence, or its first `lengths_B` positions.
    """
    H, T = q_BHTD.shape[1:3]
    if looking.window is not None and looking.window < T:
        if looking.fuses(q_BHTD):
            q, k, v = (x.transpose(1, 2).flatten(0, 1).transpose(0, 1) for x in (q_BHTD, k_BHTD, v_BHTD))
            packing = grid_packing(len(q_BHTD), T, q_BHTD.device)
            y_HND = attend_packed(q, k, v, packing=packing, rate=rate, noise=noise, site=site, looking=looking)
            y_HBTD: Tensor = y_HND.unflatten(1, (-1, T))
            return y_HBTD.transpose(0, 1)
        local = _attend_in_blocks(q_BHTD, k_BHTD, v_BHTD, rate, noise, site, looking)
        if looking.everywhere is None:
            return local
        return _with_global_queries(local, q_BHTD, k_BHTD, v_BHTD, rate, noise, site, looking.everywhere)
    keeping = noise is None or rate == 0
    causal = looking.causal
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
    looking: Looking = EVERYWHERE,
) -> Tensor:
    """Do as `attend` does, for each sequence of a packed row."""
    everything = looking.window is None or looking.window >= packing.longest
    q_NHD, k_NHD, v_NHD = (x.transpose(0, 1) for x in (q_HND, k_HND, v_HND))
    if looking.fuses(q_HND) and not everything:
        places = None if looking.everywhere is None else looking.everywhere.places
        where: dict[str, Any] = {"packing": packing, "window": looking.window, "places_BG": places}
        kernel = cast(Callable[..., Tensor], looking.kernel)
        return kernel(q_NHD, k_NHD, v_NHD, **where, rate=rate, noise=noise, site=site).transpose(0, 1)
    if q_HND.is_cuda and q_HND.dtype in SIXTEEN_BITS and everything:
        dropout = 0.0 if noise is None else rate
        y_NHD = packed_attention(
            q_NHD,
            k_NHD,
            v_NHD,
            offsets=packing.offsets,
            longest=packing.longest,
            dropout=dropout,
            causal=looking.causal,
        )
        return y_NHD.transpose(0, 1)
    q, k, v = (packing.to_grid(x_NHD).transpose(1, 2) for x_NHD in (q_NHD, k_NHD, v_NHD))
    lengths_B = packing.offsets.diff()
    y_BHTD = attend(q, k, v, rate=rate, noise=noise, site=site, looking=looking, lengths_B=lengths_B)
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
    q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, rate: float, noise: DropoutKey | None, site: int, looking: Looking
) -> Tensor:
    """Attend to the last W positions: a block of W queries looks at its own keys and at those of the block before.

    Behind those stand the keys of global tokens, of which it looks at those that are out of the window.
    """
    B, H, T, D = q_BHTD.shape
    W, everywhere = cast(int, looking.window), looking.everywhere
    N = -(-T // W)
    fill = N * W - T
    places_BG = None if everywhere is None else everywhere.places.expand(B, -1)
    q_BNHWD = F.pad(q_BHTD, (0, 0, 0, fill)).view(B, H, N, W, D).transpose(1, 2)
    k_BNHSD, v_BNHSD = _keys_of_blocks(k_BHTD, W, places_BG), _keys_of_blocks(v_BHTD, W, places_BG)
    allowed_BNWS = _band(N, W, q_BHTD.device).expand(B, N, W, 2 * W)
    if places_BG is not None:
        query_NW1 = torch.arange(N * W, device=q_BHTD.device).view(N, W, 1)
        allowed_BNWS = torch.cat((allowed_BNWS, query_NW1 - W >= places_BG[:, None, None]), dim=-1)
    if noise is None or rate == 0:
        # Every block as a sequence of its own: the fused kernels know four dimensions.
        q, k, v, allowed = (x.flatten(0, 1) for x in (q_BNHWD, k_BNHSD, v_BNHSD, allowed_BNWS))
        y_BNHWD = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed.unsqueeze(1)).view(B, N, H, W, D)
    else:
        rows_BNHW = F.pad(row_words(noise, site, [H, T]), (0, fill)).view(B, H, N, W).transpose(1, 2)
        columns_T = column_words(noise, site, T)
        columns = F.pad(columns_T, (W, fill)).unfold(0, 2 * W, W).view(N, 1, 2 * W)
        if places_BG is not None:
            global_BNG = columns_T[places_BG.clamp(max=T - 1)].unsqueeze(1).expand(B, N, -1)
            columns = torch.cat((columns.squeeze(1).expand(B, N, 2 * W), global_BNG), dim=-1).unsqueeze(2)
        keep = kept(rows_BNHW, columns, rate)
        y_BNHWD = _written_out(q_BNHWD, k_BNHSD, v_BNHSD, allowed_BNWS.unsqueeze(2), keep, rate)
    return y_BNHWD.transpose(1, 2).flatten(2, 3)[:, :, :T]


def _with_global_queries(
    y_BHTD: Tensor,
    q_BHTD: Tensor,
    k_BHTD: Tensor,
    v_BHTD: Tensor,
    rate: float,
    noise: DropoutKey | None,
    site: int,
    everywhere: GlobalTokens,
) -> Tensor:
    """Return what tokens gathered, global ones anew from all that came before."""
    B, H, T, D = q_BHTD.shape
    places_BG = everywhere.places.expand(B, -1)
    there_BG = places_BG.clamp(max=T - 1)
    allowed_BGT = torch.arange(T, device=q_BHTD.device) <= there_BG.unsqueeze(-1)
    q_BHGD = _picked(q_BHTD, there_BG)
    if noise is None or rate == 0:
        found_BHGD = F.scaled_dot_product_attention(q_BHGD, k_BHTD, v_BHTD, attn_mask=allowed_BGT.unsqueeze(1))
    else:
        rows_BHG = row_words(noise, site, [H, T]).gather(2, there_BG.unsqueeze(1).expand(B, H, -1))
        keep = kept(rows_BHG, column_words(noise, site, T), rate)
        found_BHGD = _written_out(q_BHGD, k_BHTD, v_BHTD, allowed_BGT.unsqueeze(1), keep, rate)
    # Those that are not there are written behind the end.
    into_BHGD = places_BG.clamp(max=T)[:, None, :, None].expand(B, H, -1, D)
    return F.pad(y_BHTD, (0, 0, 0, 1)).scatter(2, into_BHGD, found_BHGD)[:, :, :T]


def _picked(x_BHTD: Tensor, places_BG: Tensor) -> Tensor:
    """Return what stands at these places [B, H, G, D]."""
    B, H, _, D = x_BHTD.shape
    return x_BHTD.gather(2, places_BG[:, None, :, None].expand(B, H, -1, D))


def _keys_of_blocks(x_BHTD: Tensor, W: int, places_BG: Tensor | None) -> Tensor:
    """Return the blocks [B, N, H, S, D] of a sequence, each behind the one before it (zeros before the first).

    With places, what stands there follows in each block.
    """
    B, H, T, D = x_BHTD.shape
    x_BMHWD = F.pad(x_BHTD, (0, 0, W, -T % W)).view(B, H, -1, W, D).transpose(1, 2)
    parts = [x_BMHWD[:, :-1], x_BMHWD[:, 1:]]
    if places_BG is not None:
        picked_BHGD = _picked(x_BHTD, places_BG.clamp(max=T - 1))
        parts.append(picked_BHGD.unsqueeze(1).expand(-1, x_BMHWD.shape[1] - 1, -1, -1, -1))
    return torch.cat(parts, dim=3)


def _band(N: int, W: int, device: torch.device) -> Tensor:
    """Return which keys each query of each block may look at [N, W, S]: the last W, none before the sequence."""
    query_W1 = torch.arange(W, 2 * W, device=device).unsqueeze(-1)  # counted from the first key of the block before
    key_S = torch.arange(2 * W, device=device)
    band_WS = (key_S <= query_W1) & (key_S > query_W1 - W)
    starts_N11 = torch.arange(-W, (N - 1) * W, W, device=device).view(N, 1, 1)
    return band_WS & (starts_N11 + key_S >= 0)
