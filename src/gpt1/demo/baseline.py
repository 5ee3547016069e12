"""What words alone give away: TF-IDF and logistic regression, one block of features a text.

The better of single words and of words with pairs of neighbours, chosen on dev. Where a task is about meaning this
stays near chance: otherwise a small network could pass for understanding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from gpt1.demo.tasks import Row
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import BOTH, CHOICES

PAIRS = ((1, 1), (1, 2))  # words; words and pairs of neighbours
STRENGTHS = (0.1, 1.0, 10.0)


def bag_of_words(task: Task, rows: Mapping[str, Sequence[Row]]) -> dict[str, float]:
    """Return the accuracy of a bag of words on every split but train, learned on train and chosen on dev."""
    best: dict[str, float] = {}
    labels = {split: np.array([row["label"] for row in own]) for split, own in rows.items()}
    for words in PAIRS:
        blocks = [
            TfidfVectorizer(ngram_range=words, token_pattern=r"[\w']+").fit(_column(task, rows["train"], place))
            for place in range(_texts(task))
        ]
        features = {split: _features(task, own, blocks) for split, own in rows.items()}
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, max_iter=1000).fit(features["train"], labels["train"])
            found = {split: float(model.score(features[split], labels[split])) for split in rows if split != "train"}
            if not best or found["dev"] > best["dev"]:
                best = found
    return best


def _texts(task: Task) -> int:
    return 1 + task.choices if task.shape == CHOICES else len(task.fields)


def _column(task: Task, rows: Sequence[Row], place: int) -> list[str]:
    if task.shape == CHOICES and place > 0:
        return [row[task.fields[-1]][place - 1] for row in rows]
    return [row[task.fields[place]] for row in rows]


def _features(task: Task, rows: Sequence[Row], blocks: Sequence[Any]) -> NDArray[np.float64]:
    """Return a block of features for each text; of two texts in no order, also what they share and differ in."""
    parts = [block.transform(_column(task, rows, place)).toarray() for place, block in enumerate(blocks)]
    if task.shape == BOTH:
        first, second = (blocks[0].transform(_column(task, rows, place)).toarray() for place in (0, 1))
        parts += [first * second, abs(first - second)]
    return np.hstack(parts)
