"""What a network can do without: layers by the loss that is measured without them, units by their share in it.

Layers go one after the other, each time the one without which the loss is least (greedy removal). A unit of a
feed-forward part counts by the mean of |activation x gradient|, by how much the loss would change to first order if it
were silent (Molchanov et al., 2017; Michel et al., 2019): one pass tells it of all units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gpt1.model import Model
from gpt1.pruning.held_out import HeldOut


@dataclass(frozen=True)
class Removal:
    """A layer that went, counted from 0 in the whole network, and the loss without it and those before it."""

    layer: int
    loss: float


def remove_layers(body: Model, held_out: HeldOut, keep: int, tell: Callable[[Removal], None]) -> list[Removal]:
    """Return which layers go, first to last, until `keep` of them are left; each is told."""
    left, removed = list(range(body.shape.layers)), []
    while len(left) > keep:
        losses = {layer: held_out.loss(body.with_layers([one for one in left if one != layer])) for layer in left}
        layer = min(left, key=losses.__getitem__)
        removed.append(Removal(layer, losses[layer]))
        left.remove(layer)
        tell(removed[-1])
    return removed


def strongest_units(body: Model, held_out: HeldOut, keep: int) -> list[list[int]]:
    """Return the units of each layer's feed-forward part that count most, `keep` of each, in their order."""
    counts = unit_counts(body, held_out)
    return [sorted(count.topk(keep).indices.tolist()) for count in counts]


def unit_counts(body: Model, held_out: HeldOut) -> list[Tensor]:
    """Return for each layer how much each unit of its feed-forward part counts [F]."""
    activations: list[Tensor] = []

    def keep(_module: nn.Module, given: tuple[Tensor, ...]) -> None:
        activations.append(given[0])

    blocks: list[Any] = list(body.blocks)
    hooks = [block.feed_forward.down.register_forward_pre_hook(keep) for block in blocks]
    counts = [torch.zeros(body.shape.feed_forward) for _ in blocks]
    try:
        with torch.enable_grad():
            for loss in held_out.losses(body):
                gradients = torch.autograd.grad(loss, activations)
                for count, activation, gradient in zip(counts, activations, gradients, strict=True):
                    count += (activation * gradient).detach().abs().float().flatten(0, -2).sum(0).cpu()
                activations.clear()
    finally:
        for hook in hooks:
            hook.remove()
    return counts
