"""From which probability on each of several labels is given: by micro F1 on those rows for dev that choose the epoch.

The other half, where dev is parted, stays apart, so that what is measured on it is honest. Counted words beside the
network have thresholds of their own, chosen alike: else they would be held against it with a hand tied.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpt1.base.wording import many, some
from gpt1.inference.answering import plain_probabilities, temperature_of
from gpt1.inference.run import Run
from gpt1.linear.words import encoded_texts
from gpt1.records.thresholds import THRESHOLDS_FILE, TaskThresholds, ThresholdsRecord
from gpt1.tasks.answers import THRESHOLD, Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, choose
from gpt1.tasks.temperature import tempered
from gpt1.tasks.thresholds import FEWEST, fit_thresholds
from gpt1.training.session import Notify

_SHOWN = 8  # labels in a sentence
_GIVEN = "labels are given from the probability"


def choose_thresholds(run: Run, tasks: Mapping[str, EncodedTask], notify: Notify) -> None:
    """Choose the thresholds of tasks with several labels and keep them in the run's folder.

    Their rows for dev are those that choose; without such tasks there is nothing to do.
    """
    several = {name: encoded for name, encoded in tasks.items() if encoded.task.is_multilabel}
    if not several:
        return
    (run.path / THRESHOLDS_FILE).unlink(missing_ok=True)
    run.look_again()
    found = {name: _chosen(run, encoded) for name, encoded in several.items()}
    for name, one in found.items():
        notify(f"{name}: {one.why}")
    assert run.checkpoint.weights_hash is not None, "what vouches for weights is written after them"
    record = ThresholdsRecord(run.checkpoint.step, found, run.checkpoint.weights_hash)
    record.write(run.path / THRESHOLDS_FILE)
    run.look_again()


def _chosen(run: Run, encoded: EncodedTask) -> TaskThresholds:
    task = encoded.task
    named = [encoded.splits[name] for name in task.dev_splits if name in encoded.splits]
    splits = [choose(split, np.flatnonzero(split.labelled).tolist()) for split in named if split.labelled.any()]
    if not splits:
        why = f"{_GIVEN} {THRESHOLD:g} on: there are no rows for dev to choose thresholds by"
        return TaskThresholds(why, dict.fromkeys(task.labels, THRESHOLD))
    labels = np.concatenate([split.labels for split in splits])
    plain = np.concatenate([plain_probabilities(run, task, split) for split in splits])
    # Chosen before the temperature and kept after it, so that it changes no answer.
    own = tempered(task, fit_thresholds(plain, labels)[None], temperature_of(run, task))[0]
    few = [name for name, count in zip(task.labels, (labels == 1).sum(0), strict=True) if count < FEWEST]
    ensemble = run.ensembles.get(task.name)
    words: dict[str, float] = {}
    if ensemble is not None and (model := ensemble.words) is not None:
        by_words = [model.probabilities(encoded_texts(task, split, run.tokenizer)) for split in splits]
        words = _by_label(task, fit_thresholds(np.concatenate(by_words), labels))
    return TaskThresholds(_in_words(task, own, few, len(labels)), _by_label(task, own), len(labels), words)


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
