"""Sampling: which token comes next, greedily or drawn by temperature, top-k, top-p and repetition penalty.

In this order: what was there before is made less likely (`repetition_penalty`), `temperature`, the `top_k` likeliest,
the smallest set of the likeliest that together have probability `top_p`. Each text draws from a generator of its own,
so that it does not depend on what is written beside it, but for the rounding of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from gpt1.base.errors import SettingError, tell_renamed, unknown

# R texts, V tokens of the vocabulary, K of them that may be drawn, likeliest first.

Way = tuple[float, int | None, float | None]  # temperature, top_k, top_p

SEEDS = 2**63  # there are so many
FURTHEST = 1e30  # a score from 0, once it is penalised
NEARLY_1 = 1 - 2**-52  # times a sum in float64 is below the sum; the next number may not be
_OLD_NAMES = {"tokens": "max_new_tokens", "alternatives": "top_logprobs"}  # of settings
FIRST_GUESS = 256  # tokens among which the likeliest are looked for first; sorting all takes many times as long


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How a text is continued; every default of `generate` stands here."""

    max_new_tokens: int = 128
    temperature: float = 0.8  # 0: always the likeliest token
    top_k: int | None = 40  # None: all
    top_p: float | None = None  # None: all
    repetition_penalty: float = 1.0  # what a score is divided by, or where it is negative multiplied by; 1: nothing
    stop: tuple[str, ...] = ()  # the text ends before the first of these
    seed: int = 0
    top_logprobs: int | None = None  # tell of each token how likely it was, and so many of the likeliest; None: nothing

    def __post_init__(self) -> None:
        sentences = {
            f"max_new_tokens is at least 0, not {self.max_new_tokens}": self.max_new_tokens >= 0,
            f"temperature is at least 0, not {self.temperature}": self.temperature >= 0,
            f"temperature is a finite number, not {self.temperature}": self.temperature < math.inf,
            f"top_k is at least 1 (or none), not {self.top_k}": self.top_k is None or self.top_k >= 1,
            f"top_p is above 0 and at most 1 (or none), not {self.top_p}": self.top_p is None or 0 < self.top_p <= 1,
            f"repetition_penalty is above 0, not {self.repetition_penalty}": self.repetition_penalty > 0,
            f"repetition_penalty is a finite number, not {self.repetition_penalty}": self.repetition_penalty < math.inf,
            "a stop string has at least one character": not isinstance(self.stop, str) and all(self.stop),
            f"seed is between 0 and 2**63, not {self.seed}": 0 <= self.seed < SEEDS,
            f"top_logprobs is at least 0 (or none), not {self.top_logprobs}": (self.top_logprobs or 0) >= 0,
        }
        for sentence, holds in sentences.items():
            if not holds:
                raise SettingError(sentence)


def sampling_params(**settings: Any) -> SamplingParams:
    """Return a way of writing with these settings; a name that does not exist is answered with the nearest."""
    settings, known = _under_todays_names(settings), [field.name for field in fields(SamplingParams)]
    for name in settings:
        if name not in known:
            raise unknown("setting of generate", name, known)
    stop = settings.get("stop", ())
    return SamplingParams(**{**settings, "stop": (stop,) if isinstance(stop, str) else tuple(stop)})


def _under_todays_names(settings: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in settings.items() if name not in _OLD_NAMES}
    for old, new in _OLD_NAMES.items():
        if old not in settings:
            continue
        if new in found:
            raise SettingError(f"{old} and {new} are two names of one setting; give one of them")
        tell_renamed(old, new)
        found[new] = settings[old]
    return found


@dataclass(frozen=True)
class Weighed:
    """How likely a network found a token, and which ones it found likeliest, as natural logarithms of probabilities."""

    log_probability: float
    likeliest: list[tuple[int, float]]


def weighed(logits_V: Tensor, id: int, top_logprobs: int) -> Weighed:
    """Return what the network itself thinks of a token: without temperature, penalty or any limit."""
    logs_V = logits_V.double().log_softmax(0)
    values_K, ids_K = logs_V.topk(min(top_logprobs, len(logs_V)))
    return Weighed(float(logs_V[id]), list(zip(ids_K.tolist(), values_K.tolist(), strict=True)))


class Sampler:
    """One text's way of drawing, and random numbers of its own."""

    def __init__(self, wanted: SamplingParams, seed: int) -> None:
        self.way = self.temperature, self.top_k, self.top_p = wanted.temperature, wanted.top_k, wanted.top_p
        self.repetition_penalty = wanted.repetition_penalty
        self._draws = torch.Generator().manual_seed(seed)
        self._ahead: list[float] = []  # points that were asked for and are not used

    @property
    def is_simple(self) -> bool:
        """Whether `draw_on_device` can draw: by few of the scores, as they are."""
        return self.repetition_penalty == 1 and (self.temperature == 0 or (self.top_k or math.inf) <= FIRST_GUESS)

    def points(self, count: int) -> list[float]:
        """Return the next numbers from [0, 1) of this text's; they remain the next ones until they are used."""
        if (missing := count - len(self._ahead)) > 0:
            self._ahead += torch.rand(missing, generator=self._draws, dtype=torch.float64).tolist()
        return self._ahead[:count]

    def use(self, count: int) -> None:
        """Leave so many points behind."""
        self.points(count)
        del self._ahead[:count]

    def point(self) -> float:
        """Return a number from [0, 1), the next of this text's."""
        (point,) = self.points(1)
        self.use(1)
        return point


def draw(samplers: Sequence[Sampler], logits_RV: Tensor, before: Sequence[Iterable[int]]) -> list[int]:
    """Return the next token of each text, given its scores in float32 and the tokens before it that are penalised."""
    scores_RV = penalised(logits_RV, [sampler.repetition_penalty for sampler in samplers], before)
    alike: dict[Way, list[int]] = {}  # texts that are drawn the same way are drawn together
    for row, sampler in enumerate(samplers):
        alike.setdefault(sampler.way, []).append(row)
    drawn: dict[int, int] = {}
    for way, rows in alike.items():
        own_RV = scores_RV if len(alike) == 1 else scores_RV[torch.tensor(rows, device=scores_RV.device)]
        drawn |= zip(rows, _draw_alike([samplers[row] for row in rows], own_RV, *way), strict=True)
    return [drawn[row] for row in range(len(samplers))]


def _draw_alike(
    samplers: Sequence[Sampler], logits_RV: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> list[int]:
    if temperature == 0:
        return cast(list[int], logits_RV.argmax(1).tolist())
    # So that no temperature, however low, makes an infinity of the likeliest, or is rounded to 0.
    below_RV = (logits_RV - logits_RV.amax(1, keepdim=True)).double()
    ids_RK, chances_RK = candidates(below_RV / temperature, top_k, top_p)
    # A point falls into one token's share; torch's multinomial takes a hundred times as long.
    sums_RK = chances_RK.cumsum(1)
    points_R = torch.tensor([min(sampler.point(), NEARLY_1) for sampler in samplers], dtype=torch.float64)
    points_R1 = points_R.to(sums_RK.device).unsqueeze(1) * sums_RK[:, -1:]
    drawn_R1 = torch.searchsorted(sums_RK, points_R1, right=True).clamp_(max=sums_RK.shape[1] - 1)
    drawn_R1 = drawn_R1 if ids_RK is None else ids_RK.gather(1, drawn_R1)
    return cast(list[int], drawn_R1.squeeze(1).tolist())


def draw_on_device(
    logits_RV: Tensor, point_R: Tensor, temperature_R: Tensor, top_k_R: Tensor, top_p_R: Tensor
) -> Tensor:
    """Return what `draw` draws with these points, of few tokens and without a word to the host.

    A temperature of 0 is the likeliest token; a `top_p` of 1 has no limit.
    """
    below_RV = (logits_RV - logits_RV.amax(1, keepdim=True)).double()
    scores_RK, ids_RK = below_RV.topk(min(FIRST_GUESS, below_RV.shape[1]))
    heat_R1 = torch.where(temperature_R > 0, temperature_R, 1).unsqueeze(1)
    left_out_RK = torch.arange(scores_RK.shape[1], device=logits_RV.device) >= top_k_R.unsqueeze(1)
    chances_RK = (scores_RK / heat_R1).masked_fill(left_out_RK, -math.inf).softmax(1)
    share_R1 = torch.where(top_p_R < 1, top_p_R, math.inf).unsqueeze(1)
    sums_RK = torch.where(chances_RK.cumsum(1) - chances_RK < share_R1, chances_RK, 0).cumsum(1)
    points_R1 = point_R.clamp(max=NEARLY_1).unsqueeze(1) * sums_RK[:, -1:]
    place_R1 = torch.searchsorted(sums_RK, points_R1, right=True).clamp_(max=sums_RK.shape[1] - 1)
    drawn_R = ids_RK.gather(1, place_R1).squeeze(1)
    return torch.where(temperature_R > 0, drawn_R, logits_RV.argmax(1))


def penalised(logits_RV: Tensor, penalties: Sequence[float], before: Sequence[Iterable[int]]) -> Tensor:
    """Return scores in which the tokens that were there before are less likely."""
    if all(penalty == 1 for penalty in penalties):
        return logits_RV
    found_RV = logits_RV.clone()
    for logits_V, penalty, ids in zip(found_RV, penalties, before, strict=True):
        ids_N = torch.tensor(list(ids), dtype=torch.long, device=logits_V.device)
        scores_N = logits_V[ids_N].double()
        changed_N = torch.where(scores_N > 0, scores_N / penalty, scores_N * penalty)
        logits_V[ids_N] = changed_N.clamp(-FURTHEST, FURTHEST).float()  # no penalty makes an infinity of a score
    return found_RV


def candidates(logits_RV: Tensor, top_k: int | None, top_p: float | None) -> tuple[Tensor | None, Tensor]:
    """Return the tokens that may be drawn, likeliest first, and their chances, which need not add up to 1.

    Without a limit all may be drawn: then there is no list of tokens, and their chances stand in their own order.
    """
    share = 1.0 if top_p is None else top_p
    if top_k is None and share == 1:
        return None, logits_RV.softmax(1)
    scores_RK, ids_RK = logits_RV.topk(min(top_k or FIRST_GUESS, logits_RV.shape[1]))
    # Shares of all that top_k leaves, or of everything.
    chances_RK = scores_RK.softmax(1) if top_k else (scores_RK - logits_RV.logsumexp(1, keepdim=True)).exp()
    if share == 1:
        return ids_RK, chances_RK
    wide_R = chances_RK.sum(1) < share
    if not top_k and bool(wide_R.any()):
        # Only of those texts that need them all: where scores are even, the two ways may have another order.
        filled = 0, logits_RV.shape[1] - chances_RK.shape[1]
        chances_RK, ids_RK = F.pad(chances_RK, filled), F.pad(ids_RK, filled)
        chances_RK[wide_R], ids_RK[wide_R] = logits_RV[wide_R].softmax(1).sort(descending=True, stable=True)
    # Those before which all of it is reached have no chance.
    return ids_RK, torch.where(chances_RK.cumsum(1) - chances_RK < share, chances_RK, 0)
