"""Several seeds of one fine-tuning: small data sets move by points from seed to seed, so one seed is no figure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpt1.base.files import read_json, remove_folder, write_json
from gpt1.finetuning.measure import evaluation_file
from gpt1.tasks.encoded import EncodedTask
from gpt1.training.checkpoints import FOLDER
from gpt1.training.runs import SEEDS_FILE

FORMAT, VERSION = "gpt1-seeds", 1


def is_measured(run: Path, tasks: Mapping[str, EncodedTask]) -> bool:
    """Whether a seed was trained to its end and measured."""
    return bool(_scores(run, tasks))


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Return median, mean, standard deviation (of a sample), worst and best of several results; more is better."""
    return {
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "worst": min(values),
        "best": max(values),
    }


def report_seeds(out: Path, folders: Sequence[str], tasks: Mapping[str, EncodedTask]) -> list[str]:
    """Write what all seeds gave to `seeds.json`, remove the weights of all but the best one, and return it in words."""
    measured = {folder: _scores(out / folder, tasks) for folder in folders}
    dev = {folder: _decisive(scores, tasks) for folder, scores in measured.items()}
    best = max(folders, key=lambda folder: dev[folder])
    names = list(measured[best])
    summary = {name: summarise([measured[folder][name] for folder in folders]) for name in names}
    write_json(
        out / SEEDS_FILE,
        {"format": FORMAT, "version": VERSION, "best": best, "seeds": measured, "summary": summary},
    )
    for folder in folders:
        if folder != best and (out / folder / FOLDER).is_dir():
            remove_folder(out / folder / FOLDER)
    return [
        f"{name}: " + ", ".join(f"{what} {value:.4f}" for what, value in figures.items()) + f" ({len(folders)} seeds)"
        for name, figures in summary.items()
    ] + [f"{best} is the best on dev, and kept"]


def _scores(run: Path, tasks: Mapping[str, EncodedTask]) -> dict[str, float]:
    """Return all metrics of a run as `task split metric`."""
    found: dict[str, float] = {}
    for name, encoded in tasks.items():
        for split in encoded.splits:
            path = evaluation_file(run, name, split)
            if path.is_file():
                facts: dict[str, Any] = read_json(path, "an evaluation")
                found |= {f"{name} {split} {metric}": value for metric, value in facts["metrics"].items()}
    return found


def _decisive(scores: Mapping[str, float], tasks: Mapping[str, EncodedTask]) -> float:
    """Return the mean of the first metrics over all dev splits; without any, 0: all seeds are alike then."""
    decisive = [
        scores[key]
        for name, encoded in tasks.items()
        for split in encoded.task.dev_splits
        if (key := f"{name} {split} {encoded.task.metrics[0]}") in scores
    ]
    return statistics.fmean(decisive) if decisive else 0.0
