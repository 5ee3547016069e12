"""Make a base from books: `python tools/base.py books/ --out base`; the last folder in it, `small`, is what is shipped.

A vocabulary of bytes, a corpus, one pre-training (recipe `small`), lessons made of the same text (recipe `lessons`),
and all of it in a byte a weight. Given again, it goes on where it was. `--without` is a file with words, one a line:
books whose path has one of them are not read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpt1 import finetune, load_run, prepare, pretrain, train_tokenizer
from gpt1.base.progress import Silent
from gpt1.corpus.documents import find_sources
from gpt1.exchange.to_compact import export_compact
from gpt1.lessons.making import make_lessons
from gpt1.runs.events import Evaluated, Event, Noticed, Stepped
from gpt1.runs.folder import is_run

MERGES = 16_000
TOLD_EVERY = 200  # updates


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
            print(f"step {event.step}: loss {event.loss:.4f}, {speed}", flush=True)
        case Evaluated():
            print(f"step {event.step}: {event.scores}", flush=True)
        case Noticed():
            print(event.text, flush=True)


def books(paths: list[str], without: Path | None) -> list[str]:
    """Return the files to read."""
    words = [] if without is None else without.read_text().split()
    return [source.name for source in find_sources(paths).sources if not any(word in source.name for word in words)]


def make(files: list[str], out: Path, *, pretraining: list[str], lessons: list[str], passages: int) -> None:
    """Do what is not done yet."""
    tokenizer, listeners = out / "tokenizer.json", [tell]
    out.mkdir(parents=True, exist_ok=True)
    if not tokenizer.exists():
        train_tokenizer(files, "bytes", MERGES, tokenizer, unwrap=True, progress=Plain())
    prepare(files, tokenizer, out / "corpus", unwrap=True, duplicates="exact", progress=Plain())
    pretrained = pretrain(
        "small", out / "corpus", out / "pretrained", resume=True, changes=pretraining, listeners=listeners
    )
    taught = out / "taught"
    made = make_lessons(files, pretrained.path, out / "lessons", passages=passages, unwrap=True, progress=Plain())
    finetune(
        pretrained.path,
        taught,
        encoded=list(made.values()),
        recipe="lessons",
        resume=is_run(taught),
        changes=lessons,
        listeners=listeners,
    )
    if not is_run(out / "small"):
        print(*export_compact(load_run(taught, device="cpu"), out / "small"), sep="\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--without", type=Path)
    parser.add_argument(
        "--pretraining", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the pre-training"
    )
    parser.add_argument("--lessons", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the lessons")
    parser.add_argument("--passages", type=int, default=100_000)
    given = parser.parse_args()
    files = books(given.paths, given.without)
    print(f"{len(files):,} books")
    make(files, given.out, pretraining=given.pretraining, lessons=given.lessons, passages=given.passages)


if __name__ == "__main__":
    main()
