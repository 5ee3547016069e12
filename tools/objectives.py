"""What looking both ways is worth, on real text: `python tools/objectives.py TEXT... --tasks TASKS --out OUT`.

From the texts a vocabulary of bytes and a corpus are made, and of that two networks of the recipe `small` (33 M
parameters) for as many updates: one reads from left to right, half of the other's batches are masked. Then come the
cells of `gpt1 study objectives`, and its page, `objectives.md`. Stages, with the seconds that each should take on an
H200 with 16 cores (reckoned: two times 134 M tokens at 1.4 M a second; 75 cells, 14 at a time):

    corpus 60    pretrain 260    study 130    page 15

What is there is not made again, so that the same call goes on after a kill, and `--stages` picks some; with `--minutes`
no cell is begun after so long. `--processes` make cells side by side, each the next that nobody makes, best under
CUDA's Multi-Process Service. Of large tasks some rows are left out (`MOST`). A machine with torch, numpy, safetensors
and tokenizers is enough. `--rehearse` makes all of it of a toy, in minutes on two cores. The last stage also packs the
study into parts of 15 MB (`home/`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from base import MERGES, Plain  # tools/base.py
from claims import Told, draw_rows, pack  # tools/claims.py
from figures import SAVE_NOTHING  # tools/figures.py

from gpt1 import prepare, train_tokenizer
from gpt1.base.errors import Busy, InputError, Interrupted
from gpt1.base.files import make_folder, whole_file
from gpt1.documents.markdown import render
from gpt1.documents.study import about_study, study_blocks
from gpt1.finetuning.data import Source
from gpt1.records.study import StudyRecord
from gpt1.studies.cells import Notebook
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.objectives import ToRead, study_objectives
from gpt1.tasks.catalog import CATALOGUE

STAGES = ("corpus", "pretrain", "study", "page")
TASKS = ("rte", "mrpc", "cola", "stsb", "sst2")
MOST = (6000, 2000)  # rows for training, for dev
UPDATES = 4096
STUDY, BASES, PAGE = "study", "bases", "objectives.md"


@dataclass(frozen=True)
class Sizes:
    """How much of everything is made."""

    merges: int = MERGES
    reading: Sequence[str] = (f"training.steps={UPDATES}", f"logging.evaluate_every={UPDATES // 4}")
    finetuning: Sequence[str] = ()
    most: tuple[int, int] = MOST
    seeds: int = 5


TOY_SHAPE = ("shape.layers=2", "shape.width=32", "shape.heads=2", "shape.feed_forward=64", "shape.context=64")
TOY = Sizes(
    merges=300,
    reading=(*TOY_SHAPE, "training.steps=8", "training.batch=4", "training.compile=false", "training.precision=fp32"),
    finetuning=("training.steps=3", "training.batch=4", "training.precision=fp32", "logging.log_every=1"),
    most=(24, 12),
    seeds=2,
)


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    texts: Sequence[str]
    tasks: Path
    names: Sequence[str]
    out: Path
    sizes: Sizes
    device: str | None
    until: float  # when nothing more is begun, by the monotonic clock


def make_texts(asked: Asked) -> None:
    """Make the vocabulary, the corpus and the rows, as far as they are not there."""
    out, tokenizer = asked.out, asked.out / "tokenizer.json"
    if missing := [name for name in asked.names if name not in CATALOGUE or not (asked.tasks / name).is_dir()]:
        raise InputError(f"{asked.tasks} has no folder of {', '.join(missing)}; --names says which tasks are learned")
    make_folder(out)
    if not tokenizer.exists():
        train_tokenizer(asked.texts, "bytes", asked.sizes.merges, tokenizer, unwrap=True, progress=Plain())
    made = prepare(asked.texts, tokenizer, out / "corpus", unwrap=True, duplicates="exact", progress=Plain())
    print(f"corpus: {made['splits']['train']['tokens']:,} tokens to learn from", flush=True)
    for name in asked.names:
        draw_rows(asked.tasks / name, out / "tasks" / name, asked.sizes.most)


def read_text(asked: Asked) -> None:
    """Pre-train both networks, or go on with them."""
    changes = [*asked.sizes.reading, "logging.keep_weights=none", "logging.sample_every=none"]
    watcher = Notebook(Told(asked.until, speaks=True))
    ToRead(asked.out / "corpus", changes=changes).make(asked.out / BASES, asked.device, watcher)


def studied(asked: Asked, watcher: Told, *, beside: bool) -> StudyRecord:
    """Make those cells that nobody makes; or, not `beside` others, all that are missing, and tell what is done."""
    changes = [SAVE_NOTHING, *asked.sizes.finetuning]
    return study_objectives(
        (asked.out / BASES / "causal", asked.out / BASES / "mixed"),
        asked.out / STUDY,
        source=Source(tasks=asked.names, data=str(asked.out / "tasks")),
        training=FinetuningSettings(changes=changes, seeds=asked.sizes.seeds, device=asked.device),
        part=(1, 1) if beside else None,
        watcher=watcher,
    )


def show(asked: Asked) -> None:
    """Write the page of what is done, and pack it all."""
    found = studied(asked, Told(asked.until, speaks=True), beside=False)
    with whole_file(asked.out / STUDY / PAGE) as file:
        file.write(render([*about_study(found), *study_blocks(found)]).encode())
    pack(asked.out / STUDY, asked.out / "home")
    section = found.sections["objectives"]
    for arm, average in section["average"].items():
        print(f"{section['arms'][arm]}: {'-' if average is None else f'{100 * average:.1f}'}", flush=True)
    print(f"{found.cells.done:,} of {found.cells.planned:,} cells; the page is {asked.out / STUDY / PAGE}", flush=True)


def side_by_side(asked: Asked, processes: int) -> None:
    """Run this program several times at once, each on the next cell that nobody makes; end where one went wrong."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # each would take all cores, which the others have
    left = max(0.0, (asked.until - time.monotonic()) / 60)
    words = [sys.executable, *sys.argv, "--minutes", f"{left:.3f}"]
    started = [subprocess.Popen([*words, "--process", str(number)], env=alone) for number in range(1, processes + 1)]
    if failed := [number for number, process in enumerate(started, 1) if process.wait()]:
        sys.exit(f"process {', '.join(map(str, failed))} ended with an error; the same call goes on")


def main() -> None:
    """Read the command line, and do the stages in their order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="for the stage corpus")
    parser.add_argument("--tasks", type=Path, required=True, help="a folder with tasks, each in one of its name")
    parser.add_argument("--names", default=",".join(TASKS), metavar="TASKS", help="which of them")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stages", default=",".join(STAGES), metavar="NAMES")
    parser.add_argument("--processes", type=int, default=14, help="that make cells side by side")
    parser.add_argument("--minutes", type=float, default=1e6, metavar="M", help="begin no cell after so long")
    parser.add_argument("--seeds", type=int, help="of each fine-tuning  [5]")
    parser.add_argument("--device")
    parser.add_argument("--rehearse", action="store_true", help="with a toy, in minutes on two cores")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    given = parser.parse_args()
    stages = given.stages.split(",")
    if unknown := [stage for stage in stages if stage not in STAGES]:
        parser.error(f"there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if "corpus" in stages and not given.texts:
        parser.error("name texts to read, or the stages after 'corpus': --stages pretrain,...")
    sizes = TOY if given.rehearse else Sizes()
    sizes = sizes if given.seeds is None else replace(sizes, seeds=given.seeds)
    until = time.monotonic() + 60 * given.minutes
    asked = Asked(given.texts, given.tasks, given.names.split(","), given.out, sizes, given.device, until)
    if given.process is not None:
        with suppress(Busy, Interrupted):  # others are at what is left; the time is up
            studied(asked, Told(until, speaks=given.process == 1), beside=True)
        return
    work = {
        "corpus": lambda: make_texts(asked),
        "pretrain": lambda: read_text(asked),
        "study": lambda: side_by_side(asked, given.processes),
        "page": lambda: show(asked),
    }
    for stage in (stage for stage in STAGES if stage in stages):
        began = time.monotonic()
        work[stage]()
        print(f"{stage}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
