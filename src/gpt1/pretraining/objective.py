"""What pre-training learns, and is measured by: L1 of the paper, the next token of unlabelled text.

Beside it, where a recipe says so, masked next tokens: see `masking.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor, nn

from gpt1.model import DropoutKey, Model, linear_cross_entropy, require_causal, token_losses
from gpt1.pretraining.masking import IS_MASKED, LM, MASKED
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


class MixedModelling(nn.Module):
    """The sum of the losses of a micro-batch's targets: its next tokens, or those of them that are masked."""

    weights: ClassVar[dict[str, float]] = {LM: 1.0, MASKED: 1.0}
    leaves_weights_out = True  # what stands for a masked token is of no use to the other batches

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tensors: dict[str, Tensor], noise: DropoutKey | None) -> dict[str, Tensor]:
        """Return both terms; the one that the batch is not of is zero."""
        masked = tensors.get(IS_MASKED)
        hidden, output = self.model(tensors["ids"].long(), noise, masked_BT=masked)
        targets = tensors["targets"].flatten().long()
        ones = torch.ones_like(targets, dtype=torch.float32)
        loss = linear_cross_entropy(hidden.flatten(0, 1), output, targets, ones, self.model.vocab_size)
        asked, other = (LM, MASKED) if masked is None else (MASKED, LM)
        return {asked: loss, other: torch.zeros_like(loss)}


@torch.no_grad()
def text_loss(
    model: Model, batches: Iterable[Batch], size: int, device: torch.device, world: World | None = None
) -> tuple[float, int]:
    """Return the sum of the losses of all targets, in nats, and their number; ranks take turns and add up.

    Batches hold at most `size` sequences; all are filled up to that, so that compiled code meets one shape. Of batches
    that are masked the targets are what is masked.
    """
    require_causal(model)
    world = world or World()
    totals = torch.zeros(2, dtype=torch.float64, device="cpu" if device.type == "mps" else device)
    for batch, counts in _turns(batches, world):
        for part in share_of(batch, size, size, 0, 1):
            tensors = {name: torch.from_numpy(array).to(device) for name, array in part.arrays.items()}
            targets = tensors["targets"].long()
            hidden, output = model(tensors["ids"].long(), masked_BT=tensors.get(IS_MASKED))
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
