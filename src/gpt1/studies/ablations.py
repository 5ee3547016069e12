"""Table 5: what is lost without pre-training, without the auxiliary language model, and with an LSTM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from gpt1.base.errors import SettingError, unknown
from gpt1.base.parts import Part
from gpt1.finetuning.data import Source
from gpt1.recipes.values import LSTM as LSTM_KIND
from gpt1.records.study import (
    AblationsSection,
    ArmAverage,
    ArmFigures,
    AskedOfStudy,
    StudyRecord,
    TaskCurves,
    TaskDifference,
)
from gpt1.studies import paper
from gpt1.studies.cells import CellResult, Notebook, Watcher
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    all_rows,
    differences,
    figures,
    finetuning_cell,
    mean_curve,
    whole_arms,
    with_rate,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import (
    InitRun,
    TaskData,
    check_learnable,
    check_same_words,
    open_start,
    read_tasks,
    tell_start,
)

NAME = "ablations"
CURVES = "curves"
DIFFERENCES = "differences"


def study_ablations(
    init: str | Path,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    lstm: str | Path | None = None,
    rates: Mapping[str, float] | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Fine-tune the full model and each of its ablations on tasks, and return what was found.

    `rates` are learning rates of ablations that have others than the full model: `{"scratch": 1e-3}`.
    """
    notebook = Notebook(watcher)
    arms = make_arms(open_start(init), None if lstm is None else open_start(lstm))
    arms = with_rates(arms, rates or {}, notebook)
    tell_start(arms[0].start, notebook)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    training = training.settled_by(arms[0].start, Path(out))
    planned = plan(arms, labelled, training)
    about: AskedOfStudy = {
        "init": str(arms[0].start.path),
        "lstm": None if lstm is None else str(lstm),
        "source": source.recorded(),
        "changes": list(training.changes),
        "rates": dict(rates or {}),
        "seeds": list(training.seed_numbers),
    }
    return conduct(
        Path(out), NAME, about, list(planned.values()), lambda done: tabulate(labelled, planned, done), notebook, part
    )


def make_arms(start: InitRun, lstm: InitRun | None) -> list[Arm]:
    """Return the arms of table 5; without an LSTM to start from, the first three."""
    arms = [
        Arm(paper.FULL, start),
        Arm(paper.SCRATCH, start, ["finetuning.scratch=true"]),
        Arm(paper.NO_LM, start, ["finetuning.lm_weight=0"]),
    ]
    if lstm is not None:
        if lstm.shape.kind != LSTM_KIND:
            raise SettingError(
                f"{lstm.path} is no LSTM but a {lstm.shape.kind}; `gpt1.pretrain(recipe='lstm')` trains one"
            )
        check_same_words(start, [lstm], "their arms would differ in more than the network: train both with one")
        arms.append(Arm(paper.LSTM, lstm))
    return arms


def with_rates(arms: Sequence[Arm], rates: Mapping[str, float], watcher: Watcher) -> list[Arm]:
    """Return the arms, those of which a rate is given with it; that of the full model is everybody's."""
    may_have = [arm.name for arm in arms if arm.name != paper.FULL]
    for name in rates:
        if name == paper.FULL:
            raise SettingError(f"the rate of '{name}' is that of all arms without their own: the setting optimizer.lr")
        if name not in may_have:
            raise unknown("arm", name, may_have)
    return [with_rate(arm, rates[arm.name], watcher) if arm.name in rates else arm for arm in arms]


def plan(arms: Sequence[Arm], labelled: Mapping[str, TaskData], training: FinetuningSettings) -> Plan[str]:
    """Return the cells by task, arm and seed."""
    cells: Plan[str] = {}
    for name, one in labelled.items():
        for arm in arms:
            rows = all_rows(one, arm.start)
            for seed in training.seed_numbers:
                cells[name, arm.name, seed] = finetuning_cell(arm, rows, training, seed)
    return cells


def tabulate(labelled: Mapping[str, TaskData], planned: Plan[str], done: Done) -> list[StudySection]:
    """Return the table with its averages and the paper's figures, the differences in pairs, and the curves on dev."""
    found = whole_arms(planned, done)
    names = list(dict.fromkeys(arm for _, arm, _ in planned))
    scored = {
        task: {arm: figures(labelled[task], seeds) for arm, seeds in arms.items()} for task, arms in found.items()
    }
    averages = {arm: arm_average(arm, scored) for arm in names}
    rows: list[Mapping[str, object]] = [
        {"task": task, "arm": arm, **figure, "paper_percent": paper.ABLATIONS[arm].get(task)}
        for task, arms in scored.items()
        for arm, figure in arms.items()
    ]
    rows += [{"task": "average", "arm": arm, **average} for arm, average in averages.items() if average]
    table: AblationsSection = {
        "arms": {arm: paper.ARMS[arm] for arm in names},
        "tasks": scored,
        "average": averages,
        "paper_percent": {arm: paper.ABLATIONS[arm] for arm in names},
    }
    pairs, curves = _differences(labelled, found), _curves(labelled, found)
    points: list[Mapping[str, object]] = [
        {"task": task, "arm": arm, **point}
        for task, facts in curves.items()
        for arm, points in facts["arms"].items()
        for point in points
    ]
    return [
        StudySection(NAME, table, rows),
        StudySection(DIFFERENCES, {"pairs": pairs}, pairs),
        StudySection(CURVES, {"tasks": curves}, points),
    ]


def arm_average(arm: str, scored: Mapping[str, Mapping[str, ArmFigures]]) -> ArmAverage | None:
    """Return the plain mean of an arm's medians, and the paper's over the same tasks; None where a task is missing.

    Of the paper's own eight tasks that is the average which it prints.
    """
    if not scored or not all(arm in arms for arms in scored.values()):
        return None
    published = paper.ABLATIONS[arm]
    theirs = [published[task] for task in scored if task in published]
    if set(scored) == set(paper.ABLATED):
        theirs = [published["average"]]
    elif len(theirs) < len(scored):
        theirs = []
    return {
        "median": fmean(arms[arm]["median"] for arms in scored.values()),
        "paper_percent": fmean(theirs) if theirs else None,
        "tasks": len(scored),
    }


def _differences(
    labelled: Mapping[str, TaskData], found: Mapping[str, Mapping[str, Mapping[int, CellResult]]]
) -> list[TaskDifference]:
    """Return by how much the full model is better than each ablation, task by task."""
    return [
        {"task": task, "arm": paper.FULL, "over": arm, **one}
        for task, arms in found.items()
        for arm in arms
        if arm != paper.FULL and paper.FULL in arms
        for one in differences(labelled[task].task, [*arms[paper.FULL].values()], [*arms[arm].values()])
    ]


def _curves(
    labelled: Mapping[str, TaskData], found: Mapping[str, Mapping[str, Mapping[int, CellResult]]]
) -> dict[str, TaskCurves]:
    """Return the score on dev against updates, with and without the auxiliary loss."""
    return {
        task: {
            "metric": labelled[task].task.metrics[0],
            "arms": {arm: mean_curve([*arms[arm].values()]) for arm in (paper.FULL, paper.NO_LM) if arm in arms},
        }
        for task, arms in found.items()
    }
