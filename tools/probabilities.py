"""Measure what probabilities are worth: `python tools/probabilities.py sst2,cola --data TASKS --out figures`.

Of each task's rows for training some are drawn to learn from (`--rows`), 400 for dev, and others (`--test`) to answer.
Told are the expected calibration error without and with the temperature, and the accuracy with both. With `--deals` the
answers to the others are dealt so often into rows for dev and rows to come: of dev one half chooses and the other
proves that at most 5 % of the answers are wrong, and it is told how often that held of the rows to come, and how many
of them were answered. All deals are of one run. Runs that are there are not trained again.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import evaluate_run
from gpt1.inference.answering import answer
from gpt1.inference.run import Run, load_run
from gpt1.tasks.examples import Example
from gpt1.tasks.preparing import read_task
from gpt1.tasks.promises import find_promise, surenesses

DEV, RISK = 400, 0.05


def write_table(path: Path, rows: Sequence[Example]) -> None:
    """Write rows as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["text", "label"] if len(rows[0].texts) == 1 else ["sentence1", "sentence2", "label"])
        sheet.writerows([*row.texts, f"L{row.label}"] for row in rows)


def learned(folder: Path, init: str | None) -> Run:
    """Return the base that has learned a folder's tables."""
    run = folder / "run"
    finetune(init, run, train=folder / "train.csv", dev=folder / "dev.csv", resume=True)
    return load_run(run)


def calibration(run: Run, table: Path) -> str:
    """Return how sure and how right the answers to a table are."""
    (found,) = evaluate_run(run, table=table, overwrite=True)
    assert found.calibration is not None
    assert found.tempered is not None
    assert found.words is not None
    return (
        f"{found.examples:,} rows: accuracy {100 * found.metrics['accuracy']:.1f}, counted words "
        f"{100 * found.words['accuracy']:.1f}; ECE without the temperature {found.tempered.ece_before:.3f}, with it "
        f"({found.tempered.temperature:.2f}) {found.calibration.ece:.3f}"
    )


def deals(run: Run, rows: Sequence[Example], count: int, dev: int) -> str:
    """Return how often a promise held, of so many deals of rows."""
    (task,) = run.tasks.values()
    answered = answer(run, task, rows)
    right = np.array([task.labels.index(f"L{row.label}") for row in rows]) == answered.answers
    shares, wrong = [], []
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(rows))
        chose, proved, others = np.split(order, [dev // 2, dev])
        promise = find_promise(*(surenesses(answered.sure[some], right[some]) for some in (chose, proved)), RISK)
        if promise is not None:
            given = others[answered.sure[others] >= promise.threshold]
            shares.append(len(given) / len(others))
            wrong.append(float((~right[given]).mean()))
    broken = int((np.array(wrong) > RISK).sum())
    return (
        f"{count} deals, {dev:,} rows for dev: {broken} broken (the worst {100 * max(wrong, default=0):.1f} % wrong), "
        f"{count - len(wrong)} refused; the others answer {100 * np.median(shares or [0]):.0f} % (median)"
    )


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", help="of the catalogue, parted by commas, with labels: sst2,cola,snli")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the tasks")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--init", help="the base  [that of the package]")
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--test", type=int, default=2_000)
    parser.add_argument("--deals", type=int, default=0)
    parser.add_argument("--deal-dev", type=int, default=2_000, help="rows for dev of each deal")
    given = parser.parse_args()
    for name in given.tasks.split(","):
        rows = list(read_task(name, data=str(given.data)).splits["train"])
        random.Random(0).shuffle(rows)
        folder = given.out / f"{name}-{given.rows}"
        folder.mkdir(parents=True, exist_ok=True)
        bounds = np.cumsum([0, given.rows, DEV, given.test])
        if bounds[-1] > len(rows):
            raise SystemExit(f"{name} has {len(rows):,} rows for training; this takes {bounds[-1]:,}")
        for place, split in enumerate(("train", "dev", "test")):
            write_table(folder / f"{split}.csv", rows[bounds[place] : bounds[place + 1]])
        run = learned(folder, given.init)
        print(f"{name}: {calibration(run, folder / 'test.csv')}", flush=True)
        if given.deals:
            told = deals(run, rows[bounds[2] : bounds[3]], given.deals, given.deal_dev)
            print(f"{name}: {told}", flush=True)


if __name__ == "__main__":
    main()
