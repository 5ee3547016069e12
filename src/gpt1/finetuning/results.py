"""What a fine-tuning gave, read from its folder: for programs and, in short, for people."""

from __future__ import annotations

from typing import Any

from gpt1.finetuning.measure import evaluation_file
from gpt1.finetuning.seeds import is_done
from gpt1.inference.run import Run
from gpt1.records.evaluation import Evaluation
from gpt1.records.seeds import SEEDS_FILE, SeedsResult

_TOLD = ("examples", "metrics", "intervals", "step")


def results(run: Run) -> dict[str, Any]:
    """Return the run's folder and, for each task and split that was measured, metrics and their 95 % intervals."""
    measured = {
        name: {
            split: {name: value for name, value in found.as_json().items() if name in _TOLD}
            for split, found in _evaluations(run, name).items()
        }
        for name in run.tasks
    }
    found: dict[str, Any] = {"run": str(run.path), "tasks": measured}
    seeds = run.path.parent / SEEDS_FILE
    if seeds.is_file():
        found["seeds"] = SeedsResult.read(seeds).summary
    return found


def describe(run: Run) -> list[str]:
    """Return the results in lines."""
    lines = []
    for name in run.tasks:
        for split, found in _evaluations(run, name).items():
            shown = []
            for metric, value in found.metrics.items():
                low, high = found.intervals.get(metric, (None, None))
                shown.append(f"{metric} {value:.4f}" + ("" if low is None else f" (95 %: {low:.4f} to {high:.4f})"))
            lines.append(f"{name} {split}, {found.examples:,} examples: {', '.join(shown)}")
    if not is_done(run.path):
        return [*lines, f"{run.path} is not at its end; `gpt1.finetune(resume=True)` goes on"]
    return [*lines, f"{run.path} is ready: gpt1 evaluate shows its mistakes, gpt1 predict answers new rows"]


def _evaluations(run: Run, task: str) -> dict[str, Evaluation]:
    found = {}
    for split in run.tasks[task].splits:
        path = evaluation_file(run.path, task, split)
        if path.is_file():
            found[split] = Evaluation.read(path)
    return found
