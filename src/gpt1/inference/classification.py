"""Answers of a fine-tuned network: the probability of each answer to each example, whatever order they come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.inference.portions import Pause, go_on, on_device, portions
from gpt1.model import Classifier, HeadShape, WindowPacking
from gpt1.recipes.values import MEAN, NO_WINDOWS
from gpt1.tasks.answers import answers
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.packed import PackedRow, pack_sequences, packed_places, window_cells
from gpt1.tasks.shapes import CHOICES

Probabilities = NDArray[np.float64]


def head_shape(task: Task, windows: str = NO_WINDOWS) -> HeadShape:
    """Return the head that a task needs, whose long texts are read so."""
    chooses = task.shape == CHOICES
    outputs = 1 if chooses else answers(task)
    pooling = MEAN if windows == NO_WINDOWS else windows
    return HeadShape(outputs, task.sequences, chooses, task.is_multilabel, pooling)


def head_shapes(tasks: Mapping[str, Task], windows: str = NO_WINDOWS) -> dict[str, HeadShape]:
    """Return the heads that tasks need, whose long texts are read so."""
    return {name: head_shape(task, windows) for name, task in tasks.items()}


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
    for examples in _portions(split, device, pause):
        row = pack_sequences([ids for example in examples for ids in split.sequences(int(example))])
        if split.places is not None:
            yield examples, _of_words(model, task, split, examples, row, device)
            continue
        windows = None if split.windows is None else pack_windows(split.windows[examples], device)
        logits_EA, *_ = model(*on_device(row, device), task, windows=windows)
        yield examples, head.probabilities(logits_EA.float().cpu().double()).numpy()


def _of_words(
    model: Classifier, task: str, split: EncodedSplit, examples: NDArray[np.int64], row: PackedRow, device: torch.device
) -> Probabilities:
    """Return the probabilities of the words of examples that were packed [examples, words, labels]."""
    places, there = packed_places(split, examples)
    logits_RA, *_ = model(*on_device(row, device), task, places=torch.from_numpy(places).to(device))
    shares = model.tasks[task].probabilities(logits_RA.float().cpu().double()).numpy()
    found = np.zeros((*there.shape, shares.shape[1]))
    found[there] = shares
    return found


def pack_windows(counts: NDArray[np.int64], device: torch.device) -> WindowPacking:
    """Return which windows are of which example, given how many each has."""
    cells, most = window_cells(counts)
    return WindowPacking(torch.from_numpy(cells).to(device), most)


def _portions(split: EncodedSplit, device: torch.device, pause: Pause) -> Iterator[NDArray[np.int64]]:
    """Yield the examples, short ones first, in portions of about as many tokens as fit at once."""
    bounds = split.offsets[split.begins]
    longest = np.maximum.reduceat(np.diff(split.offsets), split.begins[:-1])
    order = np.lexsort((np.arange(len(split)), longest))
    for portion in portions(np.diff(bounds)[order].tolist(), device, pause):
        yield order[portion]
