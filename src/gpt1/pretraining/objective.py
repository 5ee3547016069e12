"""What pre-training learns: L1 of the paper, the next token of unlabelled text."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from gpt1.model import DropoutKey, Model, linear_cross_entropy


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
