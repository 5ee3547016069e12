"""What counting alone achieves: trigram models of a corpus, the bar that a network has to pass.

    python benchmarks/ngrams.py CORPUS_DIR [--tokens N]

Two interpolated trigrams over the tokens of the corpus. With absolute discounting every level counts what was seen;
with Kneser-Ney the lower levels count in how many contexts it was seen, and each level's discount is Ney's estimate.
Both end in the uniform distribution, so nothing has probability 0. They are scored in nats a target on the targets
that a network is scored on: every token of the validation stream but the first.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from math import exp, log

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import Gpt1Error
from gpt1.pretraining.stream import TokenStream

DISCOUNT = 0.75

Ids = npt.NDArray[np.integer]
Keys = npt.NDArray[np.int64]  # n-grams, read as numbers of n digits in base V, the vocabulary's size
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Level:
    """The counts of all n-grams of one length and, of each context, their sum and how many they are."""

    vocab_size: int
    discount: float
    grams: Keys
    counts: Keys
    contexts: Keys
    totals: Keys
    kinds: Keys

    @classmethod
    def of(cls, grams: Keys, counts: Keys, vocab_size: int, discount: float) -> Level:
        """Make a level of distinct n-grams in rising order and their counts."""
        contexts = grams // vocab_size
        begins = np.flatnonzero(np.diff(contexts, prepend=-1))
        kinds = np.diff(begins, append=len(grams))
        return cls(vocab_size, discount, grams, counts, contexts[begins], np.add.reduceat(counts, begins), kinds)

    def probability(self, grams: Keys, lower: Floats) -> Floats:
        """Return the probability of each n-gram's last token after the others; `lower` is that after one fewer."""
        counts = look_up(grams, self.grams, self.counts)
        contexts = grams // self.vocab_size
        totals = look_up(contexts, self.contexts, self.totals)
        kinds = look_up(contexts, self.contexts, self.kinds)
        kept = np.maximum(counts - self.discount, 0)
        return np.where(totals > 0, (kept + self.discount * kinds * lower) / np.maximum(totals, 1), lower)


def look_up(wanted: Keys, keys: Keys, values: Keys) -> Keys:
    """Return the values of the wanted keys, 0 for those that are not there."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def grams_of(ids: Ids, order: int, vocab_size: int) -> Keys:
    """Return the n-gram that begins at each place, as far as there is room."""
    length = max(len(ids) - order + 1, 0)
    keys = np.zeros(length, np.int64)
    for shift in range(order):
        keys = keys * vocab_size + ids[shift : shift + length]
    return keys


@dataclass(frozen=True)
class Trigram:
    """Levels from single tokens up, each falling back on the one below it."""

    vocab_size: int
    levels: tuple[Level, ...]

    def probabilities(self, ids: Ids) -> Floats:
        """Return the probability of every token but the first, given the tokens (two at most) before it."""
        targets = len(ids) - 1
        result = np.full(targets, 1 / self.vocab_size)
        for order, level in enumerate(self.levels, 1):
            grams = grams_of(ids, order, self.vocab_size)[-targets:]
            own = slice(targets - len(grams), None)  # the first target has one token before it
            result[own] = level.probability(grams, result[own])
        return result

    def nats(self, ids: Ids) -> float:
        """Return the mean negative log-probability of every token but the first."""
        return float(-np.log(self.probabilities(ids)).mean())


def train_absolute(ids: Ids, vocab_size: int) -> Trigram:
    """Count a stream for absolute discounting with 0.75."""
    tables = [counted(grams_of(ids, order, vocab_size)) for order in (1, 2, 3)]
    return Trigram(vocab_size, tuple(Level.of(*table, vocab_size, DISCOUNT) for table in tables))


def train_kneser_ney(ids: Ids, vocab_size: int) -> Trigram:
    """Count a stream for interpolated Kneser-Ney smoothing."""
    bigrams, trigrams = (counted(grams_of(ids, order, vocab_size)) for order in (2, 3))
    tables = [counted(bigrams[0] % vocab_size), counted(trigrams[0] % vocab_size**2), trigrams]
    return Trigram(vocab_size, tuple(Level.of(*table, vocab_size, ney_discount(table[1])) for table in tables))


def counted(keys: Keys) -> tuple[Keys, Keys]:
    """Return the distinct keys in rising order, and how often each is there."""
    distinct, counts = np.unique(keys, return_counts=True)
    return distinct, counts


def ney_discount(counts: Keys) -> float:
    """Return Ney's estimate from how many n-grams were counted once and twice; 0.75 where either is none."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else DISCOUNT


def main() -> None:
    """Print the scores of both trigrams on a corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="folder of a prepared corpus")
    parser.add_argument("--tokens", type=int, help="count only so many tokens of the training text  [all]")
    arguments = parser.parse_args()
    try:
        train, valid = TokenStream(arguments.corpus, "train"), TokenStream(arguments.corpus, "valid")
    except Gpt1Error as error:
        sys.exit(f"error: {error}")
    seen = len(train) if arguments.tokens is None else min(arguments.tokens, len(train))
    if seen < 3 or len(valid) < 2:
        sys.exit(f"error: {seen} training and {len(valid)} validation tokens are too few for a trigram")
    train_ids, valid_ids = train.read([0], seen)[0], valid.read([0], len(valid))[0]
    print(f"{seen:,} training tokens, {len(valid) - 1:,} targets, vocabulary of {train.vocab_size:,}")
    for name, train_model in (("absolute discounting 0.75", train_absolute), ("Kneser-Ney", train_kneser_ney)):
        began = time.perf_counter()
        nats = train_model(train_ids, train.vocab_size).nats(valid_ids)
        bits_per_byte = nats * (len(valid) - 1) / log(2) / valid.bytes
        print(
            f"trigram, {name:26} {nats:.4f} nats a target, perplexity {exp(nats):.1f}, {bits_per_byte:.3f} bits a byte "
            f"({time.perf_counter() - began:.1f} s)"
        )


if __name__ == "__main__":
    main()
