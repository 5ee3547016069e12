"""Which examples of a split stand in train too, so that answering them says little.

Texts tell it where rows are at hand; case and blanks do not count. Token sequences tell it besides, and alone where a
task was encoded before; only whole ones, as texts that lost their ends, or words that the vocabulary lacks, may differ
in just these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.encoded import EncodedSplit, EncodedTask, text_digests
from gpt1.tasks.unknowns import unknown_by_example


def in_train(encoded: EncodedTask, split: str, unknown_id: int | None) -> NDArray[np.bool_]:
    """Return which examples of another split than train stand there too."""
    if "train" not in encoded.splits:
        return np.zeros(len(encoded.splits[split]), np.bool_)
    return _by_texts(encoded, split) | _by_tokens(encoded, split, unknown_id)


def _by_texts(encoded: EncodedTask, split: str) -> NDArray[np.bool_]:
    rows, digests = encoded.examples.get(split, ()), encoded.train_texts
    # Of either a part may have been chosen, and then nobody knows whose texts these are.
    if len(rows) != len(encoded.splits[split]) or len(digests) != len(encoded.splits["train"]):
        return np.zeros(len(encoded.splits[split]), np.bool_)
    return np.isin(text_digests(encoded.task, rows), digests)


def _by_tokens(encoded: EncodedTask, split: str, unknown_id: int | None) -> NDArray[np.bool_]:
    data, train = encoded.splits[split], encoded.splits["train"]
    unknown = unknown_by_example(encoded.task, data, unknown_id, encoded.vocab_size)[:, 0]
    learned = {_key(train, example) for example in range(len(train))}
    whole = (data.cut == 0) & (unknown == 0)
    return np.array([bool(whole[at]) and _key(data, at) in learned for at in range(len(data))], np.bool_)


def _key(split: EncodedSplit, example: int) -> tuple[bytes, ...]:
    """Return what is equal where texts are, as they are read; of a pair in either order."""
    return tuple(sorted(ids.tobytes() for ids in split.sequences(example)))
