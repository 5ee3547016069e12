"""A run folder from weights that were trained elsewhere: to generate, to evaluate, to fine-tune from, to serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import lock_folder
from gpt1.inference.run import Run, load_run
from gpt1.model import build_model
from gpt1.recipes.catalog import PAPER
from gpt1.recipes.values import Shape
from gpt1.records.run import PRETRAINING, Imported, RunRecord
from gpt1.runs.checkpoints import Tensors, clean_up, save_checkpoint
from gpt1.runs.folder import begin_run, is_begun_copy, made_for
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE
from gpt1.text.tokenizer import Tokenizer


def check_target(out: Path) -> None:
    """Refuse a folder for a new run that holds anything but what an import that was killed left there."""
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or is_begun_copy(out, 0, {TOKENIZER_FILE}))):
        raise InputError(f"{out} is there already; choose a new or empty folder for the run")


def write_run(
    out: Path, source: Imported, shape: Shape, weights: Tensors, tokenizer: Tokenizer, *, device: str | None
) -> Run:
    """Write a run of these weights, and open it; `source` says where they come from.

    Its arithmetic is in fp32, the precision the weights were published in.
    """
    _check_weights(weights, shape, tokenizer.vocab_size, source.path)
    recipe = replace(PAPER, shape=shape, training=replace(PAPER.training, precision="fp32"))
    record = RunRecord(
        PRETRAINING, recipe, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size, imported=source
    )
    with lock_folder(out):
        check_target(out)
        clean_up(out)
        save_checkpoint(out, 0, weights, {}, {}, made_for(record))
        tokenizer.save(out / TOKENIZER_FILE, overwrite=True)
        begin_run(out, record, out / TOKENIZER_FILE)  # which makes the folder a run
    return load_run(out, device=device)


def _check_weights(weights: Tensors, shape: Shape, vocab_size: int, where: str) -> None:
    """Refuse weights that are not those of the network that they were said to be."""
    if (rows := len(weights["tokens"])) != vocab_size:
        raise FormatError(f"{where} has {rows:,} token vectors, but its vocabulary has {vocab_size:,} tokens")
    with torch.device("meta"):
        wanted = {name: tuple(weight.shape) for name, weight in build_model(shape, vocab_size).named_parameters()}
    for name in sorted(wanted.keys() | weights.keys()):
        found = tuple(weights[name].shape) if name in weights else None
        if found != wanted.get(name):
            raise FormatError(f"{where} does not fit its shape: {name} has {found}, expected {wanted.get(name)}")
        if not weights[name].isfinite().all():
            raise FormatError(f"{where} holds numbers in {name} that are none (NaN or infinite)")
