"""What counting words is worth: TF-IDF and a linear model, made as strong as one easily can.

Words and pairs of neighbours, sublinear counts. Two texts are both seen, with their difference, their product, their
cosine and the shares of words they have in common: without these a linear model cannot compare them. Of choices only
the answers are looked at, each by itself. Logistic regression; ridge regression for scores.

By itself, on all the training labels of tasks: `python -m gpt1.studies.baseline DIR TASK...`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.metrics import scores
from gpt1.tasks.preparing import read_task
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR

VERSION = 1  # of these features and models: figures of another version are not mixed with these
STEPS = 2000  # of the solver, which then has found its optimum

Answers = NDArray[Any]


def answer_by_words(task: Task, train: Sequence[Example], asked: Sequence[Example]) -> Answers:
    """Return what a linear model over words that learned `train` answers to other examples: classes, or scores."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[^\w\s]")
    words.fit(text for example in train for text in _texts(task, example))
    labels: Answers = np.array([example.label for example in train])
    if task.score_range is not None:
        scores: Answers = Ridge().fit(_features(task, words, train), labels).predict(_features(task, words, asked))
        return np.clip(scores, *task.score_range)
    if task.shape == CHOICES:
        labels = (np.arange(task.choices) == labels[:, None]).ravel().astype(int)
    model = LogisticRegression(max_iter=STEPS).fit(_features(task, words, train), labels)
    if task.shape == CHOICES:
        return np.asarray(model.predict_proba(_features(task, words, asked))[:, 1].reshape(-1, task.choices).argmax(1))
    return np.asarray(model.predict(_features(task, words, asked)))


def score_by_words(task: str, data: str | Path) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Learn all training rows of a task; yield each of its dev splits, its number of rows and the scores on it."""
    labelled = read_task(task, data=data)
    for split in labelled.task.dev_splits:
        asked = labelled.splits[split]
        answers = answer_by_words(labelled.task, labelled.splits["train"], asked)
        yield split, len(asked), scores(labelled.task, np.array([example.label for example in asked]), answers)


def _texts(task: Task, example: Example) -> tuple[str, ...]:
    return example.texts[2:] if task.shape == CHOICES else example.texts


def _features(task: Task, words: Any, examples: Sequence[Example]) -> Any:
    """Return a row for each example; of choices for each of its answers."""
    from scipy.sparse import csr_matrix, hstack

    if task.shape not in (PAIR, BOTH):
        return words.transform([text for example in examples for text in _texts(task, example)])
    one, other = (words.transform([example.texts[side] for example in examples]) for side in (0, 1))
    cosine = np.asarray(one.multiply(other).sum(1))
    shared = np.array([_shared(*example.texts) for example in examples])
    return hstack([one, other, abs(one - other), one.multiply(other), csr_matrix(np.hstack([cosine, shared]))]).tocsr()


def _shared(one: str, other: str) -> list[float]:
    """Return the share of each text's words that the other has too, and of all their words that both have."""
    left, right = set(one.lower().split()), set(other.lower().split())
    both = len(left & right)
    return [both / max(1, len(left)), both / max(1, len(right)), both / max(1, len(left | right))]


if __name__ == "__main__":
    for name in sys.argv[2:]:
        for split, rows, found in score_by_words(name, sys.argv[1]):
            shown = ", ".join(f"{metric} {100 * score:.1f}" for metric, score in found.items())
            print(f"{name} {split}, {rows:,} rows: {shown}")
