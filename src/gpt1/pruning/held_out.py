"""What a network's loss is on data that it has not learned, by which it is decided what it can do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gpt1.base.errors import InputError, SettingError
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many
from gpt1.finetuning.measure import TableReading, read_again, read_beside_train
from gpt1.inference.answering import task_of
from gpt1.inference.classification import pack_windows, probabilities
from gpt1.inference.portions import on_device, portions
from gpt1.inference.run import Run
from gpt1.model import Classifier, Model, linear_cross_entropy
from gpt1.pretraining.measure import SPLIT, corpus_of
from gpt1.pretraining.objective import text_loss
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import validation_windows
from gpt1.tasks.answers import log_likelihoods, soft_targets
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose
from gpt1.tasks.packed import pack_sequences
from gpt1.training.batches import Batch

TOKENS, ROWS = 8_192, 500  # that are looked at: enough to tell layers apart, few enough to be looked at often
_SEQUENCES = 4  # at once
_TABLE = "held-out"  # what the rows of a table are called


Tell = Callable[[str], None]


class HeldOut(Protocol):
    """Data that was not learned."""

    @property
    def what(self) -> str:
        """What it is, in words."""

    def loss(self, body: Model) -> float:
        """Return the mean loss of a network."""

    def losses(self, body: Model) -> Iterator[Tensor]:
        """Yield the loss of some of the data after the other, each with its gradient; together they are all of it."""


@dataclass(frozen=True, eq=False)
class HeldOutText:
    """The beginning of a corpus's text for validation."""

    stream: TokenStream
    device: torch.device

    @property
    def what(self) -> str:
        """How much of it is looked at."""
        return f"{many(min(TOKENS, len(self.stream)), 'token')} of text for validation"

    def loss(self, body: Model) -> float:
        """Return the mean loss of a next token, in nats."""
        total, targets = text_loss(body, self._batches(body), _SEQUENCES, self.device)
        return total / targets

    def losses(self, body: Model) -> Iterator[Tensor]:
        """Yield the sum of the losses of some windows after the other."""
        for batch in self._batches(body):
            ids, targets = (torch.from_numpy(batch.arrays[name]).to(self.device).long() for name in ("ids", "targets"))
            hidden, output = body(ids)
            ones = torch.ones(targets.numel(), device=self.device)
            yield linear_cross_entropy(hidden.flatten(0, 1), output, targets.flatten(), ones, body.vocab_size)

    def _batches(self, body: Model) -> Iterator[Batch]:
        return validation_windows(self.stream, context=body.shape.context, batch=_SEQUENCES, limit=TOKENS)


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Labelled rows of the tasks that a network has learned."""

    classifier: Classifier
    tasks: Mapping[str, EncodedTask]

    @property
    def what(self) -> str:
        """How many of them are looked at."""
        return many(sum(len(split) for _, split in self.rows()), "row")

    def loss(self, body: Model) -> float:
        """Return the mean over the rows of minus the logarithm of how likely their labels are found."""
        model = self.classifier.with_body(body)
        found = [
            -log_likelihoods(task, split.labels, probabilities(model, task.name, split)) for task, split in self.rows()
        ]
        return float(np.concatenate(found).mean())

    def losses(self, body: Model) -> Iterator[Tensor]:
        """Yield the sum of the losses of some rows after the other."""
        model, device = self.classifier.with_body(body), body.tokens.device
        for task, split in self.rows():
            sizes = np.diff(split.offsets[split.begins]).tolist()
            for portion in portions(sizes, device):
                some = choose(split, list(range(*portion.indices(len(split)))))
                row = pack_sequences([ids for example in range(len(some)) for ids in some.sequences(example)])
                windows = None if some.windows is None else pack_windows(some.windows, device)
                logits, *_ = model(*on_device(row, device), task.name, windows=windows)
                shares = torch.from_numpy(soft_targets(task, some.labels)).to(logits)
                weights = torch.ones(some.labels.shape, dtype=logits.dtype, device=device)
                yield model.tasks[task.name].loss(logits, shares, weights)

    def rows(self) -> Iterator[tuple[Task, EncodedSplit]]:
        """Yield what is looked at: of each split for dev as many labelled rows, drawn always the same."""
        for encoded in self.tasks.values():
            for name in encoded.task.dev_splits:
                if name in encoded.splits and (known := np.flatnonzero(encoded.splits[name].labelled)).size:
                    order = permutation(len(known), (0,))(np.arange(min(ROWS, len(known))))
                    yield encoded.task, choose(encoded.splits[name], known[np.sort(order)].tolist())


def find_held_out(run: Run, corpus: str | Path | None, table: str | Path | None, tell: Tell) -> HeldOut:
    """Return what a run is looked at with: a corpus, a table of its task, or else its own data for development."""
    if corpus is not None and table is not None:
        raise SettingError("name either a `corpus` or a `table`, not both")
    if table is not None or (run.has_tasks and corpus is None):
        found = HeldOutRows(run.classifier, _tasks(run, table, tell))
        if not any(True for _ in found.rows()):
            raise InputError(f"there are no labelled rows to look at {run.path} with; name a `table` of others")
        return found
    folder = corpus_of(run) if corpus is None else Path(corpus)
    stream = TokenStream(folder, SPLIT)
    if stream.fingerprint != run.tokenizer.fingerprint:
        raise InputError(f"{folder} was made with another tokenizer than the run {run.path}: prepare it with that one")
    return HeldOutText(stream, run.device)


def _tasks(run: Run, table: str | Path | None, tell: Tell) -> dict[str, EncodedTask]:
    if table is not None:
        task = task_of(run)
        return {task.name: read_beside_train(run, task, Path(table), _TABLE, TableReading(), tell)}
    try:
        found, notices = read_again(run)
    except InputError as error:
        raise InputError(f"{error}; name other rows with `table`, or text with `corpus`") from None
    for text in notices:
        tell(text)
    return found
