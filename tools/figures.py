"""Make the figures of a base by several processes on one GPU: `python tools/figures.py INIT TASKS --out study`.

The cells of `gpt1 study labels` for nine tasks, in the order of `ROUNDS`; each process takes the next that nobody
makes, so name the longest tasks first. Given again, it goes on. On a machine with torch alone the arm `chosen` needs
scikit-learn. At the end, where all is installed: `gpt1 study labels` with the same counts, arms and seeds adds TF-IDF,
and tabulates.

Small networks leave most of a GPU idle: under CUDA's Multi-Process Service (`nvidia-cuda-mps-control -d`) nine
processes made 18 cells of 33 M parameters and 200 labels in 29 s on an H200, of which 8 were their start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpt1.base.errors import Busy
from gpt1.finetuning.data import Source
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.labels import study_labels

TASKS = ("sst2", "cola", "mrpc", "stsb", "qqp", "mnli", "qnli", "snli", "storycloze")
# What matters most comes first: a half-made study still has whole arms.
ROUNDS = (
    ("all", "pre-trained"),
    ("200", "pre-trained,chosen"),
    ("50,1000", "pre-trained"),
    ("50,1000", "chosen"),
    ("200", "scratch"),
    ("all", "scratch"),
    ("50,1000", "scratch"),
)

# Nobody goes on from a cell, so that nothing is saved between its beginning and its end.
SAVE_NOTHING = "logging.save_every=1000000"


def make_round(given: argparse.Namespace, counts: str, arms: str) -> None:
    """Make those of a round's cells that no other process makes, and tell how long that took."""
    began = time.monotonic()
    with suppress(Busy):  # others are at what is left
        study_labels(
            given.init,
            given.out,
            source=Source(tasks=given.tasks.split(","), data=str(given.data)),
            training=FinetuningSettings(changes=[SAVE_NOTHING, *given.changes], seeds=given.seeds, device=given.device),
            counts=["all" if count == "all" else int(count) for count in counts.split(",")],
            arms=arms.split(","),
            scratch_lr=given.scratch_lr if "scratch" in arms else None,
            part=(1, 1),  # the whole round, of which cells that others make are passed over
        )
    print(f"process {given.process}, {counts} labels, {arms}: {time.monotonic() - began:.0f} s", flush=True)


def side_by_side(commands: Sequence[Sequence[str]]) -> None:
    """Run this program once for each of several words, all at the same time; tell what went wrong."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # each would take all cores, which the others have
    started = [subprocess.Popen([sys.executable, *sys.argv, *words], env=alone) for words in commands]
    for words, process in zip(commands, started, strict=True):
        if process.wait():
            print(f"{' '.join(words)} ended with {process.returncode}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("init", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS), metavar="NAMES")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--scratch-lr", type=float, metavar="RATE")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--changes", nargs="*", default=[], metavar="NAME=VALUE", help="settings of fine-tuning")
    parser.add_argument("--arms", nargs="*", metavar="NAME", help="the rounds that make these alone")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    given = parser.parse_args()
    if given.process is None:
        side_by_side([["--process", str(number)] for number in range(1, given.processes + 1)])
        return
    for counts, arms in ROUNDS:
        if given.arms is None or set(given.arms) & set(arms.split(",")):
            make_round(given, counts, arms)


if __name__ == "__main__":
    main()
