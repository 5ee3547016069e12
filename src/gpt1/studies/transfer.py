"""Figure 2 left: what each pre-trained block is worth, from the embeddings alone to all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from gpt1.base.errors import SettingError
from gpt1.base.parts import Part
from gpt1.base.wording import many
from gpt1.finetuning.data import Source
from gpt1.records.study import AskedOfStudy, LayerPoint, StudyRecord, TransferredTask
from gpt1.studies.cells import Notebook, Watcher
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    all_rows,
    difference,
    figures,
    finetuning_cell,
    train_summary,
    whole_arms,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import InitRun, TaskData, check_learnable, open_start, read_tasks, tell_start
from gpt1.studies.paper import FULL

NAME = "transfer"


def study_transfer(
    init: str | Path,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    layers: Sequence[int] | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Fine-tune with so many transferred blocks (None: with each number there is), and return what was found."""
    notebook = Notebook(watcher)
    start = open_start(init)
    tell_start(start, notebook)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    training = training.settled_by(start, Path(out))
    planned = plan(start, labelled, training, layers)
    about: AskedOfStudy = {
        "init": str(start.path),
        "source": source.recorded(),
        "seeds": list(training.seed_numbers),
        "changes": list(training.changes),
    }
    return conduct(
        Path(out), NAME, about, list(planned.values()), lambda done: [tabulate(labelled, planned, done)], notebook, part
    )


def plan(
    start: InitRun, labelled: Mapping[str, TaskData], training: FinetuningSettings, layers: Sequence[int] | None
) -> Plan[int]:
    """Return the cells by task, number of blocks taken over, and seed."""
    counts = sorted(set(range(start.blocks + 1) if layers is None else layers))
    if counts and not 0 <= counts[0] <= counts[-1] <= start.blocks:
        asked = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        raise SettingError(f"{start.path} has {many(start.blocks, 'block')} to take over; asked for {asked}")
    cells: Plan[int] = {}
    for name, one in labelled.items():
        rows = all_rows(one, start)
        for count in counts:
            for seed in training.seed_numbers:
                cells[name, count, seed] = finetuning_cell(_arm(start, count), rows, training, seed)
    return cells


def _arm(start: InitRun, count: int) -> Arm:
    """Return the arm of so many blocks; all of them is the full model, which other studies train too."""
    if count == start.blocks:
        return Arm(FULL, start)
    return Arm(f"layers-{count}", start, [f"finetuning.transfer_layers={count}"])


def tabulate(labelled: Mapping[str, TaskData], planned: Plan[int], done: Done) -> StudySection:
    """Return the score by number of blocks, and what the most are worth over each fewer one, in pairs."""
    content: dict[str, TransferredTask] = {}
    rows: list[Mapping[str, object]] = []
    for name, arms in whole_arms(planned, done).items():
        task = labelled[name].task
        points: list[LayerPoint] = []
        for count, seeds in arms.items():
            figure = {"layers": count, **figures(labelled[name], seeds)}
            point = cast(LayerPoint, {**figure})
            if (on_train := train_summary(seeds)) is not None:
                point["train"] = on_train
            points.append(point)
            rows.append({"task": name, **figure, "train_median": on_train and on_train["median"]})
            if count != max(arms):
                point["behind_most"] = difference(task, [*arms[max(arms)].values()], [*seeds.values()])
        content[name] = {"metric": task.metrics[0], "points": points}
    return StudySection(NAME, {"tasks": content}, rows)
