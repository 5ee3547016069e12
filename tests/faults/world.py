"""A small world of every folder that gpt1 writes, made once by its own commands: done ones, and some killed on the way.

It is always used at one path, so that what the records tell of paths is the same in all copies.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.bases.tools import write_base
from tests.conftest import make_text
from tests.faults.processes import Child, Moment, Step, verb
from tests.lessons.tools import library
from tests.studies.tools import write_tasks

NETWORK = (
    "shape.layers=1",
    "shape.width=8",
    "shape.heads=2",
    "shape.feed_forward=32",
    "shape.context=24",
    "training.batch=4",
    "training.precision=fp32",
    "logging.log_every=1",
    "logging.evaluate_every=2",
    "logging.sample_every=3",
    "logging.save_every=2",
    "logging.keep=2",
)
LEARNING = (
    "training.batch=8",
    "training.epochs=2",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "logging.log_every=1",
    "logging.save_every=2",
    "logging.keep=2",
)


def settings(changes: Sequence[str]) -> tuple[str, ...]:
    """Return settings as words of a command."""
    return tuple(word for change in changes for word in ("--set", change))


CPU = ("--device", "cpu")
PREPARE = ("prepare", "texts", "--tokenizer", "tokenizer.json", "--shard-tokens", "700", "--valid", "0.1")
TRAIN_TOKENIZER = ("tokenizer", "train", "texts", "--merges", "60", "--workers", "1")
PRETRAIN = ("pretrain", "--recipe", "tiny", "--corpus", "corpus", "--steps", "6", *settings(NETWORK), *CPU)
FINETUNE = ("finetune", "--init", "runs/books", "--train", "reviews.csv", *settings(LEARNING), *CPU)
ENCODE = ("prepare", "--task", "reviews.csv", "--tokenizer", "tokenizer.json", "--context", "24")
TUNE = (
    *("tune", "--init", "runs/books", "--train", "reviews.csv", "--trials", "2", "--search", "epochs=1:2"),
    *settings(("training.batch=8", "training.precision=fp32", "optimizer.lr=5e-3")),
    *CPU,
)
STUDY = (*settings(("training.batch=4", "training.precision=fp32")), "--steps", "2", *CPU)
LABELS = ("study", "labels", "--init", "runs/books", "--train", "reviews.csv", "--counts", "8", *STUDY)
ZEROSHOT = ("study", "zeroshot", "runs/books", "--task", "sst2", "--data", "tasks", *CPU)


def save_estimator(folder: str = "estimator") -> None:
    """Fit a classifier and save it."""
    from gpt1 import GPTClassifier

    with Path("reviews.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    classifier = GPTClassifier("runs/books", settings={"training.steps": 2, "training.precision": "fp32"}, device="cpu")
    classifier.fit([row["text"] for row in rows], [row["label"] for row in rows]).save(folder)


def ship_base() -> None:
    """Write a base as the package has them."""
    write_base(Path("bases/small"), Path("runs/books"))


def write_inputs(folder: Path) -> None:
    """Write what is the user's own: texts, a labelled table, tasks."""
    (folder / "texts").mkdir(parents=True)
    for number in range(10):
        (folder / "texts" / f"{number}.txt").write_text(make_text(14, seed=number))
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for number in range(30):
            mood = ("sold", "lost")[number % 2]
            rows.writerow(
                [f"{('Ann', 'Tom', 'the cat')[number % 3]} {mood} {number} apples", ("glad", "sad")[number % 2]]
            )
    (folder / "prose.txt").write_text(library(documents=1, length=150)[0].text)  # of whole sentences, for lessons
    (folder / "lines.txt").write_text("Ann sold 3 apples\nthe cat lost the well-known map.\n")
    (folder / "unlabelled.csv").write_text("text\nAnn sold 3 maps\nTom lost nothing\nthe cat sold an umbrella\n")
    write_tasks(folder / "tasks", "sst2", "storycloze")


# How each part is made, and for what is left unfinished the path at whose first change it is killed.
Parts = tuple[tuple[Step, str | None], ...]
FIRST_PARTS: Parts = (
    (verb(*TRAIN_TOKENIZER, "--out", "tokenizer.json"), None),
    (verb(*PREPARE, "--out", "corpus", "--workers", "1"), None),
    (verb(*PRETRAIN, "--out", "runs/books"), None),
    (verb(*FINETUNE, "--out", "runs/reviews"), None),
)
MORE_PARTS: Parts = (
    (verb(*PREPARE, "--out", "half", "--workers", "1"), "corpus.json."),
    (verb(*PREPARE, "--out", "half-of-two", "--workers", "2"), "000002.npz."),
    (verb(*ENCODE, "--out", "encoded"), None),
    (verb(*PRETRAIN, "--set", "training.masked_share=0.5", "--out", "runs/mixed"), None),
    (verb(*PRETRAIN, "--out", "runs/half-books"), "step-00000006."),
    (verb(*FINETUNE, "--out", "runs/half-reviews"), "step-00000006."),
    (verb(*FINETUNE, "--out", "runs/seeds", "--seeds", "2"), None),
    (verb(*TUNE, "--out", "tuned"), None),
    (verb("evaluate", "runs/reviews", *CPU), None),
    (verb(*LABELS, "--out", "studies/labels"), None),
    (verb(*LABELS, "--out", "studies/half-labels"), "scratch-reviews-8-0/run/result.json."),
    (verb(*ZEROSHOT, "--out", "studies/zeroshot"), None),
    (save_estimator, None),
    (ship_base, None),
    (verb("export", "transformers", "runs/books", "--out", "for-transformers"), None),
)


class World:
    """The folder in which everything happens, and a copy of it as it was built.

    A `small` one has the first parts alone: a tokenizer, a corpus, a pre-trained and a fine-tuned run.
    """

    def __init__(self, root: Path, *, small: bool = False) -> None:
        self.small = small
        self.root = root.resolve()
        self.scene = self.root / "scene"
        self._kept = self.root / "kept"

    def build(self) -> None:
        """Make every part and keep a copy."""
        write_inputs(self.scene)
        for step, killed_at in FIRST_PARTS if self.small else (*FIRST_PARTS, *MORE_PARTS):
            make(self.scene, step, killed_at)
        shutil.copytree(self.scene, self._kept, symlinks=True)

    def files(self, *patterns: str) -> list[str]:
        """Return the paths, within the world, of the files that fit any pattern and are not empty."""
        found = (path for pattern in patterns for path in self._kept.glob(pattern))
        return sorted(str(path.relative_to(self._kept)) for path in found if path.is_file() and path.stat().st_size)

    def size(self, file: str) -> int:
        """Return the bytes of a file."""
        return (self._kept / file).stat().st_size

    def renew(self) -> None:
        """Bring everything back as it was built."""
        shutil.rmtree(self.scene, ignore_errors=True)
        shutil.copytree(self._kept, self.scene, symlinks=True)


def make(scene: Path, step: Step, killed_at: str | None) -> None:
    """Do a step to its end, or up to the first change of a path that holds `killed_at`."""
    child = Child(scene, step, kill=Moment(path=killed_at) if killed_at else None)
    ending = child.end()
    if (ending.code != 0) if killed_at is None else (ending.code != -9):
        raise AssertionError(f"a part of the world was not made (code {ending.code}):\n{ending.err}")
