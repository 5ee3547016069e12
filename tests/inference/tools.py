"""A fine-tuned run as training leaves it, but made in a moment: random weights that do not answer all texts alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from gpt1.inference.answering import answer
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import load_run
from gpt1.model import build_classifier, build_model
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.records.run import RunRecord
from gpt1.runs.checkpoints import save_checkpoint
from gpt1.runs.folder import begin_run
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.promises import Surenesses
from gpt1.text.specials import SPECIALS
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN

CONTEXT = 32  # tokens
STEP = 5


def make_run(
    folder: Path,
    tokenizer: Tokenizer,
    *tasks: Task,
    seed: int = 0,
    ruined: bool = False,
    feed_forward: int = 64,
    head_bias: float = 0.0,
    changes: Sequence[str] = (),
) -> Path:
    """Make a fine-tuned run of these tasks; with a bias, each head prefers its later answers."""
    sizes = [f"shape.context={CONTEXT}", f"shape.feed_forward={feed_forward}"]
    recipe = change(find_recipe("tiny"), [*SMALL_RUN, *sizes, *changes])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    body = build_model(recipe.shape, tokenizer.vocab_size + len(SPECIALS), compute=torch.float32, seed=seed)
    model = build_classifier(body, head_shapes({task.name: task for task in tasks}), seed=seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():  # fresh ones hardly look at the text
            weight.mul_(10 if weight.dim() > 1 and "tokens" not in name else 1)
            if name.startswith("heads.") and name.endswith("bias"):
                weight.add_(head_bias * torch.arange(len(weight)))
    learned = {task.name: task for task in tasks}
    record = RunRecord(
        "finetuning", recipe, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size, tasks=learned
    )
    begin_run(folder, record, folder / "tokenizer.json")
    weights = {name: tensor * (torch.nan if ruined else 1) for name, tensor in model.named_parameters()}
    save_checkpoint(folder, STEP, weights, {}, {"cost": 0.5})
    return folder


def make_calibrated(folder: Path, tokenizer: Tokenizer, *tasks: Task, **given: TaskCalibration) -> Path:
    """Make a fine-tuned run of which it was found how sure its answers are, by task."""
    make_run(folder, tokenizer, *tasks, changes=["finetuning.calibrate=true"])
    found = {task.name: given.get(task.name, TaskCalibration("as they come")) for task in tasks}
    CalibrationRecord(STEP, found).write(folder / CALIBRATION_FILE)
    return folder


def sure_run(folder: Path, tokenizer: Tokenizer, task: Task, rows: Sequence[str], wrong: int = 0) -> float:
    """Make a run that may answer about half of these rows with a risk of 0.1; return how sure it must be.

    Of 100 answers that were kept, those above the middle are right but for some, and all others are wrong.
    """
    run = load_run(make_calibrated(folder, tokenizer, task), device="cpu")
    examples = [Example((text,), None, place) for place, text in enumerate(rows)]
    middle = float(np.sort(answer(run, task, examples).sure)[len(rows) // 2])
    sure = Surenesses([middle] * (60 - wrong), [middle] * wrong + [0.0] * 40)
    calibration = TaskCalibration("because", examples=100, seen=sure, kept=sure)
    CalibrationRecord(STEP, {task.name: calibration}).write(folder / CALIBRATION_FILE)
    return middle
