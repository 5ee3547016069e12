"""Files for the GLUE server: a zip with one table a test set, and a check of such a zip before it is sent.

A table has the header `index<TAB>prediction` and a line for each row of the official test file: the label's word for
the tasks that have words, 0 or 1, or a score. The same answers always give the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import result_file
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import CATALOGUE, Task

HEADER = "index\tprediction"

_THE_PAST = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold, so that the bytes do not tell when they were made
_UNIX = 3


@dataclass(frozen=True)
class GlueFile:
    """A file of a submission: the split of ours that it answers, and how many rows the server expects."""

    task: str
    split: str
    rows: int


GLUE_FILES: dict[str, GlueFile] = {
    "CoLA": GlueFile("cola", "test", 1_063),
    "SST-2": GlueFile("sst2", "test", 1_821),
    "MRPC": GlueFile("mrpc", "test", 1_725),
    "STS-B": GlueFile("stsb", "test", 1_379),
    "QQP": GlueFile("qqp", "test", 390_965),
    "MNLI-m": GlueFile("mnli", "test_matched", 9_796),
    "MNLI-mm": GlueFile("mnli", "test_mismatched", 9_847),
    "QNLI": GlueFile("qnli", "test", 5_463),
    "RTE": GlueFile("rte", "test", 3_000),
    "WNLI": GlueFile("wnli", "test", 146),
    "AX": GlueFile("mnli", "diagnostic", 1_104),
}

Answers = Sequence[Any]  # an index of a class, or a score, for each row
BySplit = Mapping[str, Mapping[str, Answers]]  # by task and split


def write_submission(
    path: str | Path, answers: BySplit, indices: BySplit | None = None, *, overwrite: bool = False
) -> None:
    """Write the zip for the GLUE server from answers by task and split, such as `{"rte": {"test": [0, 1, ...]}}`.

    `indices` are the official numbers of the rows (`Example.index`), by task and split; where none are given the rows
    count from 0. A test set without answers is left out, and `check_submission` tells of it. A file that is there is
    replaced only to `overwrite` it.
    """
    known = {(found.task, found.split): name for name, found in GLUE_FILES.items()}
    tables = {}
    for task, splits in answers.items():
        for split, given in splits.items():
            if (task, split) not in known:
                raise SettingError(f"'{split}' of task '{task}' is no test set of GLUE ({', '.join(GLUE_FILES)})")
            numbers = (indices or {}).get(task, {}).get(split, range(len(given)))
            tables[known[task, split]] = _table(CATALOGUE[task], given, numbers)
    with result_file(Path(path), overwrite=overwrite) as file, zipfile.ZipFile(file, "w") as archive:
        for name in GLUE_FILES:
            if name in tables:
                # Stored, not packed: what a packer makes of the same text differs between its versions.
                entry = zipfile.ZipInfo(f"{name}.tsv", _THE_PAST)
                entry.create_system, entry.external_attr = _UNIX, 0o644 << 16
                archive.writestr(entry, tables[name])


def _table(task: Task, answers: Answers, indices: Answers) -> str:
    if len(answers) != len(indices):
        raise InputError(f"task '{task.name}': {len(answers)} answers for {len(indices)} rows")
    lines = [f"{index}\t{_in_words(task, answer)}" for index, answer in zip(indices, answers, strict=True)]
    return "\n".join([HEADER, *lines, ""])


def _in_words(task: Task, answer: Any) -> str:
    if task.score_range is None:
        if not 0 <= int(answer) < len(task.labels):
            raise InputError(f"task '{task.name}': {answer} is not the index of a label")
        return task.labels[int(answer)]
    low, high = task.score_range
    if not answer == answer:
        raise InputError(f"task '{task.name}': an answer is not a number")
    return f"{min(high, max(low, float(answer))):.3f}"


def check_submission(path: str | Path) -> list[str]:
    """Return what is missing or wrong in a zip for the GLUE server, in words; nothing if it can be sent."""
    try:
        with zipfile.ZipFile(path) as archive:
            tables = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (zipfile.BadZipFile, OSError) as error:
        return [f"it is no zip file, or a damaged one ({error})"]
    problems = [f"{name}.tsv is missing" for name in GLUE_FILES if f"{name}.tsv" not in tables]
    problems += [f"{name} does not belong there" for name in tables if name.removesuffix(".tsv") not in GLUE_FILES]
    for name, expected in GLUE_FILES.items():
        if f"{name}.tsv" in tables:
            found = _faults(CATALOGUE[expected.task], expected.rows, tables[f"{name}.tsv"])
            problems += [f"{name}.tsv: {fault}" for fault in found]
    return problems


def _faults(task: Task, rows: int, table: bytes) -> list[str]:
    """Return what is wrong with one table."""
    try:
        header, *lines = table.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        return [f"it is not UTF-8 text ({error.reason} at byte {error.start})"]
    if header != HEADER:
        return [f"the first line is {header!r}, expected {HEADER!r}"]
    cells = [line.split("\t") for line in lines]
    odd = [str(number) for number, row in enumerate(cells, 2) if len(row) != 2]
    if odd:
        return [f"not an index, a tab and a prediction in {many(len(odd), 'line')} ({some(odd)})"]
    faults = []
    if len(cells) != rows:
        faults.append(f"{many(len(cells), 'row')}, expected {rows:,}")
    if {index for index, _ in cells} != {str(number) for number in range(len(cells))}:
        faults.append(f"the indices are not those from 0 to {len(cells) - 1}, each once")
    wrong = [f"{answer!r} in line {number}" for number, (_, answer) in enumerate(cells, 2) if not _fits(task, answer)]
    if wrong:
        span = f"numbers from {task.score_range[0]} to {task.score_range[1]}" if task.score_range else ""
        faults.append(f"predictions that are not {span or ' or '.join(task.labels)}: {some(wrong)}")
    return faults


def _fits(task: Task, answer: str) -> bool:
    if task.score_range is None:
        return answer in task.labels
    try:
        return task.score_range[0] <= float(answer) <= task.score_range[1]
    except ValueError:
        return False
