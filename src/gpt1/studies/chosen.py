"""What fine-tuning with `finetuning.ensemble` chooses, from the answers of a network that a cell has kept.

The network is the one that fine-tuning without it trains, so it is not trained again: who answers is decided and
measured by the probabilities that lie in `predictions-TASK-SPLIT.jsonl`. That takes enough rows for dev; with fewer a
network is trained on parts of the labels, and the cell is a fine-tuning of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError
from gpt1.base.files import read_lines, write_lines
from gpt1.base.records import check_record
from gpt1.finetuning.ensembling import ENOUGH, decide_by_dev
from gpt1.finetuning.measure import evaluation_file, predictions_file
from gpt1.linear.ensemble import ALONE, NETWORK, WORDS, pool
from gpt1.linear.words import WordModel, encoded_texts
from gpt1.records.ensemble import ENSEMBLE_FILE, EnsembleRecord
from gpt1.records.evaluation import Evaluation, Prediction
from gpt1.records.study import CellFigures
from gpt1.runs.events import Listener
from gpt1.runs.folder import run_tokenizer
from gpt1.studies.cells import Cell, Compute
from gpt1.studies.finetuned import RUN, Rows, headline
from gpt1.studies.material import InitRun, TaskData
from gpt1.tasks.answers import Floats, answers, predictions, soft_targets
from gpt1.tasks.assessment import MOST_SHARES, answer_name
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose
from gpt1.tasks.metrics import scores
from gpt1.text.tokenizer import Tokenizer


def is_decided_by_answers(one: TaskData) -> bool:
    """Whether what a network has answered decides: to enough rows for dev, and with all its probabilities."""
    return one.judged(one.task.dev_splits) >= ENOUGH and answers(one.task) <= MOST_SHARES


def chosen_from(trained: Cell, cell: Cell, rows: Rows, start: InitRun) -> Cell:
    """Return the cell of a fine-tuning that chooses as one that is made from the cell of the same without choosing."""
    return replace(cell, compute=_computation(trained, rows, start), workings=(), after=trained.name)


@dataclass(frozen=True, eq=False)
class _Split:
    """The labelled examples of a split, and what the network said of them."""

    examples: EncodedSplit
    shares: Floats
    answers: NDArray[Any]


def _computation(trained: Cell, rows: Rows, start: InitRun) -> Compute:
    def compute(folder: Path, listener: Listener) -> CellFigures:
        encoded, tokenizer = rows.encode(), run_tokenizer(start.path)
        task, run = encoded.task, folder.parent / trained.name / RUN
        judged = [name for name, split in encoded.splits.items() if name != "train" and split.labelled.any()]
        network = {name: _read(run, encoded, name) for name in judged}
        record, words = decide_by_dev(encoded, lambda split: network[split].shares, tokenizer)
        found = {}
        for name, split in network.items():
            answered = _answers(task, split, record.weights, words, tokenizer)
            found[name] = scores(task, split.examples.labels, answered)
            lines = zip(split.examples.labels, answered, strict=True)
            write_lines(predictions_file(folder, task.name, name), (_line(task, *line).as_json() for line in lines))
        step = Evaluation.read(evaluation_file(run, task.name, judged[0])).step
        EnsembleRecord(step, {task.name: record}).write(folder / ENSEMBLE_FILE)
        return {"score": headline(task, found), "scores": found}

    return compute


def _read(run: Path, encoded: EncodedTask, name: str) -> _Split:
    """Return what a network answered to a split, as its run has kept it."""
    task, split, path = encoded.task, encoded.splits[name], predictions_file(run, encoded.task.name, name)
    remedy = f"remove {run.parent} to have it made anew"
    lines = [check_record(line, Prediction, f"{path}, line {n}", remedy) for n, line in read_lines(path, remedy)]
    if len(lines) != len(split):
        raise FormatError(f"{path} lacks answers to some examples of {name}; {remedy}")
    known = np.flatnonzero(split.labelled).tolist()
    try:
        shares, answered = _shares(task, [lines[place] for place in known])
    except (KeyError, TypeError, ValueError):
        raise FormatError(f"{path} is damaged: it lacks probabilities; {remedy}") from None
    return _Split(choose(split, known), shares, answered)


def _shares(task: Task, lines: list[Prediction]) -> tuple[Floats, NDArray[Any]]:
    if task.score_range is not None:
        given = np.array([float(line.prediction) for line in lines])
        return soft_targets(task, given), given
    names = task.labels or [str(choice) for choice in range(task.choices)]
    shares = np.array([[(line.probabilities or {})[name] for name in names] for line in lines])
    return shares, np.array([names.index(str(line.prediction)) for line in lines])


def _answers(
    task: Task, split: _Split, weights: Mapping[str, float], words: WordModel | None, tokenizer: Tokenizer
) -> NDArray[Any]:
    if words is None or weights == ALONE:
        return split.answers  # which tell equals apart that rounded probabilities do not
    members = {NETWORK: split.shares, WORDS: words.probabilities(encoded_texts(task, split.examples, tokenizer))}
    return predictions(task, pool(task, members, weights))


def _line(task: Task, label: float, answer: float) -> Prediction:
    return Prediction(label=answer_name(task, label), prediction=answer_name(task, answer))
