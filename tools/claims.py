"""The paper's claims on real text at small scale: `python tools/claims.py TEXT... --tasks TASKS --out OUT`.

From the texts a vocabulary of bytes and a corpus are made, and the same with all sentences shuffled. Four networks read
them side by side: the paper's own design in small (`paper`) and its LSTM as long as each other, keeping their weights
after 10, 20, 40, ... updates; and the small one again, for a shorter time, on the text as it is and on that shuffled.
A tenth of the rows for training then chooses the learning rate of each arm. All else is the cells of `gpt1 reproduce`,
and the page is its `claims.md`. Stages, with the seconds that each should take on an H200 with 16 cores (reckoned):

    corpus 110    pretrain 450    rates 90    ablations 260    zeroshot 20    labels 100    transfer 110
    further 25    tables 45    race 300    page 60

What is there is not made again, so that the same call goes on after a kill, and `--stages` picks some; with `--minutes`
nothing but the page is begun after so long. `--processes` make cells side by side, each the next that nobody makes,
best under CUDA's Multi-Process Service; RACE, whose batches are large, comes last and by `LARGE_AT_ONCE` of them. Of
large tasks some rows are left out (`MOST`). A machine with torch, numpy, safetensors and tokenizers is enough.
`--rehearse` makes all of it of a toy, in minutes on two cores. The last stage also packs the study into parts of 15 MB
(`home/`).
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean

from base import MERGES, Plain, tell  # tools/base.py
from figures import SAVE_NOTHING  # tools/figures.py
from lessons import shuffled_rows, tenths  # tools/lessons.py

from gpt1 import prepare, pretrain, train_tokenizer
from gpt1.base.errors import Busy, InputError, Interrupted
from gpt1.base.files import make_folder, read_json, whole_file, write_json
from gpt1.corpus.documents import DocumentPart, find_sources, read_parts
from gpt1.finetuning.data import Source
from gpt1.records.study import StudyRecord
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.studies.ablations import study_ablations
from gpt1.studies.cells import Cell, CellResult, Nobody
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.paper import ABLATED, ARMS, FULL
from gpt1.studies.reproduce import PARTS, Scope, reproduce
from gpt1.tasks.catalog import CATALOGUE

SHARED = ("ablations", "zeroshot", "labels", "transfer", "further", "tables", "race")  # whose cells stand side by side
STAGES = ("corpus", "pretrain", "rates", *SHARED, "page")
RACE, LARGE_AT_ONCE = "race", 8  # processes: a batch of it takes some 15 GB
OF_RACE = ("zeroshot", "tables", "further", "transfer")
WIDTH, BLOCKS = "shape.width=512", ("shape.layers=8", "shape.heads=8", "shape.feed_forward=2048")
# A rate and a warm-up that fit networks of this size and so few updates; all else is the paper's.
PRETRAINING = ["optimizer.lr=5e-4", "schedule.warmup_steps=500", "schedule.warmup_share=0.1"]
PRETRAINING += ["logging.sample_every=none"]
COMPARED = (PAPER, LSTM) = ("paper", "lstm")  # the networks that are asked on the way
LONG, SHORT, FIRST_KEPT = 5120, 1536, 10  # updates; how many weights are kept after
RATES = (6.25e-5, 1.25e-4, 2.5e-4, 5e-4)
COUNTS = (500, 2500, 11500)  # labels
# Rows for training and for dev; of what is not named those of "".
MOST: dict[str, tuple[int | None, int]] = {"": (None, 2000), "sst2": (6000, 2000), RACE: (800, 600)}
STUDY, RATES_FILE = "study", "rates.json"
PART_BYTES = 15_000_000
SENTENCE = re.compile(r"(?<=[.!?])(?=\s)|(?<=[.!?][\"'”’)])(?=\s)")  # its end, before the blank

TOY_READING = ["shape.width=32", "shape.units=32", "shape.context=64"]
TOY_READING += ["training.batch=4", "training.compile=false", "training.precision=fp32"]
TOY_BLOCKS = ["shape.layers=2", "shape.heads=2", "shape.feed_forward=64"]
TOY_FINETUNING = ["training.steps=3", "training.batch=4", "training.precision=fp32", "logging.log_every=1"]


@dataclass(frozen=True)
class Sizes:
    """How much of everything is made."""

    reading: Sequence[str] = (WIDTH, *PRETRAINING)  # settings of pre-training
    blocks: Sequence[str] = BLOCKS  # of a network that has some
    merges: int = MERGES
    long: int = LONG
    short: int = SHORT
    first_kept: int = FIRST_KEPT
    finetuning: Sequence[str] = ()
    rates: Sequence[float] = RATES
    tried: tuple[int, int] = (3000, 1000)  # rows that a rate learns and is judged by
    counts: Sequence[int] = COUNTS
    seeds: int = 5
    most: Mapping[str, tuple[int | None, int]] = field(default_factory=lambda: MOST)


TOY = Sizes(
    reading=[*TOY_READING, *PRETRAINING],
    blocks=TOY_BLOCKS,
    merges=300,
    long=32,
    short=4,
    first_kept=2,
    finetuning=TOY_FINETUNING,
    rates=(1e-3, 2e-3),
    tried=(24, 12),
    counts=(8, 16),
    seeds=3,
    most={"": (24, 12)},
)


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    texts: Sequence[str]
    tasks: Path
    out: Path
    sizes: Sizes
    device: str | None
    until: float  # when nothing more is begun, by the monotonic clock

    @property
    def minutes_left(self) -> float | None:
        """How long something may still take; None: as long as it likes."""
        return None if self.until == float("inf") else max(0.0, (self.until - time.monotonic()) / 60)


class Told(Nobody):
    """Prints what a study says and does, and stops it before a cell when the time is up."""

    def __init__(self, until: float, *, speaks: bool) -> None:
        self.until, self.speaks = until, speaks

    def say(self, line: str) -> None:
        """Print one fact, of which one process tells."""
        if self.speaks:
            print(line, flush=True)

    def begun(self, cell: Cell) -> None:
        """Stop where nothing more is to be begun."""
        if time.monotonic() > self.until:
            raise KeyboardInterrupt

    def ended(self, cell: Cell, kept: CellResult) -> None:
        """Print what a cell gave."""
        print(f"{cell.title}: {100 * kept.result['score']:.1f} in {kept.seconds:.1f} s", flush=True)


# ---- text and rows ----


def make_texts(asked: Asked) -> None:
    """Make the vocabulary, both corpora, and the rows, as far as they are not there."""
    out, sizes = asked.out, asked.sizes
    make_folder(out)
    tokenizer = out / "tokenizer.json"
    if not tokenizer.exists():
        train_tokenizer(asked.texts, "bytes", sizes.merges, tokenizer, unwrap=True, progress=Plain())
    if not (out / "sentences" / "done").exists():
        shuffle_sentences(asked.texts, out / "sentences")
    for corpus, texts in (("corpus", asked.texts), ("shuffled-corpus", [str(out / "sentences" / "*.txt")])):
        made = prepare(texts, tokenizer, out / corpus, unwrap=corpus == "corpus", duplicates="exact", progress=Plain())
        print(f"{corpus}: {made['splits']['train']['tokens']:,} tokens to learn from", flush=True)
    names = [name for name in CATALOGUE if (asked.tasks / name).is_dir()]
    for name in names:
        draw_rows(asked.tasks / name, out / "tasks" / name, sizes.most.get(name, sizes.most[""]))
    train, judging = sizes.tried
    ablated = [name for name in ABLATED if name in names]
    tenths(asked.tasks, out / "tenths", ablated, most_train=train, most_judging=judging)


def shuffle_sentences(texts: Sequence[str], out: Path) -> None:
    """Write the documents of texts with each sentence in a place of any other, so that lines stay as long in number."""
    lines = [[SENTENCE.split(line) for line in document.splitlines()] for document in documents(texts)]
    sentences = [sentence for document in lines for line in document for sentence in line if sentence.strip()]
    Random(0).shuffle(sentences)
    at = iter(sentences)
    make_folder(out)
    for number, document in enumerate(lines):
        with whole_file(out / f"{number:05}.txt") as file:
            for line in document:
                own = [next(at).strip() for sentence in line if sentence.strip()]
                file.write((" ".join(own) + "\n").encode())
    (out / "done").touch()


def documents(texts: Sequence[str]) -> Iterator[str]:
    """Yield the documents of texts, unwrapped."""
    parts: list[str] = []
    for part in read_parts(find_sources(list(texts)).sources, unwrap=True):
        if not isinstance(part, DocumentPart):
            raise InputError(part.message)
        parts.append(part.text)
        if part.last:
            yield "".join(parts)
            parts.clear()


def draw_rows(task: Path, out: Path, most: tuple[int | None, int | None]) -> None:
    """Write the splits of a task, of those with more rows than that a draw."""
    make_folder(out)
    for split, rows in shuffled_rows(task):
        with whole_file(out / f"{split}.jsonl") as written:
            written.write("".join(rows[: most[0] if split == "train" else most[1]]).encode())


# ---- networks ----


def networks(sizes: Sizes) -> dict[str, tuple[str, str, int]]:
    """Return the recipe, the corpus and the updates of each network, by the folder that it is made in."""
    return {
        PAPER: ("paper", "corpus", sizes.long),
        LSTM: ("lstm", "corpus", sizes.long),
        "contiguous": ("paper", "corpus", sizes.short),
        "shuffled": ("paper", "shuffled-corpus", sizes.short),
    }


def read_text(asked: Asked, name: str) -> None:
    """Pre-train one network, or go on with it."""
    recipe, corpus, steps = networks(asked.sizes)[name]
    changes = [*asked.sizes.reading, *(asked.sizes.blocks if recipe == "paper" else ()), f"training.steps={steps}"]
    changes.append(f"logging.keep_weights={asked.sizes.first_kept if name in COMPARED else 'none'}")
    pretrain(
        recipe,
        asked.out / corpus,
        asked.out / name,
        resume=True,
        changes=changes,
        device=asked.device,
        minutes=asked.minutes_left,
        listeners=[tell],
    )


def has_read(asked: Asked, name: str) -> bool:
    """Whether a network has read all that it should."""
    last = [step for step, _ in list_checkpoints(asked.out / name)][-1:]
    return last == [networks(asked.sizes)[name][2]]


# ---- cells ----


def finetuning(asked: Asked, rate: float | None, seeds: int) -> FinetuningSettings:
    """Return how networks are fine-tuned, at one rate or that of the recipe."""
    changes = [SAVE_NOTHING, *asked.sizes.finetuning, *([] if rate is None else [f"optimizer.lr={rate!r}"])]
    return FinetuningSettings(changes=changes, seeds=seeds, device=asked.device)


def try_rates(asked: Asked, watcher: Told) -> None:
    """Make the cells by which the rate of each arm is chosen, those that nobody makes."""
    tasks = sorted(path.name for path in (asked.out / "tenths").iterdir())
    for rate in asked.sizes.rates:
        with suppress(Busy):
            study_ablations(
                asked.out / PAPER,
                asked.out / "rates" / f"{rate:g}",
                source=Source(tasks=tasks, data=str(asked.out / "tenths")),
                training=finetuning(asked, rate, seeds=1),
                lstm=asked.out / LSTM,
                part=(1, 1),
                watcher=watcher,
            )


def choose_rates(asked: Asked) -> bool:
    """Write the rate of each arm that has the highest mean over tasks, of equals the lower one, once all are tried."""
    found: dict[str, dict[float, list[float]]] = {}
    for rate in asked.sizes.rates:
        for path in (asked.out / "rates" / f"{rate:g}" / "cells").glob("*/cell.json"):
            cell = read_json(path, "a cell")
            arm, _, _ = cell["name"].rsplit("-", 2)
            found.setdefault(arm, {}).setdefault(rate, []).append(cell["result"]["score"])
    tasks = len(list((asked.out / "tenths").iterdir()))
    tried = [len(scores) for rates in found.values() for scores in rates.values()]
    if tried != [tasks] * (len(ARMS) * len(asked.sizes.rates)):
        return False
    for arm, rates in sorted(found.items()):
        means = ", ".join(f"{rate:g} {100 * fmean(scores):.2f}" for rate, scores in rates.items())
        print(f"rates of {arm}, means of {tasks} tasks on rows for training: {means}", flush=True)
    chosen = {arm: max(rates, key=lambda rate, of=rates: (fmean(of[rate]), -rate)) for arm, rates in found.items()}
    write_json(asked.out / RATES_FILE, chosen)
    return True


def reproduced(
    asked: Asked, parts: Sequence[str], watcher: Told, *, tasks: Sequence[str] | None = None, beside: bool = True
) -> StudyRecord:
    """Make those cells of parts that nobody makes; or, not `beside` others, tell what is done."""
    if not (asked.out / RATES_FILE).exists():
        raise InputError(f"{asked.out} has no rates yet: the stage 'rates' chooses them")
    rates = read_json(asked.out / RATES_FILE, "rates of arms")
    return reproduce(
        asked.out / PAPER,
        asked.out / STUDY,
        data=asked.out / "tasks",
        training=finetuning(asked, rates.pop(FULL), asked.sizes.seeds),
        lstm=asked.out / LSTM,
        rates=rates,
        counts=asked.sizes.counts,
        texts={name: asked.out / name for name in ("contiguous", "shuffled")},
        scope=Scope(parts, tasks, (1, 1) if beside else None),
        watcher=watcher,
    )


def make_cells(asked: Asked, stages: Sequence[str], number: int) -> None:
    """Make cells beside other processes, of which this is one, until all are done or the time is up."""
    watcher = Told(asked.until, speaks=number == 1)
    with suppress(Busy, Interrupted):  # others are at what is left; the time is up
        if "rates" in stages:
            try_rates(asked, watcher)
        parts = [stage for stage in stages if stage in PARTS]
        there = sorted(path.name for path in (asked.out / "tasks").iterdir())
        if parts:
            with suppress(Busy):
                reproduced(asked, parts, watcher, tasks=[name for name in there if name != RACE])
        if RACE in stages and RACE in there and number <= LARGE_AT_ONCE:
            reproduced(asked, OF_RACE, watcher, tasks=[RACE])


def pack(study: Path, home: Path) -> None:
    """Pack a study without its weights into parts that are small enough to be brought home."""
    make_folder(home)
    names = ("*.json", "*.csv", "*.md", "cells/*/cell.json", "cells/*/predictions-*", "cells/*/run/predictions-*")
    with lzma.open(home / "study.tar.xz", "wb", preset=2) as file, tarfile.open(fileobj=file, mode="w|") as archive:
        for path in sorted({path for name in names for path in study.glob(name)}):
            archive.add(path, f"{study.name}/{path.relative_to(study)}")
    with (home / "study.tar.xz").open("rb") as file:
        for number, part in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
            (home / f"study.tar.xz.{number}").write_bytes(part)
    (home / "study.tar.xz").unlink()


def show(asked: Asked) -> None:
    """Write the page of what is done, and pack it all."""
    found = reproduced(asked, [], Told(asked.until, speaks=True), beside=False)
    print(f"{found.cells.done:,} of {found.cells.planned:,} cells, {found.cost.seconds:,.0f} s", flush=True)
    for claim in found.sections["claims"]["claims"]:
        print(f"{claim['verdict']}: {claim['claim']}", flush=True)
    pack(asked.out / STUDY, asked.out / "home")
    print(f"the page is {asked.out / STUDY / 'claims.md'}", flush=True)


# ---- stages ----


def side_by_side(asked: Asked, commands: Sequence[Sequence[str]]) -> None:
    """Run this program once for each of several words, all at the same time; end where one went wrong."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # each would take all cores, which the others have
    left = [] if asked.minutes_left is None else ["--minutes", f"{asked.minutes_left:.3f}"]
    started = [subprocess.Popen([sys.executable, *sys.argv, *left, *words], env=alone) for words in commands]
    if failed := [words for words, process in zip(commands, started, strict=True) if process.wait()]:
        sys.exit(f"{', '.join(' '.join(words) for words in failed)} ended with an error; the same call goes on")


def go_through(asked: Asked, stages: Sequence[str], processes: int) -> None:
    """Do the stages in their order, those that several processes share all at once, and tell how long each took."""
    groups = [["corpus"], ["pretrain"], ["rates"], SHARED, ["page"]]
    for group in groups:
        own = [stage for stage in group if stage in stages]
        if not own:
            continue
        began = time.monotonic()
        match own[0]:
            case "corpus":
                make_texts(asked)
            case "pretrain":
                side_by_side(asked, [["--pretrain", name] for name in networks(asked.sizes)])
            case "page":
                show(asked)
            case _:
                words = ["--stages", ",".join(own)]
                side_by_side(asked, [[*words, "--process", str(number)] for number in range(1, processes + 1)])
        print(f"{', '.join(own)}: {time.monotonic() - began:.0f} s", flush=True)
        if own == ["pretrain"] and not all(has_read(asked, name) for name in networks(asked.sizes)):
            sys.exit("the time is up before all is read; the same call goes on")
        if own == ["rates"] and not choose_rates(asked):
            sys.exit("the time is up before all rates are tried; the same call goes on")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="for the stage corpus")
    parser.add_argument("--tasks", type=Path, required=True, help="a folder with tasks, each in one of its name")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stages", default=",".join(STAGES), metavar="NAMES")
    parser.add_argument("--processes", type=int, default=14, help="that make cells side by side")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="begin nothing after so long")
    parser.add_argument("--seeds", type=int, help="of each fine-tuning  [5]")
    parser.add_argument("--device")
    parser.add_argument("--rehearse", action="store_true", help="with a toy, in minutes on two cores")
    parser.add_argument("--pretrain", metavar="NAME", help="this network alone")
    parser.add_argument("--process", type=int, metavar="N", help="this one alone")
    given = parser.parse_args()
    stages = given.stages.split(",")
    if unknown := [stage for stage in stages if stage not in STAGES]:
        parser.error(f"there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    sizes = TOY if given.rehearse else Sizes()
    sizes = sizes if given.seeds is None else replace(sizes, seeds=given.seeds)
    if "corpus" in stages and not given.texts:
        parser.error("name texts to read, or the stages after 'corpus': --stages pretrain,...")
    asked = Asked(given.texts, given.tasks, given.out, sizes, given.device, time.monotonic() + 60 * given.minutes)
    if given.pretrain is not None:
        read_text(asked, given.pretrain)
    elif given.process is not None:
        make_cells(asked, stages, given.process)
    else:
        go_through(asked, stages, given.processes)


if __name__ == "__main__":
    main()
