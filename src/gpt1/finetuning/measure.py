"""A fine-tuned run measured on labelled examples, and what was found kept in its folder.

    evaluation-TASK-SPLIT.json      metrics with their intervals, confusion, calibration, the worst mistakes with texts
    predictions-TASK-SPLIT.jsonl    label, answer and probabilities (of over a hundred classes those of the likeliest
                                    hundred) of every example, so that runs can be compared

Encoded examples need no library but torch, numpy and safetensors: mistakes show their texts decoded from the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, unknown
from gpt1.base.files import json_bytes, line_bytes, remove_temporaries, result_file, whole_file
from gpt1.base.records import sealed
from gpt1.finetuning.data import check_fit
from gpt1.inference.answering import answer_by_portion, task_of
from gpt1.inference.run import Run
from gpt1.records.evaluation import Cut, Evaluation, Prediction, RecordedTable
from gpt1.tasks.assessment import Answered, Mistake, answer_name, assess, hold_against, joined, share_names
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.unknowns import count_unknown, unknown_by_example
from gpt1.text.tokenizer import Tokenizer

TEXT_LENGTH = 300  # characters of a mistake
_HEAD = 200  # of which so many are its beginning; the rest is the end, where answers stand
_GAP = " … "


def evaluation_file(run: Path, task: str, split: str) -> Path:
    """Return where the evaluation of a task's split is kept."""
    return run / f"evaluation-{task}-{split}.json"


def predictions_file(run: Path, task: str, split: str) -> Path:
    """Return where the answers to a task's split are kept."""
    return run / f"predictions-{task}-{split}.jsonl"


def measure(run: Run, encoded: EncodedTask, splits: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the run's metrics on each of the splits that has labels, and keep all that was found in its folder."""
    found = [measure_split(run, encoded, split) for split in splits if encoded.splits[split].labelled.any()]
    return {evaluation.split: evaluation.metrics for evaluation in found}


def measure_split(
    run: Run,
    encoded: EncodedTask,
    split: str,
    table: RecordedTable | None = None,
    may_write: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Return all there is to say of a run's answers to a labelled split, which is also kept in the run's folder.

    `table` is the one that the split is of; `may_write` refuses, when nobody else writes there, what is not to be
    replaced.
    """
    task = _known_task(run, encoded)
    if split not in encoded.splits:
        raise unknown(f"split of '{task.name}'", split, encoded.splits)
    data = encoded.splits[split]
    known = np.flatnonzero(data.labelled)
    if not len(known):
        raise InputError(f"split '{split}' of '{task.name}' has no labels to measure by; gpt1 predict answers its rows")
    answered = _answer(run, task, data)
    found = assess(task, data.labels[known], answered.of(known), groups=data.groups[known] if task.groups else None)
    cut = data.cut[data.cut > 0]
    mistakes = [_with_text(run.tokenizer, task, data, int(known[one.index]), one) for one in found.mistakes]
    evaluation = Evaluation(
        task=task.name,
        split=split,
        step=run.checkpoint.step,
        unlabelled=len(data) - len(known),
        context=encoded.context,
        cut=Cut(len(cut), int(cut.sum())),
        unknown=count_unknown(unknown_by_example(task, data, run.tokenizer.unknown_id, encoded.vocab_size)),
        table=table,
        **{**vars(found), "mistakes": mistakes},
    )
    remove_temporaries(run.path)
    # One lock for both files, so that they belong together; a training holds the folder's own, and may go on beside.
    with result_file(evaluation_file(run.path, task.name, split), overwrite=True) as file:
        may_write()
        with whole_file(predictions_file(run.path, task.name, split)) as sheet:
            sheet.writelines(line_bytes(line.as_json()) for line in _sheet(task, data, answered))
            file.write(json_bytes(sealed(evaluation.as_json())))
    return evaluation


def _answer(run: Run, task: Task, data: EncodedSplit) -> Answered:
    """Return what a run answers to each example, held against its label, in memory that classes hardly add to."""
    return joined(
        [
            (examples, hold_against(task, data.labels[examples], found))
            for examples, found in answer_by_portion(run, task, data)
        ]
    )


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


def _sheet(task: Task, data: EncodedSplit, answered: Answered) -> Iterator[Prediction]:
    """Yield a line for each example."""
    labelled, has_shares = data.labelled, task.score_range is None
    for index, answer in enumerate(answered.answers):
        yield Prediction(
            index=index,
            label=answer_name(task, data.labels[index]) if labelled[index] else None,
            prediction=answer_name(task, answer),
            probabilities=share_names(task, answered.likeliest[index], answered.shares[index]) if has_shares else None,
        )


def _with_text(tokenizer: Tokenizer, task: Task, data: EncodedSplit, index: int, mistake: Mistake) -> Mistake:
    """Return a mistake with its place in the split, and its text; of choices, with the answer that was right too."""
    sequences = data.sequences(index)
    if task.shape != CHOICES:  # the other order of a pair says nothing new
        return replace(mistake, index=index, text=show(tokenizer, sequences[0]))
    given, right = (show(tokenizer, sequences[int(which)]) for which in (mistake.prediction, mistake.label))
    return replace(mistake, index=index, text=given, right_text=right)


def show(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the text of a sequence with its special tokens in brackets; of a long one the beginning and the end."""
    names = {special: f"[{name}]" for name, special in tokenizer.specials.items()}
    parts = groupby(map(int, ids), lambda token: names.get(token, ""))
    text = " ".join(name or tokenizer.decode(list(part)).strip() for name, part in parts)
    return text if len(text) <= TEXT_LENGTH else text[:_HEAD] + _GAP + text[_HEAD + len(_GAP) - TEXT_LENGTH :]
