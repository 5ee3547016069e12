"""Counted words (TF-IDF and a linear model) at the rows that decide who answers: learned once, and told first.

What decides are examples that nobody has learned: those for dev where there are enough of them, else the training
examples by cross-validation, for which words are counted again in parts of them. It takes seconds, so that a person
knows before the training what the network is to be better than; at the end the very same answers are held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.shuffle import permutation
from gpt1.base.wording import hundred
from gpt1.linear.ensemble import judging_thresholds, own_thresholds
from gpt1.linear.words import Texts, WordModel, encoded_texts, learn_words
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import WORDS
from gpt1.tasks.answers import Floats
from gpt1.tasks.assessment import Interval, assess, hold_against
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose, examples_by_text
from gpt1.tasks.thresholds import FEWEST as FEWEST_OF_A_CLASS
from gpt1.text.tokenizer import Tokenizer

ENOUGH = 100  # labelled examples for dev, which then decide
FEWEST = 20  # of them, which decide where there is no cross-validation
MOST_REPEATED = 1000  # training examples for which the network is trained again
MOST_COUNTED = 10_000  # training examples beyond which a network is hardly behind, and counting takes minutes
MOST_CLASSES = 200  # each of which has a weight for every word
LITTLE = 0.01  # of a score, below which what a network can win at most is told

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AnswerSheet:
    """What members answered to examples that they had not learned."""

    labels: NDArray[Any]
    members: dict[str, Floats]
    where: str
    cross_validated: bool = False
    is_dev: bool = False  # by which thresholds of labels are chosen too
    folds: int | None = None  # of a cross-validation

    def with_member(self, name: str, found: Floats) -> AnswerSheet:
        """Return the sheet with what a further member answered."""
        return replace(self, members={name: found, **self.members})


@dataclass(frozen=True)
class WordsReached:
    """What counting words reaches on the rows that decide, by the task's first metric."""

    task: str
    metric: str
    score: float
    interval: Interval
    rows: int
    where: str

    @property
    def leaves_nothing(self) -> bool:
        """Whether all of enough rows are answered rightly, so that nothing can do better there."""
        return self.score == 1 and self.rows >= ENOUGH

    def in_words(self, *, trains: bool = True) -> str:
        """Return it in a sentence, with what that leaves to the network, which is trained or makes one update."""
        low, high = (hundred(end) for end in self.interval)
        return (
            f"{self.task}: counting words (TF-IDF) reaches {self.metric.replace('_', ' ')} "
            f"{hundred(self.score)} (95 % interval {low} to {high}) on {self.where}, and {self._left(trains)}"
        )

    def _left(self, trains: bool) -> str:
        if self.leaves_nothing and trains:
            return (
                "nothing can do better there; `changes=['training.steps=1']` makes a run that answers as well there, "
                "without the minutes of training"
            )
        if self.score == 1:
            few = "" if self.leaves_nothing else ", though so few rows say little of others"
            return f"nothing can do better there{few}"
        if 1 - self.score < LITTLE:
            return f"the network can win {hundred(1 - self.score)} points there at most"
        return "the network is to do better"


class CountedWords:
    """Counted words at tasks, with the rows for dev that decide; each is learned once, when it is asked for."""

    def __init__(self, tasks: Mapping[str, EncodedTask], tokenizer: Tokenizer) -> None:
        self.tasks, self._tokenizer = tasks, tokenizer
        self._sheets: dict[tuple[str, int], AnswerSheet | None] = {}  # by a task and the folds

    @cached_property
    def models(self) -> dict[str, WordModel]:
        """What has learned all training examples, of each task whose words are counted."""
        splits = {name: one.splits["train"] for name, one in self.tasks.items()}
        return {
            name: learn_words(self.tasks[name].task, texts, splits[name].labels) for name, texts in self._texts.items()
        }

    def sheet(self, name: str, folds: int) -> AnswerSheet | None:
        """Return what words answer to the rows that decide a task, of so many folds; None where there are too few."""
        if (name, folds) not in self._sheets:
            part = parts_to_hold_out(self.tasks, folds).get(name)
            found = self._on_dev(name) if part is None else self._cross_validated(name, part, folds)
            self._sheets[name, folds] = found
        return self._sheets[name, folds]

    def reached(self, folds: int) -> list[WordsReached]:
        """Return what words reach at each task that has rows which decide, of so many folds."""
        sheets = {name: self.sheet(name, folds) for name in self._texts}
        return [_reached(self.tasks[name].task, sheet) for name, sheet in sheets.items() if sheet is not None]

    @cached_property
    def _texts(self) -> dict[str, Texts]:
        """What is counted of each task's training examples."""
        return {
            name: encoded_texts(one.task, one.splits["train"], self._tokenizer)
            for name, one in self.tasks.items()
            if uncountable(one) is None
        }

    def _on_dev(self, name: str) -> AnswerSheet | None:
        task, splits = self.tasks[name].task, dev_rows(self.tasks[name])
        if _count(splits) < FEWEST:
            return None
        found = [self.models[name].probabilities(encoded_texts(task, split, self._tokenizer)) for split in splits]
        labels = np.concatenate([split.labels for split in splits])
        return AnswerSheet(labels, {WORDS: np.concatenate(found)}, f"{len(labels):,} dev rows", is_dev=True)

    def _cross_validated(self, name: str, part: Places, folds: int) -> AnswerSheet:
        """Return what words answer to the training examples of the first `folds` parts, having learned the others."""
        texts = self._texts[name]
        found = [words_of_others(self.tasks[name], texts, part == number) for number in range(folds)]
        order = np.argsort(np.concatenate([np.flatnonzero(part == number) for number in range(folds)]))
        labels = self.tasks[name].splits["train"].labels[part < folds]
        where = f"{len(labels):,} rows {'held out once' if folds == 1 else 'cross-validated'}"
        return AnswerSheet(labels, {WORDS: np.concatenate(found)[order]}, where, cross_validated=True, folds=folds)


def words_of_others(encoded: EncodedTask, texts: Texts, inside: NDArray[np.bool_]) -> Floats:
    """Return what counted words answer to the training examples that are marked, having learned the others."""
    labels = encoded.splits["train"].labels[~inside]
    model = learn_words(encoded.task, _some(texts, ~inside), labels)
    return model.probabilities(_some(texts, inside))


def _some(texts: Texts, which: NDArray[np.bool_]) -> Texts:
    return [texts[place] for place in np.flatnonzero(which).tolist()]


def _reached(task: Task, sheet: AnswerSheet) -> WordsReached:
    labels, found = sheet.labels, sheet.members[WORDS]
    chosen = own_thresholds(task, found, labels, with_thresholds=sheet.is_dev)
    thresholds = judging_thresholds(task, found, labels, chosen)
    assessed, metric = assess(task, labels, hold_against(task, labels, found, thresholds)), task.metrics[0]
    score, interval = float(assessed.metrics[metric]), assessed.intervals[metric]
    return WordsReached(task.name, metric, score, interval, len(labels), sheet.where)


def uncountable(encoded: EncodedTask) -> str | None:
    """Return why words are not counted for a task; None where they are."""
    task, train = encoded.task, encoded.splits["train"]
    reasons = {
        "scikit-learn is not installed": find_spec("sklearn") is None,
        f"there are more than {MOST_COUNTED:,} examples": len(train) > MOST_COUNTED,
        f"there are more than {MOST_CLASSES} labels": len(task.labels) > MOST_CLASSES,
        "all examples have one label": bool(task.labels) and len(np.unique(train.labels, axis=0)) < 2,
    }
    return next((why for why, holds in reasons.items() if holds), None)


# ---- which rows decide ----


def parts_to_hold_out(tasks: Mapping[str, EncodedTask], folds: int) -> dict[str, Places]:
    """Return the tasks of which cross-validation tells who answers, and in which part each training example is."""
    few = {name: one for name, one in tasks.items() if uncountable(one) is None and _is_dev_few(one)}
    return {name: part for name, one in few.items() if (part := deal(one)) is not None} if folds else {}


def dev_rows(encoded: EncodedTask) -> list[EncodedSplit]:
    """Return the examples for dev that have labels and were not learned."""
    learned, found = examples_by_text(encoded, encoded.splits["train"]), []
    for split in (encoded.splits[name] for name in encoded.task.dev_splits if name in encoded.splits):
        new = [own for text, own in examples_by_text(encoded, split).items() if text not in learned]
        if places := sorted(place for own in new for place in own if split.labelled[place]):
            found.append(choose(split, places))
    return found


def _is_dev_few(encoded: EncodedTask) -> bool:
    """Whether the examples for dev are too few to decide, or where classes have factors, those of a class for these."""
    splits = dev_rows(encoded)
    if _count(splits) < ENOUGH or not encoded.task.class_factors:
        return _count(splits) < ENOUGH
    dev, train = (_by_class(encoded.task, some) for some in (splits, [encoded.splits["train"]]))
    return bool(((dev < FEWEST_OF_A_CLASS) & (train >= FEWEST_OF_A_CLASS)).any())


def _by_class(task: Task, splits: Sequence[EncodedSplit]) -> Places:
    return np.bincount(np.concatenate([split.labels for split in splits]), minlength=len(task.labels))


def _count(splits: Iterable[EncodedSplit]) -> int:
    return sum(map(len, splits))


def deal(encoded: EncodedTask) -> Places | None:
    """Return in which part each training example is; None: too few, or too many to train again and again."""
    return deal_evenly(encoded) if len(encoded.splits["train"]) <= MOST_REPEATED else None


def deal_evenly(encoded: EncodedTask) -> Places | None:
    """Return in which part each training example is, labels dealt evenly and equal texts together; None: too few."""
    train = encoded.splits["train"]
    units = list(examples_by_text(encoded, train).values())
    shuffled = [units[place] for place in permutation(len(units), (0, len(units)))(range(len(units))).tolist()]
    shuffled.sort(key=lambda unit: train.labels[unit[0]].tolist())
    found = np.zeros(len(train), np.int64)
    for number, unit in enumerate(shuffled):
        found[unit] = number % FOLDS
    few = any(len(np.unique(train.labels[found != part], axis=0)) < 2 for part in range(FOLDS))
    return None if few or len(units) < 2 * FOLDS else found
