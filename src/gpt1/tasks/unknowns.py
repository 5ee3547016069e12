"""What a vocabulary cannot spell: text of another script becomes one unknown token over and over, and says nothing.

A vocabulary of words has the characters of the text it was made from; one of bytes knows all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.records import Count, RecordPart
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.shapes import BOTH
from gpt1.text.unknowns import in_numbers, is_told

MOSTLY = 0.5  # of an example's tokens: from here on it can hardly be told from others
MOST_UNKNOWN = 0.5  # of all tokens to learn from: above this there is next to nothing to learn

ADVICE = "the network takes them all for the same: start from a run whose vocabulary knows {what}, or one of bytes"


@dataclass(frozen=True)
class Unknown(RecordPart):
    """How many of the tokens that were read are unknown, and of how many examples most of them are."""

    tokens: Count
    of: Count
    examples: Count

    @property
    def is_too_much(self) -> bool:
        """Whether so little is known that nothing can be learned."""
        return self.tokens > MOST_UNKNOWN * self.of

    def notice(self, of_examples: int, where: str = "", characters: Sequence[str] = ()) -> list[str]:
        """Return what a person is told, in a line, if anything."""
        told = self.told(of_examples, characters)
        return [] if told is None else [f"{where}{': ' if where else ''}{'; '.join(told)}"]

    def told(self, of_examples: int, characters: Sequence[str] = ()) -> tuple[str, str] | None:
        """Return what is so, with the commonest such characters, and what helps; None where next to all is known."""
        if not self.examples and not is_told(self.tokens, self.of):
            return None
        several = self.examples and of_examples > 1
        rows = f", in {self.examples:,} of {of_examples:,} examples most of them" if several else ""
        named = f" (the commonest: {' '.join(characters)})" if characters else ""
        advice = ADVICE.format(what="this script" if self.examples else "such characters")
        return f"{in_numbers(self.tokens, self.of)}{named}{rows}", advice


def unknown_by_example(task: Task, split: EncodedSplit, unknown_id: int | None, vocab_size: int) -> NDArray[np.int64]:
    """Return for each example how many of its tokens are unknown, and how many it has, special ones not counted.

    Only what is read counts, not what was cut off; a pair that is read in both orders counts once.
    """
    found = np.zeros((len(split), 2), np.int64)
    if split.windows is not None:  # which have some tokens more than once
        for example in range(len(split)):
            ids = np.concatenate(split.parts(example, vocab_size))
            found[example] = np.count_nonzero(ids == unknown_id) if unknown_id is not None else 0, len(ids)
        return found
    for column, counted in enumerate((split.ids == unknown_id, split.ids < vocab_size)):
        if column or unknown_id is not None:
            sums = np.concatenate(([0], np.cumsum(counted)))
            by_sequence = (sums[split.offsets[1:]] - sums[split.offsets[:-1]]).reshape(len(split), task.sequences)
            found[:, column] = by_sequence[:, 0] if task.shape == BOTH else by_sequence.sum(1)
    return found


def is_unread(unknown: int, tokens: int) -> bool:
    """Whether nothing of an example is known, so that its answer says nothing, however sure it is."""
    return 0 < tokens <= unknown


def unread_notice(tokens: int) -> str:
    """Return what a person is told of the answer to an example of which nothing is known."""
    what = "its one token is not" if tokens == 1 else f"none of its {tokens:,} tokens is"
    return f"{what} in the vocabulary, so that the answer tells nothing of the text"


def count_unknown(by_example: NDArray[Any]) -> Unknown:
    """Return the counts of all examples, given the unknown tokens and the tokens of each [examples, 2]."""
    unknown, tokens = by_example.astype(np.int64).T
    mostly = (unknown > 0) & (unknown >= MOSTLY * tokens)
    return Unknown(int(unknown.sum()), int(tokens.sum()), int(mostly.sum()))
