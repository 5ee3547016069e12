"""What pre-training learns, and is measured by: L1 of the paper, the next token of unlabelled text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor, nn

from gpt1.model import DropoutKey, Model, linear_cross_entropy, token_losses
from gpt1.training.batches import Batch, share_of
from gpt1.training.distributed import World


class LanguageModelling(nn.Module):
    """The sum of the losses of a micro-batch's targets; padded positions have none."""

    weights: ClassVar[dict[str, float]] = {"lm": 1.0}

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tensors: dict[str, Tensor], noise: DropoutKey | None) -> dict[str, Tensor]:
        """Return the term `lm`."""
        hidden, output = self.model(tensors["ids"].long(), noise)
        targets = tensors["targets"].flatten().long()
        ones = torch.ones_like(targets, dtype=torch.float32)
        loss = linear_cross_entropy(hidden.flatten(0, 1), output, targets, ones, self.model.vocab_size)
        return {"lm": loss}


@torch.no_grad()
def text_loss(
    model: Model, batches: Iterable[Batch], size: int, device: torch.device, world: World | None = None
) -> tuple[float, int]:
    """Return the sum of the losses of all targets, in nats, and their number; ranks take turns and add up.

    Batches hold at most `size` sequences; all are filled up to that, so that compiled code meets one shape.
    """
    world = world or World()
    totals = torch.zeros(2, dtype=torch.float64, device="cpu" if device.type == "mps" else device)
    for batch, counts in _turns(batches, world):
        for part in share_of(batch, size, size, 0, 1):
            ids, targets = (torch.from_numpy(part.arrays[name]).to(device).long() for name in ("ids", "targets"))
            hidden, output = model(ids)
            losses = token_losses(hidden.flatten(0, 1), output, targets.flatten(), model.vocab_size)
            if counts:
                totals += torch.stack([losses.double().sum(), (targets >= 0).double().sum()]).to(totals.device)
    world.add_up(totals)
    return totals[0].item(), int(totals[1].item())


def _turns(batches: Iterable[Batch], world: World) -> Iterator[tuple[Batch, bool]]:
    """Yield this rank's batches; where the last turn has none for it, one that does not count: all must keep step."""
    source = iter(batches)
    while turn := list(islice(source, world.size)):
        yield turn[min(world.rank, len(turn) - 1)], world.rank < len(turn)


def scores(total: float, targets: int, text_bytes: float) -> dict[str, float]:
    """Return loss (nats a token), perplexity and bits per byte of text."""
    loss = total / targets
    return {
        "valid_loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_byte": total / math.log(2) / text_bytes,
        "targets": float(targets),
    }
