"""The folders of estimators: runs that come and go with a value, travel in memory, and are saved.

Beside `run.json` lies `estimator.json`: the arguments of the estimator, and what it learned besides its run.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import is_temporary, lock_folder, read_sealed, require_own_folder, whole_file
from gpt1.base.record_files import Record
from gpt1.inference.run import Run
from gpt1.recipes.changes import recipe_as_json, recipe_from_json
from gpt1.recipes.values import Recipe
from gpt1.runs.checkpoints import Checkpoint, clean_up, save_checkpoint
from gpt1.runs.folder import RUN_FILE, is_begun_copy, read_run

FILE = "estimator.json"
_ARRAY_TYPE = re.compile(r"[<>|]([biuf]\d{1,2}|O|U\d{1,6})")  # of labels and of names of columns


_Plain = str | int | float | bool | None  # a setting, which may be written as a string too


class _Arguments(TypedDict):
    """The arguments of an estimator, but for those that say where."""

    init: str
    recipe: str | dict[str, object] | None
    epochs: _Plain
    lr: _Plain
    batch: _Plain
    lm_weight: _Plain
    layers: _Plain
    scratch: _Plain
    class_weights: NotRequired[_Plain]
    seed: _Plain
    settings: dict[str, object] | None
    symmetric: _Plain
    dev: _Plain


@dataclass(frozen=True)
class EstimatorRecord(Record):
    """What estimator.json holds."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-estimator", 1, "estimator", "an estimator"

    kind: str
    arguments: _Arguments
    learned: dict[str, object]


def in_new_folder(make: Callable[[Path], Run]) -> Run:
    """Return the run that is made in a temporary folder, which is removed with it, or where none comes of it."""
    folder = Path(tempfile.mkdtemp(prefix="gpt1-"))
    try:
        run = make(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(run, _remove, folder, os.getpid())
    return run


def _remove(folder: Path, process: int) -> None:
    """Remove a folder of this process; a fork has a copy of the run, but not of the folder."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


# ---- runs in memory ----


@dataclass(frozen=True)
class Packed:
    """A run without what only training needs."""

    files: dict[str, bytes]
    used: Checkpoint


def pack(run: Run) -> Packed:
    """Return the files of a run and the weights in use."""
    try:
        paths = [path for path in run.path.iterdir() if path.is_file() and not is_temporary(path)]
        files = {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise InputError(f"cannot read the estimator's run, {run.path}: {error.strerror}") from error
    return Packed(files, replace(run.checkpoint, optimizer={}))


def unpack(packed: Packed, folder: Path) -> Path:
    """Write a run to a new or empty folder, and return that; `run.json` comes last, so that with it all is there.

    What is there of a run that a killed writer had begun to write is written over.
    """
    with lock_folder(folder):
        used = packed.used
        begun = is_begun_copy(folder, used.step, packed.files)
        require_own_folder(folder, lambda entry: begun)
        clean_up(folder)
        save_checkpoint(folder, used.step, used.model, {}, used.progress, used.made_for)
        for name in sorted(packed.files, key=lambda name: name == RUN_FILE):
            with whole_file(folder / name) as file:
                file.write(packed.files[name])
    return folder


# ---- estimator.json ----


def write_facts(folder: Path, kind: str, arguments: Mapping[str, object], learned: Mapping[str, object]) -> None:
    """Write what an estimator is besides its run."""
    plain: Any = {name: _plain(value) for name, value in arguments.items()}
    EstimatorRecord(kind, plain, {name: _array_as_json(value) for name, value in learned.items()}).write(folder / FILE)


def read_facts(folder: Path, maker: str) -> tuple[str, dict[str, object], dict[str, object]]:
    """Return the kind, the arguments and the learned attributes that `write_facts` wrote."""
    path = folder / FILE
    read = read_sealed(path, f"what {maker}.save writes", "save the estimator again")
    record = EstimatorRecord.from_json(read, path)
    arguments: dict[str, object] = {**record.arguments}
    recipe = record.arguments["recipe"]
    try:
        if isinstance(recipe, dict):
            arguments["recipe"] = recipe_from_json(recipe)
        elif ":" in (recipe or ""):  # a module is imported when a person names it, never because a file does
            arguments["recipe"] = read_run(folder).recipe
        learned = {name: _array_from_json(value) for name, value in record.learned.items()}
    except (FormatError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    return record.kind, arguments, learned


def _plain(value: Any) -> Any:
    """Return an argument as JSON; what has no form there is a path or a setting, which can be read from its words."""
    if isinstance(value, Recipe):
        return recipe_as_json(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _array_as_json(value: Any) -> Any:
    """Return a learned attribute as JSON; an array keeps its type."""
    return {"dtype": value.dtype.str, "values": value.tolist()} if isinstance(value, np.ndarray) else value


def _array_from_json(value: Any) -> Any:
    if not isinstance(value, dict) or "dtype" not in value:
        return value
    if not _ARRAY_TYPE.fullmatch(str(value["dtype"])):
        raise ValueError(f"an array of {value['dtype']!r}")
    return np.array(value["values"], value["dtype"])
