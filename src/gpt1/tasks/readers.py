"""From files to examples: the JSONL layout of the catalogue's tasks, and any labelled table.

The layout is a file a split (`train.jsonl`, `dev.jsonl.xz`, ...) whose rows carry the fields the task names. A table
has no task yet: its columns are told by their names or by the caller, its labels are read from the training rows, and
both are kept in the task that is returned, so that every later file is read by the same rules. A row that cannot be
used stops the reading: which row is to be mended or left out is not ours to decide.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpt1.base.errors import InputError, SettingError, did_you_mean, unknown
from gpt1.base.tables import file_format, printable, read_rows
from gpt1.base.wording import some
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import CHOICES, PAIR, SINGLE
from gpt1.text.cleaning import to_utf8

# Names that tell what a column is for. The first of a list wins outright; of the others only one may be there.
_TEXT_NAMES = ("text", "sentence", "review", "content", "body", "message", "document", "comment")
_LABEL_NAMES = ("label", "class", "category", "target", "gold_label", "sentiment", "stars", "rating", "score")
_PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text1", "text2"),
)
# What the caller may call the text columns, and which shape they then make.
_TEXT_ROLES = ("text", "a", "b", "context", "question", "choices")
_SHAPE_OF = {
    ("text",): SINGLE,
    ("a", "b"): PAIR,
    ("context", "question", "choices"): CHOICES,
    ("context", "choices"): CHOICES,
}

_MANY_LABELS = 20  # different numbers, beyond which they are hardly names of classes
_LONG_NAME = 40  # characters, beyond which a header's cell is hardly the name of a column
_SHOWN = 10  # names in a message

_NO_LABEL = ("nan", "NaN")  # what programs write for an empty cell of a number column


@dataclass(frozen=True)
class Row:
    """One row of a file, and where it stands for the errors."""

    cells: Mapping[str, Any]
    place: str
    number: int

    def error(self, message: str) -> InputError:
        """Return an error about this row."""
        return InputError(printable(f"{self.place}, row {self.number}: {message}"))

    def cell(self, column: str) -> Any:
        """Return what stands in a column, or say which columns there are."""
        if column not in self.cells:
            columns = list(self.cells)
            near = did_you_mean(column, columns)
            raise self.error(f"no column '{column}'{near} (columns: {some(columns, _SHOWN)})")
        return self.cells[column]

    def check_text(self, text: str, column: str) -> None:
        """Refuse half a character, which neither a tokenizer nor a file can hold."""
        try:
            to_utf8(text)
        except InputError as error:
            raise self.error(f"'{column}': {error}") from None

    def label(self, column: str) -> Any:
        """Return the label in a column, None if there is none."""
        value = self.cells.get(column)
        if isinstance(value, list | dict):
            raise self.error(f"'{column}' holds {value!r}; several labels a row are not supported, write one")
        if isinstance(value, str):
            self.check_text(value, column)
        return None if _is_empty(value) or str(value).strip() in _NO_LABEL else value


@dataclass(frozen=True)
class Example:
    """One row, checked: its texts in the order of the shape's parts, and its label as a number.

    The texts of choices are context, question ("" where the task has none) and the answers. The label is the index of
    the class or of the right answer, or the score itself; None where a test row has none.
    """

    texts: tuple[str, ...]
    label: int | float | None
    row: int
    group: int | None = None


@dataclass(frozen=True)
class Labelled:
    """A task, its examples by split, and what a person should be told about them."""

    task: Task
    splits: dict[str, list[Example]]
    notices: tuple[str, ...] = ()


def read_folder(task: Task, folder: Path, *, encoding: str = "utf-8") -> Labelled:
    """Read every split of a task that lies in `folder`, or in the folder of the task's name there."""
    folder = folder / task.name if (folder / task.name).is_dir() else folder
    files = find_splits(task, folder)
    splits = {split: read_split(task, path, split, encoding=encoding) for split, path in files.items()}
    if "train" not in splits:
        return Labelled(task, splits, (f"{folder} has no train.jsonl: there is nothing to train on, only to evaluate",))
    return Labelled(task, splits, _look_at_labels(task, splits["train"], files["train"]))


def find_splits(task: Task, folder: Path) -> dict[str, Path]:
    """Return the files of a folder that hold splits of the task in the JSONL layout, compressed or not."""
    files = {}
    for split in task.splits:
        found = sorted([*folder.glob(f"{split}.jsonl"), *folder.glob(f"{split}.jsonl.*")])
        if len(found) > 1:
            raise InputError(f"{folder} has two files for '{split}', {found[0].name} and {found[1].name}; keep one")
        if found:
            files[split] = found[0]
    if not files:
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        expected = ", ".join(f"{split}.jsonl" for split in task.splits)
        raise InputError(
            f"{folder} has no rows of task '{task.name}': expected {expected} (also compressed), "
            f"found {some(there, _SHOWN) or 'nothing'}"
        )
    return files


def read_split(task: Task, path: Path, split: str, *, encoding: str = "utf-8") -> list[Example]:
    """Read one file of a task as examples of the given split."""
    if split not in task.splits:
        raise unknown("split", split, task.splits)
    return [make_example(task, row, split) for row in _read(path, encoding)]


def read_tables(
    paths: Mapping[str, Path],
    *,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    encoding: str = "utf-8",
) -> Labelled:
    """Read labelled tables (train, and dev and test where given) as a task of their own.

    `columns` maps a role (text; or a and b; or context, question and choices; and label) to a column's name. What was
    inferred stands in `fields`, `label_field` and `labels` or `score_range` of the returned task.
    """
    if "train" not in paths:
        raise SettingError("a table for 'train' is needed: its rows tell which labels there are")
    rows = {split: _read(path, encoding) for split, path in paths.items()}
    task = _infer_task(rows, paths["train"], columns or {}, regression)
    for split in paths:
        if split not in task.splits:
            raise unknown("split", split, task.splits)
    splits = {split: [make_example(task, row, split) for row in found] for split, found in rows.items()}
    notices = _look_at_labels(task, splits["train"], paths["train"])
    return Labelled(task, splits, (*notices, *_doubtful_names(task.labels, paths["train"])))


def make_example(task: Task, row: Row, split: str) -> Example:
    """Check one row against its task; only rows of a test split may lack a label."""
    if task.shape == CHOICES:
        *asked, answers = task.fields
        texts = [_text(row, row.cell(field), field) for field in asked] + [""] * (2 - len(asked))
        texts += _answers(task, row, row.cell(answers))
    else:
        texts = [_text(row, row.cell(field), field) for field in task.fields]
    value = row.label(task.label_field)
    if value is not None:
        return Example(tuple(texts), _label(task, row, value), row.number, _group(task, row))
    if split not in task.test_splits:
        row.cell(task.label_field)
        raise row.error(f"the label in '{task.label_field}' is empty; label the row or take it out")
    return Example(tuple(texts), None, row.number, _group(task, row))


def _read(path: Path, encoding: str) -> list[Row]:
    rows = [Row(cells, str(path), number) for number, cells in read_rows(path, encoding=encoding)]
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value  # only NaN differs from itself


def _text(row: Row, value: Any, field: str) -> str:
    if _is_empty(value):
        raise row.error(f"'{field}' is empty; fill it or take the row out")
    if not isinstance(value, str):
        raise row.error(f"'{field}' holds {value!r}, expected text")
    row.check_text(value, field)
    return value


def _answers(task: Task, row: Row, value: Any) -> list[str]:
    field = task.fields[-1]
    if not isinstance(value, list):
        raise row.error(f"'{field}' holds {value!r}, expected a list of {task.choices} answers")
    if len(value) != task.choices:
        raise row.error(f"'{field}' has {len(value)} answers, task '{task.name}' has {task.choices}")
    return [_text(row, answer, f"{field}[{index}]") for index, answer in enumerate(value)]


def _label(task: Task, row: Row, value: Any) -> int | float:
    if task.shape == CHOICES:
        name = label_name(value)
        if not (name.isascii() and name.isdigit() and int(name) < task.choices):
            raise row.error(f"label {value!r} is not the index of an answer (0 to {task.choices - 1})")
        return int(name)
    if task.score_range is None:
        name = label_name(value)
        if name not in task.labels:
            raise row.error(f"label '{name}' is none of {some(task.labels, _SHOWN)}{did_you_mean(name, task.labels)}")
        return task.labels.index(name)
    score, (low, high) = _score(row, value), task.score_range
    if not low <= score <= high:
        raise row.error(f"score {score} is outside {low} to {high}")
    return score


def _score(row: Row, value: Any) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise row.error(f"label {value!r} is not a number")
    return score


def _group(task: Task, row: Row) -> int | None:
    name = row.cells.get(task.group_field) if task.groups else None
    if name is None:
        return None
    if name not in task.groups:
        raise row.error(f"'{task.group_field}' is {name!r}, expected one of {some(task.groups, _SHOWN)}")
    return task.groups.index(name)


def label_name(value: Any) -> str:
    """Return a label as its name: 1, 1.0 and " 1 " are all the label 1."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


def sort_labels(names: set[str]) -> tuple[str, ...]:
    """Sort label names: by value if all are numbers, else by letters."""
    values = {name: _number(name) for name in names}
    if None in values.values():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (values[name], name)))


def _number(name: str) -> float | None:
    try:
        value = float(name)
    except ValueError:
        return None
    return value if math.isfinite(value) else None  # a class may be called "inf"


def _infer_columns(train: Sequence[Row], chosen: Mapping[str, str], place: str) -> tuple[str, tuple[str, ...], str]:
    """Return shape, text columns and label column of a table, from the caller's choice and the columns' names."""
    header = list(train[0].cells)
    for role, column in chosen.items():
        if role not in (*_TEXT_ROLES, "label"):
            raise unknown("role of a column", role, (*_TEXT_ROLES, "label"))
        if column not in header:
            raise InputError(
                f"{place} has no column '{column}'{did_you_mean(column, header)} (columns: {some(header, _SHOWN)})"
            )
    label = chosen.get("label") or _known_column(header, _LABEL_NAMES, "label", place)
    shape, texts = _chosen_texts(chosen) or _known_texts([name for name in header if name != label], place)
    rest = [name for name in header if name not in texts and name != label]
    if not texts and label and len(rest) == 1:
        shape, texts = SINGLE, (rest[0],)
    elif texts and not label and len(rest) == 1:
        label = rest[0]
    if not texts or not label:
        missing = "text" if not texts else "label"
        raise InputError(
            f"{place}: which column is the {missing}? Name it with --column {missing}=COLUMN "
            f"(columns: {some(header, _SHOWN)}){'' if texts or label else _hint_at_header(train, place)}"
        )
    return shape, texts, label


def _hint_at_header(train: Sequence[Row], place: str) -> str:
    """Return the hint that a table has no header if its first line looks like one of its rows."""
    if file_format(place) not in ("csv", "tsv"):
        return ""
    for name in train[0].cells:
        if len(name) > _LONG_NAME or any(row.cells[name] == name for row in train):
            return "; the first line looks like a row: is the header missing? Write one, such as text,label"
    return ""


def _chosen_texts(chosen: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """Return shape and columns if the caller named text columns."""
    roles = tuple(role for role in _TEXT_ROLES if role in chosen)
    if not roles:
        return None
    if roles not in _SHAPE_OF:
        raise SettingError(
            f"columns for {' and '.join(roles)} make no task; name text, or a and b, or context and choices"
        )
    return _SHAPE_OF[roles], tuple(chosen[role] for role in roles)


def _known_texts(header: Sequence[str], place: str) -> tuple[str, tuple[str, ...]]:
    """Return shape and columns as far as the names of the columns tell them."""
    names = {name.strip().lower(): name for name in header}
    for roles in (*_SHAPE_OF, *_PAIR_NAMES):
        if roles != ("text",) and all(role in names for role in roles):
            return _SHAPE_OF.get(roles, PAIR), tuple(names[role] for role in roles)
    text = _known_column(header, _TEXT_NAMES, "text", place)
    return SINGLE, (text,) if text else ()


def _known_column(header: Sequence[str], known: Sequence[str], role: str, place: str) -> str:
    """Return the column whose name tells that it has this role, or an empty string."""
    names = {name.strip().lower(): name for name in header}
    found = [names[name] for name in known if name in names]
    if len(found) > 1 and known[0] not in names:
        raise InputError(
            f"{place}: which column is the {role}, {' or '.join(found)}? Name it with --column {role}=COLUMN"
        )
    return found[0] if found else ""


def _infer_task(rows: Mapping[str, list[Row]], path: Path, chosen: Mapping[str, str], regression: bool) -> Task:
    """Return the task that the columns and the labels of a table describe."""
    train = rows["train"]
    shape, fields, label = _infer_columns(train, chosen, str(path))
    task = partial(
        Task,
        name=_task_name(path),
        title=printable(f"rows of {path.name}"),
        shape=shape,
        fields=fields,
        label_field=label,
    )
    if shape == CHOICES:
        answers = train[0].cell(fields[-1])
        if not isinstance(answers, list) or len(answers) < 2:
            raise train[0].error(f"'{fields[-1]}' holds {answers!r}, expected a list of two answers or more")
        return task(choices=len(answers), metrics=("accuracy",))
    if regression:
        # Every table counts: a score of dev just above the highest of train is no fault of the row.
        found = [(row, row.label(label)) for split in rows.values() for row in split]
        scores = [_score(row, value) for row, value in found if value is not None]
        _refuse_one_label(scores, path)
        return task(score_range=(min(scores), max(scores)), metrics=("pearson", "spearman"))
    names = {label_name(value) for row in train if (value := row.label(label)) is not None}
    _refuse_one_label(names, path)
    return task(labels=sort_labels(names), metrics=("accuracy",))


def _task_name(path: Path) -> str:
    """Return the name of a file without its suffixes, such as a task may have."""
    # Some systems part letters from their accents, which are not letters by themselves.
    stem = unicodedata.normalize("NFC", path.name.split(".")[0].lower())
    return re.sub(r"[\W_]+", "-", stem).strip("-") or "table"


def _refuse_one_label(labels: Iterable[Any], path: Path) -> None:
    """Stop where training could learn nothing but one answer."""
    if len(found := set(labels)) < 2:
        what = f"every row has the label '{found.pop()}'" if found else "no row has a label"
        raise InputError(f"{path}: {what}; training needs at least two different ones")


def _look_at_labels(task: Task, train: Sequence[Example], path: Path) -> tuple[str, ...]:
    """Refuse training rows of one label only, and tell of labels that are seen once."""
    if task.shape == CHOICES:  # the right answer may stand first in every row: each answer is scored by itself
        return ()
    if task.score_range is not None:
        _refuse_one_label((example.label for example in train), path)
        return ()
    named = [(task.labels[int(example.label)], example.row) for example in train if example.label is not None]
    counts = Counter(name for name, _ in named)
    _refuse_one_label(counts, path)
    once = [f"'{name}' (row {row})" for name, row in named if counts[name] == 1]
    return (f"{path}: labels seen once, too rare to learn: {some(once, _SHOWN)}",) if once else ()


def _doubtful_names(labels: Sequence[str], path: Path) -> tuple[str, ...]:
    """Tell of labels that may be scores, or one label written in two ways."""
    notices = []
    if len(labels) > _MANY_LABELS and all(_number(name) is not None for name in labels):
        notices.append(f"{path}: the labels are {len(labels)} different numbers; if they are scores, add --regression")
    alike: dict[str | float, list[str]] = {}
    for name in labels:
        number = _number(name)
        alike.setdefault(name.casefold() if number is None else number, []).append(name)
    pairs = [" and ".join(f"'{name}'" for name in names) for names in alike.values() if len(names) > 1]
    if pairs:
        notices.append(f"{path}: labels taken for different ones though they look the same: {some(pairs, _SHOWN)}")
    return tuple(notices)
