"""`gpt1 labels suspect`: which labels of a table are likely wrong, by answers of somebody who has not learned them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpt1.base.files import result_file
from gpt1.base.wording import many
from gpt1.finetuning.measure import TableReading, read_beside_train
from gpt1.inference.answering import answer_split, task_of
from gpt1.inference.predicting import ROW
from gpt1.inference.run import Run
from gpt1.inference.sheets import check_target
from gpt1.labelling.confident import Doubts, find_doubts
from gpt1.labelling.cross_validating import cross_validated
from gpt1.labelling.judging import agreement
from gpt1.labelling.sheet import TableCells, hash_before, read_cells, require_one_label, text_cells
from gpt1.labelling.workings import WORKINGS, refuse_foreign, remove_workings
from gpt1.runs.events import Listener
from gpt1.tasks.answers import Floats
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import Task
from gpt1.tasks.columns import with_columns
from gpt1.tasks.encoded import EncodedTask
from gpt1.tasks.examples import Example
from gpt1.tasks.learned import in_train

SUGGESTED, P_LABEL, P_SUGGESTED, FLAGGED = "suggested", "p_label", "p_suggested", "flagged"

Notice = Callable[[str], None]

_ROWS = "rows"  # what the split is called


@dataclass(frozen=True)
class Suspect:
    """A row of a table, and what is thought of its label."""

    row: int  # of the file
    texts: Mapping[str, object]  # by their columns
    label: str | int | float
    suggested: str | int | float
    p_label: float
    p_suggested: float
    flagged: bool


def suspect_labels(
    run: Run,
    table: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool | None = None,
    fold_labels: bool | None = None,
    flag_anyway: bool = False,
    overwrite: bool = False,
    listeners: Iterable[Listener] = (),
    notice: Notice = warnings.warn,
) -> list[Suspect]:
    """Return the rows of a labelled table, likely wrong labels first, and write them to the sheet `out`.

    If none of the rows was learned, the run answers them. Else it is trained again from its base on two thirds of them
    at a time, and answers the others; what that needs lies in a folder beside `out` until it is done: stopped, the same
    call goes on. Where those who answer agree with the labels no better than chance, no label is flagged unless
    `flag_anyway` says so. `task` is one of the run's. `columns` maps roles to columns where the table calls them
    otherwise; `skip_bad` and `fold_labels` are as in the training where they are not said.
    """
    known, out = task_of(run, task), Path(out)
    require_one_label(known)
    check_target(out, overwrite=overwrite)
    workings = out.with_name(out.name + WORKINGS)
    refuse_foreign(workings)
    how = TableReading(columns, encoding, skip_bad, fold_labels)
    before = hash_before(Path(table))
    rows = read_beside_train(run, known, Path(table), _ROWS, how, notice)
    probabilities = _out_of_fold(run, rows, workings, notice, listeners)
    labels = rows.splits[_ROWS].labels
    judge = agreement(labels.tolist(), probabilities.argmax(1).tolist())
    doubts = find_doubts(probabilities, labels, flags=flag_anyway or not judge.may_be_chance)
    shown = with_columns(known, columns or {})
    found = _suspects(shown, rows.examples[_ROWS], probabilities, doubts)
    _write(found, read_cells(Path(table), encoding, before), out, workings, notice, overwrite=overwrite)
    return found


def _out_of_fold(run: Run, rows: EncodedTask, workings: Path, notice: Notice, listeners: Iterable[Listener]) -> Floats:
    split = rows.splits[_ROWS]
    task = run.tasks[rows.task.name]
    is_known = "train" in rows.splits  # what the run learned from; else each row may have been
    learned = int(in_train(rows, _ROWS, run.tokenizer.unknown_id).sum())
    if is_known and not learned:
        notice(f"none of the {many(len(split), 'row')} was learned by {run.path}, so it answers them itself")
        return answer_split(run, task, split)[0]
    why = f"{learned:,} of {many(len(split), 'row')} were learned" if is_known else "rows may have been learned"
    notice(f"{why} by {run.path}: each third of the rows is answered by what has learned the others")
    return cross_validated(run, replace(rows, task=task, splits={"train": split}), workings, notice, listeners)


def _suspects(task: Task, examples: Sequence[Example], probabilities: Floats, doubts: Doubts) -> list[Suspect]:
    labels = np.array([example.label for example in examples], np.int64)
    return [
        Suspect(
            examples[place].row,
            text_cells(task, examples[place]),
            answer_name(task, labels[place]),
            answer_name(task, doubts.suggested[place]),
            round(float(probabilities[place, labels[place]]), 6),
            round(float(probabilities[place, doubts.suggested[place]]), 6),
            bool(doubts.flagged[place]),
        )
        for place in doubts.order.tolist()
    ]


def _write(
    found: Sequence[Suspect], table: TableCells, out: Path, workings: Path, notice: Notice, *, overwrite: bool
) -> None:
    """Write the sheet, and remove what was trained for it: last, but before the sheet has its name."""
    added = {ROW: int, SUGGESTED: type(found[0].suggested), P_LABEL: float, P_SUGGESTED: float, FLAGGED: bool}
    told = {one.row: (one.suggested, one.p_label, one.p_suggested, one.flagged) for one in found}
    with result_file(out, overwrite=overwrite) as file:
        table.write(file, out, added, told, notice)
        remove_workings(workings)
