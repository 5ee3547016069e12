"""What global tokens are for: labels whose evidence stands farther from the end than windows reach.

    python -m benchmarks.far_evidence             # under a minute on one core

A made-up watchman's log begins with who opened the gate, which is the label; what follows is the same for all. Three
networks read such logs and then learn from 200 of them who it was: with full attention, with a window, and with a
window and global tokens. The windows of all layers together do not reach the first lines from the extract token, so a
window alone can only guess: exchanging the names changes no answer. All is made from seeds, and comes out the same.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gpt1.corpus.prepare import prepare
from gpt1.finetuning.finetune import finetune
from gpt1.inference.answering import answer
from gpt1.inference.run import Run
from gpt1.pretraining.pretrain import pretrain
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example, Labelled
from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import train_bytes

WHO = ("Ada", "Bill")
THINGS = ("rain", "wind", "a cart", "two dogs", "a lamp", "some snow", "the late coach", "a fox", "smoke", "nobody")
PLACES = ("bridge", "gate", "mill", "well", "wall", "road", "barn", "stable")
HOURS = ("one", "two", "three", "four", "five", "six")
TASK = Task(
    name="gate",
    title="who opened the gate?",
    shape="single",
    metrics=("accuracy",),
    fields=("text",),
    labels=WHO,
)
SHAPE = (
    "shape.layers=2",
    "shape.width=64",
    "shape.heads=4",
    "shape.feed_forward=128",
    "shape.context=192",
    "training.precision=fp32",
)
READING = ("training.batch=8", "logging.evaluate_every=none", "logging.sample_every=none", "logging.save_every=none")
LEARNING = (
    "training.batch=8",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "shape.dropout=0",
    "finetuning.windows=off",
    "finetuning.ensemble=false",
    "finetuning.calibrate=false",
)
WINDOW, LAYERS = 16, 2
ARMS = {
    "full attention": (),
    "window": (f"shape.window={WINDOW}",),
    "window and global tokens": (f"shape.window={WINDOW}", "shape.global_tokens=1"),
}


@dataclass(frozen=True)
class Size:
    """How much is read and learned."""

    logs: int = 400  # to read
    rows: int = 200  # to learn from
    asked: int = 1000
    steps: int = 100
    epochs: int = 10


def watchmans_log(draw: random.Random, who: str) -> str:
    """Return a log of some ninety words, of which the first line alone tells who it was."""
    lines = [f"{who} opened the gate.", f"{who} had a key.", f"{who} went away."]
    lines += [f"At {draw.choice(HOURS)} I saw {draw.choice(THINGS)} at the {draw.choice(PLACES)}." for _ in range(8)]
    return " ".join(lines)


def rows(count: int, seed: int, exchanged: int = 0) -> list[Example]:
    """Return logs with their labels, as many of each; `exchanged` ones (1) tell of the other name."""
    draw = random.Random(seed)
    return [Example((watchmans_log(draw, WHO[(row + exchanged) % 2]),), row % 2, row + 1) for row in range(count)]


def tokens_behind(tokenizer: Tokenizer, examples: Sequence[Example]) -> int:
    """Return how many tokens at least stand from behind the last name to the extract token, which is one of them."""
    behind = (example.texts[0].rpartition(WHO[int(example.label or 0)])[2] for example in examples)
    return min(len(tokenizer.encode(text)) for text in behind) + 1


def learn(folder: Path, changes: Sequence[str], size: Size) -> Run:
    """Return a network that has read logs and learned of some who opened the gate; `folder` has a corpus."""
    arm = folder / ("-".join(changes) or "full")
    reading = [*SHAPE, *READING, f"training.steps={size.steps}", *changes]
    base = pretrain("tiny", folder / "corpus", arm / "base", changes=reading, device="cpu")
    examples = rows(size.rows + 40, seed=1)
    labelled = Labelled(TASK, {"train": examples[:-40], "dev": examples[-40:]})
    learning = [*LEARNING, f"training.epochs={size.epochs}"]
    return finetune(base.path, arm / "run", examples=labelled, recipe="auto", changes=learning, device="cpu")


def make_corpus(folder: Path, size: Size) -> Tokenizer:
    """Write logs to read, a tokenizer of their words, and a corpus of both."""
    draw = random.Random(0)
    logs = [watchmans_log(draw, draw.choice(WHO)) for _ in range(size.logs)]
    texts = folder / "logs"
    texts.mkdir(parents=True)
    for number, log in enumerate(logs):
        (texts / f"{number}.txt").write_text(log)
    tokenizer = train_bytes(logs, merges=200)
    tokenizer.save(folder / "tokenizer.json")
    prepare(texts, folder / "tokenizer.json", folder / "corpus", workers=1)
    return tokenizer


def compare(folder: Path, size: Size) -> dict[str, tuple[float, float]]:
    """Return what share of new logs each network answers rightly, and otherwise where the name is the other one."""
    asked = rows(size.asked, seed=2)
    reach = LAYERS * (WINDOW - 1)
    behind = tokens_behind(make_corpus(folder, size), asked)
    assert behind > reach, "the evidence stands too near"
    print(f"at least {behind} tokens from evidence to extract; {LAYERS} windows of {WINDOW} reach {reach}", flush=True)
    found = {}
    for name, changes in ARMS.items():
        began = time.perf_counter()
        run = learn(folder, changes, size)
        answers, others = (answer(run, TASK, some).answers for some in (asked, rows(size.asked, 2, exchanged=1)))
        right, changed = (answers == [row.label for row in asked]).mean(), (answers != others).mean()
        found[name] = float(right), float(changed)
        told = f"{100 * right:5.1f} % right   {100 * changed:5.1f} % change with the name"
        print(f"{name:26} {told}   {time.perf_counter() - began:4.0f} s", flush=True)
    return found


def main() -> None:
    """Teach three networks and print what they know."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), Size())


if __name__ == "__main__":
    main()
