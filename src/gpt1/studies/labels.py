"""How many labels pre-training is worth: fine-tuned against from scratch against counting words, at several counts.

The labels of a count are drawn by seed, evenly over the classes or along the scores, and each count holds the smaller
ones. What is judged on stays the same for all, and decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gpt1.base.errors import SettingError, unknown
from gpt1.base.files import write_lines
from gpt1.base.parts import Part
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many
from gpt1.finetuning.counting import MOST_REPEATED
from gpt1.finetuning.data import Source
from gpt1.finetuning.measure import predictions_file
from gpt1.linear.words import VERSION, answer_by_words
from gpt1.records.evaluation import Prediction
from gpt1.records.study import (
    AskedOfStudy,
    CellFigures,
    LabelDifference,
    LabelledTask,
    LabelPoint,
    StudyRecord,
    arm_name,
)
from gpt1.runs.events import Listener
from gpt1.studies.cells import Cell, Compute, Notebook, Watcher, cell_name
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    Rows,
    differences,
    figures,
    finetuning_cell,
    headline,
    judged_splits,
    whole_arms,
    with_rate,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import InitRun, TaskData, check_learnable, open_start, read_tasks, tell_start
from gpt1.studies.paper import FULL, NO_LM, SCRATCH
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, choose
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.metrics import scores
from gpt1.tasks.spellings import number

NAME = "labels"
WORDS, CHOSEN = "tf-idf", "chosen"
ARMS = {  # as study.json has them; what people read is `arm_name` of `records/study.py`
    FULL: "pre-trained",
    SCRATCH: "without pre-training",
    NO_LM: "without auxiliary LM",
    WORDS: "TF-IDF and a linear model",
    CHOSEN: "what fine-tuning chooses",
}
ASKED = {"pre-trained": FULL, SCRATCH: SCRATCH, NO_LM: NO_LM, WORDS: WORDS, CHOSEN: CHOSEN}  # as arms are asked for
USUAL = ("pre-trained", SCRATCH, WORDS)
ALL = "all"  # the labels that a task has
_STRATA = 10  # of scores
UNSEEN = "unseen rows"  # no cell made when the best epoch was chosen by what judges is taken for one of these

Key = tuple[str, int]  # arm and count
Wanted = int | Literal["all"]


def study_labels(
    init: str | Path,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    counts: Sequence[Wanted],
    arms: Sequence[str] = USUAL,
    scratch_lr: float | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Learn from so many labels (`"all"`: those that a task has) in each of several ways, and return what was found.

    The arms are `"pre-trained"`, `"scratch"`, `"no-lm"`, `"tf-idf"` and `"chosen"`: what fine-tuning with
    `finetuning.ensemble` chooses. From scratch another rate may be the best one: `scratch_lr`.
    """
    notebook = Notebook(watcher)
    chosen = check_asked(counts, arms, scratch_lr)
    start = open_start(init)
    tell_start(start, notebook)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    training = training.settled_by(start, Path(out))
    networks = make_arms(start)
    if scratch_lr is not None:
        networks[SCRATCH] = with_rate(networks[SCRATCH], scratch_lr, notebook)
    by_task = {name: counts_of(one, counts, notebook) for name, one in labelled.items()}
    if CHOSEN in chosen and max(map(max, by_task.values())) > MOST_REPEATED:
        notebook.say(
            f"what fine-tuning chooses is cross-validated, so it is shown for at most {MOST_REPEATED:,} labels"
        )
    planned = plan({arm: networks.get(arm) for arm in chosen}, labelled, training, by_task)
    about: AskedOfStudy = {
        "init": str(start.path),
        "source": source.recorded(),
        "changes": list(training.changes),
        "counts": sorted(set(counts), key=lambda count: (count == ALL, count)),
        "seeds": list(training.seed_numbers),
    }
    return conduct(
        Path(out), NAME, about, list(planned.values()), lambda done: [tabulate(labelled, planned, done)], notebook, part
    )


def check_asked(counts: Sequence[Wanted], arms: Sequence[str], scratch_lr: float | None) -> list[str]:
    """Return the arms that were asked for in their usual order, or refuse what was asked before anything is read."""
    for name in arms:
        if name not in ASKED:
            raise unknown("arm", name, ASKED)
    if not arms or not counts:
        raise SettingError("name at least one of `arms` and one of `counts`")
    for count in counts:
        if isinstance(count, str) and count != ALL:
            raise SettingError(f"`counts` holds numbers of labels and 'all', not '{count}'")
    if scratch_lr is not None and SCRATCH not in arms:
        raise SettingError(f"`scratch_lr` is the rate of the arm '{SCRATCH}', which is not asked for")
    return [arm for name, arm in ASKED.items() if name in arms]


def make_arms(start: InitRun) -> dict[str, Arm]:
    """Return the arms that train a network."""
    return {
        FULL: Arm(FULL, start),
        SCRATCH: Arm(SCRATCH, start, ["finetuning.scratch=true"]),
        NO_LM: Arm(NO_LM, start, ["finetuning.lm_weight=0"]),
        CHOSEN: Arm(CHOSEN, start, ["finetuning.ensemble=true"]),
    }


def counts_of(one: TaskData, counts: Sequence[Wanted], watcher: Watcher) -> list[int]:
    """Return from how many labels a task is learned; more than it has are left out, unless nothing would be left."""
    there = len(one.train)
    wanted = sorted({there if isinstance(count, str) else count for count in counts})
    found = [count for count in wanted if count <= there] or wanted
    for count in found:
        _check_count(one, count)
    if absent := [f"{count:,}" for count in wanted if count not in found]:
        watcher.say(f"{one.task.name} has {many(there, 'label')} to learn from: {' and '.join(absent)} are left out")
    return found


def _check_count(one: TaskData, count: int) -> None:
    there = len(one.train)
    fewest = max(2, len(one.task.labels))
    if not fewest <= count <= there:
        may_be_scores = count < fewest and fewest > 2 and all(number(name) is not None for name in one.task.labels)
        hint = "; if the labels are scores, say `regression=True`" if may_be_scores else ""
        raise SettingError(
            f"'{one.task.name}' can be learned from {fewest} to {there:,} labels here, not from {count:,}{hint}"
        )


@dataclass(frozen=True)
class Draw:
    """The labels of a task that a seed drew."""

    one: TaskData
    places: Sequence[int]  # of training examples
    seed: int

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.places)

    @cached_property
    def identity(self) -> str:
        """What tells them from all others."""
        return hashlib.sha256(f"{self.one.identity} {self.places}".encode()).hexdigest()

    def encoded_for(self, start: InitRun) -> EncodedTask:
        """Return the task with no others to learn from, as the network of a run reads it."""
        encoded = self.one.encoded_for(start)
        return replace(encoded, splits={**encoded.splits, "train": choose(encoded.splits["train"], self.places)})


def plan(
    arms: Mapping[str, Arm | None],
    labelled: Mapping[str, TaskData],
    training: FinetuningSettings,
    counts: Mapping[str, Sequence[int]],
) -> Plan[Key]:
    """Return the cells by task, arm (None: it trains no network) and count, and seed."""
    cells: Plan[Key] = {}
    for name, one in labelled.items():
        order = {seed: draw_order(one.task, one.train, seed) for seed in training.seed_numbers}
        for count in counts[name]:
            for seed in training.seed_numbers:
                draw = Draw(one, order[seed][:count], seed)
                for key, arm in arms.items():
                    if key != CHOSEN or count <= MOST_REPEATED:
                        cell = _words_cell(draw) if arm is None else network_cell(arm, draw, training)
                        cells[name, (key, count), seed] = cell
    return cells


def network_cell(arm: Arm, draw: Draw, training: FinetuningSettings) -> Cell:
    """Return the cell of an arm that learns the labels that a seed drew; the rows that judge decide nothing."""
    rows = Rows(draw.one.task.name, draw.identity, draw.count, lambda: _for_judging(draw.encoded_for(arm.start)))
    cell = finetuning_cell(arm, rows, training, draw.seed, draw.count)
    inputs = {**cell.inputs, "judged_by": UNSEEN}
    if arm.name != CHOSEN:
        return replace(cell, inputs=inputs)
    return replace(cell, inputs={**inputs, "version": VERSION}, counts_words=True)


def _for_judging(encoded: EncodedTask) -> EncodedTask:
    """Return a task whose rows for dev decide nothing where they are what judges.

    TF-IDF does not look at them either; a network whose best epoch they chose would be held against it unfairly.
    """
    task = encoded.task
    judging = judged_splits(task, [name for name, split in encoded.splits.items() if split.labelled.any()])
    if set(judging) != set(task.dev_splits):
        return encoded
    splits = {name: split for name, split in encoded.splits.items() if name in ("train", *judging)}
    return replace(encoded, task=replace(task, dev_splits=(), test_splits=tuple(judging)), splits=splits)


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


def _one_label(example: Example) -> float:
    assert not isinstance(example.label, tuple)  # `read_tasks` refuses several labels
    return float(example.label or 0)


def _strata(task: Task, train: Sequence[Example]) -> list[Any]:
    if task.score_range is not None:
        values = [_one_label(example) for example in train]
        edges = np.quantile(values, np.arange(1, _STRATA) / _STRATA)
        return list(np.searchsorted(edges, values, side="right"))
    return [example.label if task.labels else 0 for example in train]


def _words_cell(draw: Draw) -> Cell:
    name = draw.one.task.name
    return Cell(
        cell_name(WORDS, name, draw.count, draw.seed),
        row=name,
        column=arm_name(WORDS),
        which=f"{many(draw.count, 'label')}, seed {draw.seed}",
        inputs={"examples": draw.identity, "version": VERSION},
        compute=_words_computation(draw.one.labelled, draw.places),
        counts_words=True,
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
                        label=answer_name(task, _one_label(example)), prediction=answer_name(task, answer)
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
            for better in _held_against(arm):
                if (better, count) in arms:
                    found = differences(task, [*arms[better, count].values()], [*seeds.values()])
                    pairs += [{"labels": count, "arm": better, "over": arm, **one} for one in found]
        content[name] = {"metric": task.metrics[0], "arms": curves, "differences": pairs}
    shown = {arm: ARMS[arm] for arm in ARMS if any(arm == key for _, (key, _), _ in planned)}
    return StudySection(NAME, {"arms": shown, "tasks": content}, rows)


def _held_against(arm: str) -> list[str]:
    """Return the arms that should be better than one."""
    return {FULL: [CHOSEN], SCRATCH: [FULL], NO_LM: [FULL], WORDS: [FULL, CHOSEN], CHOSEN: []}[arm]
