"""What a language model knows of a task that it was never taught: `gpt1 zeroshot` (section 5, figure 2 right).

`prompts.py` lays the examples out; here they are scored, answered and judged. The sentences of CoLA are parted at the
median of their own scores, which takes no label; beside it, and named so, at the place that parts the training
sentences best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import RuinedWeights, SettingError
from gpt1.inference.blimp import BLIMP
from gpt1.inference.prompts import SENTENCE, Prompts, find_rule, make_prompts
from gpt1.inference.run import Run
from gpt1.inference.scoring import mean_log_probabilities, total_log_probabilities
from gpt1.model import Model
from gpt1.records.evaluation import Prediction
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import find_task
from gpt1.tasks.examples import Labelled
from gpt1.tasks.metrics import matthews, scores
from gpt1.tasks.preparing import read_task

TUNED = "_tuned_on_train"  # ends the name of a metric whose threshold was chosen by the labels of train

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Questions:
    """All that a model is asked: the prompts of a split, and those that a threshold may be tuned on."""

    asked: Prompts
    tuning: Prompts | None = None


@dataclass(frozen=True, eq=False)
class ZeroShot:
    """How a model answered: its metrics where labels are known, and a line for each example."""

    task: str
    split: str
    rule: str
    step: int
    examples: int
    metrics: dict[str, float]
    unknown: dict[str, int]  # tokens that are not in the vocabulary, of how many, and examples that have mostly such
    thresholds: dict[str, float]  # of CoLA: by which metric sentences were parted where
    lines: list[Prediction]


def zeroshot(
    run: Run,
    task: str,
    *,
    data: str | Path,
    split: str | None = None,
    shots: int = 0,
    seed: int = 0,
    encoding: str = "utf-8",
    notice: Callable[[str], None] = warnings.warn,
) -> ZeroShot:
    """Ask a run about a split of a task that it need not have learned: a name, or `module:NAME`; by default about dev.

    Before each text stand as many of `shots` solved training examples as fit. `notice` is told what a person should
    know.
    """
    if task == BLIMP:
        raise SettingError(f"{BLIMP} is pairs of sentences, not labelled rows; gpt1 blimp asks a run about them")
    find_rule(find_task(task))  # before minutes of reading
    labelled = read_task(task, data=data, encoding=encoding)
    for text in labelled.notices:
        notice(text)
    questions = make_questions(labelled, run, split=split, shots=shots, seed=seed)
    for text in questions.asked.notices(run.recipe.shape.context):
        notice(text)
    return answer(run, questions)


def make_questions(
    labelled: Labelled, run: Run, *, split: str | None = None, shots: int = 0, seed: int = 0
) -> Questions:
    """Return what the checkpoints of a run are asked about a split; by default about dev, or test where none is."""
    if shots < 0:
        raise SettingError(f"shots are 0 or more, not {shots}")
    context = run.recipe.shape.context
    split = split or (*labelled.task.dev_splits, *labelled.task.test_splits)[0]
    asked = make_prompts(labelled, split, run.tokenizer, context, shots=shots, seed=seed)
    tunes = asked.rule is SENTENCE and asked.split != "train" and "train" in labelled.splits
    # Solved examples would be among the sentences to tune on; the place to part them hardly depends on these.
    return Questions(asked, make_prompts(labelled, "train", run.tokenizer, context) if tunes else None)


def answer(run: Run, questions: Questions) -> ZeroShot:
    """Return how the model of a run, at its checkpoint, answers."""
    asked = questions.asked
    found = _scores(run.model, asked)
    tuned = None if questions.tuning is None else _scores(run.model, questions.tuning)
    if not all(np.isfinite(one).all() for one in (found, tuned) if one is not None):
        raise RuinedWeights(f"{run.checkpoint.path} gives scores that are no numbers: its weights are ruined")
    thresholds: dict[str, float] = {}
    if asked.rule is SENTENCE:
        metric = asked.task.metrics[0]
        thresholds[metric] = float(np.median(found))
        answers = (found[:, 0] > thresholds[metric]).astype(np.int64)
    else:
        answers = found.argmax(1)
    metrics = _measured(asked, answers)
    if tuned is not None and questions.tuning is not None:
        place = best_threshold(tuned[:, 0], questions.tuning.labels)
        more = _measured(asked, (found[:, 0] > place).astype(np.int64))
        metrics |= {f"{name}{TUNED}": value for name, value in more.items()}
        thresholds[f"{asked.task.metrics[0]}{TUNED}"] = place
    return ZeroShot(
        asked.task.name,
        asked.split,
        asked.rule.name,
        run.checkpoint.step,
        len(asked.labels),
        metrics,
        asked.unknown.as_json(),
        thresholds,
        _lines(asked, found, answers),
    )


def _scores(model: Model, prompts: Prompts) -> Floats:
    """Return the score of each reading [examples, readings]."""
    score = mean_log_probabilities if prompts.rule.by_mean else total_log_probabilities
    return score(model, prompts.sequences).reshape(len(prompts.labels), -1)


def _measured(asked: Prompts, answers: NDArray[np.int64]) -> dict[str, float]:
    if not (asked.labels >= 0).any():
        return {}
    return scores(asked.task, asked.labels, answers, asked.groups if asked.task.groups else None)


def best_threshold(found: Floats, labels: NDArray[np.int64]) -> float:
    """Return the place between two scores that parts labels 0 below from 1 above best, by Matthews' correlation."""
    ordered = np.unique(found)
    places = [*((ordered[:-1] + ordered[1:]) / 2), ordered[-1]]
    return float(max(places, key=lambda place: matthews(labels, (found > place).astype(np.int64))))


def _lines(asked: Prompts, found: Floats, answers: NDArray[np.int64]) -> list[Prediction]:
    return [
        Prediction(
            index=index,
            label=answer_name(asked.task, label) if label >= 0 else None,
            prediction=answer_name(asked.task, given),
            scores=own.tolist(),
        )
        for index, (label, given, own) in enumerate(zip(asked.labels, answers, found, strict=True))
    ]
