"""How sure a run's answers are to be: a temperature fitted on rows that were not learned; which of dev choose nothing.

Rows by which an epoch was chosen are answered better than new ones. So one half of the rows for dev chooses the epoch
and who answers, and the other, where there are enough for both, is like new rows to the run: a temperature that is
fitted on it is not too low, and what abstaining promises is proven by it. The temperature is none of what chooses: it
changes neither which answer wins nor, as what is decided by is taken before it, which answers are given. Of several
labels each is softened by itself, before their thresholds are chosen; what abstaining promises is for one label a row.

Where there are few rows for dev the answers of cross-validation say it: they are of other trainings, each with fewer
rows, but there is one for every row, and nobody who answered it had learned it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.shuffle import permutation
from gpt1.base.wording import hundred, many
from gpt1.inference.abstaining import HALF
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.tasks.answers import THRESHOLD, Floats, log_likelihoods, predictions, surenesses_of
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose, examples_by_text
from gpt1.tasks.promises import Surenesses, surenesses
from gpt1.tasks.temperature import fit_temperature, tempered
from gpt1.training.session import Notify

ENOUGH = HALF  # labelled examples for dev: of fewer a temperature is as likely to do harm (docs/finetuning.md)
_KEY = 1  # of the draw that parts dev

Places = NDArray[np.int64]


def deciding(tasks: Mapping[str, EncodedTask]) -> dict[str, EncodedTask]:
    """Return tasks with those rows for dev that choose: all, or the half that is not kept apart."""
    return {
        name: replace(one, splits={**one.splits, **{split: some for split, (some, _) in _halves(one).items()}})
        for name, one in tasks.items()
    }


def parting_notices(tasks: Mapping[str, EncodedTask]) -> list[str]:
    """Return what a person is told of rows for dev that are kept apart."""
    told = []
    for name, encoded in tasks.items():
        if halves := _halves(encoded):
            first, second = (sum(len(pair[place]) for pair in halves.values()) for place in (0, 1))
            told.append(
                f"{name}: {first:,} rows for dev choose the epoch; {second:,} others say how sure answers are to be"
            )
    return told


def calibrate(
    run: Run, tasks: Mapping[str, EncodedTask], factors: Mapping[str, Floats], seeds: int, notify: Notify
) -> None:
    """Find how sure the answers to each task are to be, and keep it in the run's folder; it is the best of `seeds`.

    With the `factors` of its classes a task is answered, so what abstaining promises is of these answers.
    """
    (run.path / CALIBRATION_FILE).unlink(missing_ok=True)  # so that answers are as sure as they come
    run.look_again()
    found = {name: _calibrated(run, encoded, factors.get(name, THRESHOLD)) for name, encoded in tasks.items()}
    for name, one in found.items():
        notify(f"{name}: {one.why}")
    assert run.checkpoint.weights_hash is not None, "what vouches for weights is written after them"
    record = CalibrationRecord(run.checkpoint.step, found, seeds, run.checkpoint.weights_hash)
    record.write(run.path / CALIBRATION_FILE)
    run.look_again()


def _calibrated(run: Run, encoded: EncodedTask, factors: Floats | float) -> TaskCalibration:
    task = encoded.task
    if task.score_range is not None:
        return TaskCalibration("scores have no probabilities, so there is no temperature")
    halves = _halves(encoded)
    if not halves and (known := _cross_validated(run, task)) is not None:
        return known
    if not halves:
        labels, found = _asked(run, task, [choose(split, places.tolist()) for split, places in _dev(encoded)])
        return TaskCalibration(*_fitted(run, task, labels, found), len(labels))
    seen, kept = ([pair[place] for pair in halves.values()] for place in (0, 1))
    labels, found = _asked(run, task, kept)
    temperature = fit_temperature(found, labels)
    why = _in_words(task, temperature, labels, found, "that chose nothing")
    if task.is_multilabel:
        return TaskCalibration(why, temperature, len(labels))
    return TaskCalibration(
        why,
        temperature,
        len(labels),
        seen=_sure(task, *_asked(run, task, seen), factors),
        kept=_sure(task, labels, found, factors),
    )


def _cross_validated(run: Run, task: Task) -> TaskCalibration | None:
    """Return how sure answers are to be by those of cross-validation; None where there were none, or too few."""
    ensemble = run.ensembles.get(task.name)
    decided = None if ensemble is None else ensemble.record
    if decided is None or decided.temperature is None or decided.examples < ENOUGH:
        return None
    once = decided.is_held_out_once
    score = f" ({hundred(decided.scores[decided.best])} % of them)" if decided.metric == "accuracy" else ""
    why = (
        f"temperature {decided.temperature:.2f}, fitted on the answers {'' if once else 'of cross-validation '}to "
        f"{many(decided.examples, 'row')}{', held out once' if once else ''}, so that answers are about as sure as "
        f"they are right{score}"
    )
    return TaskCalibration(why, decided.temperature, decided.examples)


def _fitted(run: Run, task: Task, labels: NDArray[Any], found: Floats) -> tuple[str, float]:
    """Return in words whence a temperature comes, and the temperature, where all rows for dev chose already."""
    if len(labels) < ENOUGH:
        rows = many(len(labels), "row")
        return (
            "probabilities are as they come, and what they are worth is not known: to make answers as sure as they are "
            f"right takes {ENOUGH} rows for dev or cross-validated, and there are {rows} for dev",
            1.0,
        )
    ensemble = run.ensembles.get(task.name)
    if ensemble is not None and len(ensemble.weights) > 1:
        return "no temperature: the weights of the network and of counted words were fitted on the same rows", 1.0
    temperature = fit_temperature(found, labels)
    return _in_words(task, temperature, labels, found, "that chose the epoch too"), temperature


def _in_words(task: Task, temperature: float, labels: NDArray[Any], found: Floats, which: str) -> str:
    before, after = (-log_likelihoods(task, labels, tempered(task, found, one)).mean() for one in (1.0, temperature))
    return (
        f"temperature {temperature:.2f}, fitted on {len(labels):,} rows for dev {which} (log loss there {before:.3f} "
        f"before, {after:.3f} after)"
    )


def _sure(task: Task, labels: NDArray[Any], found: Floats, factors: Floats | float) -> Surenesses:
    return surenesses(surenesses_of(found, factors), predictions(task, found, factors) == labels)


def _asked(run: Run, task: Task, splits: Sequence[EncodedSplit]) -> tuple[NDArray[Any], Floats]:
    """Return the labels of examples, and the probabilities of their answers."""
    if not splits:
        return np.zeros(0, np.int64), np.zeros((0, 1))
    found = [answer_split(run, task, split)[0] for split in splits]
    return np.concatenate([split.labels for split in splits]), np.concatenate(found)


def _dev(encoded: EncodedTask) -> list[tuple[EncodedSplit, Places]]:
    """Return the splits for dev, and which of their examples have labels and were not learned."""
    learned = _learned(encoded)
    found = []
    for split in (encoded.splits[name] for name in encoded.task.dev_splits if name in encoded.splits):
        places = [place for text, own in _rows_of_texts(encoded, split).items() if text not in learned for place in own]
        if places:
            found.append((split, np.sort(np.array(places))))
    return found


def _halves(encoded: EncodedTask) -> dict[str, tuple[EncodedSplit, EncodedSplit]]:
    """Return of each split for dev the examples that choose, and those that are kept; nothing where there are too few.

    They are drawn without a look at them, so that either half is like new rows. A text that comes again is in one half
    alone, and there is one row of it among those that are kept: the same text twice proves no more than once. One that
    was learned proves nothing.
    """
    found, learned = {}, _learned(encoded)
    for name in encoded.task.dev_splits if encoded.task.score_range is None else ():
        texts = _rows_of_texts(encoded, encoded.splits[name]) if name in encoded.splits else {}
        rows = [own for text, own in texts.items() if text not in learned]
        if len(rows) > 1:
            drawn = [rows[place] for place in permutation(len(rows), (_KEY, len(rows)))(np.arange(len(rows))).tolist()]
            choosing = [*drawn[len(rows) // 2 :], *(own for text, own in texts.items() if text in learned)]
            some = sorted(row for own in choosing for row in own)
            others = sorted(own[0] for own in drawn[: len(rows) // 2])
            found[name] = choose(encoded.splits[name], some), choose(encoded.splits[name], others)
    return found if sum(len(kept) for _, kept in found.values()) >= ENOUGH else {}


def _learned(encoded: EncodedTask) -> Container[bytes]:
    """Return the texts that are learned from."""
    return _rows_of_texts(encoded, encoded.splits["train"])


def _rows_of_texts(encoded: EncodedTask, split: EncodedSplit) -> dict[bytes, list[int]]:
    """Return the labelled examples of each different text."""
    by_text = examples_by_text(encoded, split)
    labelled = {text: [one for one in own if split.labelled[one]] for text, own in by_text.items()}
    return {text: own for text, own in labelled.items() if own}
