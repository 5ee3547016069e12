"""GLUE's test sets, whose labels only its server has, answered by runs that have learned its tasks: `gpt1 submit`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import require_absent
from gpt1.base.wording import many
from gpt1.inference.answering import answer_split, room_for_text
from gpt1.inference.run import Run
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.readers import read_folder
from gpt1.tasks.submissions import GLUE_FILES, check_submission, write_submission

Notice = Callable[[str], None]


def submit(
    runs: Iterable[Run],
    data: str | Path,
    out: str | Path,
    *,
    overwrite: bool = False,
    notice: Notice = warnings.warn,
) -> list[str]:
    """Write the zip for the GLUE server, and return what it still lacks, in words; nothing if it can be sent.

    Each run answers the test sets of the tasks it has learned, as far as they lie in the folder `data`. A file that is
    there is replaced only to `overwrite` it. `notice` is told what was answered, and what a person should know of it.
    """
    if not Path(out).parent.is_dir():  # told before hours of answering
        raise InputError(f"cannot write {out}: there is no folder {Path(out).parent}")
    require_absent(Path(out), overwrite)
    learned: dict[str, Run] = {}
    for run in runs:
        for name in _glue_tasks(run):
            if name in learned:
                raise SettingError(f"two runs have learned '{name}'; a submission has the answers of one")
            learned[name] = run
    sets = {name: _test_sets(CATALOGUE[name], Path(data)) for name in learned}
    given = {
        name: {split: _answer(learned[name], CATALOGUE[name], split, rows, notice) for split, rows in found.items()}
        for name, found in sets.items()
    }
    indices = {name: {split: _numbers(rows) for split, rows in found.items()} for name, found in sets.items()}
    write_submission(out, given, indices, overwrite=overwrite)
    return check_submission(out)


def _glue_tasks(run: Run) -> list[str]:
    """Return the tasks of a run that are GLUE's own, not a table's of the same name."""
    names = {file.task for file in GLUE_FILES.values()}
    alike = ("shape", "labels", "score_range")
    tasks = [
        name
        for name, task in run.tasks.items()
        if name in names and all(getattr(task, field) == getattr(CATALOGUE[name], field) for field in alike)
    ]
    if not tasks:
        raise SettingError(
            f"{run.path} has learned {', '.join(run.tasks)}, and no task of GLUE: teach it one with "
            f"`gpt1.finetune(task=NAME)` ({', '.join(sorted(names))})"
        )
    return tasks


def _test_sets(task: Task, data: Path) -> dict[str, list[Example]]:
    """Return the rows of each of the server's test sets of a task that lies in a folder."""
    wanted = [file.split for file in GLUE_FILES.values() if file.task == task.name]
    splits = read_folder(task, data).splits
    if not any(split in splits for split in wanted):
        raise InputError(
            f"{data} has no test rows of '{task.name}' ({', '.join(wanted)}); take GLUE's own files, which have them"
        )
    return {split: list(splits[split]) for split in wanted if split in splits}


def _numbers(rows: list[Example]) -> list[int]:
    """Return what the official file calls each row; of other files, where it stands."""
    return [place if row.index is None else row.index for place, row in enumerate(rows)]


def _answer(run: Run, task: Task, split: str, rows: list[Example], notice: Notice) -> list[Any]:
    context = run.recipe.shape.context
    encoded = encode_task(task, {split: rows}, run.tokenizer, context, windows=run.has_windows).splits[split]
    _, answers = answer_split(run, task, encoded)
    cut = int(np.count_nonzero(encoded.cut))
    said = f", {cut:,} of them cut to {room_for_text(context, windows=run.has_windows)}" if cut else ""
    notice(f"{run.path} answered {many(len(rows), 'row')} of {task.name}, {split}{said}")
    return list(answers.tolist())
