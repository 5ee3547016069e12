"""Make a base from books: `python tools/base.py books/ --facts facts.json --out base`; its folder `small` is shipped.

A vocabulary of bytes, a corpus, one pre-training (recipe `small`), lessons made of the same text (recipe `lessons`),
all of it in a byte a weight, and what tells of it: `base.json`, `card.md`, and the names of the books. Given again, it
goes on where it was, and tells of it anew. `--without` is a file with words, one a line: books whose path has one of
them are not read. `--facts` is a JSON file with what no program can know of the text and the weights (see `Facts`).

What the making gave is kept in `making.json`, so that with it and the folder `small` the card can be written anew
elsewhere, with what was measured since: `python tools/base.py --describe --facts facts.json --blimp ... --out base`.
With `--until pretrained` it ends before the lessons are taught, so that `tools/lessons.py` can try ways to teach them;
`--reread 800` reads text again for so many updates at a tenth of the rate after them, which heads and special tokens
sit out; `--keep 0.5` averages the weights with those before the lessons, of which so great a share stays.
With `--check 200` the first 200 updates of the same pre-training are made anew, and their losses held against those
that the base in the package was made with.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import textwrap
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gpt1 import finetune, load_run, prepare, pretrain, train_tokenizer
from gpt1.base.errors import FormatError, Interrupted
from gpt1.base.files import file_hash, read_json, read_lines, whole_file
from gpt1.base.progress import Silent
from gpt1.base.record_files import Record
from gpt1.base.records import RecordPart, check_record
from gpt1.base.wording import many
from gpt1.bases.catalog import BASE_FILE, CARD_FILE, BaseRecord, TextRead, files_in, find_base
from gpt1.corpus.documents import find_sources
from gpt1.corpus.manifest import read_corpus
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning.seeds import is_done, read_result
from gpt1.inference.run import BODY, Run
from gpt1.lessons.making import LESSONS, make_lessons
from gpt1.model.costs import count_parameters
from gpt1.pretraining.measure import measure_corpus
from gpt1.runs.checkpoints import save_checkpoint
from gpt1.runs.events import Evaluated, Event, Noticed, Stepped
from gpt1.runs.files import METRICS_FILE
from gpt1.runs.folder import RUN_FILE, begin_run, is_run, made_for
from gpt1.tasks.encoded import MANIFEST
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE

MERGES = 16_000
TOLD_EVERY = 200  # updates
NAME, BOOKS_FILE, LOSSES_FILE, MAKING_FILE = "small", "books.txt", "losses.tsv", "making.json"
# Folders of runs, as one comes of the other.
PRETRAINED, TAUGHT, REREAD, KEPT = "pretrained", "taught", "reread", "kept"
# Of a reading after lessons: a tenth of the rates of the recipe `small`, falling from the beginning on.
GENTLY = ["optimizer.lr=3e-4", "optimizer.matrix_lr=2e-3", "schedule.warmup_share=0.05", "schedule.cooldown_share=0.95"]


@dataclass(frozen=True)
class Facts:
    """What a person must say of a base."""

    about: str  # in a line
    kinds: str  # of text, such as "novels and tales"
    language: str
    chosen: str  # which books: such as "by authors who died in 1925 or before"
    text_licence: str
    weights_licence: str


@dataclass(frozen=True)
class Measured:
    """What was found of the base elsewhere, to be told on its card."""

    blimp: Path | None = None  # what `gpt1 blimp --json` printed
    scores: Path | None = None  # rows of a table: a JSON list of objects with the same keys
    remarks: Path | None = None  # text


@dataclass(frozen=True)
class Stage(RecordPart):
    """What a training took, and what it gave."""

    updates: int
    batch: int
    seconds: float
    device: str | None
    figures: dict[str, float]  # logged last; of lessons, their scores


@dataclass(frozen=True)
class Making(Record):
    """All that the card tells of how a base was made."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-making", 1, "making", "what the making of a base gave"

    command: str
    books: list[str]
    documents: dict[str, int]  # by split, and how many were read and dropped in all
    bytes: dict[str, int]
    tokens: int
    pretraining: Stage
    lessons: Stage
    bits_per_byte: dict[str, float]  # of validation text, by what was measured


class Plain(Silent):
    """Tells what a machine with torch alone can show."""

    def say(self, line: str) -> None:
        """Print one fact."""
        print(line, flush=True)


def tell(event: Event) -> None:
    """Print what happens in a run, now and then."""
    match event:
        case Stepped() if event.step % TOLD_EVERY == 0:
            speed = f"{event.tokens_per_second / 1e3:.0f}k tokens/s, {event.seconds_left:.0f} s left"
            print(f"update {event.step}: loss {event.loss:.4f}, {speed}", flush=True)
        case Evaluated():
            print(f"update {event.step}: {event.scores}", flush=True)
        case Noticed():
            print(event.text, flush=True)


def books(paths: list[str], without: Path | None) -> list[str]:
    """Return the files to read."""
    words = [] if without is None else without.read_text().split()
    if not paths:  # only to describe
        return []
    return [source.name for source in find_sources(paths).sources if not any(word in source.name for word in words)]


def make_corpus(files: list[str], out: Path) -> None:
    """Make a vocabulary and a corpus, unless they are there."""
    tokenizer = out / "tokenizer.json"
    out.mkdir(parents=True, exist_ok=True)
    if not tokenizer.exists():
        train_tokenizer(files, "bytes", MERGES, tokenizer, unwrap=True, progress=Plain())
    prepare(files, tokenizer, out / "corpus", unwrap=True, duplicates="exact", progress=Plain())


class LessonsBeside:
    """Lessons that are made by another process while the network is pre-trained: a minute of processors alone."""

    def __init__(self, files: list[str], run: Path, out: Path, passages: int) -> None:
        self._asked: dict[str, Any] = {
            "paths": files,
            "tokenizer": run,
            "out": out,
            "passages": passages,
            "unwrap": True,
        }
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        self._made: Future[dict[str, Any]] | None = None

    def __enter__(self) -> LessonsBeside:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, event: Event) -> None:
        """Begin when the run is there, which says how long a sequence may be."""
        if isinstance(event, Stepped) and self._made is None:
            self._made = self._pool.submit(make_lessons, **self._asked)

    def folders(self) -> list[Path]:
        """Return where the lessons lie, once they are made; those of a training that was done before are there."""
        there = [self._asked["out"] / name for name in LESSONS]
        if self._made is None and all((folder / MANIFEST).exists() for folder in there):
            return there
        made = make_lessons(**self._asked) if self._made is None else self._made.result()
        return [self._asked["out"] / name for name in made]


@dataclass(frozen=True)
class Settings:
    """How a base is made."""

    pretraining: list[str]  # changes of recipe `small`
    lessons: list[str]  # of recipe `lessons`
    passages: int  # that lessons are made of
    reread: int = 0  # updates of reading after the lessons
    keep: float = 0.0  # the share of the network before the lessons in the weights that are shipped

    def command(self) -> str:
        """Return the command that makes such a base, without the places of one machine."""
        words = ["python", "tools/base.py", "BOOKS", "--out", "BASE", "--facts", "FACTS"]
        words += ["--passages", str(self.passages)]
        words += ["--pretraining", *self.pretraining] if self.pretraining else []
        words += ["--lessons", *self.lessons] if self.lessons else []
        words += ["--reread", str(self.reread)] if self.reread else []
        words += ["--keep", f"{self.keep:g}"] if self.keep else []
        return shlex.join(words)

    def stages(self) -> list[str]:
        """Return the folders of the runs that are made, the last of which is shipped in a byte a weight."""
        return [PRETRAINED, TAUGHT, *([REREAD] if self.reread else []), *([KEPT] if self.keep else [])]


def make_pretrained(files: list[str], out: Path, settings: Settings) -> list[Path]:
    """Make the network that has read all, and return where the lessons lie that were made beside it."""
    make_corpus(files, out)
    with LessonsBeside(files, out / PRETRAINED, out / "lessons", settings.passages) as made:
        listeners = [tell, made.begin]
        changes = settings.pretraining
        pretrain("small", out / "corpus", out / PRETRAINED, resume=True, changes=changes, listeners=listeners)
        return made.folders()


def make(files: list[str], out: Path, settings: Settings) -> None:
    """Do what is not done yet."""
    pretrained, taught, reread, kept = (out / name for name in (PRETRAINED, TAUGHT, REREAD, KEPT))
    lessons = make_pretrained(files, out, settings)
    if not is_done(taught):
        changes, resume = settings.lessons, is_run(taught)
        finetune(
            pretrained, taught, encoded=lessons, recipe="lessons", resume=resume, changes=changes, listeners=[tell]
        )
    if settings.reread and not is_run(reread):
        read_again(taught, out / "corpus", reread, [*settings.pretraining, f"training.steps={settings.reread}"])
    if settings.keep and not is_run(kept):
        average(pretrained, reread if settings.reread else taught, kept, settings.keep)
    *_, last = settings.stages()
    if not is_run(out / NAME):
        print(*export_compact(load_run(out / last, device="cpu"), out / NAME), sep="\n")
    _making(files, out, settings).write(out / MAKING_FILE)
    losses = read_losses(out / PRETRAINED / METRICS_FILE)
    _write(out / NAME / LOSSES_FILE, "".join(f"{step}\t{loss:.4f}\n" for step, loss in losses.items()))


def read_again(taught: Path, corpus: Path, out: Path, changes: list[str]) -> None:
    """Write a run of the taught network after it read on; what only the taught one has stays as it is."""
    reader = out.with_name(f"{out.name}-reader")
    pretrain("small", corpus, reader, init=taught, resume=True, changes=[*changes, *GENTLY], listeners=[tell])
    average(reader, taught, out, keep=1.0)


def average(reader: Path, taught: Path, out: Path, keep: float) -> None:
    """Write a run of the taught weights averaged with a reader's; what only the taught one has stays as it is."""
    run = load_run(taught, device="cpu")
    read, weights = load_run(reader, device="cpu").checkpoint.model, dict(run.checkpoint.model)
    for name, other in read.items():
        averaged = weights[BODY + name].clone()
        averaged[: len(other)].lerp_(other, keep)  # special tokens come last
        weights[BODY + name] = averaged
    checkpoint, record = run.checkpoint, run.record
    save_checkpoint(out, checkpoint.step, weights, None, checkpoint.progress, made_for(record))
    begin_run(out, record, taught / TOKENIZER_FILE)


def read_losses(metrics: Path) -> dict[int, float]:
    """Return the losses of a training by update, as it logged them."""
    return {facts["step"]: facts["loss"] for _, facts in read_lines(metrics) if "loss" in facts}


def check(files: list[str], out: Path, *, pretraining: list[str], updates: int) -> float:
    """Make the first updates of the pre-training anew; return how far a loss was off that of the base, at most."""
    lines = (find_base(NAME).path / LOSSES_FILE).read_text().splitlines()
    wanted = {int(step): float(loss) for step, loss in (line.split("\t") for line in lines)}
    make_corpus(files, out)
    last = min(step for step in wanted if step >= updates)

    def stop(event: Event) -> None:
        tell(event)
        if isinstance(event, Stepped) and event.step == last:
            os.kill(os.getpid(), signal.SIGINT)  # as a person would, so that the schedule is that of all updates

    with suppress(Interrupted):
        pretrain("small", out / "corpus", out / "checked", changes=pretraining, listeners=[stop])
    found = read_losses(out / "checked" / METRICS_FILE)
    return max(abs(found[step] - loss) for step, loss in wanted.items() if step <= updates)


def _making(files: list[str], out: Path, settings: Settings) -> Making:
    corpus = read_corpus(out / "corpus")
    pretrained, taught = (load_run(out / name, device="cpu") for name in (PRETRAINED, TAUGHT))
    lessons = {
        f"lesson '{task}', {metric} on {split}": value
        for task, splits in read_result(taught.path).items()
        for split, metrics in splits.items()
        for metric, value in metrics.items()
    }
    counts = {"read": corpus.documents.read, "dropped": sum(corpus.documents.dropped.values())}
    return Making(
        command=settings.command(),
        books=sorted(Path(file).name for file in files),
        documents=counts | {name: split.documents for name, split in corpus.splits.items()},
        bytes={name: split.bytes for name, split in corpus.splits.items()},
        tokens=corpus.splits["train"].tokens,
        pretraining=_stage(pretrained, figures(pretrained)),
        lessons=_stage(taught, lessons),
        bits_per_byte={
            name: measure_corpus(load_run(out / name), out / "corpus")["bits_per_byte"]
            for name in (*settings.stages(), NAME)
        },
    )


def _stage(run: Run, found: dict[str, float]) -> Stage:
    hardware, checkpoint = run.record.trained_on, run.checkpoint
    device = None if hardware is None else hardware.device
    updates = checkpoint.progress.get("ended_at") or checkpoint.step  # these weights may be of an earlier epoch
    return Stage(updates, run.recipe.training.batch, checkpoint.seconds, device, found)


# ---- what it is ----


def describe(out: Path, facts: Facts, measured: Measured) -> None:
    """Write what vouches for a base that was made, and tells people of it: `base.json` last."""
    folder, making = out / NAME, Making.read(out / MAKING_FILE)
    base = _without_places(folder)
    record = BaseRecord(
        name=NAME,
        about=facts.about,
        text=TextRead(
            facts.kinds,
            facts.language,
            documents=making.documents["train"],
            bytes=making.bytes["train"],
            tokens=making.tokens,
        ),
        parameters=count_parameters(base.recipe.shape, base.record.vocab_size).total,
        weights_licence=facts.weights_licence,
        text_licence=facts.text_licence,
        command=making.command,
        date=str(base.record.made_with["at"])[: len("2026-11-16")],
        bits_per_byte=making.bits_per_byte[NAME],
        files={},
    )
    parts = [
        _opening(record, base),
        _on_text(record, making, facts),
        _on_making(record, making),
        *_on_scores(measured),
        _on_limits(record, base, facts),
        f"## Licences\n\nWeights: {record.weights_licence}. Text: {record.text_licence}.\n",
    ]
    _write(folder / BOOKS_FILE, "".join(f"{name}\n" for name in making.books))
    _write(folder / CARD_FILE, "\n".join(parts))
    sums = {name: file_hash(path) for name, path in files_in(folder).items()}
    replace(record, files=sums).write(folder / BASE_FILE)


def _without_places(folder: Path) -> Run:
    """Return the base, after what its `run.json` says of the machine that made it, and where things lay, is gone."""
    record = load_run(folder, device="cpu").record
    made_with = {name: value for name, value in record.made_with.items() if name not in ("command", "machine", "git")}
    replace(record, parent=None, source=None, made_with=made_with).write(folder / RUN_FILE)
    return load_run(folder, device="cpu")


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def figures(run: Run) -> dict[str, float]:
    """Return what was logged last of a run up to the checkpoint in use: its evaluation, and the training's loss."""
    found = {}
    for _, facts in read_lines(run.path / METRICS_FILE):
        found |= facts if facts["step"] <= run.checkpoint.step else {}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


# ---- the card ----


def _opening(record: BaseRecord, base: Run) -> str:
    shape, tokenizer = base.recipe.shape, base.tokenizer
    network = (
        f"{record.parameters:,} parameters, matrices in a byte a weight: {many(shape.layers, 'layer')} of width "
        f"{shape.width:,}, {many(shape.heads, 'head')}, a context of {shape.context:,} tokens, a "
        f"`{tokenizer.kind}` vocabulary of {tokenizer.vocab_size:,}. Teach it a task: "
        f"`gpt1 finetune --init {record.name} --train reviews.csv --out run`"
    )
    return f"# {record.name}\n\n{_filled(record.about)}\n\n{_filled(network)}\n"


def _on_text(record: BaseRecord, making: Making, facts: Facts) -> str:
    text, documents = record.text, making.documents
    rows = [
        ("kinds", facts.kinds),
        ("language", facts.language),
        ("which", facts.chosen),
        ("documents", f"{text.documents:,}, {text.bytes / 1e6:,.1f} MB, {text.tokens:,} tokens"),
        *(
            (f"kept for {name}", f"{documents[name]:,}, {size / 1e6:,.1f} MB")
            for name, size in making.bytes.items()
            if name != "train"
        ),
        (
            "found",
            f"{documents['read']:,}, of which {documents['dropped']:,} were dropped; {BOOKS_FILE} names their files",
        ),
    ]
    return f"## What it has read\n\n{_table(['', ''], rows)}"


def _on_making(record: BaseRecord, making: Making) -> str:
    found, bits = making.pretraining.figures, making.bits_per_byte
    measured = "bits a byte on validation text"
    after = {REREAD: "read again", KEPT: "averaged with the network before"}
    rows = [
        ("pre-training", "training loss", _figure(found.get("loss"))),
        ("", "validation loss", _figure(found.get("valid_loss"))),
        ("", measured, _figure(bits[PRETRAINED])),
        *_effort(making.pretraining),
        *((name.split(", ")[0], name.split(", ")[1], _figure(value)) for name, value in making.lessons.figures.items()),
        *(("lessons", *fact[1:]) for fact in _effort(making.lessons)),
        ("", measured, _figure(bits[TAUGHT])),
        *((what, measured, _figure(bits[name])) for name, what in after.items() if name in bits),
        ("in a byte a weight", measured, _figure(bits[NAME])),
    ]
    told = (
        "The figures of the pre-training are those of the network before its lessons, and those of the lessons of the "
        "network right after them."
    )
    table = _table(["stage", "", ""], rows)
    return f"## How it was made\n\n{record.date}, by\n\n    {record.command}\n\n{table}\n{_filled(told)}\n"


def _effort(stage: Stage) -> list[tuple[str, str, str]]:
    where = "" if stage.device is None else f" on {stage.device}"
    return [
        ("", "updates", f"{stage.updates:,}, of {many(stage.batch, 'sequence')} each"),
        ("", "time", f"{stage.seconds:,.0f} s{where}"),
    ]


def _on_scores(measured: Measured) -> list[str]:
    parts = []
    if measured.blimp is not None:
        found = read_json(measured.blimp, "what `gpt1 blimp --json` prints")
        parts.append(
            f"BLiMP: {100 * found['accuracy']:.1f} of 100 on {found['pairs']:,} minimal pairs; chance is 50.\n"
        )
    if measured.scores is not None:
        rows = json.loads(measured.scores.read_text())
        if len({tuple(row) for row in rows}) != 1:
            raise FormatError(f"{measured.scores} is no table: a JSON list of objects with the same keys")
        parts.append(_table(list(rows[0]), [tuple(map(str, row.values())) for row in rows]))
    if measured.remarks is not None:
        parts.append(measured.remarks.read_text())
    return ["## What it knows\n\n" + "\n".join(parts)] if parts else []


def _on_limits(record: BaseRecord, base: Run, facts: Facts) -> str:
    cannot = (
        "It goes on with a text; it does not chat or follow instructions. What it writes is likely, not true. A text "
        f"of more than {base.recipe.shape.context:,} tokens is cut. It was taught no language but {facts.language}, "
        "and nothing that was written after its text. It is a start for a classifier on your own labels, and no more."
    )
    prejudice = (
        f"It has read {facts.kinds}, {facts.chosen}, and has their prejudices: what is said there of women and men, of "
        "peoples, faiths, classes and the sick, it takes for how one speaks. Labels do not wash that out: look at the "
        "mistakes of what you teach it, for each group of people that it will judge, and let it decide nothing about "
        "anybody alone."
    )
    return f"## What it cannot do\n\n{_filled(cannot)}\n\n## What came with its text\n\n{_filled(prejudice)}\n"


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _filled(text: str) -> str:
    return textwrap.fill(text, width=110, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--facts", type=Path, metavar="FILE", help="what no program can know (but for --check)")
    parser.add_argument("--without", type=Path)
    parser.add_argument(
        "--pretraining", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the pre-training"
    )
    parser.add_argument("--lessons", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the lessons")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--reread", type=int, default=0, metavar="N", help="updates of reading after the lessons")
    parser.add_argument("--keep", type=float, default=0.0, metavar="SHARE", help="of the network before its lessons")
    parser.add_argument("--until", choices=[PRETRAINED], help="end there")
    parser.add_argument("--check", type=int, metavar="N", help="make the first N updates anew, and compare")
    parser.add_argument("--describe", action="store_true", help="make nothing, tell anew of what was made")
    parser.add_argument("--blimp", type=Path, metavar="FILE", help="for the card: what `gpt1 blimp --json` printed")
    parser.add_argument(
        "--scores", type=Path, metavar="FILE", help="for the card: a JSON list of rows with the same keys"
    )
    parser.add_argument("--remarks", type=Path, metavar="FILE", help="for the card: what else was found, as text")
    given = parser.parse_args()
    files = books(given.paths, given.without)
    if given.check is not None:
        off = check(files, given.out, pretraining=given.pretraining, updates=given.check)
        print(f"losses of {given.check} updates are at most {off:.4f} off those of the base")
        return
    if given.facts is None:
        parser.error("--facts FILE is needed to tell of a base")
    facts = check_record(read_json(given.facts, "facts about a base"), Facts, given.facts)
    if not given.describe:
        print(f"{len(files):,} books")
        settings = Settings(given.pretraining, given.lessons, given.passages, given.reread, given.keep)
        if given.until == PRETRAINED:
            make_pretrained(files, given.out, settings)
            return
        make(files, given.out, settings)
    describe(given.out, facts, Measured(given.blimp, given.scores, given.remarks))


if __name__ == "__main__":
    main()
