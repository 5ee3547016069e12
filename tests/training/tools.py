"""A toy to train: a network of a few thousand weights, and batches that are a function of their number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gpt1.model import DropoutKey, Model, build_model
from gpt1.pretraining.objective import LanguageModelling
from gpt1.recipes.values import Logging, Optimizer, Recipe, Schedule, Shape, Training
from gpt1.runs.events import Event, RolledBack, Stepped
from gpt1.training.batches import NO_TARGET, Batch
from gpt1.training.config import TrainerConfig
from gpt1.training.distributed import World
from gpt1.training.trainer import Trainer

VOCABULARY = 50
CONTEXT = 8
NEVER = 10**9

TOY = Recipe(
    name="toy",
    shape=Shape(layers=2, width=16, heads=2, feed_forward=32, context=CONTEXT, dropout=0.1),
    optimizer=Optimizer(lr=1e-2),
    schedule=Schedule(kind="linear", warmup_steps=None, warmup_share=0.1),
    training=Training(batch=8, steps=20, precision="fp32", compile=False),
    logging=Logging(log_every=1, evaluate_every=NEVER, sample_every=None, save_every=4, keep=3),
)


class ToyBatches:
    """Random text in which each token predicts the next a little; `poison[k]` multiplies the loss of batch k."""

    def __init__(self, size: int = 8, poison: dict[int, float] | Callable[[int], float] | None = None) -> None:
        self.size = size
        self._poison = poison if callable(poison) else lambda k: (poison or {}).get(k, 1.0)
        self.asked: list[int] = []

    def batch(self, k: int) -> Batch:
        self.asked.append(k)
        draw = np.random.default_rng([3, k])
        ids = draw.integers(0, VOCABULARY, (self.size, CONTEXT + 1), dtype=np.int32)
        ids[:, 1::2] = (ids[:, :-1:2] * 7 + 1) % VOCABULARY
        targets = ids[:, 1:].copy()
        lengths = draw.integers(1, CONTEXT + 1, self.size)
        targets[np.arange(CONTEXT) >= lengths[:, None]] = NO_TARGET
        poison = np.full(self.size, self._poison(k), np.float32)
        return Batch({"ids": ids[:, :-1], "targets": targets, "poison": poison}, {"lm": float(lengths.sum())})


class Poisonable(nn.Module):
    """The language model's loss, multiplied by whatever poison a batch holds."""

    weights = LanguageModelling.weights

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.inner = LanguageModelling(model)

    def forward(self, tensors: dict[str, Tensor], noise: DropoutKey | None) -> dict[str, Tensor]:
        terms = self.inner(tensors, noise)
        return {"lm": terms["lm"] * tensors["poison"].amax()}


def toy_trainer(
    run: Path, recipe: Recipe = TOY, batches: Any = None, world: World | None = None, **given: Any
) -> Trainer:
    """Return a trainer of the toy that writes to `run`."""
    training = recipe.training
    compute = torch.bfloat16 if training.precision == "bf16" else torch.float32
    model = build_model(recipe.shape, VOCABULARY, compute=compute, seed=training.seed, fused=training.fused)
    if recipe.training.precision == "fp64":
        model = model.double()
        model.compute = torch.float64
    run.mkdir(exist_ok=True)
    device = given.pop("device", torch.device("cpu"))
    config = TrainerConfig(
        objective=Poisonable(model.to(device)),
        batches=batches or ToyBatches(recipe.training.batch),
        updates=recipe.training.steps or 20,
        recipe=recipe,
        tokens_per_step=recipe.training.batch * CONTEXT,
        flops_per_token=1.0,
        evaluate=given.pop("evaluate", None),
        sample=given.pop("sample", None),
        has_parent=given.pop("has_parent", False),
    )
    return Trainer(config, run, device=device, world=world or World(), **given)


class Recorder:
    """Remembers the events of a training."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def losses(self) -> dict[int, float]:
        """The loss of each step, the last time it was made."""
        return {event.step: event.loss for event in self.events if isinstance(event, Stepped)}

    @property
    def rollbacks(self) -> list[RolledBack]:
        return [event for event in self.events if isinstance(event, RolledBack)]


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """Return copies of all weights and moments."""
    named = {**dict(trainer.model.named_parameters()), **trainer.optimizer.state()}
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def with_training(recipe: Recipe, **changes: Any) -> Recipe:
    return replace(recipe, training=replace(recipe.training, **changes))
