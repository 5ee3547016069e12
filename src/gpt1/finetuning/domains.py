"""Adversarial adaptation to a domain without labels (Ganin and Lempitsky, 2015; Ganin et al., 2016).

Beside each labelled example of the source domain a batch has a text of the target domain. A linear classifier learns
which of the two each is from, by the vector that the task's head is given; the network before it is moved against what
helps that classifier, its gradient times -lambda (`model/reversal.py`):

    L(heads, network) = L_task + w L1 - lambda L_domain        L(domain classifier) = L_domain

L_domain is the mean of the binary cross-entropy over the texts of both. lambda is `finetuning.domain_weight`, times
2 / (1 + exp(-10 p)) - 1 where it rises, p being the share of the updates that is done. Which texts batch k has, and its
lambda, are computed from k alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpt1.base.shuffle import permutation
from gpt1.finetuning.batches import DOMAIN, LM, PackedBatch, TaskBatches, TrainSet
from gpt1.finetuning.target import TargetTexts
from gpt1.recipes.values import Finetuning
from gpt1.training.batches import MicroBatchArrays

STEEPNESS = 10.0  # of the rise, as in the paper
_ORDER = 1  # of the key that shuffles the texts; 0 is that of the only task's examples


def reversal(share: float, settings: Finetuning) -> float:
    """Return lambda where so large a share of the updates is done."""
    rise = 2 / (1 + math.exp(-STEEPNESS * min(share, 1.0))) - 1 if settings.domain_ramp else 1.0
    return settings.domain_weight * rise


class DomainBatches:
    """Batches of labelled examples with as many texts of the target domain beside them."""

    def __init__(
        self, source: TaskBatches, target: TargetTexts, settings: Finetuning, *, batch: int, seed: int, updates: int
    ) -> None:
        self._source, self._target, self._settings = source, target, settings
        self._batch, self._seed, self._updates = batch, seed, updates

    @property
    def tokens_a_batch(self) -> float:
        """How many tokens a batch has on average."""
        split = self._target.split
        return self._source.tokens_a_batch + self._batch * len(split.ids) / len(split)

    def batch(self, k: int) -> DomainBatch:
        """Return batch `k`, whatever was asked for before."""
        source = self._source.batch(k)
        task = source.lesson.task
        if not self._settings.target_lm:
            task = replace(task, auxiliary_lm=False)
        lesson = TrainSet(task, self._target.split, np.zeros(self._target.split.labels.shape))
        target = replace(source, lesson=lesson, examples=self._texts(k, len(source)))
        return DomainBatch(source, target, reversal(k / self._updates, self._settings))

    def _texts(self, k: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Return the texts of batch `k`: a shuffle of all after another, of which each batch has its own places."""
        size = len(self._target.split)
        places = np.arange(k * self._batch, k * self._batch + count)
        found = np.empty(count, np.int64)
        for epoch in np.unique(places // size).tolist():
            here = places // size == epoch
            found[here] = permutation(size, (self._seed, epoch, _ORDER))(places[here] % size)
        return found


@dataclass(frozen=True)
class DomainBatch:
    """The examples of one update, and as many texts of the target domain."""

    source: PackedBatch
    target: PackedBatch
    reversal: float

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def counts(self) -> dict[str, float]:
        """How much each term counts: beside those of the examples the texts of both domains, and all next tokens."""
        own = self.source.counts | {DOMAIN: 2.0 * len(self)}
        if self.source.lesson.task.auxiliary_lm and self.target.lesson.task.auxiliary_lm:
            own[LM] += self.target.counts[LM]
        return own

    def part(self, first: int, real: int, size: int) -> MicroBatchArrays:
        """Return `real` examples from `first` on and the texts beside them, each filled up to `size`, in one row."""
        source, target = self.source.part(first, real, size), self.target.part(first, real, size)
        ours, theirs = source.arrays, target.arrays
        sequences, tokens = len(ours["offsets"]) - 1, len(ours["ids"])
        per_text = self.source.lesson.task.sequences
        ends = theirs["offsets"][1 : size * per_text + 1] - 1 + tokens
        arrays = ours | {
            "offsets": np.concatenate((ours["offsets"], theirs["offsets"][1:] + ours["offsets"][-1])),
            "sequence": np.concatenate((ours["sequence"], theirs["sequence"] + sequences)),
            "target_ends": ends.astype(np.int64),
            "has_domain": (np.arange(size) < real).astype(self.source.packing.dtype),
            "reversal": np.array([self.reversal], self.source.packing.dtype),
        }
        for name in ("ids", "position", "targets", "token_weights"):
            arrays[name] = np.concatenate((ours[name], theirs[name]))
        # Behind the places of the whole batch's examples, so that no text is dropped as an example is.
        moved = np.where(target.sequences < 0, -1, target.sequences + len(self) * per_text)
        places = np.concatenate((source.sequences, moved)).astype(np.int32)
        longest = max(int(source.facts["longest"]), int(target.facts["longest"]))
        return MicroBatchArrays(arrays, places, source.facts | {"longest": longest})
