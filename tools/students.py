"""Measure what small networks keep of a large one: `python tools/students.py TASKS --corpus CORPUS --out students`.

A student base of a tenth of the parameters is pre-trained on a corpus, once alone and once taught by the base; the
base itself goes on reading it, once with LayerDrop and once without, and loses half of its layers then, which more
reading brings back. Each of them is fine-tuned on rows of each task, students that have a teacher by the fine-tuned
base, on further rows without their labels too; counted words learn the same rows. The table tells what each reaches on
rows of none of them, medians over seeds, how much of the base's gain over counted words that is, and how fast it
answers on two cores.

The corpus is prepared with the base's vocabulary: `gpt1 prepare BOOKS --tokenizer small --out CORPUS`. What is there is
not made again, so that the same call goes on; with `--processes` several make it side by side, each the next that
nobody makes. `--rehearse` makes all of it of a few updates and rows, whose figures mean nothing.
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
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch

from gpt1.base.errors import Busy, InputError
from gpt1.base.files import read_json, write_json
from gpt1.base.stages import alone
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning.data import Source
from gpt1.finetuning.distill import distill_task
from gpt1.finetuning.finetune import finetune
from gpt1.inference.answering import answer, task_of
from gpt1.inference.run import Run, load_run
from gpt1.model.costs import count_parameters
from gpt1.pretraining.distill import distill_text
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.pruning.prune import prune
from gpt1.recipes.derived import recipe_for_text
from gpt1.runs.folder import is_run, read_run, run_folder
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.metrics import scores
from gpt1.tasks.preparing import read_task
from gpt1.tasks.shapes import BOTH

Figures = dict[str, float]
TASKS = ("sst2", "cola", "mrpc", "qnli", "snli")
# A tenth of the base `small`: 3.3 M parameters, of which two thirds are the vectors of 16,256 tokens.
STUDENT = ("shape.layers=6", "shape.width=128", "shape.heads=4", "shape.feed_forward=512")
AGAIN = ("optimizer.lr=1e-3", "optimizer.matrix_lr=0.007")  # of a base that goes on reading: a third of the recipe's
LAYER_DROP = 0.2
NETWORK_ALONE = ("finetuning.ensemble=false", "finetuning.calibrate=false", "logging.save_every=1000000")
WHOLE, WORDS = "whole", "words"


@dataclass(frozen=True)
class Arm:
    """How a network comes to a task."""

    base: str | None  # that it starts from; None: that of the call
    is_taught: bool = False  # by the whole one, which has learned the same rows
    is_halved: bool = False  # it learns the task with LayerDrop, loses half of its layers, and learns again


# A base that goes on reading loses what its special tokens have learned of lessons: what is pruned after that is to be
# held against the whole one that read as long.
ARMS = {
    WHOLE: Arm(None),
    "whole, read on": Arm("kept"),
    "whole, read on with LayerDrop": Arm("dropped"),
    "half, read on": Arm("half-kept"),
    "half, read on with LayerDrop": Arm("half"),
    "half of the task's, taught": Arm(None, is_taught=True, is_halved=True),
    "student alone": Arm("student"),
    "student taught": Arm("student-taught", is_taught=True),
}
REHEARSED = {"steps": 2, "again": 2, "updates": 2, "labels": 24, "texts": 8, "test": 16, "seeds": 1, "batch": 2}
FIGURES, SETTINGS, SPEED = "figures.json", "settings.json", "speed"
NOT_OF_A_CELL = ("data", "corpus", "out", "tasks", "seeds", "processes", "process", "stage", "device", "rehearse")
ANSWERED = 200  # rows, to see how fast they are
ROUNDS = 3


# ---- bases ----


def for_text(given: argparse.Namespace, steps: int, *more: str) -> dict[str, object]:
    """Return how a base is trained on the corpus."""
    batch = [] if given.batch is None else [f"training.batch={given.batch}"]
    found = [f"training.steps={steps}", "logging.sample_every=none", "logging.keep_weights=none", *batch]
    recipe = recipe_for_text(read_run(run_folder(given.init)).recipe.shape).name
    return {"recipe": recipe, "changes": [*found, *more], "device": given.device, "resume": True}


def student_base(given: argparse.Namespace, folder: Path, *, taught: bool) -> Figures:
    """Make a base of a tenth, with the base as its teacher or without."""
    context = read_run(run_folder(given.init)).recipe.shape.context
    how = for_text(given, given.steps, *given.student, f"shape.context={context}")
    if taught:
        run = distill_text([given.init], given.corpus, folder / "run", **how)  # type: ignore[arg-type]
    else:
        run = pretrain(corpus=given.corpus, out=folder / "run", **how)  # type: ignore[arg-type]
    return measure_corpus(run, given.corpus)


def base_again(given: argparse.Namespace, folder: Path, *, layer_drop: float) -> Figures:
    """Let the base go on reading."""
    how = for_text(given, given.again, *AGAIN, f"shape.layer_drop={layer_drop}")
    run = pretrain(corpus=given.corpus, out=folder / "run", init=given.init, **how)  # type: ignore[arg-type]
    return measure_corpus(run, given.corpus)


def half_base(given: argparse.Namespace, folder: Path, *, of: str) -> Figures:
    """Leave out half of the layers of a base that went on reading, and let what is left read for a while."""
    whole, pruned = given.out / f"base-{of}" / "run", folder / "pruned"
    if not is_run(pruned):
        layers = read_run(whole).recipe.shape.layers
        prune(whole, pruned, layers=max(1, layers // 2), corpus=given.corpus, device=given.device, tell=print)
    how = for_text(given, given.again, *AGAIN)
    run = pretrain(corpus=given.corpus, out=folder / "run", init=pruned, **how)  # type: ignore[arg-type]
    before = measure_corpus(load_run(pruned, device=given.device), given.corpus)["valid_loss"]
    return {**measure_corpus(run, given.corpus), "loss_before_reading": before}


# ---- tasks ----


def drawn(name: str, given: argparse.Namespace, seed: int) -> tuple[Task, dict[str, list[Example]]]:
    """Return rows of a task in an order that the seed says: some with labels, others without, and those to judge by."""
    labelled = read_task(name, data=str(given.data))
    rows = list(labelled.splits["train"])
    random.Random(seed).shuffle(rows)
    if len(rows) < given.labels + given.test + 1:
        raise InputError(f"{name} has {len(rows):,} rows, and {given.labels + given.test + 1:,} are wanted")
    end = min(given.labels + given.texts, len(rows) - given.test)
    parts = {"known": rows[: given.labels], "texts": rows[given.labels : end], "test": rows[-given.test :]}
    return labelled.task, parts


def write_table(path: Path, task: Task, rows: Sequence[Example], *, labels: bool) -> None:
    """Write rows as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        fields = ["text"] if len(task.fields) == 1 else ["sentence1", "sentence2"]
        sheet.writerow([*fields, *(["label"] if labels else [])])
        sheet.writerows([*row.texts, *([f"L{row.label}"] if labels else [])] for row in rows)


def learned(name: str, arm: str, seed: int, given: argparse.Namespace, folder: Path) -> Figures:
    """Return what one arm reaches on a task."""
    task, rows = drawn(name, given, seed)
    known, test = rows["known"], rows["test"]
    if arm == WORDS:
        from gpt1.linear.words import answer_by_words

        return judged(task, test, answer_by_words(task, known, test))
    write_table(folder / "known.csv", task, known, labels=True)
    write_table(folder / "texts.csv", task, rows["texts"], labels=False)
    how = ARMS[arm]
    init = given.init if how.base is None else given.out / f"base-{how.base}" / "run"
    updates = [] if given.updates is None else [f"training.steps={given.updates}"]
    changes = [*NETWORK_ALONE, f"training.seed={seed}", *updates, *given.changes]
    source = Source(train=folder / "known.csv", symmetric=task.shape == BOTH)
    own = {"changes": changes, "device": given.device, "resume": True}
    if how.is_halved:
        init = half_of_the_tasks(init, source, own, folder)
    if how.is_taught:
        teacher, texts = cell_folder(given, name, WHOLE, seed) / "run", folder / "texts.csv"
        run = distill_task([teacher], init, folder / "run", source=source, texts=texts, **own)  # type: ignore[arg-type]
    else:
        run = learn(init, folder / "run", source, own)
    return judged(task, test, answer(run, task_of(run), test).answers)


def learn(init: str | Path, out: Path, source: Source, own: dict[str, object]) -> Run:
    """Return a network that has learned a task without a teacher."""
    return finetune(init, out, train=source.train, symmetric=source.symmetric, **own)  # type: ignore[arg-type]


def half_of_the_tasks(init: str | Path, source: Source, own: dict[str, object], folder: Path) -> Path:
    """Return a network that has learned a task with LayerDrop, without half of its layers."""
    dropping = {**own, "changes": [*cast(list[str], own["changes"]), f"shape.layer_drop={LAYER_DROP}"]}
    whole, pruned = learn(init, folder / "whole", source, dropping), folder / "pruned"
    if not is_run(pruned):
        layers = max(1, whole.recipe.shape.layers // 2)
        prune(whole.path, pruned, layers=layers, device=str(whole.device))
    return pruned


def judged(task: Task, test: Sequence[Example], answers: np.ndarray) -> Figures:
    """Return the score of answers by the task's first metric."""
    labels = np.array([row.label for row in test])
    return {"score": scores(task, labels, answers)[task.metrics[0]]}


def speeds(given: argparse.Namespace) -> dict[str, Figures]:
    """Return for each arm its size, and how many rows a second two cores answer, in int8 too."""
    torch.set_num_threads(2)
    (name, *_), found = given.tasks, {}
    _, rows = drawn(name, given, 0)
    for arm in ARMS:
        folder = cell_folder(given, name, arm, 0) / "run"
        run = load_run(folder, device="cpu")
        with tempfile.TemporaryDirectory() as compact:
            export_compact(run, Path(compact) / "run")
            size = sum(file.stat().st_size for file in Path(compact).rglob("model.safetensors"))
        found[arm] = {
            "parameters": count_parameters(run.recipe.shape, run.record.vocab_size).total,
            "megabytes": size / 1e6,
            "rows_per_second": rate(run, rows["test"][:ANSWERED]),
            "rows_per_second_int8": rate(load_run(folder, device="cpu", int8=True), rows["test"][:ANSWERED]),
        }
    return found


def rate(run: Run, rows: Sequence[Example]) -> float:
    """Return how many rows a second are answered, in the fastest of some rounds."""
    task, times = task_of(run), []
    for _ in range(ROUNDS + 1):  # of which the first warms up
        began = time.perf_counter()
        answer(run, task, rows)
        times.append(time.perf_counter() - began)
    return len(rows) / min(times[1:])


# ---- cells ----


@dataclass(frozen=True)
class Cell:
    """What is made at once; cells of a stage need what those of the stages before have made."""

    stage: int
    folder: Path
    make: Callable[[Path], Figures]


def cell_folder(given: argparse.Namespace, name: str, arm: str, seed: int) -> Path:
    """Return where an arm of a task lies."""
    return Path(given.out / "-".join([name, *re.findall(r"\w+", arm), str(seed)]))


def cells(given: argparse.Namespace) -> Iterator[Cell]:
    """Yield all cells, in the order in which they are made."""
    bases: dict[str, tuple[int, Callable[[argparse.Namespace, Path], Figures]]] = {
        "student-taught": (0, partial(student_base, taught=True)),
        "student": (0, partial(student_base, taught=False)),
        "dropped": (0, partial(base_again, layer_drop=LAYER_DROP)),
        "kept": (0, partial(base_again, layer_drop=0.0)),
        "half": (1, partial(half_base, of="dropped")),
        "half-kept": (1, partial(half_base, of="kept")),
    }
    for name, (stage, make_base) in bases.items():
        yield Cell(stage, given.out / f"base-{name}", partial(make_base, given))
    for seed in range(given.seeds):
        for task in given.tasks:
            for arm in (*ARMS, WORDS):
                stage = 3 if arm != WORDS and ARMS[arm].is_taught else 2
                make_cell = partial(learned, task, arm, seed, given)
                yield Cell(stage, cell_folder(given, task, arm, seed), make_cell)


def make(cell: Cell) -> None:
    """Make the figures of a cell where they are not there yet, and tell how long that took."""
    if (cell.folder / FIGURES).exists():
        return
    cell.folder.mkdir(parents=True, exist_ok=True)
    with alone(cell.folder):
        if not (cell.folder / FIGURES).exists():
            began = time.monotonic()
            write_json(cell.folder / FIGURES, cell.make(cell.folder))
            print(f"{cell.folder.name}: {time.monotonic() - began:.0f} s", flush=True)


def side_by_side(given: argparse.Namespace, stage: int) -> None:
    """Run this program several times, all at the same time, each on the next cell of a stage that nobody makes."""
    alone_each = {**os.environ, "OMP_NUM_THREADS": "1"}  # each would take all cores, which the others have
    words = [sys.executable, *sys.argv, "--stage", str(stage)]
    started = [
        subprocess.Popen([*words, "--process", str(number)], env=alone_each) for number in range(given.processes)
    ]
    if failed := [number for number, process in enumerate(started) if process.wait()]:
        sys.exit(f"process {', '.join(map(str, failed))} ended with an error; the same call goes on")


def check_settings(given: argparse.Namespace) -> None:
    """Refuse a folder whose figures were made otherwise."""
    settings = {name: str(value) for name, value in vars(given).items() if name not in NOT_OF_A_CELL}
    given.out.mkdir(parents=True, exist_ok=True)
    if not (given.out / SETTINGS).exists():
        write_json(given.out / SETTINGS, settings)
    elif read_json(given.out / SETTINGS, "settings") != settings:
        raise InputError(f"{given.out} was made with other settings ({SETTINGS} has them); give another --out")


# ---- the table ----


def table(given: argparse.Namespace, speed: dict[str, Figures]) -> list[str]:
    """Return the table: a row for each arm, medians over seeds."""
    found = {
        (task, arm): statistics.median(
            read_json(cell_folder(given, task, arm, seed) / FIGURES, "figures")["score"] for seed in range(given.seeds)
        )
        for task in given.tasks
        for arm in (*ARMS, WORDS)
    }
    heads = ["", "parameters", "MB in bytes", "rows a second", "in int8", *given.tasks, "of the gain over words"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for arm in (*ARMS, WORDS):
        own = speed.get(arm)
        size = [f"{own['parameters'] / 1e6:.1f} M", f"{own['megabytes']:.1f}"] if own else ["", ""]
        fast = [f"{own['rows_per_second']:.0f}", f"{own['rows_per_second_int8']:.0f}"] if own else ["", ""]
        points = [f"{100 * found[task, arm]:.1f}" for task in given.tasks]
        lines.append(f"| {' | '.join([arm, *size, *fast, *points, share_kept(given, found, arm)])} |")
    return lines


def share_kept(given: argparse.Namespace, found: dict[tuple[str, str], float], arm: str) -> str:
    """Return how much of what the whole network has gained over counted words an arm keeps, over all tasks."""
    whole, own = (sum(found[task, one] - found[task, WORDS] for task in given.tasks) for one in (WHOLE, arm))
    return "" if whole <= 0 else f"{own / whole:.0%}"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the tasks")
    parser.add_argument("--corpus", type=Path, required=True, help="prepared with the base's vocabulary")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--init", default="small", help="the base")
    parser.add_argument("--tasks", default=",".join(TASKS), type=lambda text: text.split(","), help="of classes")
    parser.add_argument("--student", nargs="*", default=list(STUDENT), metavar="NAME=VALUE", help="its shape")
    parser.add_argument("--steps", type=int, default=10_000, help="updates of a student base")
    parser.add_argument("--again", type=int, default=1_000, help="updates of a base that goes on reading")
    parser.add_argument("--batch", type=int, help="windows an update, of text")
    parser.add_argument("--updates", type=int, help="of a fine-tuning; as the recipe says")
    parser.add_argument("--changes", nargs="*", default=[], metavar="NAME=VALUE", help="settings of fine-tuning")
    parser.add_argument("--labels", type=int, default=1_000, help="rows to learn from")
    parser.add_argument("--texts", type=int, default=4_000, help="rows that a teacher alone answers")
    parser.add_argument("--test", type=int, default=1_000, help="rows to judge by")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rehearse", action="store_true", help="few updates, few rows, one seed")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    parser.add_argument("--stage", type=int, metavar="N", help="this one alone")
    given = parser.parse_args()
    if given.rehearse:
        vars(given).update(REHEARSED)
    return given


def main() -> None:
    """Make the figures that are not there, and print the table."""
    given = parse()
    check_settings(given)
    for stage in range(4) if given.stage is None else (given.stage,):
        if given.processes > 1 and given.process is None:
            side_by_side(given, stage)
        for cell in cells(given):
            if cell.stage == stage:
                with suppress(Busy):  # another process is at it
                    make(cell)
    if given.process is None and given.stage is None:
        if not (given.out / f"{SPEED}.json").exists():
            write_json(given.out / f"{SPEED}.json", speeds(given))
        print("\n".join(table(given, read_json(given.out / f"{SPEED}.json", SPEED))))


if __name__ == "__main__":
    main()
