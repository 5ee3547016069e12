"""What counting words is worth: TF-IDF and a linear model, made as strong as one easily can.

Words, pairs of neighbours, and runs of one to four characters inside words, which know a word in another form, or in
a script that parts no words by blanks; sublinear counts. Two texts are both seen, with their difference, their product,
their cosine and the shares of terms they have in common: without these a linear model cannot compare them. Where their
order means nothing, both orders are asked and the mean is the answer. Of choices only the answers are looked at, each
by itself. Logistic regression, one for each label where a row may have several; ridge regression for scores.

What was learned is a list of terms and a few arrays: it can be kept without a pickle.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpt1.tasks.answers import Floats, answers, predictions, soft_targets
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR
from gpt1.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # answering must not pull in what opens tables
    from gpt1.tasks.examples import Example

STEPS = 2000  # of the solver, which then has found its optimum

VERSION = 4  # of features and models: figures of several are never mixed

Counted = Literal["words and runs", "words", "characters"]  # the last two as earlier versions did
ALL_TERMS: Counted = "words and runs"
_RUN = "\t"  # before a run of characters, which no word begins with

_WORDS: dict[str, Any] = {"ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b|[^\w\s]"}
_RUNS: dict[str, Any] = {"ngram_range": (1, 4), "analyzer": "char_wb"}  # a word's ends are seen as a blank
_NEVER = -30.0  # the logit of a class that was not among those learned

Texts = Sequence[tuple[str, ...]]  # what is looked at of each example: its text, its two texts, or its answers
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WordModel:
    """A linear model over words that has learned a task."""

    task: Task
    terms: Sequence[str]
    idf: Singles  # of each term
    weights: Singles  # [outputs, features]: an output a class, or one: of an answer, or of the score
    bias: Singles  # [outputs]
    counted: Counted = ALL_TERMS  # what terms are

    @cached_property
    def _vectorizer(self) -> Any:
        found = _new_vectorizer(self.counted, vocabulary={term: place for place, term in enumerate(self.terms)})
        found.idf_ = self.idf.astype(np.float64)
        return found

    def make_ready(self) -> None:
        """Load what answering needs, which takes a second the first time."""
        self._vectorizer  # noqa: B018

    def probabilities(self, texts: Texts) -> Floats:
        """Return the probability of each class, answer or bin of scores [examples, answers]."""
        found = self._of(texts)
        return (found + self._of([parts[::-1] for parts in texts])) / 2 if self.task.shape == BOTH else found

    def _of(self, texts: Texts) -> Floats:
        features = _features(self.task, self._vectorizer, texts, self.counted)
        outputs = np.asarray(features @ self.weights.T.astype(np.float64)) + self.bias
        if self.task.score_range is not None:
            return soft_targets(self.task, np.clip(outputs[:, 0], *self.task.score_range))
        if self.task.is_multilabel:
            return np.asarray(1 / (1 + np.exp(-outputs)))
        if self.task.shape == CHOICES:
            outputs = outputs.reshape(-1, self.task.choices)
        shares = np.exp(outputs - outputs.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True))


def learn_words(task: Task, texts: Texts, labels: NDArray[Any], counted: Counted = ALL_TERMS) -> WordModel:
    """Return the model that has learned examples, which have at least two labels."""
    vectorizer = _new_vectorizer(counted).fit(text for parts in texts for text in parts)
    features = _features(task, vectorizer, texts, counted)
    terms, idf = vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.astype(np.float32)
    return WordModel(task, terms, idf, *_fit(task, features, labels), counted)


def _new_vectorizer(counted: Counted, vocabulary: dict[str, int] | None = None) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    how = {ALL_TERMS: {"analyzer": _words_and_runs()}, "words": _WORDS, "characters": _RUNS}[counted]
    return TfidfVectorizer(vocabulary=vocabulary, sublinear_tf=True, **how)


def _words_and_runs() -> Callable[[str], list[str]]:
    from sklearn.feature_extraction.text import CountVectorizer

    words, runs = (CountVectorizer(**how).build_analyzer() for how in (_WORDS, _RUNS))
    return lambda text: [*words(text), *(_RUN + run for run in runs(text))]


def _fit(task: Task, features: Any, labels: NDArray[Any]) -> tuple[Singles, Singles]:
    """Return weights [outputs, features] and biases [outputs]."""
    from sklearn.linear_model import LogisticRegression, Ridge

    if task.score_range is not None:
        line = Ridge().fit(features, labels)
        return line.coef_[None].astype(np.float32), np.array([line.intercept_], np.float32)
    if task.is_multilabel:
        return _one_against_rest(features, labels)
    if task.shape == CHOICES:
        labels = (np.arange(task.choices) == labels[:, None]).ravel().astype(int)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)  # told as rare labels
        found = LogisticRegression(max_iter=STEPS).fit(features, labels)
    weights, bias = found.coef_.astype(np.float32), found.intercept_.astype(np.float32)
    if task.shape == CHOICES:
        return weights, bias
    return _a_row_a_class(answers(task), found.classes_, weights, bias)


def _one_against_rest(features: Any, labels: NDArray[Any]) -> tuple[Singles, Singles]:
    """Return weights and biases [labels]; a label that all rows have, or none, is always answered so."""
    from sklearn.linear_model import LogisticRegression

    count = labels.shape[1]
    weights, bias = np.zeros((count, features.shape[1]), np.float32), np.zeros(count, np.float32)
    for place, own in enumerate(labels.T):
        if own.min() == own.max():
            bias[place] = -_NEVER if own[0] else _NEVER
        else:
            found = LogisticRegression(max_iter=STEPS).fit(features, own)
            weights[place], bias[place] = found.coef_[0], found.intercept_[0]
    return weights, bias


def _a_row_a_class(count: int, known: Any, weights: Singles, bias: Singles) -> tuple[Singles, Singles]:
    """Return weights with a row for each class of the task; of two classes scikit-learn has the second's alone."""
    if len(known) == 2:
        weights, bias = np.vstack([np.zeros_like(weights), weights]), np.append(np.float32(0), bias)
    rows, starts = np.zeros((count, weights.shape[1]), np.float32), np.full(count, _NEVER, np.float32)
    rows[known], starts[known] = weights, bias
    return rows, starts


def answer_by_words(task: Task, train: Sequence[Example], asked: Sequence[Example]) -> NDArray[Any]:
    """Return what a linear model over words that learned `train` answers to other examples: classes, or scores."""
    model = learn_words(task, _given_texts(task, train), np.array([example.label for example in train]))
    return predictions(task, model.probabilities(_given_texts(task, asked)))


def _given_texts(task: Task, examples: Sequence[Example]) -> Texts:
    return [example.texts[2:] if task.shape == CHOICES else example.texts for example in examples]


def encoded_texts(task: Task, split: EncodedSplit, tokenizer: Tokenizer) -> Texts:
    """Return the texts of encoded examples: what is left of them in the context, as the tokenizer spells it."""
    return [_parts(task, split, example, tokenizer) for example in range(len(split))]


def _parts(task: Task, split: EncodedSplit, example: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the parts of an example: of all its windows, or of choices the last of each sequence."""
    special = min(tokenizer.specials.values())
    parts = (
        [_last_part(ids, special) for ids in split.sequences(example)]
        if task.shape == CHOICES
        else split.parts(example, special)
    )
    return tuple(tokenizer.decode(part.tolist()) for part in parts)


def _last_part(ids: NDArray[Any], special: int) -> NDArray[Any]:
    start, end = np.flatnonzero(ids >= special)[-2:].tolist()
    return ids[start + 1 : end]


def _features(task: Task, vectorizer: Any, texts: Texts, counted: Counted) -> Any:
    """Return a row for each example; of choices for each of its answers."""
    from scipy.sparse import csr_matrix, hstack

    if task.shape not in (PAIR, BOTH):
        return vectorizer.transform([text for parts in texts for text in parts])
    one, other = (vectorizer.transform([parts[side] for parts in texts]) for side in (0, 1))
    cosine = np.asarray(one.multiply(other).sum(1))
    shared = _shared_terms(one, other) if counted == ALL_TERMS else np.array([_shared(p, counted) for p in texts])
    return hstack([one, other, abs(one - other), one.multiply(other), csr_matrix(np.hstack([cosine, shared]))]).tocsr()


def _shared_terms(one: Any, other: Any) -> Floats:
    """Return the share of each text's terms that the other has too, and of all their terms that both have."""
    left, right = (np.diff(side.indptr) for side in (one, other))
    both = np.diff(one.multiply(other).tocsr().indptr)
    return np.stack([both / np.maximum(1, of) for of in (left, right, left + right - both)], 1)


def _shared(parts: tuple[str, ...], counted: Counted) -> list[float]:
    """Return the same shares of words or characters, as earlier versions had them."""
    left, right = (set(text.lower().split()) for text in parts)
    if counted == "characters":
        left, right = set("".join(left)), set("".join(right))
    both = len(left & right)
    return [both / max(1, len(left)), both / max(1, len(right)), both / max(1, len(left | right))]
