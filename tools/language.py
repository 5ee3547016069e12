"""Make a base of text in any language, and tell what it is worth: `python tools/language.py TEXT... --out base`.

A vocabulary of bytes, a corpus, one pre-training (recipe `small`), lessons made of the same text where `--lessons`
names some (recipe `lessons`), and for each labelled folder a study: what is
learned from so many labels with the base, by the same network without pre-training (`--scratch-lr` gives that its own
rate), and by TF-IDF, which needs scikit-learn: where it is not installed it is left for later. Given again, it goes on
where it was; elsewhere, where the text need not be, with `--init base/pretrained` instead of it.

    python tools/language.py reviews.txt.xz --document blank --labels nsmc --scores korsts --out korean

With `--processes N` so many make the studies side by side, each takes the next cell that nobody makes: on a GPU
networks of this size leave room for a dozen, best under CUDA's Multi-Process Service.

`--labels` are folders with `train` and `dev` tables of texts and labels, `--scores` of pairs with scores, whose order
means nothing. All of it is looked at before anything is made. A machine with torch, numpy, safetensors and tokenizers
is enough. `--rehearse` makes the same of a network for toys, in a few updates, from 60 labels: to see that it runs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

from base import MERGES, PRETRAINED, TAUGHT, Plain, figures, tell  # tools/base.py
from figures import SAVE_NOTHING, side_by_side  # tools/figures.py

from gpt1 import finetune, prepare, pretrain, train_tokenizer
from gpt1.base.errors import Busy, InputError
from gpt1.base.files import read_json
from gpt1.base.tables import FORMATS, file_format
from gpt1.base.wording import hundred, many
from gpt1.corpus.documents import find_sources
from gpt1.finetuning.data import Source
from gpt1.finetuning.seeds import is_done
from gpt1.lessons.making import make_lessons
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change
from gpt1.records.study import arm_name
from gpt1.runs.folder import is_run
from gpt1.studies.cells import Nobody
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.studies.labels import USUAL, study_labels
from gpt1.studies.material import check_learnable, read_tasks
from gpt1.text.language import look_at_language

ALL: Literal["all"] = "all"
COUNTS: tuple[int | Literal["all"], ...] = (200, 1000, ALL)
TOY = ["shape.layers=2", "shape.width=64", "shape.heads=2", "shape.feed_forward=128", "shape.context=64"]
TOY += ["training.steps=20", "training.batch=8", "training.compile=false", "logging.log_every=5"]
TOY_MERGES, TOY_COUNTS, TOY_STEPS, TOY_LESSONS = 500, (60,), ["training.steps=4"], 40


class Told(Nobody):
    """Prints what a study says."""

    def say(self, line: str) -> None:
        """Print one fact."""
        print(line, flush=True)


@dataclass(frozen=True)
class Settings:
    """How a base is made, and what is asked of it."""

    document: str | None = None  # what a document of the text is; none: a file
    merges: int = MERGES
    pretraining: Sequence[str] = ()  # changes of recipe `small`
    lessons: Mapping[str, int] = field(default_factory=dict)  # how many examples of which; none: it is not taught
    teaching: Sequence[str] = ()  # changes of recipe `lessons`
    finetuning: Sequence[str] = ()
    counts: Sequence[int | Literal["all"]] = COUNTS
    arms: Sequence[str] = USUAL
    seeds: int = 3
    scratch_lr: float | None = None
    device: str | None = None


def table(folder: Path, split: str) -> Path:
    """Return the table of a split in a folder, of which there is one."""
    found = [path for path in sorted(folder.glob(f"{split}.*")) if path.is_file() and file_format(path) != "txt"]
    if len(found) != 1:
        kinds = ", ".join(kind for kind in FORMATS if kind not in (".txt", ".md"))
        raise InputError(f"{folder} holds {len(found)} tables called {split}; it takes one ({kinds}, also compressed)")
    return found[0]


def source(folder: Path, *, scores: bool) -> Source:
    """Return the labelled tables of a folder."""
    train, dev = (table(folder, split) for split in ("train", "dev"))
    return Source(train=train, dev=dev, regression=scores, symmetric=scores)


def look(texts: Sequence[str], tasks: dict[str, Source], settings: Settings) -> None:
    """Refuse what cannot be done before anything is made, and tell what was found."""
    if texts:
        files = find_sources(list(texts)).sources
        size = sum(file.bytes for file in files) / 1e6
        print(f"text: {many(len(files), 'file')}, {size:.1f} MB as they lie", flush=True)
    change(find_recipe("small"), settings.pretraining)
    for name, own in tasks.items():
        found = read_tasks(own, Told())
        check_learnable(found)
        for one in found.values():
            dev = one.labelled.splits.get("dev", [])
            seen = look_at_language(text for example in one.train[:1000] for text in example.texts)
            rows = f"{len(one.train):,} rows to learn, {len(dev):,} to judge by"
            print(f"{name}: {rows}; {seen.in_words()}", flush=True)


def make_base(texts: Sequence[str], out: Path, settings: Settings) -> Path:
    """Make a vocabulary, a corpus and a network that has read it, as far as they are not there; return the network."""
    tokenizer, corpus, run = out / "tokenizer.json", out / "corpus", out / PRETRAINED
    out.mkdir(parents=True, exist_ok=True)
    if not tokenizer.exists():
        train_tokenizer(texts, "bytes", settings.merges, tokenizer, document=settings.document, progress=Plain())
    made = prepare(texts, tokenizer, corpus, document=settings.document, duplicates="exact", progress=Plain())
    train = made["splits"]["train"]
    print(f"corpus: {train['tokens']:,} tokens, {train['bytes'] / train['tokens']:.2f} bytes a token", flush=True)
    changes = list(settings.pretraining)
    trained = pretrain("small", corpus, run, resume=True, changes=changes, device=settings.device, listeners=[tell])
    print(f"pre-training: {trained.checkpoint.step:,} updates, {trained.checkpoint.seconds:,.0f} s", flush=True)
    print(f"logged last: {figures(trained)}", flush=True)
    return teach(texts, run, out, settings) if settings.lessons else run


def teach(texts: Sequence[str], run: Path, out: Path, settings: Settings) -> Path:
    """Teach the network tasks that are made of the text, if that is not done; return what has learned them."""
    lessons, taught = [out / "lessons" / name for name in settings.lessons], out / TAUGHT
    if not all(folder.exists() for folder in lessons):
        make_lessons(
            list(texts),
            run,
            out / "lessons",
            counts=settings.lessons,
            document=settings.document,
            restart=True,
            progress=Plain(),
        )
    if not is_done(taught):
        finetune(
            run,
            taught,
            encoded=lessons,
            recipe="lessons",
            resume=is_run(taught),
            changes=list(settings.teaching),
            device=settings.device,
            listeners=[tell],
        )
    return taught


def ask(base: Path, name: str, own: Source, out: Path, settings: Settings, *, beside: bool = False) -> None:
    """Learn from so many labels in each way, as far as that is not done; `beside` others, what nobody makes."""
    found = study_labels(
        base,
        out / name,
        source=own,
        training=FinetuningSettings(
            changes=[SAVE_NOTHING, *settings.finetuning], seeds=settings.seeds, device=settings.device
        ),
        counts=list(settings.counts),
        arms=settings.arms,
        scratch_lr=settings.scratch_lr,
        part=(1, 1) if beside else None,
        watcher=Told(),
    )
    if beside:
        return
    print(f"{name}: {found.cells.done} of {found.cells.planned} cells in {found.cost.seconds:,.0f} s", flush=True)
    for arm, by_labels in scores(out / name).items():
        for labels, by_metric in by_labels.items():
            told = ", ".join(f"{metric} {hundred(median(seeds))}" for metric, seeds in by_metric.items())
            print(f"{name}, {arm_name(arm)}, {labels:,} labels: {told}", flush=True)


def scores(study: Path) -> dict[str, dict[int, dict[str, list[float]]]]:
    """Return all that a study's cells found on dev: by arm, number of labels and metric, of each seed."""
    found: dict[str, dict[int, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for path in sorted(study.glob("cells/*/cell.json")):
        cell = read_json(path, "a cell")
        arm, _, labels, _ = cell["name"].rsplit("-", 3)
        for metric, score in cell["result"]["scores"]["dev"].items():
            found[arm][int(labels)][metric].append(score)
    return found


def asked_lessons(given: Sequence[str], count: int | None) -> dict[str, int]:
    """Return how many examples of which lessons were asked for, or `count` of each."""
    asked = dict(one.partition("=")[::2] for one in given)
    if wrong := [name for name, number in asked.items() if not number.isdigit()]:
        raise InputError(f"--lessons takes NAME=COUNT, such as similar=60000, not {', '.join(wrong)}")
    return {name: count or int(number) for name, number in asked.items()}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--init", type=Path, metavar="RUN", help="a network that was made before, in place of TEXT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--document", metavar="KIND", help="file, line or blank: what parts documents")
    parser.add_argument("--merges", type=int, default=MERGES)
    parser.add_argument("--labels", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--scores", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--counts", default="200,1000,all", help="of labels to learn from")
    parser.add_argument("--arms", default=",".join(USUAL), help="of the studies; chosen is what fine-tuning chooses")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scratch-lr", type=float, metavar="RATE")
    parser.add_argument("--pretraining", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--lessons", nargs="*", default=[], metavar="NAME=COUNT", help="to be learned before labels")
    parser.add_argument("--finetuning", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--device")
    parser.add_argument("--processes", type=int, default=1, help="that make the studies side by side")
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rehearse", action="store_true", help="with a toy, in minutes on two cores")
    given = parser.parse_args()
    if bool(given.texts) == (given.init is not None) and not given.beside:
        parser.error("name texts to make a base of, or one that is there: --init RUN")
    settings = Settings(
        given.document,
        TOY_MERGES if given.rehearse else given.merges,
        [*TOY, *given.pretraining] if given.rehearse else given.pretraining,
        asked_lessons(given.lessons, TOY_LESSONS if given.rehearse else None),
        TOY_STEPS if given.rehearse else (),
        [*TOY_STEPS, *given.finetuning] if given.rehearse else given.finetuning,
        TOY_COUNTS if given.rehearse else [ALL if one == ALL else int(one) for one in given.counts.split(",")],
        given.arms.split(","),
        1 if given.rehearse else given.seeds,
        given.scratch_lr,
        given.device,
    )
    tasks = {folder.name: source(folder, scores=False) for folder in given.labels}
    tasks |= {folder.name: source(folder, scores=True) for folder in given.scores}
    if len(tasks) < len(given.labels) + len(given.scores):
        parser.error("two labelled folders have one name")
    if given.beside:
        for name, own in tasks.items():
            with suppress(Busy):  # others are at what is left
                ask(given.init, name, own, given.out / "studies", settings, beside=True)
        return
    look(given.texts, tasks, settings)
    base = given.init or make_base(given.texts, given.out, settings)
    if given.processes > 1:
        side_by_side([["--beside", "--init", str(base)]] * given.processes)
    for name, own in tasks.items():
        ask(base, name, own, given.out / "studies", settings)


if __name__ == "__main__":
    main()
