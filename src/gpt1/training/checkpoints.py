"""Checkpoints on disk: folders that are whole or not there, checked when they are read.

`checkpoints/step-00001000/` holds model.safetensors, optimizer.safetensors and state.json, which is written last and
knows the checksum of each file and of itself. A damaged checkpoint is refused by name, and the one before it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import (
    file_hash,
    make_folder,
    read_json,
    remove_folder,
    remove_temporaries,
    whole_folder,
    write_json,
)
from gpt1.base.strict_json import finite

FOLDER = "checkpoints"
STATE_FILE, MODEL_FILE, OPTIMIZER_FILE = "state.json", "model.safetensors", "optimizer.safetensors"
FORMAT, VERSION = "gpt1-checkpoint", 2
_NAME = re.compile(r"step-(\d{8,})")

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole."""

    path: Path
    step: int
    model: Tensors
    optimizer: Tensors
    progress: dict[str, Any]


def save_checkpoint(run: Path, step: int, model: Tensors, optimizer: Tensors, progress: dict[str, Any]) -> Path:
    """Write the checkpoint of a step; until it is whole on the disk the ones before it are all there is."""
    make_folder(run / FOLDER)
    path = run / FOLDER / f"step-{step:08}"
    with whole_folder(path) as folder:
        for name, tensors in ((MODEL_FILE, model), (OPTIMIZER_FILE, optimizer)):
            try:
                save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, folder / name)
            except SafetensorError as error:  # how the library reports a full disk
                raise InputError(f"cannot write {path}: {error}") from error
        files = {name: file_hash(folder / name) for name in (MODEL_FILE, OPTIMIZER_FILE)}
        state = {"format": FORMAT, "version": VERSION, "step": step, "files": files, "progress": finite(progress)}
        write_json(folder / STATE_FILE, {**state, "sha256": _own_hash(state)})
    return path


def read_state(path: Path) -> dict[str, Any]:
    """Return the state.json of a checkpoint folder, checked against its own checksum."""
    state = read_json(path / STATE_FILE, "the state of a checkpoint")
    wanted = state.pop("sha256", None)
    if state.get("format") != FORMAT or wanted != _own_hash(state):
        raise FormatError(f"{path} is damaged: {STATE_FILE} does not match its checksum")
    if state["version"] != VERSION:
        raise FormatError(
            f"{path} is a checkpoint of version {state['version']}; this program reads version {VERSION}: train the "
            "run again, or use the gpt1 that made it"
        )
    return state


def load_checkpoint(path: Path, *, with_optimizer: bool = True) -> Checkpoint:
    """Read a checkpoint; a file that is missing, cut short or changed is named."""
    state = read_state(path)
    tensors: dict[str, Tensors] = {MODEL_FILE: {}, OPTIMIZER_FILE: {}}
    for name in (MODEL_FILE, OPTIMIZER_FILE) if with_optimizer else (MODEL_FILE,):
        file = path / name
        try:
            if file_hash(file) != state["files"][name]:
                raise FormatError(f"{path} is damaged: {name} does not match its checksum")
            tensors[name] = load_file(file)
        except PermissionError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from error
        except OSError as error:
            raise FormatError(f"{path} is damaged: {name} cannot be read ({error.strerror})") from error
    return Checkpoint(path, state["step"], tensors[MODEL_FILE], tensors[OPTIMIZER_FILE], state["progress"])


def list_checkpoints(run: Path) -> list[tuple[int, Path]]:
    """Return the steps and folders of a run's checkpoints, oldest first, whole or damaged."""
    folder = run / FOLDER
    entries = folder.iterdir() if folder.is_dir() else iter(())
    found = [(int(match[1]), path) for path in entries if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def newest_checkpoint(run: Path, refused: Callable[[str], None], *, with_optimizer: bool = True) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, telling `refused` of each newer one that is not."""
    for index, (_, path) in reversed(list(enumerate(list_checkpoints(run)))):
        try:
            return load_checkpoint(path, with_optimizer=with_optimizer)
        except (FormatError, InputError) as error:
            refused(f"{error}; " + ("using the checkpoint before it" if index else "there is none before it"))
    return None


def best_step(run: Path, refused: Callable[[str], None] | None = None) -> int | None:
    """Return the step of the kept checkpoint with the lowest cost, if any was evaluated.

    `refused` is told of those that cannot be read, any of which may have been the best.
    """
    costs = []
    for step, path in list_checkpoints(run):
        try:
            cost = read_state(path)["progress"].get("cost")
        except (FormatError, InputError) as error:
            if refused is not None:
                refused(f"{error}; it is passed over, though it may have been the best")
            continue
        if cost is not None and math.isfinite(cost):
            costs.append((cost, -step))
    return -min(costs)[1] if costs else None


def remove_old(run: Path, newest: int, keep: int, keep_every: int | None) -> None:
    """Remove checkpoints except the last `keep` up to step `newest`, the best, and one every `keep_every` steps.

    Later ones were refused when the run went back behind them: they are not counted, and give way when it gets there.
    """
    steps = [(step, path) for step, path in list_checkpoints(run) if step <= newest]
    best = best_step(run)
    for step, path in steps[:-keep]:
        if step != best and not (keep_every and step % keep_every == 0):
            remove_folder(path)


def clean_up(run: Path) -> None:
    """Remove what a killed writer left."""
    for folder in (run, run / FOLDER):
        if folder.is_dir():
            remove_temporaries(folder)


def _own_hash(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
