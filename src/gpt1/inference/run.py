"""A trained run in use: its model and its tokenizer, loaded when they are first needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import torch

from gpt1.base.devices import find_device, usable_precision
from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.model import Model, build_model
from gpt1.recipes.values import Recipe
from gpt1.text.tokenizer import Tokenizer, load_tokenizer
from gpt1.training.checkpoints import (
    Checkpoint,
    best_step,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
)
from gpt1.training.runs import read_run

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}
BEST, LAST = "best", "last"


class Run:
    """What a training left: `path`, `facts` (run.json), `recipe`; loaded when asked for: `model` and `tokenizer`."""

    def __init__(
        self, path: Path, *, device: torch.device, step: int | str, refused: Callable[[str], None] = warnings.warn
    ) -> None:
        self.path = path
        self.device = device
        self.facts = read_run(path)
        self.recipe: Recipe = self.facts["recipe"]
        self._step = step
        self._refused = refused

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The weights in use."""
        return find_checkpoint(self.path, self._step, self._refused)

    @cached_property
    def model(self) -> Model:
        """The network with those weights, on the run's device, in the precision it was trained in if that can be."""
        precision, _ = usable_precision(self.device, self.recipe.training.precision)
        model = build_model(self.recipe.shape, self.facts["vocab_size"], compute=DTYPES[precision])
        model = model.double() if precision == "fp64" else model
        load_weights(model, self.checkpoint)
        return model.to(self.device).eval()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer the run was trained with."""
        return load_tokenizer(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.facts['kind']}, recipe {self.recipe.name!r})"


def load_run(
    path: str | Path,
    *,
    device: str | None = None,
    step: int | str = BEST,
    refused: Callable[[str], None] = warnings.warn,
) -> Run:
    """Open a run folder; `step` is a checkpoint's step, `best` (lowest validation loss) or `last`.

    `refused` is told of damaged checkpoints that were passed over.
    """
    return Run(Path(path), device=find_device(device), step=step, refused=refused)


def find_checkpoint(run: Path, step: int | str, refused: Callable[[str], None] = warnings.warn) -> Checkpoint:
    """Return a run's checkpoint, without the optimiser's part: of a step, the best, or the last whole one.

    `refused` is told of damaged ones that were passed over.
    """
    steps = dict(list_checkpoints(run))
    if step == BEST:
        best = best_step(run)
        step = LAST if best is None else best
    if step == LAST:
        problems: list[str] = []
        found = newest_checkpoint(run, problems.append, with_optimizer=False)
        if found is None:
            raise InputError("; ".join([f"{run} has no checkpoint to use", *problems]))
        for problem in problems:
            refused(problem)
        return found
    if not isinstance(step, int) or step not in steps:
        raise SettingError(f"{run} has no checkpoint of step {step}; it has {', '.join(map(str, steps)) or 'none'}")
    return load_checkpoint(steps[step], with_optimizer=False)


def load_weights(model: Model, checkpoint: Checkpoint) -> None:
    """Copy a checkpoint's weights into a model of the same shape."""
    own = dict(model.named_parameters())
    for name in sorted(own.keys() | checkpoint.model.keys()):
        found, wanted = checkpoint.model.get(name), own.get(name)
        if found is None or wanted is None or found.shape != wanted.shape:
            shapes = " and ".join("none" if x is None else str(tuple(x.shape)) for x in (found, wanted))
            raise FormatError(f"{checkpoint.path} does not fit the model: '{name}' has the shapes {shapes}")
        with torch.no_grad():
            wanted.copy_(found)
