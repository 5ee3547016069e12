"""A run measured on any text: a prepared corpus, or files as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gpt1.base.errors import InputError, SettingError
from gpt1.corpus.prepare import prepare
from gpt1.inference.run import Run
from gpt1.model import token_losses
from gpt1.pretraining.objective import scores, text_loss
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import validation_windows
from gpt1.training.batches import share_of

SEQUENCES = 16  # at once
SPLIT = "valid"  # that a run is measured on, where none is named


def measure_corpus(run: Run, corpus: str | Path | None, split: str = SPLIT) -> dict[str, float]:
    """Return a run's scores on a split of a corpus; without one, of that it was trained on."""
    folder = corpus_of(run) if corpus is None else Path(corpus)
    return _measure(run, TokenStream(folder, split), str(folder))


def corpus_of(run: Run) -> Path:
    """Return the corpus that a run was trained on, where it is still there."""
    if run.record.corpus is None:
        raise SettingError(f"{run.path} was imported and has no corpus of its own; name texts, or a `corpus`")
    folder = Path(run.record.corpus.path)
    if not folder.is_dir():
        raise InputError(f"{run.path} was trained on {folder}, which is not there now; say where it is with `corpus`")
    return folder


def measure_text(run: Run, paths: Sequence[str]) -> dict[str, float]:
    """Return a run's scores on text files, prepared with the run's tokenizer and nothing left out."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(paths, run.tokenizer, folder, valid=0.0, duplicates="keep", workers=1)
        return _measure(run, TokenStream(folder, "train"), ", ".join(paths))


@torch.no_grad()
def window_losses(run: Run, stream: TokenStream) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return of each window of a text, side by side from its start, how many nats it lost and its number of targets."""
    _check_tokenizer(run, stream, "the text")
    nats, targets = [], []
    for batch in validation_windows(stream, context=run.recipe.shape.context, batch=SEQUENCES):
        (part,) = share_of(batch, SEQUENCES, SEQUENCES, 0, 1)  # filled up, so that compiled code meets one shape
        ids, wanted = (torch.from_numpy(part.arrays[name]).to(run.device).long() for name in ("ids", "targets"))
        hidden, output = run.model(ids)
        losses = token_losses(hidden.flatten(0, 1), output, wanted.flatten(), run.model.vocab_size)
        nats.append(losses.double().view(wanted.shape).sum(1)[: len(batch)].cpu().numpy())
        targets.append((wanted >= 0).double().sum(1)[: len(batch)].cpu().numpy())
    return np.concatenate(nats), np.concatenate(targets)


def _check_tokenizer(run: Run, stream: TokenStream, what: str) -> None:
    if stream.fingerprint != run.tokenizer.fingerprint:
        raise InputError(f"{what} was made with another tokenizer than the run {run.path}: prepare it with that one")


def _measure(run: Run, stream: TokenStream, what: str) -> dict[str, float]:
    _check_tokenizer(run, stream, what)
    batches = validation_windows(stream, context=run.recipe.shape.context, batch=SEQUENCES)
    total, targets = text_loss(run.model, batches, SEQUENCES, run.device)
    return {**scores(total, targets, stream.bytes), "unknown_tokens": float(stream.unknown_tokens)}
