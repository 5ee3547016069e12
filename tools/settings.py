"""Which settings of fine-tuning suit a base, and which rate suits one from scratch?

`python tools/settings.py INIT TASKS --out tried`: each of `TRIED` on nine tasks, from 200 labels (two draws) and from
all (at most 6,000). A tenth of the rows for training judges; those for dev are not looked at. The best has the highest
mean over tasks and both numbers of labels, where that is ahead of what there is by more than noise; the last line has
the options by which `tools/figures.py` takes it. Given again, it goes on. Processes work side by side on one GPU, best
under CUDA's Multi-Process Service.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from figures import SAVE_NOTHING, TASKS, side_by_side  # tools/figures.py
from lessons import tenths  # tools/lessons.py

from gpt1.base.files import read_json
from gpt1.finetuning.data import Source
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.labels import Wanted, study_labels

ARMS = ("pre-trained", "scratch")
TRIED = {
    "auto": ["pre-trained"],
    "dropout 0": ["pre-trained", "shape.dropout=0"],
    "rate 2e-4": ["pre-trained", "optimizer.lr=2e-4"],
    "rate 2e-4, dropout 0": ["pre-trained", "optimizer.lr=2e-4", "shape.dropout=0"],
    "rate 3e-4, dropout 0": ["pre-trained", "optimizer.lr=3e-4", "shape.dropout=0"],
    "scratch 1.2e-4": ["scratch"],
    "scratch 3e-4": ["scratch", "optimizer.lr=3e-4"],
    "scratch 1e-3": ["scratch", "optimizer.lr=1e-3"],
}
DRAWS: dict[Wanted, int] = {200: 2, "all": 1}  # by number of labels
PARTS = 2  # processes for each
WORTH = 0.5  # of a mean, by which others must be ahead of the first of their arm, which is what there is


def try_out(given: argparse.Namespace, name: str, part: int) -> None:
    """Make one part of the cells of what is tried under a name."""
    arm, *changes = TRIED[name]
    for count, draws in DRAWS.items():
        study_labels(
            given.init,
            given.out / place(name),
            source=Source(tasks=list(TASKS), data=str(given.out / "tasks")),
            training=FinetuningSettings(changes=[SAVE_NOTHING, *changes], device=given.device, seeds=draws),
            counts=[count],
            arms=[arm],
            part=(part, PARTS),
        )


def place(name: str) -> str:
    """Return the folder of what is tried under a name."""
    return name.replace(" ", "-").replace(",", "")


def scores(folder: Path) -> dict[str, dict[str, float]]:
    """Return what was found, of 100: the mean of the draws from few labels and from all, by task."""
    by_task: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in folder.glob("cells/*/cell.json"):
        *_, task, labels, _ = path.parent.name.split("-")
        by_task[task][int(labels)].append(100 * read_json(path, "a cell")["result"]["score"])
    return {
        which: {task: fmean(found[pick(found)]) for task, found in by_task.items()}
        for which, pick in (("few", min), ("all", max))
    }


def best(means: Mapping[str, float], arm: str) -> list[str]:
    """Return the settings of the best of those that train one arm, if any was tried."""
    names = [name for name in means if TRIED[name][0] == arm]
    if not names:
        return []
    found = max(names, key=lambda name: means[name])
    return TRIED[found if means[found] >= means[names[0]] + WORTH else names[0]][1:]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("init", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--arm", choices=ARMS, help="what trains this one alone")
    parser.add_argument("--only", nargs=2, metavar=("NAME", "PART"), help="one part of one alone")
    given = parser.parse_args()
    if given.only is not None:
        name, part = given.only
        try_out(given, name, int(part))
        return
    tenths(given.tasks, given.out / "tasks")
    tried = [name for name in TRIED if given.arm in (None, TRIED[name][0])]
    side_by_side([["--only", name, str(part)] for name in tried for part in range(1, PARTS + 1)])
    print(f"{'':28}", *(f"{task[:9]:>10}" for task in TASKS), f"{'mean':>10}")
    means = {}
    for name in tried:
        found = scores(given.out / place(name))
        for which, by_task in found.items():
            row = [by_task.get(task, float("nan")) for task in TASKS]
            print(f"{name + ', ' + which:28}", *(f"{score:10.1f}" for score in row), f"{fmean(row):10.2f}")
        means[name] = fmean(score for by_task in found.values() for score in by_task.values())
    changes, scratch = (best(means, arm) for arm in ARMS)
    rates = [change.removeprefix("optimizer.lr=") for change in scratch]
    print(*(["--changes", *changes] if changes else []), *(["--scratch-lr", *rates] if rates else []))


if __name__ == "__main__":
    main()
