"""A run measured on any text: a prepared corpus, or files as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpt1.base.errors import InputError, SettingError
from gpt1.corpus.prepare import prepare
from gpt1.inference.run import Run
from gpt1.pretraining.objective import scores, text_loss
from gpt1.pretraining.stream import TokenStream
from gpt1.pretraining.windows import validation_windows

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


def _measure(run: Run, stream: TokenStream, what: str) -> dict[str, float]:
    if stream.fingerprint != run.tokenizer.fingerprint:
        raise InputError(f"{what} was made with another tokenizer than the run {run.path}: prepare it with that one")
    batches = validation_windows(stream, context=run.recipe.shape.context, batch=SEQUENCES)
    total, targets = text_loss(run.model, batches, SEQUENCES, run.device)
    return {**scores(total, targets, stream.bytes), "unknown_tokens": float(stream.unknown_tokens)}
