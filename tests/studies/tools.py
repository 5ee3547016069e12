"""Small runs and tasks for studies, and what a study must not depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpt1.finetuning.data import Source
from gpt1.runs.checkpoints import list_checkpoints, load_checkpoint, save_checkpoint
from gpt1.runs.events import Event
from gpt1.studies.cells import Cell, CellResult
from gpt1.studies.finetuned import FinetuningSettings
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, PEOPLE, THINGS
from tests.finetuning.tools import make_pretrained

CONTEXT = 40
LSTM = ("shape.kind=lstm", "shape.layers=1", "shape.units=12")
# Two updates of four examples, looked at after each.
TRAINING = FinetuningSettings(
    changes=(
        "training.batch=4",
        "training.steps=2",
        "training.precision=fp32",
        "optimizer.lr=5e-3",
        "logging.evaluate_every=1",
        "logging.log_every=1",
    ),
    device="cpu",
)


def make_start(folder: Path, tokenizer: Tokenizer, *changes: str, steps: Sequence[int] = (3,)) -> Path:
    """Make a pre-trained run with random weights, other ones at each step."""
    make_pretrained(folder, tokenizer, f"shape.context={CONTEXT}", "shape.init_std=0.4", *changes)
    (_, first) = list_checkpoints(folder)[0]
    model = load_checkpoint(first).model
    for step in steps:
        if step != 3:
            save_checkpoint(folder, step, {name: w * (1 + step / 10) for name, w in model.items()}, {}, {"cost": 0.9})
    return folder


def rows_of(task: str, count: int = 12) -> list[dict[str, Any]]:
    """Return rows of a task in the layout of its files, both labels in turn."""
    found: list[dict[str, Any]] = []
    for row in range(count):
        text = f"{PEOPLE[row % 8]} {DEEDS[row // 2 % 8]} {THINGS[row % 7]}"
        if task in ("cola", "sst2"):
            found.append({"text": text, "label": str(row % 2)})
        elif task == "rte":
            label = ("entailment", "not_entailment")[row % 2]
            found.append({"a": f"{text}.", "b": f"{PEOPLE[row % 3]} {DEEDS[row % 5]} it.", "label": label})
        else:
            endings = [f"{PEOPLE[place]} {DEEDS[row % 5]} it." for place in range(2)]
            found.append({"context": f"{text}.", "choices": endings, "label": row % 2})
    return found


def write_tasks(folder: Path, *tasks: str) -> Path:
    """Write tasks as files of the catalogue's layout."""
    for task in tasks:
        (folder / task).mkdir(parents=True)
        for split, rows in (("train", rows_of(task, 16)), ("dev", rows_of(task, 9))):
            (folder / task / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_pairs(folder: Path) -> Path:
    """Write minimal pairs of three paradigms of two fields, where BLiMP lies beside tasks."""
    (folder / "blimp").mkdir(parents=True)
    for paradigm, field, size in (("agreement", "forms", 3), ("gaps", "syntax", 5), ("order", "syntax", 4)):
        rows = [
            {
                "good": f"{PEOPLE[place]} {DEEDS[place]} {THINGS[place]}.",
                "bad": f"{THINGS[place]} {PEOPLE[place]} {DEEDS[place]}.",
                "paradigm": paradigm,
                "field": field,
            }
            for place in range(size)
        ]
        (folder / "blimp" / f"{paradigm}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def source(folder: Path, *tasks: str) -> Source:
    """Return tasks of a folder as a study is told of them."""
    return Source(tasks=tasks, data=str(folder))


class Remembers:
    """A watcher who remembers, and who may stop a study when he has seen enough."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.lines: list[str] = []
        self.made: list[str] = []
        self.already: list[str] = []
        self._events_left = stop_after

    def say(self, line: str) -> None:
        self.lines.append(line)

    def planned(self, cells: Sequence[Cell], done: Mapping[str, CellResult]) -> None:
        self.already = list(done)

    def begun(self, cell: Cell) -> None:
        pass

    def heard(self, event: Event) -> None:
        if self._events_left is not None:
            self._events_left -= 1
            if self._events_left == 0:
                raise KeyboardInterrupt

    def ended(self, cell: Cell, kept: CellResult) -> None:
        self.made.append(cell.name)
