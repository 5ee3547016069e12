"""Measure what `gpt1 labels` is worth on real tasks: `python tools/suspects.py TASKS --out figures [--rows 600]`.

Of each task some rows are drawn. For `suspect` a tenth of their labels is flipped, the base learns them, and it is
measured how well the flipped ones are found: for the run (as it answers), its network alone and counted words alone the
average precision of the ranking, the precision at each tenth that is found, precision and recall of the flags; for the
labels' shares, which know nothing of a text, the average precision. For `next` a run learns a few rows and asks for
more, in rounds; after each it is measured on other rows what it has gained, and what as many gain that are drawn at
random. `--words` has counted words learn and answer, which takes seconds. Figures that are there are not made again, so
that the same call goes on; with `--processes` several make them side by side, each the next that nobody makes.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import Busy, InputError
from gpt1.base.files import read_json, write_json
from gpt1.base.stages import alone
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run
from gpt1.inference.answering import temperature_of
from gpt1.inference.run import Run, load_run
from gpt1.labelling.choosing import next_labels
from gpt1.labelling.confident import find_doubts
from gpt1.labelling.cross_validating import answers_of_others
from gpt1.linear.ensemble import choose_members, pool
from gpt1.linear.words import answer_by_words
from gpt1.records.ensemble import NETWORK, WORDS
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.preparing import read_task
from gpt1.tasks.temperature import tempered

Figures = dict[str, float]
Labels = NDArray[np.int64]
FLIPPED = 0.1
RANDOM, ASKED = "random", "asked"
SHARES = "label shares"  # who knows nothing of the texts: of skewed labels the rare ones are oftener wrong
FIGURES, SETTINGS = "figures.json", "settings.json"
NOT_OF_A_CELL = ("tasks", "data", "out", "kinds", "seeds", "processes", "process", "device")


def average_precision(is_flipped: NDArray[np.bool_]) -> float:
    """Return the mean precision at the places of flipped rows, which are in the order of the ranking."""
    hits = np.flatnonzero(is_flipped)
    return float(np.mean(np.arange(1, len(hits) + 1) / (hits + 1)))


def curve(is_flipped: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return the precision at which each tenth of the flipped rows, which are in the order of the ranking, is found."""
    hits = np.flatnonzero(is_flipped)
    counts = [math.ceil(len(hits) * tenth / 10) for tenth in range(1, 11)]
    return [(tenth / 10, float(count / (hits[count - 1] + 1))) for tenth, count in enumerate(counts, 1)]


def draw(task: str, given: argparse.Namespace, seed: int) -> tuple[Task, list[Example], random.Random]:
    """Return the rows of a task in an order that the seed says."""
    labelled = read_task(task, data=str(given.data))
    rows, dice = list(labelled.splits["train"]), random.Random(seed)
    dice.shuffle(rows)
    return labelled.task, rows, dice


def write_table(path: Path, task: Task, rows: Sequence[Example], labels: Sequence[int] | None) -> None:
    """Write rows as a table; without labels the column is not there."""
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        fields = ("text",) if len(task.fields) == 1 else ("sentence1", "sentence2")
        sheet.writerow([*fields, *([] if labels is None else ["label"])])
        for place, row in enumerate(rows):
            sheet.writerow([*row.texts, *([] if labels is None else [f"L{labels[place]}"])])


def labels_of(rows: Sequence[Example]) -> list[int]:
    """Return the labels of rows, each the place of a class."""
    return [row.label for row in rows if isinstance(row.label, int)]


def learn(out: Path, table: Path, given: argparse.Namespace) -> Run:
    """Return the base that has learned a table; who answers is decided by its rows for dev."""
    changes = ["finetuning.folds=0", *given.changes]
    return finetune(given.init, out, train=table, changes=changes, resume=True, device=given.device)


def suspects(name: str, seed: int, given: argparse.Namespace, folder: Path) -> Figures:
    """Return how well flipped labels are found."""
    task, rows, dice = draw(name, given, seed)
    rows = rows[: given.rows]
    labels = np.array([row.label for row in rows], np.int64)
    places = dice.sample(range(len(rows)), round(FLIPPED * len(rows)))
    flipped = np.isin(np.arange(len(rows)), places)
    labels[places] = [(labels[place] + dice.randrange(1, len(task.labels))) % len(task.labels) for place in places]
    write_table(folder / "rows.csv", task, rows, labels.tolist())
    own = replace(task, name="rows", labels=tuple(f"L{place}" for place in range(len(task.labels))))
    found: Figures = {}
    run = None if given.words else learn(folder / "run", folder / "rows.csv", given)
    if run is not None:
        own = replace(run.tasks["rows"], dev_splits=(), test_splits=())
        given_rows = [replace(row, label=int(label)) for row, label in zip(rows, labels, strict=True)]
        encoded = encode_task(own, {"train": given_rows}, run.tokenizer, run.recipe.shape.context)
        members = answers_of_others(run, encoded, (NETWORK, WORDS), folder / "workings", print, [])
        weights = choose_members(own, members, labels).weights  # as cross-validation chooses, without a second one
        answers = {"run": tempered(own, pool(own, members, weights), temperature_of(run, own)), **members}
    else:
        answers = {WORDS: _by_words(own, rows, labels)}
    of_labels = np.tile(np.bincount(labels, minlength=len(task.labels)) / len(labels), (len(labels), 1))
    found[f"average precision, {SHARES}"] = average_precision(flipped[find_doubts(of_labels, labels).order])
    for who, shares in answers.items():
        doubts = find_doubts(shares, labels)
        found[f"average precision, {who}"] = average_precision(flipped[doubts.order])
        found[f"precision of flags, {who}"] = float(flipped[doubts.flagged].mean()) if doubts.flagged.any() else 0.0
        found[f"recall of flags, {who}"] = float(doubts.flagged[flipped].mean())
        found[f"agrees with the labels, {who}"] = float((shares.argmax(1) == labels).mean())
        found |= {
            f"precision where {share:.0%} are found, {who}": value for share, value in curve(flipped[doubts.order])
        }
    return found


def _by_words(task: Task, rows: Sequence[Example], labels: Labels) -> Floats:
    """Return what counted words answer to rows, having learned two thirds without them."""
    from gpt1.linear.words import learn_words

    found, parts = np.zeros((len(rows), len(task.labels))), np.arange(len(rows)) % 3
    for part in range(3):
        inside = parts == part
        texts = [[rows[place].texts for place in np.flatnonzero(which).tolist()] for which in (~inside, inside)]
        found[inside] = learn_words(task, texts[0], labels[~inside]).probabilities(texts[1])
    return found


def next_rows(name: str, seed: int, given: argparse.Namespace, folder: Path) -> Figures:
    """Return the accuracy on other rows as more are labelled, those asked for or random ones."""
    task, rows, dice = draw(name, given, seed)
    if len(rows) < (wanted := given.start + given.pool + given.test):
        raise InputError(f"{name} has {len(rows):,} rows, and {wanted:,} are wanted: give a smaller --pool or --test")
    if given.pool < given.count * given.rounds:
        raise InputError(f"a pool of {given.pool:,} rows is too small for {given.rounds} times {given.count:,}")
    pool, test = rows[given.start : given.start + given.pool], rows[-given.test :]
    at_random = dice.sample(range(len(pool)), given.count * given.rounds)
    found: Figures = {}
    for who in (RANDOM, ASKED):
        known, left = rows[: given.start], pool
        for turn in range(given.rounds + 1):
            own = folder / (f"{who}-{turn}" if turn else "first")  # which is the same for both
            found[f"accuracy with {len(known)} labels, {who}"] = _accuracy(task, known, test, given, own)
            if turn == given.rounds:
                break
            if who == RANDOM:
                chosen = [pool[place] for place in at_random[turn * given.count : (turn + 1) * given.count]]
            else:
                chosen = _asked_for(task, known, left, given, own)
                left = [row for row in left if not any(row is one for one in chosen)]
            known = [*known, *chosen]
    return found


def _asked_for(
    task: Task, known: Sequence[Example], pool: Sequence[Example], given: argparse.Namespace, folder: Path
) -> list[Example]:
    """Return the rows of a pool that a run asks for which has learned those that are known."""
    if given.words:
        places = _unsure_by_words(task, known, pool, given.count)
    else:
        write_table(folder / "pool.csv", task, pool, None)
        run = load_run(folder / "run", device=given.device)
        sheet = next_labels(run, folder / "pool.csv", folder / "next.csv", count=given.count, overwrite=True)
        places = [one.row - 2 for one in sheet]  # the header is row 1
    return [pool[place] for place in places]


def _unsure_by_words(task: Task, known: Sequence[Example], pool_rows: Sequence[Example], count: int) -> list[int]:
    """Return the rows that counted words are least sure of, alone: no draw, no differences."""
    from gpt1.linear.words import learn_words

    model = learn_words(task, [row.texts for row in known], np.array([row.label for row in known]))
    shares = np.sort(model.probabilities([row.texts for row in pool_rows]), 1)
    return [int(place) for place in np.argsort(shares[:, -1] - shares[:, -2], kind="stable")[:count]]


def _accuracy(
    task: Task, known: Sequence[Example], test: Sequence[Example], given: argparse.Namespace, folder: Path
) -> float:
    labels = labels_of(test)
    if given.words:
        return float(np.mean(answer_by_words(task, known, test) == np.array(labels)))
    folder.mkdir(exist_ok=True)
    write_table(folder / "known.csv", task, known, labels_of(known))
    write_table(folder / "test.csv", task, test, labels)
    learn(folder / "run", folder / "known.csv", given)
    run = load_run(folder / "run", device=given.device)
    (measured,) = evaluate_run(run, table=folder / "test.csv", overwrite=True)
    return measured.metrics["accuracy"]


KINDS: dict[str, Callable[[str, int, argparse.Namespace, Path], Figures]] = {"suspect": suspects, "next": next_rows}


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", help="of the catalogue, parted by commas, with labels: sst2,mrpc,cola")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tasks")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kinds", default="suspect,next")
    parser.add_argument("--init", help="the base  [that of the package]")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=600, help="suspect: how many are looked at")
    parser.add_argument("--start", type=int, default=100, help="next: rows that are labelled at first")
    parser.add_argument("--pool", type=int, default=2000, help="next: rows to choose from")
    parser.add_argument("--count", type=int, default=100, help="next: rows to choose in a round")
    parser.add_argument("--rounds", type=int, default=2, help="next: how often rows are chosen")
    parser.add_argument("--test", type=int, default=1000, help="next: rows to measure on")
    parser.add_argument("--words", action="store_true", help="counted words alone")
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device")
    parser.add_argument("--processes", type=int, default=1, help="side by side, on a GPU that one leaves idle")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    return parser.parse_args()


@dataclass(frozen=True)
class Cell:
    """A task, what is measured of it, and by which draw."""

    task: str
    kind: str
    seed: int

    def folder(self, given: argparse.Namespace) -> Path:
        """Return where it lies."""
        found: Path = given.out / f"{self.task}-{self.kind}-{self.seed}{'-words' if given.words else ''}"
        return found


def cells(given: argparse.Namespace) -> Iterator[Cell]:
    """Yield what was asked for: first one draw of everything, so that what is half made can be read."""
    for seed in range(given.seeds):
        for name in given.tasks.split(","):
            for kind in given.kinds.split(","):
                yield Cell(name, kind, seed)


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
            write_json(folder / FIGURES, KINDS[cell.kind](cell.task, cell.seed, given, folder))


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
    for cell in cells(given) if given.process is None else ():
        for what, value in read_json(cell.folder(given) / FIGURES, "figures").items():
            print(f"{cell.task}\t{cell.kind}\tseed {cell.seed}\t{what}\t{100 * value:.1f}", flush=True)


if __name__ == "__main__":
    main()
