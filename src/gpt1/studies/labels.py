"""How many labels pre-training is worth: fine-tuned against from scratch against counting words, at several counts.

The labels of a count are drawn by seed, evenly over the classes or along the scores, and each count holds the smaller
ones. What is judged on stays the same for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.errors import SettingError
from gpt1.base.files import write_lines
from gpt1.base.shuffle import permutation
from gpt1.finetuning.data import Source
from gpt1.finetuning.measure import predictions_file
from gpt1.linear.words import answer_by_words, version
from gpt1.records.evaluation import Prediction
from gpt1.records.study import AskedOfStudy, CellFigures, LabelDifference, LabelledTask, LabelPoint, StudyRecord
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Compute, Notebook, Watcher, cell_name
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    differences,
    figures,
    finetuning_cell,
    headline,
    whole_arms,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import InitRun, TaskData, check_learnable, open_start, read_tasks, tell_start
from gpt1.studies.paper import FULL, SCRATCH
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import Task
from gpt1.tasks.data_warnings import number
from gpt1.tasks.encoded import EncodedTask, choose
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.metrics import scores

NAME = "labels"
WORDS = "tf-idf"
ARMS = {FULL: "pre-trained", SCRATCH: "without pre-training", WORDS: "TF-IDF and a linear model"}
_STRATA = 10  # of scores

Key = tuple[str, int]  # arm and count


def study_labels(
    init: str | Path,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    counts: Sequence[int],
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Learn from so many labels in each of three ways, and return what was found."""
    notebook = Notebook(watcher)
    start = open_start(init)
    tell_start(start, notebook)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    training = training.settled_by(start, Path(out))
    planned = plan(start, labelled, training, counts)
    about: AskedOfStudy = {
        "init": str(start.path),
        "source": source.recorded(),
        "changes": list(training.changes),
        "counts": sorted(set(counts)),
        "seeds": list(training.seed_numbers),
    }
    return conduct(
        Path(out), NAME, about, list(planned.values()), lambda done: [tabulate(labelled, planned, done)], notebook
    )


def plan(
    start: InitRun, labelled: Mapping[str, TaskData], training: FinetuningSettings, counts: Sequence[int]
) -> Plan[Key]:
    """Return the cells by task, arm and count, and seed."""
    arms = [Arm(FULL, start), Arm(SCRATCH, start, ["finetuning.scratch=true"])]
    cells: Plan[Key] = {}
    for name, one in labelled.items():
        encoded = one.encoded_for(start)
        order = {seed: draw_order(one.task, one.train, seed) for seed in training.seed_numbers}
        for count in sorted(set(counts)):
            _check_count(one, count)
            for seed in training.seed_numbers:
                rows = order[seed][:count]
                drawn = hashlib.sha256(f"{one.identity} {rows}".encode()).hexdigest()
                fewer = _with_train(encoded, rows)
                for arm in arms:
                    cells[name, (arm.name, count), seed] = finetuning_cell(arm, fewer, drawn, training, seed, count)
                cells[name, (WORDS, count), seed] = _words_cell(one.labelled, rows, drawn, count, seed)
    return cells


def _check_count(one: TaskData, count: int) -> None:
    there = len(one.train)
    fewest = max(2, len(one.task.labels))
    if not fewest <= count <= there:
        may_be_scores = count < fewest and fewest > 2 and all(number(name) is not None for name in one.task.labels)
        hint = "; if the labels are scores, say `regression=True`" if may_be_scores else ""
        raise SettingError(
            f"'{one.task.name}' can be learned from {fewest} to {there:,} labels here, not from {count:,}{hint}"
        )


def draw_order(task: Task, train: Sequence[Example], seed: int) -> list[int]:
    """Return all places of training examples in an order of which every beginning holds the classes in their shares.

    The first of each class come first, so that few labels hold all of them. Scores are drawn from tenths of their
    range; choices, which have no classes, by chance.
    """
    if not train:
        return []
    shuffled = permutation(len(train), (seed, len(train)))(range(len(train))).tolist()
    strata: dict[Any, list[int]] = {}
    stratum = _strata(task, train)
    for place in shuffled:
        strata.setdefault(stratum[place], []).append(place)
    ranked = [
        ((number + 0.5) / len(places) if number else 0.0, -len(places), str(name), place)
        for name, places in strata.items()
        for number, place in enumerate(places)
    ]
    return [place for *_, place in sorted(ranked)]


def _strata(task: Task, train: Sequence[Example]) -> list[Any]:
    if task.score_range is not None:
        values = [float(example.label or 0) for example in train]
        edges = np.quantile(values, np.arange(1, _STRATA) / _STRATA)
        return list(np.searchsorted(edges, values, side="right"))
    return [example.label if task.labels else 0 for example in train]


def _with_train(encoded: EncodedTask, rows: Sequence[int]) -> EncodedTask:
    splits = {**encoded.splits, "train": choose(encoded.splits["train"], rows)}
    return EncodedTask(encoded.task, encoded.context, encoded.tokenizer_fingerprint, encoded.vocab_size, splits)


def _words_cell(labelled: Labelled, rows: Sequence[int], drawn: str, count: int, seed: int) -> Cell:
    name = labelled.task.name
    return Cell(
        cell_name(WORDS, name, count, seed),
        row=name,
        column=WORDS,
        inputs={"examples": drawn, "version": version(labelled.task)},
        compute=_words_computation(labelled, rows),
    )


def _words_computation(labelled: Labelled, rows: Sequence[int]) -> Compute:
    task = labelled.task

    def compute(folder: Path, listener: Listener) -> CellFigures:
        train = [labelled.splits["train"][row] for row in rows]
        found = {}
        for split in (*task.dev_splits, *task.test_splits):
            known = [example for example in labelled.splits.get(split, []) if example.label is not None]
            if known:
                answers = answer_by_words(task, train, known)
                found[split] = scores(task, np.array([example.label for example in known]), answers)
                lines = [
                    Prediction(
                        label=answer_name(task, float(example.label or 0)), prediction=answer_name(task, answer)
                    ).as_json()
                    for example, answer in zip(known, answers, strict=True)
                ]
                write_lines(predictions_file(folder, task.name, split), lines)
        return {"score": headline(task, found), "scores": found}

    return compute


def tabulate(labelled: Mapping[str, TaskData], planned: Plan[Key], done: Done) -> StudySection:
    """Return the score of each arm by count, and by how much pre-training is better, in pairs."""
    content: dict[str, LabelledTask] = {}
    rows: list[Mapping[str, object]] = []
    for name, arms in whole_arms(planned, done).items():
        task = labelled[name].task
        curves: dict[str, list[LabelPoint]] = {}
        pairs: list[LabelDifference] = []
        for (arm, count), seeds in arms.items():
            point: LabelPoint = {"labels": count, **figures(labelled[name], seeds)}
            curves.setdefault(arm, []).append(point)
            rows.append({"task": name, "arm": arm, **point})
            if arm != FULL and (FULL, count) in arms:
                best = [*arms[FULL, count].values()]
                pairs += [
                    {"labels": count, "arm": FULL, "over": arm, **one}
                    for one in differences(task, best, [*seeds.values()])
                ]
        content[name] = {"metric": task.metrics[0], "arms": curves, "differences": pairs}
    return StudySection(NAME, {"arms": ARMS, "tasks": content}, rows)
