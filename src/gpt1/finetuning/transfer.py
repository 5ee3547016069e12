"""From a pre-trained network to one that learns tasks: weights taken over, special tokens and heads new."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from gpt1.base.errors import FormatError, SettingError
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import BEST, BODY, DTYPES, find_checkpoint
from gpt1.model import Classifier, Model, build_classifier, build_model
from gpt1.recipes.values import Recipe
from gpt1.tasks.catalog import Task
from gpt1.text.specials import SPECIALS

TABLES = "tokens", "output"  # a row for each token of the vocabulary


def make_classifier(recipe: Recipe, tasks: Mapping[str, Task], vocab_size: int, init: Path | None) -> Classifier:
    """Return a network of the recipe's shape with a head for each task, with weights of the run `init` (None: new).

    `vocab_size` does not count the special tokens, whose rows are new unless `init` was fine-tuned itself.
    """
    training, settings = recipe.training, recipe.finetuning
    body = build_model(
        recipe.shape,
        vocab_size + len(SPECIALS),
        compute=DTYPES[training.precision],
        seed=training.seed,
        checkpoint_activations=training.checkpoint_activations,
    )
    if init is not None and not settings.scratch:
        transfer(body, init, settings.transfer_layers)
    model = build_classifier(body, head_shapes(tasks), seed=training.seed)
    return model.double() if training.precision == "fp64" else model


@torch.no_grad()
def transfer(body: Model, init: Path, layers: int | None) -> None:
    """Copy the embeddings and the first `layers` blocks (None: all) of a run's best checkpoint; the rest stays new."""
    depth = len(body.blocks)
    if layers is not None and layers > depth:
        raise SettingError(f"{layers} blocks cannot be taken from {init}, which has {depth}")
    checkpoint = find_checkpoint(init, BEST)
    found = {name.removeprefix(BODY): tensor for name, tensor in checkpoint.model.items()}
    taken = depth if layers is None else layers
    for name, parameter in body.named_parameters():
        if name.startswith("blocks.") and int(name.split(".")[1]) >= taken:
            continue
        if name.startswith("final_norm.") and taken < depth:
            continue  # it belongs to the last block's output
        value = found.get(name)
        if value is None or not _fits(name, value.shape, parameter.shape):
            raise FormatError(f"{checkpoint.path} does not fit the network: '{name}' is missing or of another shape")
        parameter[: len(value)].copy_(value)


def _fits(name: str, found: torch.Size, wanted: torch.Size) -> bool:
    """Whether a tensor can be taken over: as it is, or as the first rows of a table that has special tokens too."""
    if name in TABLES:
        return found[1:] == wanted[1:] and found[0] in (wanted[0], wanted[0] - len(SPECIALS))
    return found == wanted
