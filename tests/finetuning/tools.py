"""Small tasks that a small network learns in a second, runs to start from that took no training, and how to compare."""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from gpt1.model import build_model
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change
from gpt1.records.run import RunRecord
from gpt1.runs.checkpoints import list_checkpoints, save_checkpoint
from gpt1.runs.events import Event, Noticed
from gpt1.runs.folder import begin_run
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, SMALL_RUN, THINGS
from tests.records import lines_in

CONTEXT = 16  # tokens, as the session's trained run has
WHO = ("Ann", "somebody", "Tom", "sailor", "Brown", "girl", "cat", "lamp")  # by whom a label can be told

# Six batches of eight an epoch; everything is told, and the state saved in the midst of an epoch too.
SETTINGS = (
    "training.batch=8",
    "training.epochs=2",
    "training.precision=fp32",
    "optimizer.lr=5e-3",
    "logging.log_every=1",
    "logging.save_every=4",
    "logging.keep=2",
    "logging.keep_optimizer=true",  # to compare, and to make runs longer
    "finetuning.ensemble=false",  # the network alone; tests/finetuning/test_ensembling.py is of the others
    "finetuning.calibrate=false",  # as sure as it comes; tests/finetuning/test_calibrating.py is of the others
)


def make_task(name: str = "moods", shape: str = "single", **given: Any) -> Task:
    """Return a task of a shape, with two labels unless something else is asked for."""
    fields = {"single": ("text",), "choices": ("context", "choices")}.get(shape, ("a", "b"))
    if shape == "choices":
        given.setdefault("choices", 3)
    elif "score_range" not in given:
        given.setdefault("labels", ("bad", "good"))
    metrics = ("pearson",) if "score_range" in given else ("accuracy",)
    return Task(**{"name": name, "title": name, "shape": shape, "metrics": metrics, "fields": fields, **given})


def make_examples(task: Task, count: int, seed: int = 0) -> list[Example]:
    """Return examples whose label can be read from the text: who is in it, and of choices, which answer is odd."""
    draw = random.Random(f"{task.name} {seed}")
    found = []
    for row in range(count):
        classes = task.choices or len(task.labels) or 4
        label = row % classes
        who = WHO[label % len(WHO)]
        deed, thing = draw.choice(DEEDS), draw.choice(THINGS)
        if task.shape == "choices":
            answers = ["sold nothing" if index == label else draw.choice(THINGS) for index in range(classes)]
            texts: tuple[str, ...] = (f"{draw.choice(WHO)} {row}", "", *answers)
        elif task.shape == "single":
            texts = (f"{who} {deed} {thing} {row}",)
        else:
            texts = (f"{who} {deed} {row}", f"{who} {thing}")
        if task.score_range is not None:
            low, high = task.score_range
            found.append(Example(texts, low + label * (high - low) / (classes - 1), row + 1))
        else:
            found.append(Example(texts, label, row + 1))
    draw.shuffle(found)
    return found


def encode(
    task: Task, tokenizer: Tokenizer, train: int = 48, dev: int = 16, *, context: int = CONTEXT, seed: int = 0
) -> EncodedTask:
    """Return so many encoded examples of a task."""
    rows = make_examples(task, train + dev, seed)
    splits = {"train": rows[:train]} | ({"dev": rows[train:]} if dev else {})
    return encode_task(task, splits, tokenizer, context=context)


def write_table(path: Path, task: Task, rows: Sequence[Example]) -> Path:
    """Write examples as a table that a person could have made."""
    names = [task.labels[int(row.label or 0)] if task.labels else row.label for row in rows]
    if path.suffix == ".jsonl":
        lines = []
        for row, label in zip(rows, names, strict=True):
            texts = [row.texts[0], list(row.texts[2:])] if task.shape == "choices" else list(row.texts)
            lines.append(json.dumps({**dict(zip(task.fields, texts, strict=True)), task.label_field: label}))
        path.write_text("\n".join(lines))
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*task.fields, task.label_field])
            writer.writerows([*row.texts, label] for row, label in zip(rows, names, strict=True))
    return path


def make_pretrained(folder: Path, tokenizer: Tokenizer, *changes: str, seed: int = 0) -> Path:
    """Make a pre-trained run of any shape in a moment: it has random weights and a state that was never trained."""
    recipe = change(find_recipe("tiny"), [*SMALL_RUN, "shape.width=16", "shape.feed_forward=32", *changes])
    folder.mkdir(parents=True)
    tokenizer.save(folder / "tokenizer.json")
    model = build_model(recipe.shape, tokenizer.vocab_size, seed=seed)
    record = RunRecord("pretraining", recipe, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size)
    begin_run(folder, record, folder / "tokenizer.json")
    save_checkpoint(folder, 3, dict(model.named_parameters()), {}, {"cost": 0.5})
    return folder


# ---- what a run left ----


def lines_of(run: Path) -> list[dict[str, Any]]:
    """Return what a run told of its steps and evaluations."""
    return lines_in(run / "metrics.jsonl")


def losses_of(run: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines_of(run) if "loss" in line}


def state_of(run: Path) -> dict[str, torch.Tensor]:
    """Return weights and moments of the newest checkpoint."""
    _, newest = list_checkpoints(run)[-1]
    return {name: tensor for file in newest.glob("*.safetensors") for name, tensor in load_file(file).items()}


def assert_same_run(one: Path, other: Path) -> None:
    """Check that losses, scores, weights and moments of two runs are the same to the bit."""
    assert losses_of(one) == losses_of(other)
    scores = [
        [{key: line[key] for key in line if "_" in key} for line in lines_of(run) if "loss" not in line]
        for run in (one, other)
    ]
    assert scores[0] == scores[1]
    left, right = state_of(one), state_of(other)
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


class Told:
    """Remembers what a person was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Noticed):
            self.lines.append(event.text)

    def __contains__(self, part: str) -> bool:
        return any(part in line for line in self.lines)


# ---- processes ----


def command(init: Path, out: Path, *more: str, settings: Sequence[str] = SETTINGS, ranks: int = 1) -> list[str]:
    """Return the words of a `gpt1 finetune`."""
    start = [sys.executable, "-m", "gpt1"]
    if ranks > 1:
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", "gpt1"]
        start = [sys.executable, *launch]
    changes = [word for setting in settings for word in ("--set", setting)]
    return [*start, "finetune", "--init", str(init), "--out", str(out), *changes, "--device", "cpu", *more]
