"""From a pre-trained network to one that learns tasks: weights taken over, special tokens and heads new."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gpt1.base.errors import FormatError, SettingError
from gpt1.inference.classification import head_shapes
from gpt1.inference.run import BEST, BODY, DTYPES, TABLES, find_checkpoint
from gpt1.model import Classifier, Model, build_classifier, build_model
from gpt1.recipes.values import Recipe, Shape
from gpt1.runs.checkpoints import HOST
from gpt1.tasks.catalog import Task
from gpt1.text.specials import SPECIALS


def make_classifier(
    recipe: Recipe,
    tasks: Mapping[str, Task],
    vocab_size: int,
    init: Path | None,
    device: torch.device = HOST,
    *,
    tells_domains: bool = False,
) -> Classifier:
    """Return a network of the recipe's shape with a head for each task, with weights of the run `init` (None: new).

    `vocab_size` does not count the special tokens, whose rows are new unless `init` was fine-tuned itself. What is
    taken over lies on the device then; what is new does not yet.
    """
    training, settings, rows = recipe.training, recipe.finetuning, vocab_size + len(SPECIALS)
    source = None if settings.scratch else init
    with ThreadPoolExecutor(1) as pool:  # weights are read while others are drawn
        reading = pool.submit(find_source, source, recipe.shape, settings.transfer_layers, device) if source else None
        body = build_model(
            recipe.shape,
            rows,
            compute=DTYPES[training.precision],
            seed=training.seed,
            checkpoint_activations=training.checkpoint_activations,
            specials=len(SPECIALS),
            bidirectional=settings.bidirectional,
            loaded=_given(recipe.shape, rows, settings.transfer_layers) if source else (),
        )
        heads = head_shapes(tasks, settings.windows)
        model = build_classifier(body, heads, seed=training.seed, tells_domains=tells_domains)
    if reading is not None:
        transfer(body, reading.result(), device)
    return model.double() if training.precision == "fp64" else model


def _given(shape: Shape, rows: int, layers: int | None) -> set[str]:
    """Return the names of all weights that are taken over whole: not those of tables, whose last rows are new."""
    with torch.device("meta"):
        names = [name for name, _ in build_model(shape, rows).named_parameters()]
    return {name for name in names if _gives(name, shape.layers, layers)} - TABLES


def _gives(name: str, depth: int, layers: int | None) -> bool:
    """Whether the weights of this name are taken over; the last norm belongs to the last block's output."""
    if layers is None or layers == depth:
        return True
    if name.startswith("blocks."):
        return int(name.split(".")[1]) < layers
    return not name.startswith("final_norm.")


@dataclass(frozen=True)
class TransferSource:
    """The weights that a new network takes over: of the first blocks and what comes before them."""

    path: Path  # of their checkpoint
    depth: int
    layers: int | None  # None: all
    weights: dict[str, Tensor]

    def gives(self, name: str) -> bool:
        """Whether the weights of this name are taken over."""
        return _gives(name, self.depth, self.layers)


def find_source(init: Path, shape: Shape, layers: int | None, device: torch.device = HOST) -> TransferSource:
    """Return what is taken over of a run's best checkpoint, on a device; `layers`: so many blocks (None: all)."""
    depth = shape.layers
    if layers is not None and layers > depth:
        raise SettingError(f"{layers} blocks cannot be taken from {init}, which has {depth}")
    checkpoint = find_checkpoint(init, BEST, device=device)
    found = {name.removeprefix(BODY): tensor for name, tensor in checkpoint.model.items()}
    weights = {name: tensor for name, tensor in found.items() if _gives(name, depth, layers)}
    return TransferSource(checkpoint.path, depth, layers, weights)


@torch.no_grad()
def transfer(body: Model, source: TransferSource, device: torch.device = HOST) -> None:
    """Give a network the weights that are taken over; the rest stays new."""
    placed = {}
    for name, parameter in body.named_parameters():
        if source.gives(name):
            value = source.weights.get(name)
            if value is None or not _fits(name, value.shape, parameter.shape):
                raise FormatError(f"{source.path} does not fit the network: '{name}' is missing or of another shape")
            if device.type == HOST.type:
                parameter[: len(value)].copy_(value)
            else:  # as in `load_weights`
                value, new = value.to(device, parameter.dtype), parameter[len(value) :].to(device)
                placed[name] = torch.cat([value, new]) if len(new) else value
    body.load_state_dict(placed, strict=False, assign=True)


def _fits(name: str, found: torch.Size, wanted: torch.Size) -> bool:
    """Whether a tensor can be taken over: as it is, or as the first rows of a table that has special tokens too."""
    if name in TABLES:
        return found[1:] == wanted[1:] and found[0] in (wanted[0], wanted[0] - len(SPECIALS))
    return found == wanted
