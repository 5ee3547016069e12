"""Which token comes next: the likeliest, or one drawn from those likely enough.

In this order: what was there before is made less likely (`repetition_penalty`), `temperature`, the `top_k` likeliest,
the smallest set of the likeliest that together have probability `top_p`. Each text draws from a generator of its own,
so that it does not depend on what is written beside it, but for the rounding of the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from gpt1.base.errors import SettingError, unknown

# V tokens of the vocabulary, K of them that may be drawn, likeliest first.

SEEDS = 2**63  # there are so many
FIRST_GUESS = 256  # tokens among which the likeliest are looked for first; sorting all takes many times as long


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How a text is continued; every default of `generate` stands here."""

    tokens: int = 128  # at most
    temperature: float = 0.8  # 0: always the likeliest token
    top_k: int | None = 40  # None: all
    top_p: float | None = None  # None: all
    repetition_penalty: float = 1.0  # what a score is divided by, or where it is negative multiplied by; 1: nothing
    stop: tuple[str, ...] = ()  # the text ends before the first of these
    seed: int = 0
    alternatives: int | None = None  # tell of each token how likely it was, and so many of the likeliest; None: nothing

    def __post_init__(self) -> None:
        sentences = {
            f"tokens is at least 0, not {self.tokens}": self.tokens >= 0,
            f"temperature is at least 0, not {self.temperature}": self.temperature >= 0,
            f"temperature is a finite number, not {self.temperature}": self.temperature < math.inf,
            f"top_k is at least 1 (or none), not {self.top_k}": self.top_k is None or self.top_k >= 1,
            f"top_p is above 0 and at most 1 (or none), not {self.top_p}": self.top_p is None or 0 < self.top_p <= 1,
            f"repetition_penalty is above 0, not {self.repetition_penalty}": self.repetition_penalty > 0,
            f"repetition_penalty is a finite number, not {self.repetition_penalty}": self.repetition_penalty < math.inf,
            "a stop string has at least one character": not isinstance(self.stop, str) and all(self.stop),
            f"seed is between 0 and 2**63, not {self.seed}": 0 <= self.seed < SEEDS,
            f"alternatives is at least 0 (or none), not {self.alternatives}": (self.alternatives or 0) >= 0,
        }
        for sentence, holds in sentences.items():
            if not holds:
                raise SettingError(sentence)


def writing(settings: dict[str, Any]) -> Writing:
    """Return a way of writing with these settings; a name that does not exist is answered with the nearest."""
    known = [field.name for field in fields(Writing)]
    for name in settings:
        if name not in known:
            raise unknown("setting of generate", name, known)
    stop = settings.get("stop", ())
    return Writing(**{**settings, "stop": (stop,) if isinstance(stop, str) else tuple(stop)})


@dataclass(frozen=True)
class Weighed:
    """How likely a network found a token, and which ones it found likeliest, as natural logarithms of probabilities."""

    log_probability: float
    likeliest: list[tuple[int, float]]


def weighed(logits_V: Tensor, id: int, alternatives: int) -> Weighed:
    """Return what the network itself thinks of a token: without temperature, penalty or any limit."""
    logs_V = logits_V.double().log_softmax(0)
    values_K, ids_K = logs_V.topk(min(alternatives, len(logs_V)))
    return Weighed(float(logs_V[id]), list(zip(ids_K.tolist(), values_K.tolist(), strict=True)))


class Sampler:
    """Draws one text's tokens."""

    def __init__(self, wanted: Writing, seed: int) -> None:
        self._wanted = wanted
        self._draws = torch.Generator().manual_seed(seed)

    def draw(self, logits_V: Tensor, before: Tensor | None = None) -> int:
        """Return the next token, given scores in float32 on the CPU and the tokens before it."""
        wanted = self._wanted
        if wanted.repetition_penalty != 1 and before is not None:
            logits_V = penalised(logits_V, before, wanted.repetition_penalty)
        if wanted.temperature == 0:
            return int(logits_V.argmax())
        # So that no temperature, however low, makes an infinity of the likeliest, or is rounded to 0.
        below_V = (logits_V - logits_V.max()).double()
        ids_K, chances_K = candidates(below_V / wanted.temperature, wanted.top_k, wanted.top_p)
        sums_K = chances_K.cumsum(0)
        # A number from [0, 1) falls into one token's share; torch's multinomial takes a hundred times as long.
        point = torch.rand((), generator=self._draws, dtype=torch.float64) * sums_K[-1]
        drawn = int(torch.searchsorted(sums_K, point, right=True).clamp(max=len(sums_K) - 1))
        return drawn if ids_K is None else int(ids_K[drawn])


def penalised(logits_V: Tensor, before: Tensor, penalty: float) -> Tensor:
    """Return scores in which the tokens that were there before are less likely."""
    scores = logits_V[before]
    return logits_V.index_put((before,), torch.where(scores > 0, scores / penalty, scores * penalty))


def candidates(logits_V: Tensor, top_k: int | None, top_p: float | None) -> tuple[Tensor | None, Tensor]:
    """Return the tokens that may be drawn, likeliest first, and their chances, which need not add up to 1.

    Without a limit all may be drawn: then there is no list of tokens, and their chances stand in their own order.
    """
    if top_k is None and (top_p is None or top_p == 1):
        return None, logits_V.softmax(0)
    V = len(logits_V)
    if top_p is None or top_p == 1:
        scores_K, ids_K = logits_V.topk(min(top_k or V, V))
        return ids_K, scores_K.softmax(0)
    # Shares of all that top_k leaves, or of everything.
    scores_K, ids_K = logits_V.topk(min(top_k or FIRST_GUESS, V))
    chances_K = scores_K.softmax(0) if top_k else (scores_K - logits_V.logsumexp(0)).exp()
    if not top_k and chances_K.sum() < top_p:
        chances_K, ids_K = logits_V.softmax(0).sort(descending=True, stable=True)
    needed = int((chances_K.cumsum(0) - chances_K < top_p).sum())  # those before which not all of it is reached
    return ids_K[:needed], chances_K[:needed]
