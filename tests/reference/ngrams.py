"""Interpolated trigram models written as their formulas, with dictionaries and no thought of speed.

    P(w | h) = max(c(h w) - D, 0) / c(h .)  +  D kinds(h .) / c(h .) * P(w | h without its first token)

and P(w | h) = P(w | h without its first token) where h was never seen; below the single tokens stands 1 / V.
Absolute discounting: c counts occurrences, D = 0.75.
Kneser-Ney: c counts occurrences of trigrams and, for shorter ones, the distinct tokens that stand before them;
D = n1 / (n1 + 2 n2) of each length, 0.75 where n1 or n2 is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

Gram = tuple[int, ...]


class ReferenceTrigram:
    """A trigram model over ids, trained when it is made."""

    def __init__(self, ids: Sequence[int], vocab_size: int, *, kneser_ney: bool) -> None:
        self.vocab_size = vocab_size
        self.counts: dict[int, Counter[Gram]] = {}
        self.discounts: dict[int, float] = {}
        for order in (1, 2, 3):
            if kneser_ney and order < 3:
                longer = {tuple(ids[place : place + order + 1]) for place in range(len(ids) - order)}
                self.counts[order] = Counter(gram[1:] for gram in longer)
            else:
                self.counts[order] = Counter(tuple(ids[place : place + order]) for place in range(len(ids) - order + 1))
            times = Counter(self.counts[order].values())
            estimated = kneser_ney and times[1] and times[2]
            self.discounts[order] = times[1] / (times[1] + 2 * times[2]) if estimated else 0.75

    def probability(self, word: int, context: Gram) -> float:
        """Return P(word | context) for a context of up to two ids."""
        order = len(context) + 1
        lower = self.probability(word, context[1:]) if context else 1 / self.vocab_size
        after = {gram: count for gram, count in self.counts[order].items() if gram[:-1] == context}
        if not after:
            return lower
        total, discount = sum(after.values()), self.discounts[order]
        kept = max(after.get((*context, word), 0) - discount, 0)
        return kept / total + discount * len(after) / total * lower

    def nats(self, ids: Sequence[int]) -> float:
        """Return the mean of -log P over every id but the first."""
        contexts = [tuple(ids[max(0, place - 2) : place]) for place in range(1, len(ids))]
        return sum(-log(self.probability(*pair)) for pair in zip(ids[1:], contexts, strict=True)) / len(contexts)
