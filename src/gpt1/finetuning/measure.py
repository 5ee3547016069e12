"""A fine-tuned run measured on labelled examples, and what was found kept in its folder.

    evaluation-TASK-SPLIT.json      metrics with their intervals, confusion, calibration, the worst mistakes with texts
    predictions-TASK-SPLIT.jsonl    label, answer and probabilities (of over a hundred classes those of the likeliest
                                    hundred) of every example, so that runs can be compared

Encoded examples need no library but torch, numpy and safetensors: mistakes show their texts decoded from the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NotRequired, TypedDict

import numpy as np

from gpt1.base.errors import FormatError, InputError, unknown
from gpt1.base.files import json_bytes, line_bytes, read_sealed, remove_temporaries, result_file, whole_file
from gpt1.base.records import Count, check_record, sealed
from gpt1.finetuning.data import check_fit
from gpt1.inference.predicting import answer_labelled, task_of
from gpt1.inference.run import Run
from gpt1.tasks.assessment import Answered, answer_name, assess, share_names
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.unknowns import count_unknown, unknown_by_example
from gpt1.text.tokenizer import Tokenizer

FORMAT, VERSION = "gpt1-evaluation", 1
_ANEW = "gpt1 evaluate writes it anew"
TEXT_LENGTH = 300  # characters of a mistake
_HEAD = 200  # of which so many are its beginning; the rest is the end, where answers stand
_GAP = " … "


class _Cut(TypedDict):
    examples: Count
    tokens: NotRequired[Count]


class _Unknown(TypedDict):
    tokens: Count
    of: Count
    examples: Count


class _Pair(TypedDict):
    label: str | int
    answer: str | int
    count: Count


class ConfusionRecord(TypedDict):
    """How often each label got each answer; of very many labels only which were mixed up most."""

    labels: NotRequired[list[str | int]]
    counts: NotRequired[list[list[Count]]]
    pairs: NotRequired[list[_Pair]]
    other_pairs: NotRequired[Count]


class ClassRecord(TypedDict):
    """How one class was answered."""

    label: str | int
    precision: float
    recall: float
    f1: float
    support: Count


_Bin = TypedDict("_Bin", {"from": float, "to": float, "count": Count, "confidence": float, "accuracy": float})


class CalibrationRecord(TypedDict):
    """How far confidence can be trusted."""

    ece: float
    brier: float
    nll: float
    bins: list[_Bin]


class MistakeRecord(TypedDict):
    """A wrong answer."""

    index: Count
    label: str | float
    prediction: str | float
    probability: NotRequired[float]
    error: NotRequired[float]
    text: str
    right_text: NotRequired[str]


class EvaluationRecord(TypedDict):
    """What evaluation-TASK-SPLIT.json holds."""

    task: str
    split: str
    step: Count
    examples: Count
    unlabelled: Count
    cut: _Cut
    unknown: NotRequired[_Unknown]
    metrics: dict[str, float]
    intervals: dict[str, list[float]]  # the lower and the upper end
    residuals: NotRequired[dict[str, float]]
    confusion: NotRequired[ConfusionRecord]
    classes: NotRequired[list[ClassRecord]]
    calibration: NotRequired[CalibrationRecord]
    mistakes: list[MistakeRecord]


def read_evaluation(path: Path) -> EvaluationRecord:
    """Return what was found when a split was measured."""
    facts = read_sealed(path, "an evaluation", _ANEW)
    if (facts.get("format"), facts.get("version")) != (FORMAT, VERSION):
        raise FormatError(f"{path} is no evaluation of this version of gpt1; {_ANEW}")
    found = check_record(facts, EvaluationRecord, path, _ANEW)
    if any(len(ends) != 2 for ends in found["intervals"].values()):
        raise FormatError(f"{path} is damaged: an interval has not two ends; {_ANEW}")
    if (table := found.get("confusion")) is not None:
        labels, counts = table.get("labels", []), table.get("counts", [])
        sizes = {len(labels), len(counts), len(found.get("classes", [])), *map(len, counts)}
        if "pairs" not in table and len(sizes) > 1:
            raise FormatError(f"{path} is damaged: the table of answers is not as wide as there are labels; {_ANEW}")
    return found


def evaluation_file(run: Path, task: str, split: str) -> Path:
    """Return where the evaluation of a task's split is kept."""
    return run / f"evaluation-{task}-{split}.json"


def predictions_file(run: Path, task: str, split: str) -> Path:
    """Return where the answers to a task's split are kept."""
    return run / f"predictions-{task}-{split}.jsonl"


def measure(run: Run, encoded: EncodedTask, splits: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the run's metrics on each of the splits that has labels, and keep all that was found in its folder."""
    found = [measure_split(run, encoded, split) for split in splits if encoded.splits[split].labelled.any()]
    return {evaluation["split"]: evaluation["metrics"] for evaluation in found}


def measure_split(
    run: Run,
    encoded: EncodedTask,
    split: str,
    about: Mapping[str, Any] = MappingProxyType({}),
    may_write: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return all there is to say of a run's answers to a labelled split, which is also kept in the run's folder.

    `about` is what else is to be kept with it; `may_write` refuses, when nobody else writes there, what is not to be
    replaced.
    """
    task = _known_task(run, encoded)
    if split not in encoded.splits:
        raise unknown(f"split of '{task.name}'", split, encoded.splits)
    data = encoded.splits[split]
    known = np.flatnonzero(data.labelled)
    if not len(known):
        raise InputError(f"split '{split}' of '{task.name}' has no labels to measure by; gpt1 predict answers its rows")
    answered = answer_labelled(run, task, data)
    found = assess(task, data.labels[known], answered.of(known), groups=data.groups[known] if task.groups else None)
    cut = data.cut[data.cut > 0]
    evaluation = {
        "format": FORMAT,
        "version": VERSION,
        "task": task.name,
        "split": split,
        "step": run.checkpoint.step,
        "unlabelled": len(data) - len(known),
        "context": encoded.context,
        "cut": {"examples": len(cut), "tokens": int(cut.sum())},
        "unknown": count_unknown(
            unknown_by_example(task, data, run.tokenizer.unknown_id, encoded.vocab_size)
        ).as_json(),
        **about,
        **found,
        "mistakes": [_with_text(run.tokenizer, task, data, int(known[one["index"]]), one) for one in found["mistakes"]],
    }
    remove_temporaries(run.path)
    # One lock for both files, so that they belong together; a training holds the folder's own, and may go on beside.
    with result_file(evaluation_file(run.path, task.name, split), overwrite=True) as file:
        may_write()
        with whole_file(predictions_file(run.path, task.name, split)) as sheet:
            sheet.writelines(map(line_bytes, _sheet(task, data, answered)))
            file.write(json_bytes(sealed(evaluation)))
    return evaluation


def _known_task(run: Run, encoded: EncodedTask) -> Task:
    """Return the run's task that the examples are of, or say why their labels would not mean the same."""
    name = encoded.task.name
    check_fit({name: encoded}, fingerprint=run.tokenizer.fingerprint, context=run.recipe.shape.context, init=run.path)
    task = task_of(run, name)
    for fact in ("shape", "labels", "score_range", "choices"):
        own, theirs = getattr(task, fact), getattr(encoded.task, fact)
        if own != theirs:
            raise InputError(
                f"these examples are not of the task '{name}' that {run.path} has learned: {fact} {theirs}, not {own}"
            )
    return task


def _sheet(task: Task, data: EncodedSplit, answered: Answered) -> Iterator[dict[str, Any]]:
    """Yield a line for each example."""
    labelled = data.labelled
    for index, answer in enumerate(answered.answers):
        line: dict[str, Any] = {
            "index": index,
            "label": answer_name(task, data.labels[index]) if labelled[index] else None,
            "prediction": answer_name(task, answer),
        }
        if task.score_range is None:
            line["probabilities"] = share_names(task, answered.likeliest[index], answered.shares[index])
        yield line


def _with_text(
    tokenizer: Tokenizer, task: Task, data: EncodedSplit, index: int, mistake: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a mistake with its place in the split, and its text; of choices, with the answer that was right too."""
    sequences = data.sequences(index)
    if task.shape != CHOICES:  # the other order of a pair says nothing new
        return {**mistake, "index": index, "text": show(tokenizer, sequences[0])}
    given, right = (show(tokenizer, sequences[mistake[which]]) for which in ("prediction", "label"))
    return {**mistake, "index": index, "text": given, "right_text": right}


def show(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the text of a sequence with its special tokens in brackets; of a long one the beginning and the end."""
    names = {special: f"[{name}]" for name, special in tokenizer.specials.items()}
    parts = groupby(map(int, ids), lambda token: names.get(token, ""))
    text = " ".join(name or tokenizer.decode(list(part)).strip() for name, part in parts)
    return text if len(text) <= TEXT_LENGTH else text[:_HEAD] + _GAP + text[_HEAD + len(_GAP) - TEXT_LENGTH :]
