"""Which answers may be given so that few of them are wrong: a threshold of confidence with a promise that is proven.

Answers to labelled examples that decided nothing before are counted: at a threshold that was named beforehand, the
wrong ones among those that are given are a draw from a binomial distribution, so its tail bounds their true share
exactly (Clopper and Pearson, 1934). Thresholds are tried from a strict one on, each laxer than the one before, until
the first that cannot be promised; in an order that was fixed before, they need no correction for being many (fixed
sequence testing; Angelopoulos et al., "Learn then Test", 2021). Other examples say which, and where to begin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpt1.base.records import RecordPart
from gpt1.tasks.answers import Floats

CONFIDENCE = 0.95  # with which a promise is kept
_NEARLY = 0.95
_STEPS = 40  # thresholds: each answers a fortieth of the examples more than the one before


@dataclass(frozen=True)
class Surenesses(RecordPart):
    """How sure the answers to labelled examples were: those that are right, and those that are wrong."""

    right: list[float]
    wrong: list[float]

    def __len__(self) -> int:
        return len(self.right) + len(self.wrong)

    def at_least(self, threshold: float) -> tuple[int, int]:
        """Return how many answers are as sure as that, and how many of these are wrong."""
        right, wrong = (int((np.array(some) >= threshold).sum()) for some in (self.right, self.wrong))
        return right + wrong, wrong


@dataclass(frozen=True)
class Promise:
    """Answers of which at most a share is wrong are those that are as sure as the threshold."""

    risk: float
    threshold: float
    examples: int  # by which it was proven
    answered: int  # of these
    wrong: int  # of those that were answered


def surenesses(sure: Floats, right: NDArray[np.bool_]) -> Surenesses:
    """Return how sure answers were, the surest first."""
    return Surenesses(*(sorted(sure[which].tolist(), reverse=True) for which in (right, ~right)))


def least_examples(risk: float, level: float = 1 - CONFIDENCE) -> int:
    """Return how many answers must be seen, none of them wrong, before a risk can be promised at all."""
    return math.ceil(math.log(level) / math.log1p(-risk))


def tail(wrong: int, answered: int, risk: float) -> float:
    """Return how likely at most so many wrong ones would be if a share `risk` of all answers were wrong."""
    return 1.0 if wrong >= answered else float(_tails(answered, risk)[wrong])


def _tails(answered: int, risk: float) -> Floats:
    """Return the tail for every number of wrong ones below `answered`."""
    counts = np.arange(answered)
    steps = np.log((answered - counts) / (counts + 1)) + math.log(risk) - math.log1p(-risk)
    logs = answered * math.log1p(-risk) + np.concatenate(([0.0], np.cumsum(steps)[:-1]))
    tails: Floats = np.minimum(1.0, np.cumsum(np.exp(logs)))
    return tails


def find_promise(seen: Surenesses, kept: Surenesses, risk: float, level: float = 1 - CONFIDENCE) -> Promise | None:
    """Return the laxest threshold at which `risk` can be promised; None: there is none.

    `seen` are answers by which anything may have been decided; here they say which thresholds are tried. The promise
    stands on `kept`, which decided nothing.
    """
    found = None
    for threshold in _sequence(seen, len(kept), risk, level):
        answered, wrong = kept.at_least(threshold)
        if tail(wrong, answered, risk) > level:
            break
        found = Promise(risk, threshold, len(kept), answered, wrong)
    return found


def _sequence(seen: Surenesses, kept: int, risk: float, level: float) -> list[float]:
    """Return thresholds, the strictest first, from one on that is likely to be proven.

    It is the strictest of those that are nearly as likely as any: what was chosen by these examples looks better by
    them than it is.
    """
    sure = sorted([*seen.right, *seen.wrong], reverse=True)
    shares = [step / _STEPS for step in range(1, _STEPS + 1) if step / _STEPS * kept >= least_examples(risk, level)]
    places = [max(1, round(share * len(sure))) for share in shares if sure]
    thresholds = [*dict.fromkeys(sure[place - 1] for place in places), *([0.0] if places else [])]  # the last: any
    chances = [_chance(*seen.at_least(threshold), risk, level) for threshold in thresholds]
    first = next((place for place, chance in enumerate(chances) if chance >= _NEARLY * max(chances)), 0)
    return thresholds[first:]


def _chance(answered: int, wrong: int, risk: float, level: float) -> float:
    """Return how likely as many answers again prove a risk, if they are wrong as often as these (and a little more)."""
    most = int(np.searchsorted(_tails(answered, risk), level, "right")) - 1
    return tail(most, answered, (wrong + 1) / (answered + 2)) if most >= 0 else 0.0
