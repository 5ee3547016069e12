"""Encoding a labelled task into a folder: `gpt1 prepare --task`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpt1.base.errors import SettingError
from gpt1.base.files import lock_folder
from gpt1.base.wording import some
from gpt1.tasks.catalog import find_task
from gpt1.tasks.encoded import EncodedTask, Tokenizer, check_folder, encode_task, save
from gpt1.tasks.readers import Labelled, read_folder, read_tables
from gpt1.tasks.shapes import CONTEXT

_MODULE = re.compile(r"[\w.]+:\w+")


def prepare_task(
    task: str,
    tokenizer: Tokenizer,
    out: str | Path,
    *,
    data: str | Path | None = None,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    context: int = CONTEXT,
    encoding: str = "utf-8",
) -> tuple[EncodedTask, tuple[str, ...]]:
    """Encode a task of the catalogue, of a module, or of labelled tables; return it with notices about its labels.

    `task` is a name, `module:NAME`, or the path of a table to train on (then `dev` and `test` are tables too).
    """
    check_folder(Path(out))  # before minutes of work
    labelled = _read(task, data, dev, test, columns, regression, encoding)
    encoded = encode_task(labelled.task, labelled.splits, tokenizer, context)
    with lock_folder(Path(out)):
        save(encoded, Path(out))
    return encoded, labelled.notices


def _read(
    task: str,
    data: str | Path | None,
    dev: str | Path | None,
    test: str | Path | None,
    columns: Mapping[str, str] | None,
    regression: bool,
    encoding: str,
) -> Labelled:
    if Path(task).suffix and not _MODULE.fullmatch(task):
        if data is not None:
            raise SettingError(
                f"{task} is a table, so --data has no meaning; give further tables with --dev and --test"
            )
        tables = {"train": Path(task)}
        tables |= {split: Path(path) for split, path in (("dev", dev), ("test", test)) if path is not None}
        return read_tables(tables, columns=columns, regression=regression, encoding=encoding)
    found = find_task(task)
    if dev or test or columns or regression:
        raise SettingError(f"'{task}' is a task with its own files and columns; --data names their folder")
    if data is None:
        raise SettingError(f"where is the data of '{task}'? Name its folder with --data")
    return read_folder(found, Path(data), encoding=encoding)


def describe(encoded: EncodedTask) -> list[str]:
    """Return the lines that tell a person what an encoded task holds."""
    task = encoded.task
    what = some(task.labels) if task.labels else f"scores {task.score_range}" if task.score_range else "choices"
    lines = [f"{task.name}: {task.shape} of {', '.join(task.fields)}; label {task.label_field}: {what}"]
    for name, split in encoded.splits.items():
        cut = int((split.cut > 0).sum())
        lines.append(
            f"{name:15} {len(split):>9,} examples {len(split.ids):>12,} tokens, {cut:,} cut to {encoded.context} tokens"
        )
    return lines
