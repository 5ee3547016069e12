"""Several seeds of one fine-tuning: small data sets move by points from seed to seed, so one seed is no figure.

Each seed is a run in a folder of its own, which says in `result.json` that it was trained and measured to the end. Of
the weights only those of the best seed are kept, and `seeds.json` says which that is and what all of them gave.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpt1.base.errors import InputError
from gpt1.base.files import is_of_format, is_temporary, remove_folder, require_own_folder
from gpt1.base.wording import some
from gpt1.records.seeds import RESULT_FILE, SEED_FOLDER, SEEDS_FILE, Scores, SeedResult, SeedsResult
from gpt1.runs.checkpoints import best_rank
from gpt1.runs.folder import CHECKPOINTS, is_run
from gpt1.tasks.catalog import Task


def folder_of(out: Path, seed: int) -> Path:
    """Return the folder of one seed."""
    return out / f"seed-{seed}"


def check_folder(out: Path, seeds: range) -> None:
    """Refuse a folder that holds anything but these seeds."""
    if is_run(out):
        raise InputError(f"{out} holds a run of one seed; choose another folder for several")
    require_own_folder(out, _is_ours)
    others = sorted(set(found_seeds(out)) - set(seeds))
    if others:
        raise InputError(
            f"{out} holds other seeds too ({some([str(seed) for seed in others])}); ask for all of them, or choose "
            "another folder"
        )


def found_seeds(out: Path) -> dict[int, Path]:
    """Return the folders of seeds that are there by seed, in order."""
    entries = out.iterdir() if out.is_dir() else iter(())
    return dict(sorted((int(match[1]), path) for path in entries if (match := SEED_FOLDER.fullmatch(path.name))))


def _is_ours(entry: Path) -> bool:
    if entry.name != SEEDS_FILE:
        return is_temporary(entry) or (entry.is_dir() and SEED_FOLDER.fullmatch(entry.name) is not None)
    return is_of_format(entry, SeedsResult.FORMAT)


def write_result(run: Path, scores: Scores) -> None:
    """Note that a run was trained and measured to the end, and what it gave."""
    SeedResult(scores).write(run / RESULT_FILE)


def read_result(run: Path) -> Scores:
    """Return what `write_result` wrote."""
    remedy = f"remove {run} to have it trained anew by `gpt1.finetune(resume=True)`"
    return SeedResult.read(run / RESULT_FILE, remedy).scores


def forget_result(run: Path) -> None:
    """Note that a run is not, or no longer, at its end."""
    (run / RESULT_FILE).unlink(missing_ok=True)


def is_done(run: Path) -> bool:
    """Whether a run was trained and measured to the end."""
    return (run / RESULT_FILE).is_file()


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Return median, mean, standard deviation (of a sample), worst and best of several results; more is better."""
    return {
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
        "worst": min(values),
        "best": max(values),
    }


def report_seeds(out: Path, tasks: Mapping[str, Task]) -> str:
    """Write what all seeds that are done gave, remove the weights of all but the best one, and return which that is."""
    done = [path for path in found_seeds(out).values() if is_done(path)]
    scores: dict[str, Scores] = {path.name: read_result(path) for path in done}
    best = max(scores, key=lambda name: (decisive(scores[name], tasks), -_tiebreak(out / name)))
    flat = {name: _flat(measured) for name, measured in scores.items()}
    shared = [name for name in flat[best] if all(name in measured for measured in flat.values())]
    summary = {name: summarise([measured[name] for measured in flat.values()]) for name in shared}
    SeedsResult(best, flat, summary).write(out / SEEDS_FILE)
    for path in done:
        if path.name != best and (path / CHECKPOINTS).is_dir():
            remove_folder(path / CHECKPOINTS)
    return best


def _tiebreak(run: Path) -> float:
    """Return the loss on dev of what is kept of a seed; infinite where the weights had to give way to better ones."""
    found = best_rank(run)
    return math.inf if found is None else found[1]


def decisive(scores: Scores, tasks: Mapping[str, Task]) -> float:
    """Return the mean of the first metrics over all dev splits; without any, 0: all runs are alike then."""
    found = [
        scores[name][split][task.metrics[0]]
        for name, task in tasks.items()
        for split in task.dev_splits
        if split in scores.get(name, {})
    ]
    return statistics.fmean(found) if found else 0.0


def _flat(scores: Scores) -> dict[str, float]:
    """Return all metrics as `task split metric`."""
    return {
        f"{task} {split} {metric}": value
        for task, splits in scores.items()
        for split, metrics in splits.items()
        for metric, value in metrics.items()
    }
