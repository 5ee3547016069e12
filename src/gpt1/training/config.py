"""What a training is given: an objective, batches, a recipe, and ways to look at the model meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from gpt1.model import DropoutKey
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Sampled
from gpt1.training.batches import Batches


class Objective(Protocol):
    """What is learned: a module that holds the model and gives the sums of the loss's terms for a micro-batch."""

    model: nn.Module  # what learns and is saved; its `blocks` are what FSDP shares out one by one
    weights: dict[str, float]  # of each term

    def __call__(self, tensors: dict[str, Tensor], noise: DropoutKey | None, **facts: Any) -> dict[str, Tensor]:
        """Return the sum of each term over the micro-batch."""


class Judgement(NamedTuple):
    """How good a model is: scores for people, and a cost by which the best checkpoint is found."""

    scores: dict[str, float]
    cost: float
    tiebreak: float | None = None  # of equal costs the one with less is better; None: the later one


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """What is trained, on what and how long, and how it is looked at on the way."""

    objective: nn.Module  # an `Objective`
    batches: Batches
    updates: int
    recipe: Recipe
    tokens_per_step: int
    flops_per_token: float
    evaluate: Callable[[], Judgement] | None = None
    sample: Callable[[int], Sampled] | None = None
    has_parent: bool = False  # the first weights are on the disk already, and need no checkpoint
