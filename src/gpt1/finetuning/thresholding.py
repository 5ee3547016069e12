"""From which probability on each of several labels is given, and which factor a class has where each row has one label.

Both are chosen by those rows for dev that choose the epoch, thresholds for micro F1 and factors for the task's first
metric. The other half, where dev is parted, stays apart, so that what is measured on it is honest. Where it was decided
by cross-validation who answers, factors are chosen by its answers, of which there are more. Counted words beside the
network have thresholds and factors of their own, chosen alike: else they would be held against it with a hand tied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.wording import many, some
from gpt1.documents.figures import metric_name
from gpt1.inference.answering import by_label, plain_probabilities, temperature_of
from gpt1.inference.run import Run
from gpt1.linear.words import encoded_texts
from gpt1.records.thresholds import THRESHOLDS_FILE, TaskThresholds, ThresholdsRecord
from gpt1.tasks.answers import THRESHOLD, Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose
from gpt1.tasks.temperature import tempered
from gpt1.tasks.thresholds import FEWEST, MOST_CLASSES, fit_factors, fit_thresholds
from gpt1.training.session import Notify

_SHOWN = 8  # labels in a sentence
_LIKELIEST = "the likeliest class is answered"
_GIVEN = "labels are given from the probability"


@dataclass(frozen=True, eq=False)
class ClassFactors:
    """The factors of a task's classes, of counted words beside the network, and what they were chosen by."""

    own: Floats  # for probabilities before any temperature
    words: Floats | None
    examples: int
    why: str  # in words

    def as_record(self, task: Task) -> TaskThresholds:
        """Return what is kept of them."""
        words = {} if self.words is None else _by_label(task, self.words)
        return TaskThresholds(self.why, _by_label(task, self.own), self.examples, words)


def choose_factors(run: Run, tasks: Mapping[str, EncodedTask]) -> dict[str, ClassFactors]:
    """Return the factors of the classes of tasks that have them; their rows for dev are those that choose.

    They are chosen before the temperature, and nothing is kept of them before `choose_thresholds`.
    """
    return {name: _factors(run, encoded) for name, encoded in tasks.items() if encoded.task.class_factors}


def _factors(run: Run, encoded: EncodedTask) -> ClassFactors:
    task, ensemble = encoded.task, run.ensembles.get(encoded.task.name)
    if ensemble is not None and (decided := ensemble.record).factors:
        own, of_words = (by_label(task, values) for values in (decided.factors, decided.words_factors))
        once = "held out once" if decided.is_held_out_once else "cross-validated"
        told = f"{many(decided.examples, 'row')} {once}"
        return ClassFactors(own, of_words, decided.examples, _factors_in_words(task, own, told))
    splits = _labelled(encoded)
    if not splits:
        ones = np.ones(len(task.labels))
        return ClassFactors(ones, None, 0, f"{_LIKELIEST}: there are no rows for dev to choose factors of classes by")
    labels, plain = _asked(run, task, splits)
    own = fit_factors(plain, labels, task.metrics[0])
    by_words = _words_of(run, task, splits)
    words = None if by_words is None else fit_factors(by_words, labels, task.metrics[0])
    rows = many(len(labels), "row")
    return ClassFactors(own, words, len(labels), _factors_in_words(task, own, f"{rows} for dev", labels))


def choose_thresholds(
    run: Run, tasks: Mapping[str, EncodedTask], factors: Mapping[str, ClassFactors], notify: Notify
) -> None:
    """Choose the thresholds of tasks with several labels and keep them in the run's folder, with `factors` of others.

    Their rows for dev are those that choose; without such tasks there is nothing to do.
    """
    (run.path / THRESHOLDS_FILE).unlink(missing_ok=True)
    run.look_again()
    found = {name: _chosen(run, encoded) for name, encoded in tasks.items() if encoded.task.is_multilabel}
    found |= {name: one.as_record(tasks[name].task) for name, one in factors.items()}
    if not found:
        return
    for name, one in found.items():
        notify(f"{name}: {one.why}")
    assert run.checkpoint.weights_hash is not None, "what vouches for weights is written after them"
    record = ThresholdsRecord(run.checkpoint.step, found, run.checkpoint.weights_hash)
    record.write(run.path / THRESHOLDS_FILE)
    run.look_again()


def _chosen(run: Run, encoded: EncodedTask) -> TaskThresholds:
    task = encoded.task
    splits = _labelled(encoded)
    if not splits:
        why = f"{_GIVEN} {THRESHOLD:g} on: there are no rows for dev to choose thresholds by"
        return TaskThresholds(why, dict.fromkeys(task.labels, THRESHOLD))
    labels, plain = _asked(run, task, splits)
    # Chosen before the temperature and kept after it, so that it changes no answer.
    own = tempered(task, fit_thresholds(plain, labels)[None], temperature_of(run, task))[0]
    few = [name for name, count in zip(task.labels, (labels == 1).sum(0), strict=True) if count < FEWEST]
    by_words = _words_of(run, task, splits)
    words = {} if by_words is None else _by_label(task, fit_thresholds(by_words, labels))
    return TaskThresholds(_in_words(task, own, few, len(labels)), _by_label(task, own), len(labels), words)


def _labelled(encoded: EncodedTask) -> list[EncodedSplit]:
    """Return the labelled rows for dev."""
    named = [encoded.splits[name] for name in encoded.task.dev_splits if name in encoded.splits]
    return [choose(split, np.flatnonzero(split.labelled).tolist()) for split in named if split.labelled.any()]


def _asked(run: Run, task: Task, splits: Sequence[EncodedSplit]) -> tuple[NDArray[Any], Floats]:
    """Return the labels of examples, and the probabilities of their answers as they come."""
    plain = np.concatenate([plain_probabilities(run, task, split) for split in splits])
    return np.concatenate([split.labels for split in splits]), plain


def _words_of(run: Run, task: Task, splits: Sequence[EncodedSplit]) -> Floats | None:
    """Return what counted words alone say of examples, where the run knows it."""
    ensemble = run.ensembles.get(task.name)
    if ensemble is None or (model := ensemble.words) is None:
        return None
    return np.concatenate([model.probabilities(encoded_texts(task, split, run.tokenizer)) for split in splits])


def _by_label(task: Task, thresholds: Floats) -> dict[str, float]:
    return dict(zip(task.labels, thresholds.tolist(), strict=True))


def _in_words(task: Task, thresholds: Floats, few: list[str], rows: int) -> str:
    """Return what was chosen, and which labels keep one half."""
    of = f"{many(rows, 'row')} for dev"
    if len(few) == len(task.labels):
        return f"{_GIVEN} {THRESHOLD:g} on: no label stands in {FEWEST} of {of}, which a threshold takes"
    told = [f"'{name}' {value:.2f}" for name, value in _by_label(task, thresholds).items() if name not in few]
    said = f"{_GIVEN} that is best by micro F1 on {of}: {some(told, _SHOWN)}"
    named = some([f"'{name}'" for name in few], _SHOWN)
    return f"{said}; {named} from {THRESHOLD:g} on, as fewer than {FEWEST} of these rows have them" if few else said


def _factors_in_words(task: Task, factors: Floats, rows: str, labels: NDArray[Any] | None = None) -> str:
    """Return what was chosen; of rows whose `labels` are known, which classes keep 1 for being too few."""
    best = f"by {metric_name(task.metrics[0])} on {rows}"
    if len(task.labels) > MOST_CLASSES:
        return f"{_LIKELIEST}: factors are chosen of {MOST_CLASSES} classes at most, and there are {len(task.labels):,}"
    counts = None if labels is None else np.bincount(labels, minlength=len(task.labels))
    few = [] if counts is None else [f"'{task.labels[one]}'" for one in np.flatnonzero(counts < FEWEST)]
    named = f"fewer than {FEWEST} of {rows} are of {some(few, _SHOWN)}" if few else ""
    if few and len(task.labels) - len(few) < 2:
        return f"{_LIKELIEST}: {named}, too few to choose a factor by; more such rows for dev help"
    if (factors == 1).all():
        return f"{_LIKELIEST}, which is best {best}" + (f"; {named}" if few else "")
    told = [f"'{name}' {value:.2f}" for name, value in _by_label(task, factors).items() if value != 1]
    said = f"the class of the largest probability times its factor is answered, best {best}: {some(told, _SHOWN)}"
    return f"{said}, others 1" + (f"; {named}, which keep 1" if few else "")
