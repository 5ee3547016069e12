"""How fast arms learn: after how many updates the task's own training loss was so low for the first time.

The loss is the mean of the last few that were logged. How low is the same for two arms: as low as it became in every
run of both, so that each of them has a number, and neither arm chooses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import fmean

from gpt1.records.study import TaskConvergence
from gpt1.studies.cells import CellResult
from gpt1.studies.finetuned import Plan, whole_arms
from gpt1.studies.folder import Done, StudySection
from gpt1.studies.paper import FULL, NO_LM

NAME = "convergence"
ARMS = (FULL, NO_LM)
LOGGED = 5  # losses, whose mean is compared: a single one is that of 32 examples

Losses = list[tuple[int, float]]  # update and mean


def tabulate(planned: Plan[str], done: Done) -> StudySection:
    """Return how fast each task is learned with and without the auxiliary loss, seed by seed."""
    tasks = {}
    for name, arms in whole_arms(planned, done).items():
        if all(arm in arms for arm in ARMS) and (found := compare({arm: arms[arm] for arm in ARMS})) is not None:
            tasks[name] = found
    rows = [
        {"task": name, "level": found["level"], "arm": arm, "seed": seed, "updates": updates}
        for name, found in tasks.items()
        for arm, seeds in found["updates"].items()
        for seed, updates in seeds.items()
    ]
    return StudySection(NAME, {"tasks": tasks}, rows)


def compare(arms: Mapping[str, Mapping[int, CellResult]]) -> TaskConvergence | None:
    """Return when each run was at the level of all; None where an earlier version kept no losses of one."""
    smooth = {
        arm: {str(seed): _smooth(kept.result.get("losses", [])) for seed, kept in seeds.items()}
        for arm, seeds in arms.items()
    }
    runs = [losses for seeds in smooth.values() for losses in seeds.values()]
    if not all(runs):
        return None
    level = max(min(loss for _, loss in losses) for losses in runs)
    return {
        "level": level,
        "updates": {
            arm: {seed: next(step for step, loss in losses if loss <= level) for seed, losses in seeds.items()}
            for arm, seeds in smooth.items()
        },
    }


def _smooth(losses: list[dict[str, float]]) -> Losses:
    """Return the mean of the last losses at each update that was logged."""
    last: deque[float] = deque(maxlen=LOGGED)
    found = []
    for point in losses:
        last.append(point["loss"])
        found.append((int(point["step"]), fmean(last)))
    return found
