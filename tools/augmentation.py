"""Does augmentation help? Made by several processes on one GPU: `python tools/augmentation.py INIT TASKS --out study`.

The cells of `gpt1 study augmentation` for CoLA, MRPC and Story Cloze, from 200 and 1,000 labels, five draws; each
process takes the next that nobody makes. Given again, it goes on. Where torch alone is installed that is all it does:
bring the folder to where gpt1 is, and the same with `--tabulate` writes the tables and tells what helps and what hurts.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from pathlib import Path

from figures import SAVE_NOTHING, side_by_side  # tools/figures.py

from gpt1.base.errors import Busy
from gpt1.base.parts import Part
from gpt1.documents.study import study_blocks
from gpt1.documents.terminal import render
from gpt1.finetuning.data import Source
from gpt1.records.study import StudyRecord
from gpt1.studies.augmentation import study_augmentation
from gpt1.studies.finetuned import FinetuningSettings

TASKS, COUNTS = ("cola", "mrpc", "storycloze"), (200, 1000)  # few labels first: a half-made study has whole arms


def make(given: argparse.Namespace, counts: list[int], part: Part | None) -> StudyRecord:
    """Make the cells of these counts: of a part those that nobody else makes; without one all that are left."""
    return study_augmentation(
        given.init,
        given.out,
        source=Source(tasks=given.tasks.split(","), data=str(given.data)),
        training=FinetuningSettings(changes=[SAVE_NOTHING, *given.changes], seeds=given.seeds, device=given.device),
        counts=counts,
        synonyms=given.synonyms,
        part=part,
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("init", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS), metavar="NAMES")
    parser.add_argument("--counts", type=int, nargs="*", default=COUNTS, metavar="N")
    parser.add_argument("--synonyms", type=Path, metavar="FILE")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--changes", nargs="*", default=[], metavar="NAME=VALUE", help="settings of fine-tuning")
    parser.add_argument("--tabulate", action="store_true", help="write and print the tables")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    given = parser.parse_args()
    if given.tabulate:
        print(render(study_blocks(make(given, [*given.counts], None)), width=120, is_terminal=False))
    elif given.process is None:
        side_by_side([["--process", str(number)] for number in range(1, given.processes + 1)])
    else:
        for count in given.counts:
            began = time.monotonic()
            with suppress(Busy):  # others are at what is left
                make(given, [count], (1, 1))
            print(f"process {given.process}, {count} labels: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
