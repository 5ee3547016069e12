"""Answers of a fine-tuned network: the probability of each answer to each example, whatever order they come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Classifier, HeadShape
from gpt1.tasks.answers import answers
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.packed import pack_sequences
from gpt1.tasks.shapes import CHOICES

Probabilities = NDArray[np.float64]


def head_shape(task: Task) -> HeadShape:
    """Return the head that a task needs."""
    chooses = task.shape == CHOICES
    outputs = 1 if chooses else answers(task)
    return HeadShape(outputs, task.sequences, scores_sequences=chooses, is_multilabel=task.is_multilabel)


def head_shapes(tasks: Mapping[str, Task]) -> dict[str, HeadShape]:
    """Return the heads that tasks need."""
    return {name: head_shape(task) for name, task in tasks.items()}


def probabilities(model: Classifier, task: str, split: EncodedSplit, pause: Pause = go_on) -> Probabilities:
    """Return the probability of each answer to each example [examples, answers], in float64."""
    everything = np.zeros((0, 0))
    for examples, found in probabilities_by_portion(model, task, split, pause):
        if not len(everything):
            everything = np.zeros((len(split), found.shape[1]))
        everything[examples] = found
    return everything


@torch.no_grad()
def probabilities_by_portion(
    model: Classifier, task: str, split: EncodedSplit, pause: Pause = go_on
) -> Iterator[tuple[NDArray[np.int64], Probabilities]]:
    """Yield which examples were answered, and their probabilities: all of them at once may be too many to hold."""
    device = next(model.parameters()).device
    head = model.tasks[task]
    for examples in _portions(split, head.sequences, device, pause):
        row = pack_sequences([ids for example in examples for ids in split.sequences(int(example))])
        logits_EA, *_ = model(*on_device(row, device), task)
        yield examples, head.probabilities(logits_EA.float().cpu().double()).numpy()


def _portions(split: EncodedSplit, sequences: int, device: torch.device, pause: Pause) -> Iterator[NDArray[np.int64]]:
    """Yield the examples, short ones first, in portions of about as many tokens as fit at once."""
    bounds = split.offsets[::sequences]
    longest = np.maximum.reduceat(np.diff(split.offsets), np.arange(0, len(split) * sequences, sequences))
    order = np.lexsort((np.arange(len(split)), longest))
    for portion in portions(np.diff(bounds)[order].tolist(), device, pause):
        yield order[portion]
