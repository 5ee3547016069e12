"""From a pre-trained network to one that learns tasks: weights taken over, special tokens and heads new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from gpt1.base.errors import FormatError, SettingError
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import BEST, BODY, DTYPES, TABLES, find_checkpoint
from gpt1.model import Classifier, Model, build_classifier, build_model
from gpt1.recipes.values import Recipe, Shape
from gpt1.tasks.catalog import Task
from gpt1.text.specials import SPECIALS


def make_classifier(recipe: Recipe, tasks: Mapping[str, Task], vocab_size: int, init: Path | None) -> Classifier:
    """Return a network of the recipe's shape with a head for each task, with weights of the run `init` (None: new).

    `vocab_size` does not count the special tokens, whose rows are new unless `init` was fine-tuned itself.
    """
    training, settings = recipe.training, recipe.finetuning
    source = None if init is None or settings.scratch else find_source(init, recipe.shape, settings.transfer_layers)
    body = build_model(
        recipe.shape,
        vocab_size + len(SPECIALS),
        compute=DTYPES[training.precision],
        seed=training.seed,
        checkpoint_activations=training.checkpoint_activations,
        loaded=set() if source is None else source.weights.keys() - TABLES,  # whose last rows are new
    )
    if source is not None:
        transfer(body, source)
    model = build_classifier(body, head_shapes(tasks), seed=training.seed)
    return model.double() if training.precision == "fp64" else model


@dataclass(frozen=True)
class TransferSource:
    """The weights that a new network takes over: of the first `layers` blocks and what comes before them."""

    path: Path  # of their checkpoint
    depth: int
    layers: int
    weights: dict[str, Tensor]

    def gives(self, name: str) -> bool:
        """Whether the weights of this name are taken over; the last norm belongs to the last block's output."""
        if name.startswith("blocks."):
            return int(name.split(".")[1]) < self.layers
        return self.layers == self.depth or not name.startswith("final_norm.")


def find_source(init: Path, shape: Shape, layers: int | None) -> TransferSource:
    """Return what is taken over of a run's best checkpoint; `layers`: so many blocks (None: all)."""
    depth = shape.layers
    if layers is not None and layers > depth:
        raise SettingError(f"{layers} blocks cannot be taken from {init}, which has {depth}")
    checkpoint = find_checkpoint(init, BEST)
    source = TransferSource(checkpoint.path, depth, depth if layers is None else layers, {})
    found = {name.removeprefix(BODY): tensor for name, tensor in checkpoint.model.items()}
    return replace(source, weights={name: tensor for name, tensor in found.items() if source.gives(name)})


@torch.no_grad()
def transfer(body: Model, source: TransferSource) -> None:
    """Copy the weights that are taken over; the rest stays new."""
    for name, parameter in body.named_parameters():
        if source.gives(name):
            value = source.weights.get(name)
            if value is None or not _fits(name, value.shape, parameter.shape):
                raise FormatError(f"{source.path} does not fit the network: '{name}' is missing or of another shape")
            parameter[: len(value)].copy_(value)


def _fits(name: str, found: torch.Size, wanted: torch.Size) -> bool:
    """Whether a tensor can be taken over: as it is, or as the first rows of a table that has special tokens too."""
    if name in TABLES:
        return found[1:] == wanted[1:] and found[0] in (wanted[0], wanted[0] - len(SPECIALS))
    return found == wanted
