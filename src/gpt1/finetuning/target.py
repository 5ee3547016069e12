"""Texts without labels of the domain that a run is adapted to: read, recorded, and told apart from those it learns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, SettingError
from gpt1.base.shuffle import permutation
from gpt1.base.tables import file_format, lines_of
from gpt1.base.wording import many
from gpt1.documents.figures import score
from gpt1.finetuning.data import Source, read_labelled
from gpt1.finetuning.teaching import new_texts, read_texts
from gpt1.inference.portions import on_device
from gpt1.model import Classifier
from gpt1.records.run import RecordedAdaptation, RecordedTexts
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose, encode_examples
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.packed import pack_sequences
from gpt1.tasks.shapes import CHOICES
from gpt1.text.tokenizer import Tokenizer

Floats = NDArray[np.float64]

FEWEST = 8  # of either domain, below which nothing is said of how well they are told apart
MOST = 400  # of either domain, by which it is told
_AT_ONCE = 16  # texts


@dataclass(frozen=True, eq=False)
class TargetTexts:
    """The texts of the target domain, as the network reads them."""

    task: str
    split: EncodedSplit
    recorded: RecordedAdaptation


def read_target(
    path: str | Path, source: Source, tasks: Mapping[str, EncodedTask], tokenizer: Tokenizer
) -> tuple[TargetTexts, list[str]]:
    """Return texts without labels, which have the columns of the labelled rows, and what to tell of them."""
    if source.encoded:
        raise SettingError(
            "`target_texts` are read as the labelled rows are, and what is encoded has no columns; name the table "
            "itself with `train`"
        )
    if len(tasks) > 1:
        raise SettingError(f"`target_texts` are of one task, and there are {len(tasks)}; learn one at a time")
    ((name, encoded),) = tasks.items()
    if encoded.task.shape == CHOICES:
        raise SettingError(
            f"task '{name}' has choices, whose answers are scored one by one: `target_texts` are for tasks of one text "
            "or of two"
        )
    if encoded.task.labels_words:
        raise SettingError(f"where each word has a label, as in '{name}', `target_texts` have no meaning; leave it out")
    if encoded.has_windows:
        raise SettingError(
            f"long texts of '{name}' are read in windows, and `target_texts` are not; cut both to the context with "
            "`changes=['finetuning.windows=off']`"
        )
    (labelled,) = read_labelled(source)
    found, told = _read(Path(path), labelled, source)
    split = encode_examples(encoded.task, found, tokenizer, encoded.context)
    if cut := int((split.cut > 0).sum()):
        told.append(
            f"{path}: {many(cut, 'text')} of {len(split):,} longer than {encoded.context} tokens lost their ends"
        )
    identity = hashlib.sha256(split.ids.tobytes() + split.offsets.tobytes()).hexdigest()
    texts = RecordedTexts(str(Path(path).resolve()), identity, len(split))
    return TargetTexts(name, split, RecordedAdaptation(texts)), told


def _read(path: Path, labelled: Labelled, source: Source) -> tuple[list[Example], list[str]]:
    if file_format(path) not in ("txt", "md"):
        return read_texts(path, labelled, source.encoding, skip_bad=source.skip_bad)
    if len(labelled.task.fields) > 1:
        raise SettingError(
            f"{path} is a text, whose lines are texts, and rows of '{labelled.task.name}' have "
            f"{len(labelled.task.fields)}; name a table with the columns {' and '.join(labelled.task.fields)}"
        )
    lines = enumerate(lines_of(path, source.encoding), start=1)
    found = [Example((line.strip(),), None, number) for number, line in lines if line.strip()]
    return new_texts(path, labelled, found, [])


def target_in_words(adapted: RecordedAdaptation, *, paths: bool = True) -> str:
    """Return to which texts a run was adapted."""
    name = adapted.texts.path if paths else Path(adapted.texts.path).name
    return f"{many(adapted.texts.rows, 'text')} of {name}"


def apart_in_words(adapted: RecordedAdaptation) -> str | None:
    """Return how well the domains can be told apart, None where it is not known."""
    if adapted.apart is None:
        return None
    before = "" if adapted.apart_before is None else f", before the first update {score(adapted.apart_before)} %"
    return f"told apart in {score(adapted.apart)} % of texts (a guess: 50.0){before}"


def require_same_target(run: Path, begun: RecordedAdaptation | None, now: RecordedAdaptation | None) -> None:
    """Refuse to go on with a run that was adapted to other texts, or to none; the file may have been moved."""
    if _identity(begun) == _identity(now):
        return
    before, after = ("no texts" if one is None else target_in_words(one) for one in (begun, now))
    raise InputError(
        f"{run} was begun with {before} of a target domain, and is to go on with {after}: a run goes on as it was "
        "begun; give `target_texts` as they were, or begin a new run in another folder"
    )


def _identity(adapted: RecordedAdaptation | None) -> str | None:
    return None if adapted is None else adapted.texts.identity


# ---- how well the domains are told apart ----


def told_apart(model: Classifier, task: str, source: EncodedSplit, target: EncodedSplit) -> float | None:
    """Return how often a linear classifier tells which domain a text is of, by the network's vector of it.

    It is taught on half of some texts of either domain, as many of one as of the other, and asked about the other half,
    and then the other way round: a guess is right in half of them. None where there are too few.
    """
    count = min(len(source), len(target), MOST)
    if count < FEWEST:
        return None
    drawn = [
        choose(split, permutation(len(split), (0, len(split)))(range(count)).tolist()) for split in (source, target)
    ]
    found = np.concatenate([vectors_of(model, task, split) for split in drawn])
    is_target = np.repeat((-1.0, 1.0), count)
    halves = np.tile(np.arange(count) % 2, 2)
    right = np.zeros(2 * count, bool)
    for half in (0, 1):
        taught = halves != half
        right[~taught] = _ridge(found[taught], is_target[taught], found[~taught]) == is_target[~taught]
    return float(right.mean())


@torch.no_grad()
def vectors_of(model: Classifier, task: str, split: EncodedSplit) -> Floats:
    """Return the vector of each example [examples, width] that the task's head and the domain classifier are given."""
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    found = []
    for first in range(0, len(split), _AT_ONCE):
        examples = range(first, min(first + _AT_ONCE, len(split)))
        row = pack_sequences([ids for example in examples for ids in split.sequences(example)])
        ids, packing = on_device(row, device)
        hidden, _ = model.body(ids, None, packing)
        found.append(model.vectors(hidden, packing.offsets[1:].long() - 1, task).double().cpu().numpy())
    model.train(was_training)
    return np.concatenate(found)


def _ridge(x: Floats, y: Floats, asked: Floats) -> Floats:
    """Return -1 or 1 for each vector: least squares with a ridge, every feature taken with mean 0 and deviation 1."""
    mean, deviation = x.mean(0), x.std(0) + 1e-9
    x, asked = ((one - mean) / deviation / np.sqrt(x.shape[1]) for one in (x, asked))
    weights = np.linalg.solve(x @ x.T + np.eye(len(x)), y)
    return np.where(asked @ (x.T @ weights) >= 0, 1.0, -1.0)
