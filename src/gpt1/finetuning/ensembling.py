"""Who answers: a fine-tuned network is held against counted words, and the better of them, or both, answer.

What decides are examples that neither has learned: those for dev where there are enough of them, else the training
examples by cross-validation, for which the network is fine-tuned again on parts of them. A few hundred labels may teach
a network less than they teach TF-IDF; so the run is never the worse for having a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError, InputError
from gpt1.base.shuffle import permutation
from gpt1.base.wording import duration, hundred
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run
from gpt1.linear.ensemble import ALONE, Weights, choose_members, pool
from gpt1.linear.files import read_ensembles, write_words
from gpt1.linear.words import Texts, WordModel, encoded_texts, learn_words
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import ENSEMBLE_FILE, NETWORK, TOGETHER, WORDS, EnsembleRecord, TaskEnsemble
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose, examples_by_text
from gpt1.tasks.temperature import fit_temperature
from gpt1.training.session import Notify

ENOUGH = 100  # labelled examples for dev, which then decide
FEWEST = 20  # of them, which decide where there is no cross-validation
MOST_REPEATED = 1000  # training examples for which the network is trained again
MOST_COUNTED = 10_000  # training examples beyond which a network is hardly behind, and counting takes minutes
PARTS_FOLDER = "parts"  # of a run, where such networks lie until it is decided
MOST_CLASSES = 200  # each of which has a weight for every word

Places = NDArray[np.int64]
Retrain = Callable[[int, Mapping[str, EncodedTask]], Run | None]  # None: the time was up


@dataclass(frozen=True, eq=False)
class _Sheet:
    """What members answered to examples that they had not learned."""

    labels: NDArray[Any]
    members: dict[str, Floats]
    where: str
    cross_validated: bool = False
    is_dev: bool = False  # by which thresholds of labels are chosen too
    folds: int | None = None  # of a cross-validation


def make_ensembles(
    run: Run,
    tasks: Mapping[str, EncodedTask],
    retrain: Retrain | None,
    notify: Notify,
    *,
    folds: int = FOLDS,
    seconds: float,
) -> bool:
    """Decide who answers each task, keep it in the run's folder and return True; or False where the time was up.

    `retrain` returns the run that has learned all examples but those of a part, by its number; without it there is no
    cross-validation. Of the parts so many `folds` are held out, one after the other; the
    training itself took so many `seconds`.
    """
    if _is_decided(run, tasks):
        return True
    (run.path / ENSEMBLE_FILE).unlink(missing_ok=True)  # so that the network is asked alone
    run.look_again()
    counted, found = {}, {}
    for name, encoded in tasks.items():
        if (reason := _uncountable(encoded)) is None:
            counted[name] = encoded_texts(encoded.task, encoded.splits["train"], run.tokenizer)
        else:
            found[name] = TaskEnsemble(dict(ALONE), reason)
    models = {name: _learn(tasks[name], texts) for name, texts in counted.items()}
    parts = {} if retrain is None else parts_to_hold_out(tasks, folds)
    if parts:
        takes = duration(seconds * times_as_long(folds))
        how = f"cross-validation follows: the network is fine-tuned {folds} more times, on two thirds of the rows each"
        if folds == 1:
            how = "a third of the rows is held out: the network is fine-tuned once more, on the other two thirds"
        notify(f"{how}, to hold it against counted words; about {takes} by the speed so far")
    sheets = {} if retrain is None else _cross_validated(parts, tasks, counted, retrain, folds)
    if sheets is None:
        return False
    for name, model in models.items():
        sheet = sheets.get(name) or _on_dev(run, tasks[name], model)
        found[name] = _decide(tasks[name].task, sheet, write_words(run.path, model))
    for name, one in found.items():
        notify(f"{name}: {one.why}")
    EnsembleRecord(run.checkpoint.step, {name: found[name] for name in tasks}).write(run.path / ENSEMBLE_FILE)
    run.look_again()
    return True


def parts_to_hold_out(tasks: Mapping[str, EncodedTask], folds: int) -> dict[str, Places]:
    """Return the tasks of which cross-validation tells who answers, and in which part each training example is."""
    few = {name: one for name, one in tasks.items() if _uncountable(one) is None and _dev_rows(one) < ENOUGH}
    return {name: part for name, one in few.items() if (part := deal(one)) is not None} if folds else {}


def times_as_long(folds: int) -> float:
    """Return how long a cross-validation takes, times the training itself: each fold is without its part."""
    return folds * (FOLDS - 1) / FOLDS


def _is_decided(run: Run, tasks: Mapping[str, EncodedTask]) -> bool:
    """Whether it stands in the folder already who answers, as these very weights."""
    try:
        read_ensembles(run.path, {name: encoded.task for name, encoded in tasks.items()})
        return EnsembleRecord.read(run.path / ENSEMBLE_FILE).step == run.checkpoint.step
    except (FormatError, InputError):  # it is not there, or damaged: then it is made anew
        return False


def _uncountable(encoded: EncodedTask) -> str | None:
    """Return why words are not counted for a task."""
    task, train = encoded.task, encoded.splits["train"]
    reasons = {
        "scikit-learn is not installed": find_spec("sklearn") is None,
        f"there are more than {MOST_COUNTED:,} examples": len(train) > MOST_COUNTED,
        f"there are more than {MOST_CLASSES} labels": len(task.labels) > MOST_CLASSES,
        "all examples have one label": bool(task.labels) and len(np.unique(train.labels, axis=0)) < 2,
    }
    return next(
        (f"the network answers; words were not counted: {why}" for why, holds in reasons.items() if holds), None
    )


def _learn(encoded: EncodedTask, texts: Texts) -> WordModel:
    return learn_words(encoded.task, texts, encoded.splits["train"].labels)


def _decide(task: Task, sheet: _Sheet | None, words: str) -> TaskEnsemble:
    if sheet is None:
        why = f"the network answers: there are fewer than {FEWEST} rows to hold it against counted words"
        return TaskEnsemble(dict(ALONE), why, words=words)
    choice = choose_members(task, sheet.members, sheet.labels, with_thresholds=sheet.is_dev)
    metric, found = task.metrics[0], choice.scores
    who = {NETWORK: "the network answers", WORDS: "counted words answer"}
    best = TOGETHER if len(choice.weights) > 1 else next(iter(choice.weights))
    why = (
        f"{who.get(best, 'the network and counted words answer together')}: {metric.replace('_', ' ')} "
        f"{hundred(found[best])} on {sheet.where} (the network {hundred(found[NETWORK])}, counted words "
        f"{hundred(found[WORDS])}, together {hundred(found[TOGETHER])})"
    )
    has_commonest = task.labels and not task.is_multilabel
    common = np.unique(sheet.labels, return_counts=True)[1].max() / len(sheet.labels) if has_commonest else None
    return TaskEnsemble(
        choice.weights,
        why,
        len(sheet.labels),
        metric,
        found,
        words,
        cross_validated=sheet.cross_validated,
        commonest=None if common is None else float(common),
        temperature=_temperature(task, sheet, choice.weights),
        folds=sheet.folds,
    )


def _temperature(task: Task, sheet: _Sheet, weights: Weights) -> float | None:
    """Return how sure answers are to be, by those of cross-validation: fitted weights may be at their bound."""
    if not sheet.cross_validated or task.score_range is not None:
        return None
    return fit_temperature(pool(task, sheet.members, weights), sheet.labels)


# ---- by the examples for dev ----


def _dev(encoded: EncodedTask) -> list[EncodedSplit]:
    """Return the examples for dev that have labels and were not learned."""
    learned, found = examples_by_text(encoded.splits["train"]), []
    for split in (encoded.splits[name] for name in encoded.task.dev_splits if name in encoded.splits):
        new = [own for text, own in examples_by_text(split).items() if text not in learned]
        if places := sorted(place for own in new for place in own if split.labelled[place]):
            found.append(choose(split, places))
    return found


def _dev_rows(encoded: EncodedTask) -> int:
    return sum(map(len, _dev(encoded)))


def _on_dev(run: Run, encoded: EncodedTask, model: WordModel) -> _Sheet | None:
    splits, task = _dev(encoded), encoded.task
    if _dev_rows(encoded) < FEWEST:
        return None
    network = [answer_split(run, task, split)[0] for split in splits]
    words = [model.probabilities(encoded_texts(task, split, run.tokenizer)) for split in splits]
    labels = np.concatenate([split.labels for split in splits])
    members = {NETWORK: np.concatenate(network), WORDS: np.concatenate(words)}
    return _Sheet(labels, members, f"{len(labels):,} dev rows", is_dev=True)


# ---- by cross-validation ----


def _cross_validated(
    parts: Mapping[str, Places],
    tasks: Mapping[str, EncodedTask],
    texts: Mapping[str, Texts],
    retrain: Retrain,
    folds: int,
) -> dict[str, _Sheet] | None:
    """Return what members answer to the training examples of the first `folds` parts, having learned the others.

    None where the time was up.
    """
    members: dict[str, dict[str, Floats]] = {name: {} for name in parts}
    for number in range(folds if parts else 0):
        others = {name: without_part(encoded, parts.get(name), number) for name, encoded in tasks.items()}
        if (run := retrain(number, others)) is None:
            return None
        for name, part in parts.items():
            task, train, inside = tasks[name].task, tasks[name].splits["train"], part == number
            keep(members[name], NETWORK, inside, answer_split(run, task, chosen(train, inside))[0])
            keep(members[name], WORDS, inside, words_of_others(tasks[name], texts[name], inside))
    return {name: _held_out(tasks[name], members[name], part < folds, folds) for name, part in parts.items()}


def _held_out(encoded: EncodedTask, members: Mapping[str, Floats], which: NDArray[np.bool_], folds: int) -> _Sheet:
    labels = encoded.splits["train"].labels[which]
    where = f"{len(labels):,} rows {'held out once' if folds == 1 else 'cross-validated'}"
    own = {name: found[which] for name, found in members.items()}
    return _Sheet(labels, own, where, cross_validated=True, folds=folds)


def words_of_others(encoded: EncodedTask, texts: Texts, inside: NDArray[np.bool_]) -> Floats:
    """Return what counted words answer to some training examples, having learned the others."""
    labels = encoded.splits["train"].labels
    words = learn_words(encoded.task, _some(texts, ~inside), labels[~inside])
    return words.probabilities(_some(texts, inside))


def deal(encoded: EncodedTask) -> Places | None:
    """Return in which part each training example is; None: too few, or too many to train again and again."""
    train = encoded.splits["train"]
    return deal_evenly(train) if len(train) <= MOST_REPEATED else None


def deal_evenly(train: EncodedSplit) -> Places | None:
    """Return in which part each example is, labels dealt evenly and equal texts together; None: too few."""
    units = list(examples_by_text(train).values())
    shuffled = [units[place] for place in permutation(len(units), (0, len(units)))(range(len(units))).tolist()]
    shuffled.sort(key=lambda unit: train.labels[unit[0]].tolist())
    found = np.zeros(len(train), np.int64)
    for number, unit in enumerate(shuffled):
        found[unit] = number % FOLDS
    few = any(len(np.unique(train.labels[found != part], axis=0)) < 2 for part in range(FOLDS))
    return None if few or len(units) < 2 * FOLDS else found


def chosen(split: EncodedSplit, which: NDArray[np.bool_]) -> EncodedSplit:
    """Return the examples of a split that are marked."""
    return choose(split, np.flatnonzero(which).tolist())


def _some(texts: Texts, which: NDArray[np.bool_]) -> Texts:
    return [texts[place] for place in np.flatnonzero(which).tolist()]


def without_part(encoded: EncodedTask, part: Places | None, number: int) -> EncodedTask:
    """Return a task with the training examples of all parts but one, and nothing else."""
    train = encoded.splits["train"]
    return replace(encoded, splits={"train": train if part is None else chosen(train, part != number)})


def keep(members: dict[str, Floats], name: str, inside: NDArray[np.bool_], found: Floats) -> None:
    """Keep what a member answered to the examples that are marked."""
    members.setdefault(name, np.zeros((len(inside), found.shape[1])))[inside] = found
