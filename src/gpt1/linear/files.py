"""An ensemble on disk: `ensemble.json` says who answers, `words-TASK.safetensors` holds what was learned of words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.base.files import missing, require_plain, whole_file
from gpt1.linear.words import ALL_TERMS, Counted, WordModel
from gpt1.records.ensemble import ENSEMBLE_FILE, NETWORK, WORDS, EnsembleRecord, TaskEnsemble
from gpt1.tasks.catalog import Task

_SHAPES = {"idf": 1, "weights": 2, "bias": 1, "terms": 1}  # dimensions of the arrays in a file of words
_MARKS: dict[Counted, str] = {ALL_TERMS: "runs", "characters": "characters"}  # empty arrays; none: words alone


@dataclass(frozen=True)
class Ensemble:
    """Who answers a task."""

    weights: Mapping[str, float]
    words: WordModel | None  # kept as a yardstick even where the network answers alone
    record: TaskEnsemble


def words_file(run: Path, task: str) -> Path:
    """Return where the counted words of a task lie."""
    return run / f"words-{task}.safetensors"


def ensemble_files(run: Path) -> list[Path]:
    """Return what of a run is of its ensembles."""
    return [path for path in (run / ENSEMBLE_FILE, *sorted(run.glob("words-*.safetensors"))) if path.is_file()]


def write_words(run: Path, model: WordModel) -> str:
    """Keep what was learned of words, and return the checksum of the file."""
    terms = np.frombuffer("\n".join(model.terms).encode(), np.uint8)
    arrays: dict[str, NDArray[Any]] = {"idf": model.idf, "weights": model.weights, "bias": model.bias, "terms": terms}
    if model.counted in _MARKS:
        arrays[_MARKS[model.counted]] = np.zeros(0, np.uint8)
    content = save(arrays)
    with whole_file(words_file(run, model.task.name)) as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def read_ensembles(run: Path, tasks: Mapping[str, Task]) -> dict[str, Ensemble]:
    """Return who answers each task of a run."""
    path = run / ENSEMBLE_FILE
    record = EnsembleRecord.read(path)
    if record.tasks.keys() != tasks.keys():
        raise FormatError(f"{path} is of other tasks than {run}; {record.REMEDY}")
    found = {}
    for name, one in record.tasks.items():
        if not set(one.weights) <= {NETWORK, WORDS} or not one.weights or (WORDS in one.weights and one.words is None):
            raise FormatError(f"{path} is damaged: the members of '{name}' are {list(one.weights)}; {record.REMEDY}")
        words = None if one.words is None else _read_words(words_file(run, name), tasks[name], one.words)
        found[name] = Ensemble(one.weights, words, one)
    return found


def _read_words(path: Path, task: Task, checksum: str) -> WordModel:
    remedy = EnsembleRecord.REMEDY
    require_plain(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise missing(path, f"does not exist; {remedy}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise FormatError(f"{path} is damaged: its sha256 is not the one in {ENSEMBLE_FILE}; {remedy}")
    try:
        arrays = load(content)
        counted: Counted = next((one for one, mark in _MARKS.items() if arrays.pop(mark, None) is not None), "words")
        if {name: array.ndim for name, array in arrays.items()} != _SHAPES:
            raise SettingError("its arrays are not those of counted words")
        terms = arrays["terms"].tobytes().decode().split("\n")
    except (SafetensorError, SettingError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is damaged: {error}; {remedy}") from None
    return WordModel(task, terms, arrays["idf"], arrays["weights"], arrays["bias"], counted)
