"""One more token of each text by kernels of our own, where a library takes fifteen a block.

The twin of `read` with next tokens (`model/network.py`, `model/kv_cache.py`), which is its judge: it reads and writes
the same memory and rounds where the plain network rounds.

Few texts are bound by how soon the weights are there, and by how long one kernel waits for another. Five of them are a
block: what lies between two is the sum, not its norm, and each warp that reads a row normalises it for itself, which
takes no longer than to be handed it.

    norm, queries + keys + values | attention | out + sum | norm, up, activation | down + sum

A warp has whole rows of a matrix and waits for no other. On Hopper a kernel begins while the one before it still runs:
its weights are on their way by then, and it waits only for what that one writes (programmatic dependent launch). So
before it waits it may read nothing but weights and what stood there before the step.

Of many texts the library multiplies, and a sum and its norm are one kernel between its products.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, cast

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn

from gpt1.model.dropout import Site
from gpt1.model.kernels.gelu import logistic
from gpt1.model.kernels.norm import Norm, norm_of
from gpt1.model.kernels.norm import forward as norm_forward
from gpt1.model.kv_cache import KVCache
from gpt1.model.layers import RMS_EPSILON, Linear, Rotary, UnitRMS
from gpt1.model.network import Model
from gpt1.recipes.values import LSTM

# R texts, C width, I inputs and J outputs of a matrix, V vocabulary.

FEW, LONGEST = 4, 2**12  # texts that are vectors each, of so many inputs at most; for others the library multiplies
PIECE = 256  # inputs that a warp goes along by: eight in 16 bits for each of its threads
SHORT, MANY = 2**10, 2**14  # inputs, and outputs, for which programs are of other sizes
PART = 1024  # scores of a text that a program looks through
POSITIONS = 128  # of a text that are looked at in one go
ACTIVATIONS = {"gelu": 1, "relu2": 2}
PLAIN, ROOT, CENTRED = 0, 1, 2  # what is done to a row before it is read


def why_not(model: Model) -> str | None:
    """Return why a network cannot be decoded by these kernels; None: it can."""
    reasons = {
        "there is no GPU": not model.tokens.is_cuda and not triton.knobs.runtime.interpret,
        "the network is an LSTM": model.shape.kind == LSTM,
        "it has global tokens": model.shape.global_tokens > 0,
        f"it computes in {model.compute}": model.compute == torch.float64,
        "its heads are of an odd width": model.shape.width // model.shape.heads % 2 == 1,
        "its weights are spread over several devices": any(type(x) is not nn.Parameter for x in model.parameters()),
        "its matrices are not in the type it computes in": any(
            matrix.dtype != model.compute for matrix in model.blocks.parameters() if matrix.ndim == 2
        ),
        "its output is of another kind": model.output_layer is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


class Decoder:
    """A network and a memory whose first rows go on."""

    def __init__(self, model: Model, memory: KVCache) -> None:
        self._model, self._memory = model, memory

    @torch.no_grad()
    def __call__(self, ids_R: Tensor, position_R: Tensor) -> Tensor:
        """Return the scores [R, V] behind the next token of each of the first texts, which stands at this position."""
        model = self._model
        tokens_VC = model.working(model.tokens, Site.TOKENS, None)
        output_VC = tokens_VC if model.output is None else model.working(model.output, Site.OUTPUT, None)
        sum_RC = self._embedded(ids_R, position_R, tokens_VC)
        widest = max(model.shape.width, model.shape.feed_forward)
        decode = self._of_few if len(ids_R) <= FEW and widest <= LONGEST else self._of_many
        return decode(sum_RC, position_R, output_VC)

    def _of_few(self, sum_RC: Tensor, position_R: Tensor, output_VC: Tensor) -> Tensor:
        """Between two kernels lies the sum, not its norm: each program that reads a row normalises it for itself."""
        model = self._model
        first, before = model.shape.norm_first, None
        for layer, block in enumerate(model.blocks):
            own, wide = cast(Any, block.attention), cast(Any, block.feed_forward)
            norm_1, norm_2 = norm_of(cast(nn.Module, block.norm_1)), norm_of(cast(nn.Module, block.norm_2))
            qkv = project(sum_RC, own.qkv, norm=norm_1 if first else before)
            y_RC = self._attend(qkv, position_R, layer, own)
            sum_RC = project(y_RC, own.out, onto=Onto(sum_RC, None if first else before))
            up_RI = project(sum_RC, wide.up, norm=norm_2 if first else norm_1, activation=model.shape.activation)
            sum_RC = project(up_RI, wide.down, onto=Onto(sum_RC, None if first else norm_1))
            before = None if first else norm_2
        return _project(sum_RC, output_VC, None, norm=norm_of(model.final_norm) if first else before)

    def _of_many(self, sum_RC: Tensor, position_R: Tensor, output_VC: Tensor) -> Tensor:
        """The library multiplies; between its products a sum and its norm are one kernel."""
        model = self._model
        first = model.shape.norm_first
        blocks = [cast(Any, block) for block in model.blocks]
        # What comes after each branch: the block's own norm, or the one before the next branch.
        norms = [norm_of(norm) for block in blocks for norm in (block.norm_1, block.norm_2)]
        norm_RC = sum_RC
        if first:
            norm_RC, *_ = norm_forward(sum_RC, None, None, norms.pop(0), None)
            norms.append(norm_of(model.final_norm))
        after = iter(norms)
        for layer, block in enumerate(blocks):
            own, wide = block.attention, block.feed_forward
            y_RC = own.out(self._attend(own.qkv(norm_RC), position_R, layer, own))
            norm_RC, sum_RC, _ = norm_forward(sum_RC if first else norm_RC, y_RC, None, next(after), None)
            y_RC = wide.down(wide.activation(wide.up(norm_RC)))
            norm_RC, sum_RC, _ = norm_forward(sum_RC if first else norm_RC, y_RC, None, next(after), None)
        return norm_RC @ output_VC.T

    def _embedded(self, ids_R: Tensor, position_R: Tensor, tokens_VC: Tensor) -> Tensor:
        """Return the sum of what stands in the tables."""
        R, C = len(ids_R), tokens_VC.shape[1]
        learned = self._model.positions
        positions_TC = tokens_VC if learned is None else self._model.working(learned, Site.POSITIONS, None)
        sum_RC = tokens_VC.new_empty(R, C)
        _embed[(R,)](
            *(ids_R, position_R, tokens_VC, positions_TC, sum_RC, C),
            LEARNED=learned is not None,
            BLOCK=triton.next_power_of_2(C),
            **_start(sum_RC),
        )
        return sum_RC

    def _attend(self, qkv_RI: Tensor, position_R: Tensor, layer: int, own: Any) -> Tensor:
        """Return what each text's next token gathers, and keep its key and value."""
        keys, values = self._memory.first[layer], self._memory.second[layer]
        _, H, S, D = keys.shape
        R = len(qkv_RI)
        y_RC = qkv_RI.new_empty(R, H * D)
        rotary = next((part for part in own.prepare if isinstance(part, Rotary)), None)
        cosines, sines = (qkv_RI, qkv_RI) if rotary is None else (rotary.cosines, rotary.sines)
        _attend_next[(H, R)](
            *(qkv_RI, position_R, cosines, sines, keys, values, y_RC),
            *(H, S, self._memory.window, 1 / math.sqrt(D), RMS_EPSILON),
            ROTARY=rotary is not None,
            UNIT=any(isinstance(part, UnitRMS) for part in own.prepare),
            HALF=D // 2,
            BLOCK=triton.next_power_of_2(D // 2),
            POSITIONS=POSITIONS,
            num_warps=8,
            **_start(y_RC),
        )
        return y_RC


def _start(of_R: Tensor) -> dict[str, bool]:
    """Return whether a kernel over so many texts begins before the one before it has ended."""
    early = of_R.is_cuda and len(of_R) <= FEW and _can_begin_early(of_R.device)
    return {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}


@functools.cache
def _can_begin_early(device: torch.device) -> bool:
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (9, 0)  # Hopper


class Onto(NamedTuple):
    """What a product is added to: a sum, or the norm of it."""

    rows: Tensor  # [R, J]
    norm: Norm | None


def next_state(scores_RV: Tensor, vocabulary: int, state_2R: Tensor) -> Tensor:
    """Return the likeliest next tokens and where they stand [2, R], given the tokens before them and their places.

    Where the scores of a text are no numbers, or its token before is -1, it is -1.
    """
    R, width = scores_RV.shape
    parts = triton.cdiv(vocabulary, PART)
    best_RP = torch.empty((R, parts), dtype=torch.float32, device=scores_RV.device)
    token_RP = torch.empty((R, parts), dtype=torch.int32, device=scores_RV.device)
    new_2R = torch.empty_like(state_2R)
    start, block = _start(best_RP), triton.next_power_of_2(parts)
    _best_of_parts[(parts, R)](scores_RV, best_RP, token_RP, width, vocabulary, parts, PART=PART, **start)
    _next_state[(R,)](best_RP, token_RP, state_2R, new_2R, R, parts, BLOCK=block, num_warps=1, **start)
    return new_2R


def project(
    x_RI: Tensor, layer: Linear, *, norm: Norm | None = None, activation: str | None = None, onto: Onto | None = None
) -> Tensor:
    """Return what a matrix makes of the norm of each row, then the activation of that, or what it is added to."""
    return _project(x_RI, layer.weight, layer.bias, norm=norm, activation=activation, onto=onto)


def _project(
    x_RI: Tensor,
    weight_JI: Tensor,
    bias_J: Tensor | None,
    *,
    norm: Norm | None = None,
    activation: str | None = None,
    onto: Onto | None = None,
) -> Tensor:
    R, (J, width) = len(x_RI), weight_JI.shape
    y_RJ = x_RI.new_empty(R, J)
    after = None if onto is None else onto.norm
    warps = 8 if width <= SHORT and J > SHORT else 4
    rows = warps * (2 if J > MANY else 1)
    _project_rows[(triton.cdiv(J, rows),)](
        *(x_RI, weight_JI, weight_JI if bias_J is None else bias_J, *_pointers(norm, weight_JI)),
        *(y_RJ if onto is None else onto.rows, *_pointers(after, weight_JI), y_RJ),
        *(0.0 if norm is None else norm.epsilon, 0.0 if after is None else after.epsilon),
        INPUTS=width,
        OUTPUTS=J,
        BIAS=bias_J is not None,
        ACTIVATION=ACTIVATIONS.get(activation or "", 0),
        NORM=_kind(norm),
        SHIFT=norm is not None and norm.bias is not None,
        ONTO=onto is not None,
        ONTO_NORM=_kind(after),
        ONTO_SHIFT=after is not None and after.bias is not None,
        TEXTS=R,
        ROWS=rows,
        PIECE=PIECE,
        num_warps=warps,
        **_start(y_RJ),
    )
    return y_RJ


def _pointers(norm: Norm | None, any_tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return gain and bias; what is not there is not followed."""
    if norm is None:
        return any_tensor, any_tensor
    return norm.gain, norm.gain if norm.bias is None else norm.bias


def _kind(norm: Norm | None) -> int:
    return PLAIN if norm is None else CENTRED if norm.centred else ROOT


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _embed(  # type: ignore[no-untyped-def]
    ids,
    position,
    tokens,
    positions,
    sums,
    width,
    LEARNED: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    _let_next_begin(EARLY)
    _wait_for_last(EARLY)
    text, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < width
    id = tl.maximum(tl.load(ids + text), 0)  # -1: there is no such token any more, see `next_state`
    value = tl.load(tokens + id * width + column, inside, 0.0)
    if LEARNED:
        place = tl.load(positions + tl.load(position + text) * width + column, inside, 0.0)
        value = (value.to(tl.float32) + place.to(tl.float32)).to(value.dtype)
    tl.store(sums + text * width + column, value, inside)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _let_next_begin(EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _wait_for_last(EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    if EARLY:
        tl.extra.cuda.gdc_wait()


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _activated(y, ACTIVATION: tl.constexpr):  # type: ignore[no-untyped-def]
    if ACTIVATION == 1:
        wide = y.to(tl.float32)
        y = (wide * logistic(wide)).to(y.dtype)
    if ACTIVATION == 2:
        wide = tl.maximum(y.to(tl.float32), 0.0)
        y = (wide * wide).to(y.dtype)
    return y


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _in_pieces(x, row, inside, COLUMNS: tl.constexpr, PIECE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows [R, 1] of `x`, piece by piece."""
    column = tl.arange(0, PIECE)[None, :]
    pieces = ()
    for start in tl.static_range(0, COLUMNS, PIECE):
        own = inside & (start + column < COLUMNS)
        piece = tl.load(x + row * COLUMNS + start + column, own, 0.0)
        pieces += (piece,)  # type: ignore[assignment, unused-ignore]
    return pieces


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _moments(pieces, epsilon, COLUMNS: tl.constexpr, NORM: tl.constexpr, PIECE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The mean (0 for a root mean square) and the inverse of the deviation of rows [R, 1]."""
    column = tl.arange(0, PIECE)[None, :]
    total = tl.zeros_like(pieces[0]).to(tl.float32)
    if NORM == 2:
        for k in tl.static_range(len(pieces)):
            total += pieces[k].to(tl.float32)
    mean = tl.sum(total, 1, keep_dims=True) / COLUMNS
    square = tl.zeros_like(total)
    for k in tl.static_range(len(pieces)):
        value = tl.where(k * PIECE + column < COLUMNS, pieces[k].to(tl.float32) - mean, 0.0)
        square += value * value
    return mean, tl.rsqrt(tl.sum(square, 1, keep_dims=True) / COLUMNS + epsilon)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _project_rows(  # type: ignore[no-untyped-def]
    x,
    weight,
    bias,
    gain,
    shift,
    onto,
    onto_gain,
    onto_shift,
    found,
    epsilon,
    onto_epsilon,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BIAS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    NORM: tl.constexpr,
    SHIFT: tl.constexpr,
    ONTO: tl.constexpr,
    ONTO_NORM: tl.constexpr,
    ONTO_SHIFT: tl.constexpr,
    TEXTS: tl.constexpr,
    ROWS: tl.constexpr,
    PIECE: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Each warp has whole rows of the matrix, and reads and normalises a text's row for itself: nobody waits."""
    _let_next_begin(EARLY)
    output = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    kept = output < OUTPUTS
    first = tl.zeros_like(output)
    # Weights are on their way before the kernel before this has ended.
    w = _in_pieces(weight, output.to(tl.int64), kept, INPUTS, PIECE)
    if NORM > 0:
        g = _in_pieces(gain, first, kept, INPUTS, PIECE)
        if SHIFT:
            s = _in_pieces(shift, first, kept, INPUTS, PIECE)
    if BIAS:
        b = tl.load(bias + output, kept, 0.0).to(tl.float32)
    if ONTO_NORM > 0:
        onto_g = tl.load(onto_gain + output, kept, 0.0).to(tl.float32)
        if ONTO_SHIFT:
            onto_s = tl.load(onto_shift + output, kept, 0.0).to(tl.float32)
    _wait_for_last(EARLY)
    for text in tl.static_range(TEXTS):
        v = _in_pieces(x, first + text, kept, INPUTS, PIECE)
        if ONTO:
            base = tl.load(onto + text * OUTPUTS + output, kept, 0.0)
        if ONTO_NORM > 0:
            mean, inverse = _moments(
                _in_pieces(onto, first + text, kept, OUTPUTS, PIECE), onto_epsilon, OUTPUTS, ONTO_NORM, PIECE
            )
            wide = (base.to(tl.float32) - mean) * inverse * onto_g
            if ONTO_SHIFT:
                wide += onto_s
            base = wide.to(base.dtype)
        if NORM > 0:
            mean, inverse = _moments(v, epsilon, INPUTS, NORM, PIECE)
        total = tl.zeros((ROWS, PIECE), tl.float32)
        for k in tl.static_range(len(w)):
            value = v[k]
            if NORM > 0:
                wide = (value.to(tl.float32) - mean) * inverse * g[k].to(tl.float32)
                if SHIFT:
                    wide += s[k].to(tl.float32)
                value = wide.to(value.dtype)
            total += w[k].to(tl.float32) * value.to(tl.float32)
        y = tl.sum(total, 1, keep_dims=True)
        if BIAS:
            y += b
        y = _activated(y.to(found.dtype.element_ty), ACTIVATION)
        if ONTO:
            y = (base.to(tl.float32) + y.to(tl.float32)).to(y.dtype)
        tl.store(found + text * OUTPUTS + output, y, kept)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _best_of_parts(  # type: ignore[no-untyped-def]
    scores, best, token, width, vocabulary, parts, PART: tl.constexpr, EARLY: tl.constexpr
):
    _let_next_begin(EARLY)
    part, text = tl.program_id(0), tl.program_id(1)
    column = part * PART + tl.arange(0, PART)
    _wait_for_last(EARLY)
    value = tl.load(scores + text.to(tl.int64) * width + column, column < vocabulary, 0.0).to(tl.float32)
    sound = tl.min((tl.abs(value) < float("inf")).to(tl.int32), 0)
    value = tl.where(column < vocabulary, value, -float("inf"))
    highest = tl.max(value, 0)
    first = tl.min(tl.where(value == highest, column, vocabulary), 0)
    tl.store(best + text * parts + part, highest)
    tl.store(token + text * parts + part, tl.where(sound == 1, first, -1))


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _next_state(best, token, before, state, texts, parts, BLOCK: tl.constexpr, EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    _let_next_begin(EARLY)
    text, part = tl.program_id(0), tl.arange(0, BLOCK)
    last = tl.load(before + text)
    place = tl.load(before + texts + text)
    _wait_for_last(EARLY)
    value = tl.load(best + text * parts + part, part < parts, -float("inf"))
    first = tl.load(token + text * parts + part, part < parts, 0)
    sound = (tl.min(first, 0) >= 0) & (last >= 0)
    chosen = tl.min(tl.where((value == tl.max(value, 0)) & (part < parts), first, 2**31 - 1), 0)
    tl.store(state + text, tl.where(sound, chosen, -1).to(tl.int64))
    tl.store(state + texts + text, place + 1)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _attend_next(  # type: ignore[no-untyped-def]
    qkv,
    position,
    cosines,
    sines,
    keys,
    values,
    found,
    heads,
    context,
    window,
    scale,
    epsilon,
    ROTARY: tl.constexpr,
    UNIT: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    POSITIONS: tl.constexpr,
    EARLY: tl.constexpr,
):
    _let_next_begin(EARLY)
    _wait_for_last(EARLY)
    head, text = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = tl.load(position + text)
    feature = tl.arange(0, BLOCK)  # of the first half of a head; the second follows it
    inside = feature < HALF
    q = qkv + (text * 3 * heads + head) * 2 * HALF + feature
    k, v = q + heads * 2 * HALF, q + 2 * heads * 2 * HALF
    qa, qb = _prepared(q, cosines, sines, at, feature, inside, epsilon, ROTARY, UNIT, HALF)
    ka, kb = _prepared(k, cosines, sines, at, feature, inside, epsilon, ROTARY, UNIT, HALF)
    va, vb = tl.load(v, inside, 0.0), tl.load(v + HALF, inside, 0.0)
    own = (text * heads + head) * context * 2 * HALF
    into = own + at * 2 * HALF + feature
    tl.store(keys + into, ka, inside)
    tl.store(keys + into + HALF, kb, inside)
    tl.store(values + into, va, inside)
    tl.store(values + into + HALF, vb, inside)

    # The token itself, from what is at hand; then those before it.
    qa, qb = qa.to(tl.float32) * scale, qb.to(tl.float32) * scale
    largest = tl.sum(qa * ka.to(tl.float32) + qb * kb.to(tl.float32), 0)
    total = largest * 0 + 1.0
    ya, yb = va.to(tl.float32), vb.to(tl.float32)
    for start in range(tl.maximum(at + 1 - window, 0), at, POSITIONS):
        seen = start + tl.arange(0, POSITIONS)
        cell = own + seen[:, None] * 2 * HALF + feature[None, :]
        known = (seen < at)[:, None] & inside[None, :]
        ka_SD, kb_SD = tl.load(keys + cell, known, 0.0), tl.load(keys + cell + HALF, known, 0.0)
        va_SD, vb_SD = tl.load(values + cell, known, 0.0), tl.load(values + cell + HALF, known, 0.0)
        score = tl.sum(ka_SD.to(tl.float32) * qa[None, :] + kb_SD.to(tl.float32) * qb[None, :], 1)
        score = tl.where(seen < at, score, float("-inf"))
        larger = tl.maximum(largest, tl.max(score, 0))
        shrunk, share = tl.exp(largest - larger), tl.exp(score - larger)
        total = total * shrunk + tl.sum(share, 0)
        ya = ya * shrunk + tl.sum(share[:, None] * va_SD.to(tl.float32), 0)
        yb = yb * shrunk + tl.sum(share[:, None] * vb_SD.to(tl.float32), 0)
        largest = larger
    y = found + (text * heads + head) * 2 * HALF + feature
    tl.store(y, (ya / total).to(found.dtype.element_ty), inside)
    tl.store(y + HALF, (yb / total).to(found.dtype.element_ty), inside)


@triton.jit  # type: ignore[misc, untyped-decorator, unused-ignore]
def _prepared(  # type: ignore[no-untyped-def]
    x, cosines, sines, at, feature, inside, epsilon, ROTARY: tl.constexpr, UNIT: tl.constexpr, HALF: tl.constexpr
):
    """Both halves of a query or key as it meets others, rounded as it came."""
    a, b = tl.load(x, inside, 0.0), tl.load(x + HALF, inside, 0.0)
    first, second = a.to(tl.float32), b.to(tl.float32)
    if ROTARY:
        cosine = tl.load(cosines + at * HALF + feature, inside, 0.0)
        sine = tl.load(sines + at * HALF + feature, inside, 0.0)
        first, second = first * cosine - second * sine, first * sine + second * cosine
    if UNIT:
        inverse = tl.rsqrt(tl.sum(first * first + second * second, 0) / (2 * HALF) + epsilon)
        first, second = first * inverse, second * inverse
    return first.to(a.dtype), second.to(a.dtype)
