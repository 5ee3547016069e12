"""What the paper says in words, as arms in pairs: contiguous text, several tasks at once, embeddings alone.

Contiguous text (section 4.1) is held against the same text with its sentences shuffled, each the text of a pre-training
of its own, on tasks with long inputs. RTE with another task beside it (section 4.2) is held against RTE alone, and the
embeddings alone (section 5) against nothing taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpt1.records.study import ArmFigures, FurtherSection, TaskDifference
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    all_rows,
    differences,
    figures,
    finetuning_cell,
    whole_arms,
)
from gpt1.studies.folder import Done, StudySection
from gpt1.studies.material import InitRun, TaskData
from gpt1.studies.paper import FULL, SCRATCH

NAME = "further"
CONTIGUOUS, SHUFFLED = "contiguous", "shuffled"
MULTI_TASK, LEARNED_BESIDE = "multi-task", {"rte": "mnli"}
EMBEDDINGS, OF_EMBEDDINGS = "layers-0", "mnli"
LONG = ("storycloze", "race")  # tasks, whose inputs are of several sentences
PAIRS = (
    *((task, CONTIGUOUS, SHUFFLED) for task in LONG),
    *((task, MULTI_TASK, FULL) for task in LEARNED_BESIDE),
    (OF_EMBEDDINGS, EMBEDDINGS, SCRATCH),
)


def plan(
    start: InitRun, texts: Mapping[str, InitRun], labelled: Mapping[str, TaskData], training: FinetuningSettings
) -> Plan[str]:
    """Return the cells of which no other study has any: of `texts`, runs by what they read, and of several tasks."""
    cells: Plan[str] = {}
    for seed in training.seed_numbers:
        for task in (task for task in LONG if task in labelled):
            for name, run in texts.items():
                cells[task, name, seed] = finetuning_cell(Arm(name, run), all_rows(labelled[task], run), training, seed)
        for task, other in LEARNED_BESIDE.items():
            if task in labelled and other in labelled:
                rows = replace(all_rows(labelled[task], start), beside=(all_rows(labelled[other], start),))
                cells[task, MULTI_TASK, seed] = finetuning_cell(Arm(MULTI_TASK, start), rows, training, seed)
    return cells


def tabulate(labelled: Mapping[str, TaskData], planned: Plan[str], done: Done) -> StudySection:
    """Return the arms of all pairs of which both are done, and how they compare; `planned` has other studies' too."""
    found = whole_arms(planned, done)
    tasks: dict[str, dict[str, ArmFigures]] = {}
    pairs: list[TaskDifference] = []
    for task, arm, over in PAIRS:
        arms = found.get(task, {})
        if arm in arms and over in arms:
            tasks.setdefault(task, {}).update({name: figures(labelled[task], arms[name]) for name in (arm, over)})
            both = [[*arms[name].values()] for name in (arm, over)]
            compared = differences(labelled[task].task, *both)
            pairs += [{"task": task, "arm": arm, "over": over, **one} for one in compared]
    content: FurtherSection = {"tasks": tasks, "pairs": pairs}
    return StudySection(NAME, content, pairs)
