"""What a linear model makes of the labels of words, as a yardstick that is strong though simple.

Of each word: itself, without its capitals, its first and last one to four characters, its shape (Xxxx, dd, X.X.), and
the same but for the ends of both its neighbours; itself in small letters of those beyond; whether the sentence begins
or ends there. A linear support vector machine for each label. It sees letters as they stand in the file, which a
tokenizer may not let a network see; it sees what follows; of other labels it knows nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.tagging import NO_WORD

NAME = "a linear model of words"
MOST_WORDS = 500_000  # that it learns from, beyond which it takes minutes; the first sentences are taken
_FEATURES = 1 << 20  # hashed into so many columns
_ENDS = 4  # characters, the longest beginning and end
_STEPS = 1000  # of the solver at most

_RUNS = re.compile(r"(.)\1+")


class WordTagger:
    """A linear model that has learned labels of words."""

    def __init__(self, task: Task, train: Sequence[Example]) -> None:
        from sklearn.feature_extraction import FeatureHasher
        from sklearn.svm import LinearSVC

        self._hasher = FeatureHasher(_FEATURES, input_type="string", alternate_sign=False)
        known = list(_first_words(train))
        labels = [label for example in known for label in example.label or ()]  # type: ignore[union-attr]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not quite converged
            self._model: Any = LinearSVC(C=0.3, random_state=0, max_iter=_STEPS).fit(self._features(known), labels)

    def answers(self, examples: Sequence[Example], width: int) -> NDArray[np.int64]:
        """Return the label of each word [examples, width]."""
        found = np.full((len(examples), width), NO_WORD, np.int64)
        sizes = [len(example.words) for example in examples]
        there = np.arange(width) < np.array(sizes)[:, None]
        found[there] = self._model.predict(self._features(examples))
        return found

    def _features(self, examples: Sequence[Example]) -> Any:
        return self._hasher.transform(one for example in examples for one in word_features(example.words))


def _first_words(train: Sequence[Example]) -> Iterator[Example]:
    count = 0
    for example in train:
        count += len(example.words)
        if count > MOST_WORDS and count > len(example.words):
            return
        yield example


def word_features(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the features of each word of a sentence."""
    small = ["<<", "<", *(word.lower() for word in words), ">", ">>"]
    shapes = ["<", *map(word_shape, words), ">"]
    for place, word in enumerate(words):
        lower = small[place + 2]
        before, after = small[place + 1], small[place + 3]
        ends = [
            f"{side}{size}={part}"
            for size in range(1, _ENDS + 1)
            for side, part in (("begins", lower[:size]), ("ends", lower[-size:]))
        ]
        yield [
            "any",
            f"word={word}",
            f"small={lower}",
            f"shape={shapes[place + 1]}",
            *ends,
            f"before={before}",
            f"shape before={shapes[place]}",
            f"after={after}",
            f"shape after={shapes[place + 2]}",
            f"two before={small[place]}",
            f"two after={small[place + 4]}",
            f"before and it={before} {lower}",
            f"it and after={lower} {after}",
        ]


def word_shape(word: str) -> str:
    """Return such as Xx, d.d or X-x of a word: what kind of characters it has, the same side by side as one."""
    kinds = "".join(
        "X" if sign.isupper() else "x" if sign.isalpha() else "d" if sign.isdigit() else sign for sign in word
    )
    return _RUNS.sub(r"\1", kinds)
