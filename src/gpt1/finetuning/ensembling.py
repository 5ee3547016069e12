"""Who answers: a fine-tuned network is held against counted words, and the better of them, or both, answer.

What decides are examples that neither has learned (`counting.py`): those for dev where there are enough of them, else
the training examples by cross-validation, for which the network is fine-tuned again on parts of them. A few hundred
labels may teach a network less than they teach TF-IDF; so the run is never the worse for having a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError, InputError
from gpt1.base.wording import duration, hundred
from gpt1.finetuning.counting import FEWEST, AnswerSheet, CountedWords, Places, dev_rows, parts_to_hold_out, uncountable
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run
from gpt1.linear.ensemble import ALONE, Weights, choose_members, judging_thresholds, pool
from gpt1.linear.files import read_ensembles, write_words
from gpt1.recipes.values import FOLDS
from gpt1.records.ensemble import ENSEMBLE_FILE, NETWORK, TOGETHER, WORDS, EnsembleRecord, TaskEnsemble
from gpt1.tasks.answers import Floats
from gpt1.tasks.assessment import Interval, assess, hold_against
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose
from gpt1.tasks.metrics import blind_score
from gpt1.tasks.temperature import fit_temperature
from gpt1.training.session import Notify

PARTS_FOLDER = "parts"  # of a run, where networks of a cross-validation lie until it is decided

Retrain = Callable[[int, Mapping[str, EncodedTask]], Run | None]  # None: the time was up


def make_ensembles(
    run: Run, words: CountedWords, retrain: Retrain, notify: Notify, *, folds: int = FOLDS, seconds: float
) -> bool:
    """Decide who answers each task, keep it in the run's folder and return True; or False where the time was up.

    `retrain` returns the run that has learned all examples but those of a part, by its number; of the parts so many
    `folds` are held out, one after the other, or none. The training itself took so many `seconds`.
    """
    tasks = words.tasks
    if _is_decided(run, tasks):
        return True
    (run.path / ENSEMBLE_FILE).unlink(missing_ok=True)  # so that the network is asked alone
    run.look_again()
    if parts := parts_to_hold_out(tasks, folds):
        takes = duration(seconds * times_as_long(folds))
        how = f"cross-validation follows: the network is fine-tuned {folds} more times, on two thirds of the rows each"
        if folds == 1:
            how = "a third of the rows is held out: the network is fine-tuned once more, on the other two thirds"
        notify(f"{how}, to hold it against counted words; about {takes} by the speed so far")
    answers = _cross_validated(parts, tasks, retrain, folds, notify)
    if answers is None:
        return False
    found = {name: TaskEnsemble(dict(ALONE), why) for name, one in tasks.items() if (why := _not_counted(one))}
    for name, model in words.models.items():
        sheet = words.sheet(name, folds)
        if sheet is not None:
            sheet = sheet.with_member(NETWORK, answers[name] if name in answers else _on_dev(run, tasks[name]))
        found[name] = _decide(tasks[name].task, sheet, write_words(run.path, model))
    for name, one in found.items():
        notify(f"{name}: {one.why}")
    EnsembleRecord(run.checkpoint.step, {name: found[name] for name in tasks}).write(run.path / ENSEMBLE_FILE)
    run.look_again()
    return True


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


def _not_counted(encoded: EncodedTask) -> str | None:
    why = uncountable(encoded)
    return None if why is None else f"the network answers; words were not counted: {why}"


def _decide(task: Task, sheet: AnswerSheet | None, words: str) -> TaskEnsemble:
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
        blind=_blind(task, sheet),
        interval=_interval(task, sheet, choice.weights),
        factors=_factors(task, sheet, choice.thresholds),
        words_factors=_factors(task, sheet, choice.words),
        folds=sheet.folds,
    )


def _temperature(task: Task, sheet: AnswerSheet, weights: Weights) -> float | None:
    """Return how sure answers are to be, by those of cross-validation: fitted weights may be at their bound."""
    if not sheet.cross_validated or task.score_range is not None:
        return None
    return fit_temperature(pool(task, sheet.members, weights), sheet.labels)


def _blind(task: Task, sheet: AnswerSheet) -> float | None:
    """Return what answers that know nothing of the texts score, of a task that is not judged by accuracy."""
    if task.is_multilabel:
        return blind_score(task.metrics[0], sheet.labels.mean(0).tolist())
    if not task.class_factors:
        return None
    shares = np.unique(sheet.labels, return_counts=True)[1] / len(sheet.labels)
    return blind_score(task.metrics[0], shares.tolist())


def _interval(task: Task, sheet: AnswerSheet, weights: Weights) -> Interval | None:
    if not task.class_factors and not task.is_multilabel:
        return None
    found = pool(task, sheet.members, weights)
    judged = judging_thresholds(task, found, sheet.labels, 1.0)
    return assess(task, sheet.labels, hold_against(task, sheet.labels, found, judged)).intervals[task.metrics[0]]


def _factors(task: Task, sheet: AnswerSheet, thresholds: Floats | float) -> dict[str, float]:
    """Return the factors of classes by those of cross-validation; by the examples for dev they are chosen later."""
    if not (sheet.cross_validated and task.class_factors and isinstance(thresholds, np.ndarray)):
        return {}
    return dict(zip(task.labels, thresholds.tolist(), strict=True))


# ---- what the network answers to the rows that decide ----


def _on_dev(run: Run, encoded: EncodedTask) -> Floats:
    return np.concatenate([answer_split(run, encoded.task, split)[0] for split in dev_rows(encoded)])


def _cross_validated(
    parts: Mapping[str, Places], tasks: Mapping[str, EncodedTask], retrain: Retrain, folds: int, notify: Notify
) -> dict[str, Floats] | None:
    """Return what networks answer to the training examples of the first `folds` parts, having learned the others.

    None where the time was up.
    """
    found: dict[str, Floats] = {}
    for number in range(folds if parts else 0):
        notify(f"cross-validation: fold {number + 1} of {folds}" if folds > 1 else None)
        others = {name: without_part(encoded, parts.get(name), number) for name, encoded in tasks.items()}
        if (run := retrain(number, others)) is None:
            return None
        for name, part in parts.items():
            inside, train = part == number, tasks[name].splits["train"]
            keep(found, name, inside, answer_split(run, tasks[name].task, chosen(train, inside))[0])
    return {name: found[name][part < folds] for name, part in parts.items()}


def chosen(split: EncodedSplit, which: NDArray[np.bool_]) -> EncodedSplit:
    """Return the examples of a split that are marked."""
    return choose(split, np.flatnonzero(which).tolist())


def without_part(encoded: EncodedTask, part: Places | None, number: int) -> EncodedTask:
    """Return a task with the training examples of all parts but one, and nothing else."""
    train = encoded.splits["train"]
    return replace(encoded, splits={"train": train if part is None else chosen(train, part != number)})


def keep(found: dict[str, Floats], name: str, inside: NDArray[np.bool_], answers: Floats) -> None:
    """Keep what was answered, under a name, to the examples that are marked."""
    found.setdefault(name, np.zeros((len(inside), answers.shape[1])))[inside] = answers
