"""What happens in a run, as values; listeners make lines, files and curves of them. The loop itself prints nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict


@dataclass(frozen=True)
class Fold:
    """Which training of a cross-validation is at work, and how long all that are left take."""

    number: int  # from 1 on
    of: int
    seconds_left: float  # of this one, and of those after it


@dataclass(frozen=True)
class Stepped:
    """Updates were made; the figures are those of the last one."""

    step: int
    steps: int  # in all
    batch: int
    loss: float
    terms: dict[str, float]
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds_left: float
    memory_bytes: int
    utilisation: float | None  # share of the device's peak arithmetic that the model's own needed
    fold: Fold | None = None  # of a cross-validation, whose updates are counted for themselves; None: the run's own

    @property
    def where(self) -> str:
        """How far the training is, in words, such as `fold 2 of 3, update 5/20`."""
        fold = "" if self.fold is None else f"fold {self.fold.number} of {self.fold.of}, "
        return f"{fold}update {self.step}/{self.steps}"


@dataclass(frozen=True)
class Evaluated:
    """The model was measured on text it does not learn from."""

    step: int
    scores: dict[str, float]


class AttentionSample(TypedDict):
    """Where a network looked while it read a sentence."""

    tokens: list[str]
    weights: list[list[list[list[float]]]]  # by layer and head: how much each token took from each one before it


@dataclass(frozen=True)
class Sampled:
    """The model wrote something; a Transformer also looked at a sentence."""

    step: int
    samples: list[dict[str, str]]
    attention: AttentionSample | None = None


@dataclass(frozen=True)
class Saved:
    """A checkpoint is on the disk."""

    step: int
    path: Path


@dataclass(frozen=True)
class RolledBack:
    """A batch blew up: it will never be used again, and the run went back to a checkpoint."""

    step: int
    batch: int
    loss: float
    gradient_norm: float
    running_loss: float
    to_step: int


@dataclass(frozen=True)
class Noticed:
    """Something a person should know."""

    text: str


Event = Stepped | Evaluated | Sampled | Saved | RolledBack | Noticed
Listener = Callable[[Event], None]
