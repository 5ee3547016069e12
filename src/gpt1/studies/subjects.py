"""What checkpoints are asked about, though they never learned it: tasks by their prompts, BLiMP by its pairs.

A subject is read once, laid out once for each run (its words, its context), and then answered by every checkpoint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from gpt1.base.errors import SettingError, unknown
from gpt1.finetuning.data import Source
from gpt1.inference.blimp import BLIMP, MinimalPair, answer_pairs, make_pair_questions, read_pairs
from gpt1.inference.prompts import examples_to_show, find_rule
from gpt1.inference.run import Run
from gpt1.inference.zeroshot import answer, make_questions
from gpt1.records.evaluation import Prediction
from gpt1.records.study import CellFigures
from gpt1.studies.cells import Watcher
from gpt1.studies.material import TaskData, read_tasks
from gpt1.tasks.catalog import CATALOGUE, find_task

ACCURACY, PAIRS = "accuracy", "pairs"  # BLiMP's metric, and what stands for its split: it has none


@dataclass(frozen=True, eq=False)
class Replies:
    """How a checkpoint answered: the figures of its cell, and a line for each example."""

    figures: CellFigures
    lines: Iterable[Prediction]


@dataclass(frozen=True, eq=False)
class Asked:
    """What all checkpoints of a run are asked, and what a person should be told of it."""

    answer: Callable[[Run], Replies]
    notices: list[str]


@dataclass(frozen=True, eq=False)
class Subject:
    """What the checkpoints of all runs are asked about."""

    metric: str  # the one that is drawn
    inputs: Mapping[str, object]  # all that decides an answer, beside weights and words
    lay_out: Callable[[Run], Asked]  # in the words of a run, of which no weights are read


def read_subjects(
    names: Sequence[str], data: str | Path, *, shots: int, seed: int, watcher: Watcher
) -> dict[str, Subject]:
    """Read what is to be asked about, by name: tasks, and BLiMP; refuse what cannot be asked before any cell."""
    for name in names:
        _check(name, shots)  # before minutes of reading
    found: dict[str, Subject] = {}
    for name in names:
        own = _read(name, data, shots, seed, watcher)
        if twice := own.keys() & found.keys():
            raise SettingError(f"two tasks are called '{twice.pop()}'; study them apart")
        found |= own
    return found


def _check(name: str, shots: int) -> None:
    if name == BLIMP:
        if shots:
            raise SettingError(f"{BLIMP} is asked without solved examples; leave `shots` out, or study it apart")
    elif ":" not in name and name not in CATALOGUE:
        raise unknown("task", name, [*CATALOGUE, BLIMP])
    else:
        find_rule(find_task(name))


def _read(name: str, data: str | Path, shots: int, seed: int, watcher: Watcher) -> dict[str, Subject]:
    if name == BLIMP:
        return {BLIMP: pairs_subject(read_pairs(Path(data)))}
    labelled = read_tasks(Source(tasks=[name], data=str(data)), watcher)
    for one in labelled.values():
        examples_to_show(one.labelled, find_rule(one.task), shots)
    return {task: task_subject(one, shots=shots, seed=seed) for task, one in labelled.items()}


def task_subject(one: TaskData, *, shots: int, seed: int) -> Subject:
    """Return a task as something to be asked about."""
    metric = one.task.metrics[0]

    def lay_out(run: Run) -> Asked:
        questions = make_questions(one.labelled, run, shots=shots, seed=seed)

        def answered(run: Run) -> Replies:
            found = answer(run, questions)
            facts = {name: value for name, value in asdict(found).items() if name != "lines"}
            return Replies(cast(CellFigures, {"score": found.metrics[metric], **facts}), found.lines)

        return Asked(answered, questions.asked.notices(run.recipe.shape.context))

    return Subject(metric, {"examples": one.identity, "shots": shots, "seed": seed}, lay_out)


def pairs_subject(pairs: Sequence[MinimalPair]) -> Subject:
    """Return BLiMP's pairs as something to be asked about; its fields are further metrics."""
    digest = hashlib.sha256("\n".join(json.dumps(asdict(pair)) for pair in pairs).encode()).hexdigest()

    def lay_out(run: Run) -> Asked:
        questions = make_pair_questions(run, pairs)

        def answered(run: Run) -> Replies:
            found = answer_pairs(run, questions)
            figures = {
                "score": found.accuracy,
                "task": BLIMP,
                "split": PAIRS,
                "step": found.step,
                "examples": found.pairs,
                "metrics": {ACCURACY: found.accuracy}
                | {f"{ACCURACY}/{field}": share for field, share in found.fields.items()},
                "paradigms": found.paradigms,
                "unknown": found.unknown.as_json(),
            }
            return Replies(cast(CellFigures, figures), found.lines)

        return Asked(answered, questions.unknown.notice(2 * len(pairs)))

    return Subject(ACCURACY, {"examples": digest}, lay_out)
