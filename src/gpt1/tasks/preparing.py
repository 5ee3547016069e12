"""From what a person names to a labelled task, and into a folder of token sequences: `gpt1 prepare --task`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpt1.base.errors import SettingError
from gpt1.base.files import lock_folder
from gpt1.tasks.catalog import Task, find_task
from gpt1.tasks.data_warnings import look_at_rows
from gpt1.tasks.encoded import EncodedTask, TaskTokenizer, check_folder, encode_task, save
from gpt1.tasks.examples import Labelled
from gpt1.tasks.hub import HUB, read_hub
from gpt1.tasks.readers import read_folder, read_tables
from gpt1.tasks.shapes import CONTEXT
from gpt1.tasks.splitting import with_dev
from gpt1.tasks.windows import MOST_WINDOWS

_MODULE = re.compile(r"[\w.]+:\w+")
_TABLE = re.compile(r"\.(csv|tsv|jsonl|parquet|conllu?|iob2?|bio)(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)


def prepare_task(
    task: str,
    tokenizer: TaskTokenizer,
    out: str | Path,
    *,
    data: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    symmetric: bool = False,
    context: int = CONTEXT,
    windows: bool = False,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    fold_labels: bool = False,
    labels_sep: str | None = None,
    metric: str | None = None,
    shape: str | None = None,
    restart: bool = False,
) -> tuple[EncodedTask, tuple[str, ...]]:
    """Encode a task, named as for `read_task`, into a folder; return it with what to tell a person about its rows.

    With `windows` texts that do not fit the context are read in several, for a fine-tuning that reads them so.
    Another task that the folder holds is replaced only to `restart`.
    """
    check_folder(Path(out))  # before minutes of work
    labelled = read_task(
        task,
        data=data,
        dev=dev,
        test=test,
        columns=columns,
        regression=regression,
        symmetric=symmetric,
        encoding=encoding,
        skip_bad=skip_bad,
        fold_labels=fold_labels,
        labels_sep=labels_sep,
        metric=metric,
        shape=shape,
    )
    encoded = encode_task(labelled.task, labelled.splits, tokenizer, context, windows=windows)
    with lock_folder(Path(out)):
        save(encoded, Path(out), restart=restart)
    return encoded, labelled.notices


def read_task(
    task: str,
    *,
    data: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    encoding: str = "utf-8",
    **reading: Any,
) -> Labelled:
    """Read a task of the catalogue, of a module, or of labelled tables, with rows for dev and with all notices.

    `task` is a name, `module:NAME`, or the path of a table to train on (then `dev` and `test` are tables too, and how
    they are read is said as to `read_tables`); `data` is the folder of a task with a name, or `hub:NAME`.
    """
    if is_table(task):
        if data is not None:
            raise SettingError(
                f"{task} is a table, so `data` has no meaning; give further tables with `dev` and `test`"
            )
        return read_table(task, dev=dev, test=test, encoding=encoding, **reading)
    named = find_task(task)
    if dev or test or any(reading.values()):
        raise SettingError(f"'{task}' is a task with its own files and columns; `data` names their folder")
    if data is None:
        raise SettingError(f"where is the data of '{task}'? Name its folder with `data`")
    return read_data(named, data, encoding)


def is_table(name: str) -> bool:
    """Whether a name is that of a table, not of a task."""
    return bool(Path(name).suffix) and not _MODULE.fullmatch(name)


def tables_in(folder: Path) -> list[Path]:
    """Return the tables that lie in a folder."""
    return [path for path in sorted(folder.iterdir()) if path.is_file() and _TABLE.search(path.name)]


def read_data(task: Task, data: str | Path, encoding: str) -> Labelled:
    """Read a task from its folder or from `hub:NAME`, with rows for dev and with all notices."""
    on_hub = str(data).startswith(HUB)
    return complete(read_hub(task, str(data)) if on_hub else read_folder(task, Path(data), encoding=encoding))


def read_table(
    train: str | Path, *, dev: str | Path | None = None, test: str | Path | None = None, **settings: Any
) -> Labelled:
    """Read labelled tables as a task, with rows for dev and with all notices; settings are those of `read_tables`."""
    tables = {"train": train, "dev": dev, "test": test}
    return complete(read_tables({split: Path(path) for split, path in tables.items() if path is not None}, **settings))


def complete(labelled: Labelled) -> Labelled:
    """Return labelled rows with some of them kept for dev where there are none, and told what is doubtful in them."""
    found = with_dev(labelled)
    return replace(found, notices=(*found.notices, *look_at_rows(found)))


def describe(encoded: EncodedTask) -> list[str]:
    """Return the lines that tell a person what an encoded task holds."""
    lines = [encoded.task.in_short()]
    for name, split in encoded.splits.items():
        cut = int((split.cut > 0).sum())
        room = f"{encoded.context} tokens"
        if split.windows is not None:
            long, most = int((split.windows > 1).sum()), int(split.windows.max())
            room = f"{MOST_WINDOWS} windows; {long:,} in up to {most} windows of {encoded.context} tokens"
        lines.append(f"{name:15} {len(split):>9,} examples {len(split.ids):>12,} tokens, {cut:,} cut to {room}")
    return lines
