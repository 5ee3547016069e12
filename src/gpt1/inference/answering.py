"""The one way to an answer: examples of a task in, what a fine-tuned run says of each out.

Tables, requests, estimators and measuring all come here. Examples are encoded and laid out by the very functions that
fine-tuning uses, and answered by portions, whatever order they come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import RuinedWeights, SettingError, unknown
from gpt1.base.wording import many
from gpt1.inference.classification import probabilities_by_portion
from gpt1.inference.run import Run
from gpt1.inference.words import answered_words
from gpt1.linear.ensemble import ALONE, pool
from gpt1.linear.words import encoded_texts
from gpt1.records.ensemble import NETWORK, WORDS
from gpt1.tasks.answers import THRESHOLD, Floats, answers, predictions, surenesses_of
from gpt1.tasks.assessment import DIGITS, answer_name, label_names, likeliest, share_names
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, choose, encode_examples
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import CHOICES, SINGLE
from gpt1.tasks.tagging import NO_WORD
from gpt1.tasks.temperature import tempered
from gpt1.tasks.unknowns import count_unknown, is_unread, unknown_by_example
from gpt1.tasks.windows import MOST_WINDOWS


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a run answers to examples, and how much of each it has read."""

    task: Task
    # Of the classes, answers or bins [examples, answers]; of words, of the label that is given [examples, words].
    probabilities: Floats
    sure: Floats  # of each answer before any temperature, by which it is decided what is not answered
    # Index of the class or the answer, or the score, or 1 and 0 for each of several labels, or indices of words' labels
    answers: NDArray[Any]
    cut: NDArray[np.int64]  # tokens that the context had no room for
    unknown: NDArray[np.int64]  # tokens that are not in the vocabulary
    tokens: NDArray[np.int64]  # that were read

    def __len__(self) -> int:
        return len(self.answers)

    def name(self, example: int) -> str | int | float:
        """Return an answer as a person reads it."""
        return answer_name(self.task, self.answers[example])

    def labels(self, example: int) -> list[str]:
        """Return which of several labels are given."""
        return label_names(self.task, self.answers[example])

    def confidence(self, example: int) -> float:
        """Return the probability of the class or the answer that is given."""
        return round(float(self.probabilities[example, self.answers[example]]), DIGITS)

    def shares(self, example: int) -> dict[str, float] | None:
        """Return the probabilities of an example by name, those of the likeliest of many; of a score there are none."""
        if self.task.score_range is not None or self.task.labels_words:
            return None
        row = self.probabilities[example]
        places = likeliest(row[None])[0]
        return share_names(self.task, places, row[places])


def answer(run: Run, task: Task, examples: Sequence[Example]) -> Predictions:
    """Return what a run answers to examples of a task that it has learned."""
    split = encode_examples(task, examples, run.tokenizer, run.recipe.shape.context, windows=run.has_windows)
    if task.labels_words:
        return _answer_words(run, task, split)
    plain = plain_probabilities(run, task, split)
    found = tempered(task, plain, temperature_of(run, task))
    counts = unknown_by_example(task, split, run.tokenizer.unknown_id, run.tokenizer.vocab_size)
    given = predictions(task, found, thresholds_of(run, task))
    sure = surenesses_of(plain, _factors_of(run, task))
    return Predictions(task, found, sure, given, split.cut, counts[:, 0], counts[:, 1])


def _answer_words(run: Run, task: Task, split: EncodedSplit) -> Predictions:
    """Return the labels of words; the probabilities of all labels of all words would be too many to hold."""
    assert split.places is not None
    given, sure = np.full(split.places.shape, NO_WORD), np.ones(split.places.shape)
    for examples, found in answer_by_portion(run, task, split):
        given[examples], sure[examples] = answered_words(found)
    counts = unknown_by_example(task, split, run.tokenizer.unknown_id, run.tokenizer.vocab_size)
    return Predictions(task, sure, sure.min(1, initial=1.0), given, split.cut, counts[:, 0], counts[:, 1])


def answer_split(run: Run, task: Task, split: EncodedSplit) -> tuple[Floats, NDArray[Any]]:
    """Return the probabilities that a run gives the classes, answers or bins of each example, and what it answers."""
    found = _collected(task, split, answer_by_portion(run, task, split))
    return found, predictions(task, found, thresholds_of(run, task))


def plain_probabilities(run: Run, task: Task, split: EncodedSplit) -> Floats:
    """Return the probabilities of each example as they come, without any temperature."""
    return _collected(task, split, _answer_by_members(run, task, split))


def _collected(task: Task, split: EncodedSplit, portions: Iterable[tuple[NDArray[np.int64], Floats]]) -> Floats:
    found = np.zeros((len(split), answers(task)))
    for examples, shares in portions:
        found[examples] = shares
    return found


def answer_by_portion(run: Run, task: Task, split: EncodedSplit) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield which examples were answered, and their probabilities: all of them at once may be too many to hold."""
    temperature = temperature_of(run, task)
    for examples, found in _answer_by_members(run, task, split):
        yield examples, tempered(task, found, temperature)


def temperature_of(run: Run, task: Task) -> float:
    """Return the temperature at which a run answers a task."""
    return 1.0 if run.calibration is None else run.calibration.tasks[task.name].temperature


def thresholds_of(run: Run, task: Task) -> Floats | float:
    """Return from which probability on a run gives each of several labels, or the factors of classes.

    At a temperature factors are other numbers, so that it changes no answer.
    """
    if task.class_factors:
        factors = _factors_of(run, task)
        return factors if isinstance(factors, float) else factors ** (1 / temperature_of(run, task))
    return (
        by_label(task, run.thresholds.tasks[task.name].labels) if run.thresholds and task.is_multilabel else THRESHOLD
    )


def words_thresholds(run: Run, task: Task) -> Floats | float:
    """Return the same of counted words beside the network, which answer alone where they are held against it."""
    own = run.thresholds.tasks[task.name].words if run.thresholds and task.has_thresholds else {}
    return by_label(task, own) if own else THRESHOLD


def _factors_of(run: Run, task: Task) -> Floats | float:
    """Return the factors of classes for probabilities as they come, without any temperature."""
    if run.thresholds is None or not task.class_factors:
        return THRESHOLD
    return by_label(task, run.thresholds.tasks[task.name].labels)


def by_label(task: Task, values: Mapping[str, float]) -> Floats:
    """Return what each label has in the order of a task's labels."""
    return np.array([values[name] for name in task.labels])


def _answer_by_members(run: Run, task: Task, split: EncodedSplit) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    ensemble = run.ensembles.get(task.name)
    weights = ALONE if ensemble is None else ensemble.weights
    if NETWORK not in weights:  # words alone, which take no time
        yield np.arange(len(split)), pool(task, {WORDS: _by_words(run, task, split)}, weights)
        return
    for examples, found in probabilities_by_portion(run.ready_classifier, task.name, split, run.pause):
        _check_finite(run, found)
        if WORDS in weights:
            members = {NETWORK: found, WORDS: _by_words(run, task, choose(split, examples.tolist()))}
            found = pool(task, members, weights)
        yield examples, found


def _by_words(run: Run, task: Task, split: EncodedSplit) -> Floats:
    words = run.ensembles[task.name].words
    assert words is not None  # `read_ensembles` refuses an ensemble that lacks a member
    return words.probabilities(encoded_texts(task, split, run.tokenizer))


def _check_finite(run: Run, found: Floats) -> None:
    if not np.isfinite(found).all():
        raise RuinedWeights(
            f"{run.checkpoint.path.name} gives probabilities that are no numbers: its weights are ruined; "
            "use the checkpoint of another step, or train again"
        )


def task_of(run: Run, name: str | None = None) -> Task:
    """Return the task of this name that a run has learned; without a name, its only one."""
    if name is None and len(run.tasks) > 1:
        raise SettingError(f"{run.path} has learned several tasks; name one with `task`: {', '.join(run.tasks)}")
    if name is not None and name not in run.tasks:
        raise unknown("task", name, run.tasks, of=str(run.path))
    return run.tasks[name or next(iter(run.tasks))]


def network_temperature(run: Run, task: Task) -> float:
    """Return by what the scores of a run's network are to be divided where it goes elsewhere, to be as sure as the run.

    Where others answer beside it or in its place, its scores are left as they are: the temperature is not its own.
    """
    ensemble = run.ensembles.get(task.name)
    return temperature_of(run, task) if ensemble is None or ensemble.weights == ALONE else 1.0


def left_behind(run: Run, task: Task) -> list[str]:
    """Return what a person should know where the network of a run goes elsewhere without all else that answers."""
    ensemble = run.ensembles.get(task.name)
    told = []
    if run.has_windows:
        told.append(
            f"the run reads a text of more than {run.recipe.shape.context} tokens in windows; what goes out reads one "
            "window, and answers as the run does where a text fits in there"
        )
    if task.is_multilabel:
        own = np.broadcast_to(thresholds_of(run, task), len(task.labels)).tolist()
        named = ", ".join(f"{name} {value:.3f}" for name, value in zip(task.labels, own, strict=True))
        told.append(f"each label has a probability of its own, the sigmoid of its logit, and is given from {named} on")
    if task.class_factors and isinstance(factors := thresholds_of(run, task), np.ndarray) and (factors != 1).any():
        named = ", ".join(f"{name} {value:.3g}" for name, value in zip(task.labels, factors.tolist(), strict=True))
        told.append(
            "what goes out gives probabilities, and its likeliest class is not always the run's answer: that is the "
            f"class of the largest probability times its factor ({named})"
        )
    if ensemble is not None and ensemble.weights != ALONE:
        why = ensemble.record.why
        told.append(f"what goes out is the network alone, and its answers are not the run's: {why}")
    return told


def room_for_text(context: int, *, windows: bool) -> str:
    """Return in words how much of a text is read."""
    return f"{MOST_WINDOWS} windows of the model's {context} tokens" if windows else f"the model's {context} tokens"


def reading_notices(
    rows: int,
    cut: int,
    unknown: NDArray[Any],
    context: int,
    characters: Sequence[str] = (),
    *,
    windows: bool = False,
    shape: str = SINGLE,
) -> list[str]:
    """Return what a person should know of how rows were read, each by itself or in windows.

    `unknown` has the counts of each that was answered, `characters` are the commonest that the vocabulary lacks.
    """
    room = room_for_text(context, windows=windows)
    told = f"{cut:,} of {many(rows, 'row')} had more text than {room}; the ends were not read"
    if shape != CHOICES and not windows:
        told += "; a run of `gpt1.finetune(changes=['finetuning.windows=mean'])` reads them"
    unread = sum(is_unread(*one) for one in unknown.tolist())
    blind = (
        f"{unread:,} of {many(rows, 'row')} {'has' if unread == 1 else 'have'} nothing that is in the vocabulary; such "
        "an answer, however sure, tells nothing of the text"
    )
    notices = count_unknown(unknown).notice(len(unknown), characters=characters)
    return [*([told] if cut else []), *([blind] if unread and rows > 1 else []), *notices]
