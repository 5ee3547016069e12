"""What a fine-tuned run is measured on, as a person names it: what it was trained with, or other labelled data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.files import file_hash
from gpt1.finetuning.data import identity, read_recorded
from gpt1.finetuning.measure import evaluation_file, measure_split
from gpt1.inference.answering import task_of
from gpt1.inference.run import Run
from gpt1.records.evaluation import Evaluation, RecordedTable
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedTask, encode_task, load
from gpt1.tasks.examples import Labelled
from gpt1.tasks.hub import HUB, read_hub
from gpt1.tasks.preparing import complete
from gpt1.tasks.readers import read_folder, read_split

Notice = Callable[[str], None]


def evaluate_run(
    run: Run,
    *,
    task: str | None = None,
    split: str | None = None,
    data: str | Path | None = None,
    table: str | Path | None = None,
    encoded: str | Path | None = None,
    encoding: str = "utf-8",
    overwrite: bool = False,
    notice: Notice = warnings.warn,
) -> list[Evaluation]:
    """Return what there is to say of a run's answers: by default to the dev splits of all it was trained with.

    Other data is the folder of its tasks (`data`), a labelled table with the task's columns (`table`), or what `gpt1
    prepare --task` made (`encoded`). `task` is one of the run's; `split` one of the data's, or the name for a table's.
    What was measured on another table of the same name is replaced only to `overwrite` it. `notice` is told what a
    person should know of the data.
    """
    if sum(given is not None for given in (data, table, encoded)) > 1:
        raise SettingError("name one of `data`, `table` and `encoded`, not several")
    if task is not None:
        task_of(run, task)  # refuses what the run has not learned
    if table is not None:
        learned = task_of(run, task)
        name = split or _name_of(Path(table), learned)
        rows = _read_table(run, learned, Path(table), name, encoding)
        measured_on = RecordedTable(str(Path(table).resolve()), file_hash(Path(table)))

        def may_write() -> None:
            if not overwrite:
                _require_same_table(evaluation_file(run.path, learned.name, name), learned, name, measured_on)

        may_write()  # before minutes of answering, in which another start may end
        return [measure_split(run, rows, name, measured_on, may_write)]
    if data is not None:
        found = list(_read_folders(run, [task] if task else list(run.tasks), data, split, encoding, notice))
    elif encoded is not None:
        found = [load(Path(encoded))]
    else:
        found = _read_own(run, notice)
    asked = [one for one in found if task in (None, one.task.name)]
    if not asked:
        raise SettingError(f"there are no rows of task '{task}' there, only of {', '.join(o.task.name for o in found)}")
    return [measure_split(run, one, name) for one in asked for name in _wanted(one.task, one.splits, split)]


def _wanted(task: Task, splits: Mapping[str, Any], asked: str | None) -> Sequence[str]:
    """Return the split that was asked for, or those to develop on."""
    if asked is not None:
        if asked not in splits:
            raise unknown(f"split of '{task.name}'", asked, splits)
        return [asked]
    found = [name for name in task.dev_splits if name in splits]
    if not found:
        raise SettingError(
            f"'{task.name}' comes without rows for dev; name one of its splits with `split`: {', '.join(splits)}"
        )
    return found


def _read_own(run: Run, notice: Notice) -> list[EncodedTask]:
    """Return what the run was trained with, read again."""
    source = run.record.source
    if source is None or not (source.tasks or source.train or source.encoded):
        raise InputError(
            f"{run.path} was trained on examples that no file holds; say what to measure it on with `data`, `table` or "
            "`encoded`"
        )
    try:
        found, notices = read_recorded(source, run.tasks.values(), run.path, run.recipe.shape.context)
    except (InputError, SettingError) as error:  # of which none was set by who asks now
        raise InputError(
            f"what {run.path} was trained on cannot be read now ({error}); name other data with `data`, `table` or "
            "`encoded`"
        ) from None
    if identity(found) != run.record.identity:
        raise InputError(
            f"what {run.path} was trained on has changed since: rows that it learned could pass for new ones; name "
            "what to measure it on with `data`, `table` or `encoded`"
        )
    for text in notices:
        notice(text)
    return list(found.values())


def _read_folders(
    run: Run, tasks: Sequence[str], data: str | Path, split: str | None, encoding: str, notice: Notice
) -> Iterator[EncodedTask]:
    for name in tasks:
        task = run.tasks[name]
        found = (
            read_hub(task, str(data)) if str(data).startswith(HUB) else read_folder(task, Path(data), encoding=encoding)
        )
        labelled = complete(found)
        for text in labelled.notices:
            notice(text)
        yield _encode(run, labelled, _wanted(task, labelled.splits, split))


def _name_of(table: Path, task: Task) -> str:
    """Return the name for the rows of a table: not that of a split, which is for the run's own."""
    name = re.sub(r"[\W_]+", "-", table.name.split(".")[0].lower()).strip("-") or "table"
    return f"{name}-table" if name in task.splits else name


def _require_same_table(kept: Path, task: Task, name: str, table: RecordedTable) -> None:
    """Refuse to replace what was measured on other rows under the same name."""
    if not kept.is_file():
        return
    before = Evaluation.read(kept, "`overwrite=True` replaces it").table
    if before is None and name not in task.splits:  # made before it was kept which table it was
        return
    if before is None or before.sha256 != table.sha256:
        other = "the run's own rows" if before is None else f"another table, {before.file}"
        raise InputError(
            f"{kept} is of {other}; give this one a name of its own with `split`, or replace it with `overwrite=True`"
        )


def _read_table(run: Run, task: Task, path: Path, name: str, encoding: str) -> EncodedTask:
    """Return the rows of a table as a split of its own, for which all rows need a label."""
    task = replace(task, dev_splits=() if name == "train" else (name,), test_splits=())
    return _encode(run, Labelled(task, {name: read_split(task, path, name, encoding=encoding)}), [name])


def _encode(run: Run, labelled: Labelled, splits: Sequence[str]) -> EncodedTask:
    examples = {name: labelled.splits[name] for name in splits}
    return encode_task(labelled.task, examples, run.tokenizer, run.recipe.shape.context)
