"""Measure ways to a domain without labels: `python tools/domains.py --data TASKS --out figures [--rows 400]`.

Labels are of one task and texts of another with the same labels, such as SNLI (captions of pictures) and MNLI (ten
other kinds of English). Of each draw there are `source.csv` (labelled), `target.csv` (texts of the target domain
without labels), `labelled.csv` (the first of them with their labels, as many as the source has), and for all draws
alike `source-dev.csv` and `target-dev.csv`, which judge and decide nothing. The arms:

    source          learn the source's labels
    reading         read the target's texts first, then learn the source's labels (with --old and --mix old text too)
    adversarial     learn them so that the domains cannot be told apart (gpt1 finetune --target-texts)
    adversarial:W   the same with finetuning.domain_weight=W; adversarial:W! keeps it fixed from the first update on
    both            read the target's texts first, then adversarial
    target          learn the target's labels: what labels would be worth

The table has of each arm the accuracy on rows of both domains and how well a linear classifier tells the domains apart
by what the network makes of a text (a guess: 50), medians over seeds, and what the arm gains over `source` on the
target, with its 95 % interval over rows, which are the same for all. What is there is not made again, so that the same
call goes on; with `--processes` several make it side by side, each the next that nobody makes.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import Busy, InputError
from gpt1.base.files import read_json, read_lines, write_json
from gpt1.base.stages import alone
from gpt1.bases.catalog import default_base
from gpt1.corpus.prepare import prepare
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run, predictions_file
from gpt1.finetuning.target import told_apart
from gpt1.inference.run import Run
from gpt1.pretraining.pretrain import pretrain
from gpt1.recipes.derived import gentler, recipe_for_text
from gpt1.records.run import PRETRAINING
from gpt1.runs.folder import is_run, read_run, run_folder
from gpt1.tasks.assessment import interval_of, resamples
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.preparing import read_task

Figures = dict[str, Any]
ARMS = "source,reading,adversarial,both,target"
FIGURES, SETTINGS = "figures.json", "settings.json"
NOT_OF_A_CELL = ("data", "out", "arms", "seeds", "processes", "process", "device")
# The network alone, without windows: counted words know nothing of the target domain, and adapting knows no windows.
ALONE = (
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
    "finetuning.windows=off",
    "logging.save_every=1000000",
)
READ = ("training.batch=8", "training.epochs=4", "logging.sample_every=none", "logging.keep_weights=none")
_ADVERSARIAL = re.compile(r"(adversarial|both)(:([\d.]+)(!?))?")


# ---- tables ----


def rows_of(name: str, split: str, given: argparse.Namespace) -> tuple[Task, list[Example]]:
    """Return the labelled rows of a task's split; of several for dev the first."""
    labelled = read_task(name, data=str(given.data))
    own = split if split == "train" else labelled.task.dev_splits[0]
    return labelled.task, [row for row in labelled.splits[own] if row.label is not None]


def write_table(path: Path, task: Task, rows: Sequence[Example], *, with_labels: bool) -> None:
    """Write rows as a table; without labels the column is not there."""
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        fields = ("text",) if len(task.fields) == 1 else ("sentence1", "sentence2")
        sheet.writerow([*fields, *(["label"] if with_labels else [])])
        for row in rows:
            label = [task.labels[row.label]] if with_labels and isinstance(row.label, int) else []
            sheet.writerow([*row.texts, *label])


def make_tables(folder: Path, seed: int, given: argparse.Namespace) -> None:
    """Write the tables of a draw, and the text that is read of the target domain."""
    source, ours = rows_of(given.source, "train", given)
    target, theirs = rows_of(given.target, "train", given)
    if (source.labels, len(source.fields)) != (target.labels, len(target.fields)) or not source.labels:
        raise InputError(f"{given.source} and {given.target} have not the same labels, or not the same texts in a row")
    dice = random.Random(seed)
    dice.shuffle(ours)
    dice.shuffle(theirs)
    for name, there, wanted in ((given.source, ours, given.rows), (given.target, theirs, given.texts)):
        if len(there) < wanted:
            raise InputError(f"{name} has {len(there):,} rows, and {wanted:,} are wanted: give a smaller number")
    texts = theirs[: given.texts]
    write_table(folder / "source.csv", source, ours[: given.rows], with_labels=True)
    write_table(folder / "labelled.csv", target, texts[: given.rows], with_labels=True)
    write_table(folder / "target.csv", target, texts, with_labels=False)
    (folder / "target.txt").write_text("\n\n".join("\n".join(row.texts) for row in texts) + "\n", encoding="utf-8")
    always = random.Random(0)  # the same rows judge all draws
    for name, task in (("source", given.source), ("target", given.target)):
        found, judging = rows_of(task, "dev", given)
        always.shuffle(judging)
        write_table(folder / f"{name}-dev.csv", found, judging[: given.test], with_labels=True)


# ---- arms ----


@cache
def base_of(init: str | None) -> Path:
    """Return the run to start from."""
    return default_base().path if init is None else run_folder(init)


def read_target_text(folder: Path, seed: int, given: argparse.Namespace) -> Path:
    """Return the base that has read the texts of the target domain."""
    base = base_of(given.init)
    record = read_run(base)
    if not (folder / "corpus" / "corpus.json").exists():
        how: dict[str, Any] = {"document": "blank", "valid": 0.05, "duplicates": "keep", "workers": 1}
        prepare([folder / "target.txt"], base, folder / "corpus", **how)
    recipe = record.recipe if record.kind == PRETRAINING else recipe_for_text(record.recipe.shape)
    out = folder / "reader"
    pretrain(
        None if record.kind == PRETRAINING else recipe,
        folder / "corpus",
        out,
        init=base,
        mix=None if given.old is None else {given.old: given.mix},
        changes=[*gentler(recipe), *READ, *given.read, f"training.seed={seed}"],
        resume=is_run(out),
        device=given.device,
    )
    return out


def settings_of(arm: str) -> list[str] | None:
    """Return the settings of an arm that adapts; None for the others."""
    found = _ADVERSARIAL.fullmatch(arm)
    if found is None or found[2] is None:
        return None if found is None else []
    return [f"finetuning.domain_weight={found[3]}", f"finetuning.domain_ramp={'false' if found[4] else 'true'}"]


def learn(arm: str, seed: int, given: argparse.Namespace, folder: Path) -> Run:
    """Return the run of an arm."""
    own = settings_of(arm)
    if own is None and arm not in ("source", "reading", "target"):
        raise InputError(f"there is no arm '{arm}'; there are {ARMS}, and adversarial:WEIGHT")
    reads = arm == "reading" or arm.startswith("both")
    init = read_target_text(folder, seed, given) if reads else base_of(given.init)
    table = folder / ("labelled.csv" if arm == "target" else "source.csv")
    (folder / "rows.csv").write_bytes(table.read_bytes())  # by whose name all arms call the task
    changes = [*ALONE, *given.changes, *(own or []), f"training.seed={seed}"]
    texts = None if own is None else folder / "target.csv"
    return finetune(
        init,
        folder / "run",
        train=folder / "rows.csv",
        target_texts=texts,
        changes=changes,
        resume=is_run(folder / "run"),
        device=given.device,
    )


def measure(arm: str, seed: int, given: argparse.Namespace, folder: Path) -> Figures:
    """Return what an arm answers rightly of both domains, which rows of the target's, and how far apart they are."""
    make_tables(folder, seed, given)
    run = learn(arm, seed, given, folder)
    found: Figures = {}
    for name in ("source", "target"):
        (measured,) = evaluate_run(run, table=folder / f"{name}-dev.csv", split=name, overwrite=True)
        found[name] = measured.metrics["accuracy"]
    lines = read_lines(predictions_file(run.path, "rows", "target"))
    found["right"] = [int(line["label"] == line["prediction"]) for _, line in lines]
    found["apart"] = told_apart(run.classifier, "rows", *(_texts(run, folder / name) for name in (_OURS, _THEIRS)))
    return found


_OURS, _THEIRS = "source-dev.csv", "target-dev.csv"


def _texts(run: Run, table: Path) -> Any:
    """Return the texts of a table, encoded as the run reads them."""
    with table.open(newline="", encoding="utf-8") as file:
        rows = [tuple(row[:-1]) for row in list(csv.reader(file))[1:]]
    task = run.tasks["rows"]
    examples = [Example(texts, 0, place) for place, texts in enumerate(rows)]
    return encode_task(task, {"train": examples}, run.tokenizer, run.recipe.shape.context).splits["train"]


# ---- cells ----


@dataclass(frozen=True)
class Cell:
    """An arm, and by which draw."""

    arm: str
    seed: int

    def folder(self, given: argparse.Namespace) -> Path:
        """Return where it lies."""
        found: Path = given.out / f"{self.arm.replace(':', '-').replace('!', '-fixed')}-{self.seed}"
        return found


def cells(given: argparse.Namespace) -> Iterator[Cell]:
    """Yield what was asked for: first one draw of everything, so that what is half made can be read."""
    for seed in range(given.seeds):
        for arm in given.arms.split(","):
            yield Cell(arm, seed)


def make(cell: Cell, given: argparse.Namespace) -> None:
    """Make the figures of a cell where they are not there yet."""
    folder = cell.folder(given)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        settings = {name: value for name, value in vars(given).items() if name not in NOT_OF_A_CELL}
        if not (folder / SETTINGS).exists():
            write_json(folder / SETTINGS, settings)
        elif read_json(folder / SETTINGS, "settings") != settings:
            raise InputError(f"{folder} was made with other settings ({SETTINGS} has them); give another --out")
        if not (folder / FIGURES).exists():
            write_json(folder / FIGURES, measure(cell.arm, cell.seed, given, folder))


def gain(arm: Sequence[Sequence[int]], source: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """Return by how much the median over seeds of an arm's accuracy is above the other's, and the 95 % interval."""
    one, other = (np.array(seeds, float) for seeds in (arm, source))

    def apart(rows: NDArray[np.int64] | slice) -> float:
        return float(np.median(one[:, rows].mean(1)) - np.median(other[:, rows].mean(1)))

    low, high = interval_of([apart(rows) for (rows,) in resamples(one.shape[1])])
    return apart(slice(None)), low, high


def table(given: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table."""
    found = {
        arm: [read_json(Cell(arm, seed).folder(given) / FIGURES, "figures") for seed in range(given.seeds)]
        for arm in given.arms.split(",")
    }
    yield "arm\ttarget\tworst to best\tsource\tapart\tgain over source on the target"
    for arm, seeds in found.items():
        target = [100 * one["target"] for one in seeds]
        source = statistics.median(100 * one["source"] for one in seeds)
        apart = [one["apart"] for one in seeds if one["apart"] is not None]
        told = f"{100 * statistics.median(apart):.1f}" if apart else "-"
        more = ""
        if arm != "source" and "source" in found:
            value, low, high = (
                100 * x for x in gain(*([one["right"] for one in each] for each in (seeds, found["source"])))
            )
            more = f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
        spread = f"{min(target):.1f} to {max(target):.1f}"
        yield f"{arm}\t{statistics.median(target):.1f}\t{spread}\t{source:.1f}\t{told}\t{more}"


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tasks")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--source", default="snli", help="the task whose labels are known  [snli]")
    parser.add_argument("--target", default="mnli", help="the task whose texts alone are known  [mnli]")
    parser.add_argument("--arms", default=ARMS, help=f"[{ARMS}]")
    parser.add_argument("--init", help="the base  [that of the package]")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400, help="labelled rows to learn from")
    parser.add_argument("--texts", type=int, default=1000, help="of the target domain, without labels")
    parser.add_argument("--test", type=int, default=1000, help="rows of either domain to measure on")
    parser.add_argument("--old", help="reading: a corpus of old text that is mixed in")
    parser.add_argument("--mix", type=float, default=0.25, help="its share  [0.25]")
    parser.add_argument("--read", action="append", default=[], metavar="NAME=VALUE", help="a setting of reading")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device")
    parser.add_argument("--processes", type=int, default=1, help="side by side, on a GPU that one leaves idle")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    return parser.parse_args()


def side_by_side(given: argparse.Namespace) -> None:
    """Run this program several times, all at the same time, each on the next cell that nobody makes."""
    alone_each = {**os.environ, "OMP_NUM_THREADS": "1"}  # each would take all cores, which the others have
    words = [sys.executable, *sys.argv]
    started = [
        subprocess.Popen([*words, "--process", str(number)], env=alone_each) for number in range(given.processes)
    ]
    if failed := [number for number, process in enumerate(started) if process.wait()]:
        sys.exit(f"process {', '.join(map(str, failed))} ended with an error; the same call goes on")


def main() -> None:
    """Make the figures that are not there, and print all as a table."""
    given = parse()
    if given.processes > 1 and given.process is None:
        side_by_side(given)
    for cell in cells(given):
        with suppress(Busy):  # another process is at it
            make(cell, given)
    if given.process is None:
        for line in table(given):
            print(line, flush=True)


if __name__ == "__main__":
    main()
