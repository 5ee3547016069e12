"""Tasks from the Hugging Face hub, by `hub:NAME[:CONFIG]`, through the library `datasets`.

A hub dataset has its own names of columns and splits, and its classes are numbers with names. Both are told here by
what they are called; the rows are then checked like any others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpt1.base.errors import InputError, MissingDependency, SettingError
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.data_warnings import look_at_labels
from gpt1.tasks.examples import SHOWN, Example, Labelled, Row, make_example
from gpt1.tasks.shapes import CHOICES

HUB = "hub:"

_NAMES = {"glue": "nyu-mll/glue"}
_CONFIGS = {"scitail": "tsv_format", "race": "all"}  # where a dataset has several and none is named after the task
# What hub datasets call our fields, in the order of the fields; the first whose columns are all there is taken.
_COLUMNS: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("sentence",), ("text",)),
    2: (("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("question", "sentence")),
    3: (("article", "question", "options"), ("sentence", "pronoun", "candidates")),
}
_LABELS = ("label", "gold_label", "answer", "score")
_KEPT_BACK = -1  # what stands in place of a label that nobody is told, or that nobody agreed on


def read_hub(task: Task, place: str) -> Labelled:
    """Read every split of a task from a dataset of the hub, or from a folder in the same form."""
    try:
        import datasets
    except ImportError:
        raise MissingDependency(f"{place} needs the library datasets: pip install 'gpt1[hub]'") from None
    name, _, config = place.removeprefix(HUB).partition(":")
    name = _NAMES.get(name, name)
    try:
        part = config or _config(task, place, datasets.get_dataset_config_names(name))
        loaded = {str(split): rows for split, rows in datasets.load_dataset(name, part, streaming=True).items()}
    except SettingError:
        raise
    except Exception as error:  # the library and those below it raise errors of many families
        raise InputError(f"cannot read {place}: {error}") from error
    splits, notices = {}, []
    for split in task.splits:
        theirs = split if split in loaded else split.replace("dev", "validation")
        if theirs in loaded:
            splits[split], said = _read_split(task, split, f"{place}, {theirs}", loaded[theirs])
            notices += said
    if not splits:
        expected = [split.replace("dev", "validation") for split in task.splits]
        raise InputError(
            f"{place} has no split of task '{task.name}': expected {some(expected)}, found {some([*loaded])}"
        )
    if "train" in splits:
        notices += look_at_labels(task, splits["train"], place)
    else:
        notices.append(f"{place} has no training rows: there is nothing to train on, only to evaluate")
    return Labelled(task, splits, tuple(notices))


def _config(task: Task, place: str, known: list[str]) -> str:
    for config in (task.name, _CONFIGS.get(task.name), "default"):
        if config in known:
            return config
    if len(known) == 1:
        return known[0]
    raise SettingError(f"{place} has several parts; say which, as {place}:NAME (names: {some(known, SHOWN)})")


def _read_split(task: Task, split: str, place: str, rows: Any) -> tuple[list[Example], list[str]]:
    """Return the examples of a split; rows without a label are left out unless a test split keeps all of them back."""
    try:
        cells = list(rows)
    except Exception as error:  # as above: a lost connection, a damaged file
        raise InputError(f"cannot read {place}: {error}") from error
    if not cells:
        raise InputError(f"{place} has no rows")
    columns, label = _find_columns(task, cells[0], place)
    names = getattr((rows.features or {}).get(label), "names", None)
    labels = [_label(task, row.get(label), names) for row in cells]
    kept_back = split in task.test_splits and all(value is None for value in labels)
    examples, left_out = [], []
    for number, (row, value) in enumerate(zip(cells, labels, strict=True), 1):
        if value is None and not kept_back:
            left_out.append(str(number))
            continue
        found = {field: row[column] for field, column in columns.items()} | {task.label_field: value}
        if task.group_field:
            found[task.group_field] = _group(task, row)
        example = make_example(task, Row(found, place, number), split, may_be_empty=True)
        examples.append(replace(example, index=row.get("idx")) if split in task.test_splits else example)
    if not examples:
        raise InputError(f"{place}: no row has a label in '{label}'")
    said = f"{place}: {many(len(left_out), 'row')} without a label left out ({some(left_out)})"
    return examples, [said] if left_out else []


def _find_columns(task: Task, row: Mapping[str, object], place: str) -> tuple[dict[str, str], str]:
    """Return which column holds which field, and which the label."""
    known = (task.fields, *_COLUMNS[len(task.fields)])
    texts = next((names for names in known if all(name in row for name in names)), None)
    if texts is None:
        expected = " or ".join(", ".join(names) for names in known)
        there = some([*row], SHOWN)
        raise InputError(f"{place} has none of the columns of '{task.name}': expected {expected}; found {there}")
    label = next((name for name in (task.label_field, *_LABELS) if name in row and name not in texts), task.label_field)
    return dict(zip(task.fields, texts, strict=True)), label


def _label(task: Task, value: Any, names: list[str] | None) -> Any:
    """Return a label as our files write it, None for none: a class by its name unless ours are numbers."""
    if value in (None, "", "-"):
        return None
    if task.score_range is not None:
        outside = value == _KEPT_BACK and value < task.score_range[0]
        return None if outside else value
    if value == _KEPT_BACK:
        return None
    if task.shape == CHOICES:
        letter = isinstance(value, str) and len(value) == 1 and value.isalpha()
        return ord(value.upper()) - ord("A") if letter else value
    if names is not None and isinstance(value, int) and not {str(n) for n in range(len(names))} >= set(task.labels):
        return names[value]
    return value


def _group(task: Task, row: Mapping[str, object]) -> str | None:
    """Return the group of a row: in its own column, or as the beginning of its id, such as `high19088.txt`."""
    if task.group_field in row:
        return str(row[task.group_field])
    begins = re.match("[a-z]+", str(row.get("example_id", "")))
    return begins[0] if begins and begins[0] in task.groups else None
