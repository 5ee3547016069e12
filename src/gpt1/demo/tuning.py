"""The learning rates of the demo: one grid for both arms, judged by dev sets of another world than the demo's.

    python -m gpt1.demo.tuning FOLDER

prints the accuracy on dev, the mean of a few seeds, of the four tasks for every arm and rate; the best go into
`recipe.py`. Takes about twenty minutes on two cores; stopped and called again, it goes on.
"""

from __future__ import annotations

import statistics
import sys
from itertools import product
from pathlib import Path

import torch

from gpt1.base.progress import Terminal
from gpt1.base.wording import hundred
from gpt1.demo.learning import Crew, Job
from gpt1.demo.recipe import RATES, Plan
from gpt1.demo.tasks import LEARNED
from gpt1.demo.tour import LABELLED_DATA, READER, make_reader, make_text
from gpt1.finetuning.results import results
from gpt1.inference.run import load_run

SEED = 0  # of a world that the demo does not have
GRID = (5e-4, 1e-3, 2e-3)
SEEDS = 2  # of each fine-tuning


def tune(folder: Path) -> None:
    """Train every arm, rate and task of the grid and print how well they do on dev."""
    torch.set_num_threads(1)
    progress = Terminal()
    plan = Plan()
    make_text(folder, plan, SEED, progress)
    make_reader(folder, plan, progress, [])
    jobs = {
        (arm, rate, task.name): Job(
            folder / READER,
            folder / LABELLED_DATA,
            folder / "grid" / f"{task.name}-{arm}-{rate}",
            *(f"gpt1.demo.tasks:{task.name.upper()}", arm, rate, plan.learning, SEEDS),
        )
        for arm, rate, task in product(RATES, GRID, LEARNED)
    }
    with Crew(progress) as crew:
        crew.begin(jobs.values())
        crew.finish()
    for arm, rate in product(RATES, GRID):
        found = {task.name: _dev_accuracy(jobs[arm, rate, task.name].out, task.name) for task in LEARNED}
        shown = "  ".join(f"{name} {hundred(value)}" for name, value in found.items())
        print(f"{arm:10}  rate {rate:g}  {shown}  mean {hundred(statistics.fmean(found.values()))}")


def _dev_accuracy(folder: Path, task: str) -> float:
    accuracy: float = results(load_run(folder, device="cpu"))["seeds"][f"{task} dev accuracy"]["mean"]
    return accuracy


if __name__ == "__main__":
    tune(Path(sys.argv[1]))
