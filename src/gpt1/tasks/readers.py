"""From files to examples: the JSONL layout of the catalogue's tasks, their official files, and any labelled table.

The JSONL layout is a file a split (`train.jsonl`, `dev.jsonl.xz`, ...) whose rows carry the fields the task names. A
table has no task yet: its columns are told by their names or by the caller, its labels are read from the training rows,
and both are kept in the task that is returned, so that every later file is read by the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpt1.base.errors import InputError, SettingError, did_you_mean, printable, unknown
from gpt1.base.files import missing
from gpt1.base.tables import file_format, read_rows
from gpt1.base.wording import some
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.data_warnings import doubtful_names, look_at_labels, number, refuse_one_label
from gpt1.tasks.examples import SHOWN, Example, Labelled, Row, label_name, make_example, to_score
from gpt1.tasks.official import expected_files, find_layout, read_official
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE

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

_ROWS_A_LABEL = 5  # at least so many, where a column is taken for the label by what it holds alone
_LONG_NAME = 40  # characters, beyond which a header's cell is hardly the name of a column


def read_folder(task: Task, folder: Path, *, encoding: str = "utf-8") -> Labelled:
    """Read every split of a task that lies in `folder`, or in the folder of the task's name or official name there.

    The JSONL layout comes first; a task of the catalogue may also lie there as its makers publish it.
    """
    if not folder.exists():
        raise missing(folder)
    own = folder / task.name if (folder / task.name).is_dir() else folder
    if files := find_splits(task, own):
        splits = {split: read_split(task, path, split, encoding=encoding) for split, path in files.items()}
        found, place = Labelled(task, splits), files.get("train", own)
    elif official := find_layout(task, folder):
        layout, place = official
        found = read_official(task, layout, place, encoding=encoding)
    else:
        raise _nothing_of(task, folder)
    if "train" not in found.splits:
        said: tuple[str, ...] = (f"{place} has no training rows: there is nothing to train on, only to evaluate",)
    else:
        said = look_at_labels(task, found.splits["train"], place)
    return replace(found, notices=(*found.notices, *said))


def find_splits(task: Task, folder: Path) -> dict[str, Path]:
    """Return the files of a folder that hold splits of the task in the JSONL layout, compressed or not."""
    files = {}
    for split in task.splits:
        found = sorted([*folder.glob(f"{split}.jsonl"), *folder.glob(f"{split}.jsonl.*")])
        if len(found) > 1:
            raise InputError(f"{folder} has two files for '{split}', {found[0].name} and {found[1].name}; keep one")
        if found and not found[0].is_file():
            raise InputError(f"{found[0]} is not a file; expected the rows of '{split}'")
        if found:
            files[split] = found[0]
    return files


def tasks_in(folder: Path) -> list[str]:
    """Return the tasks of the catalogue that lie in a folder, each in one of its own or official name."""
    return [
        name
        for name, task in CATALOGUE.items()
        if find_splits(task, folder / name) or ((found := find_layout(task, folder)) and found[1] != folder)
    ]


def _nothing_of(task: Task, folder: Path) -> InputError:
    """Return the error for a folder without the task, which says what was looked for and what is there."""
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    expected = f"{', '.join(f'{split}.jsonl' for split in task.splits)} (also compressed), in it or in {task.name}/"
    if official := expected_files(task):
        expected += f", or official files such as {some(official)}"
    return InputError(
        f"{folder} has no rows of task '{task.name}': expected {expected}; found {some(there, SHOWN) or 'nothing'}"
    )


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
    symmetric: bool = False,
    encoding: str = "utf-8",
) -> Labelled:
    """Read labelled tables (train, and dev and test where given) as a task of their own.

    `columns` maps a role (text; or a and b; or context, question and choices; and label) to a column's name. What was
    inferred stands in `fields`, `label_field` and `labels` or `score_range` of the returned task. The two texts of a
    `symmetric` pair say the same in either order, and are read in both.
    """
    if "train" not in paths:
        raise SettingError("a table for 'train' is needed: its rows tell which labels there are")
    rows = {split: _read(path, encoding) for split, path in paths.items()}
    task = _infer_task(rows, paths["train"], columns or {}, regression)
    if symmetric:
        if task.shape != PAIR:
            raise SettingError(f"`symmetric` is for rows of two texts; {paths['train']} has {', '.join(task.fields)}")
        task = replace(task, shape=BOTH)
    for split in paths:
        if split not in task.splits:
            raise unknown("split", split, task.splits)
    splits = {split: [make_example(task, row, split) for row in found] for split, found in rows.items()}
    notices = look_at_labels(task, splits["train"], paths["train"])
    return Labelled(task, splits, (*notices, *doubtful_names(task.labels, paths["train"])))


def _read(path: Path, encoding: str) -> list[Row]:
    rows = [Row(cells, str(path), number) for number, cells in read_rows(path, encoding=encoding)]
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows


def sort_labels(names: set[str]) -> tuple[str, ...]:
    """Sort label names: by value if all are numbers, else by letters."""
    values = {name: number(name) for name in names}
    if None in values.values():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (values[name], name)))


def _infer_columns(train: Sequence[Row], chosen: Mapping[str, str], place: str) -> tuple[str, tuple[str, ...], str]:
    """Return shape, text columns and label column of a table, from the caller's choice and the columns' names."""
    header = list(train[0].cells)
    for role, column in chosen.items():
        if role not in (*_TEXT_ROLES, "label"):
            raise unknown("role of a column", role, (*_TEXT_ROLES, "label"))
        if column not in header:
            raise InputError(
                f"{place} has no column '{column}'{did_you_mean(column, header)} (columns: {some(header, SHOWN)})"
            )
    label = chosen.get("label") or _known_column(header, _LABEL_NAMES, "label", place)
    shape, texts = _chosen_texts(chosen) or _known_texts([name for name in header if name != label], place)
    rest = [name for name in header if name not in texts and name != label]
    if not texts and label and len(rest) == 1:
        shape, texts = SINGLE, (rest[0],)
    elif texts and not label and len(rest) == 1:
        label = rest[0]
    elif not texts and not label and len(rest) == 2:
        shape, texts, label = _told_apart(train, rest)
    if not texts or not label:
        missing = "text" if not texts else "label"
        raise InputError(
            f"{place}: which column is the {missing}? Name it with `columns={{{missing!r}: 'COLUMN'}}` "
            f"(columns: {some(header, SHOWN)}){'' if texts or label else _hint_at_header(train, place)}"
        )
    return shape, texts, label


def _told_apart(train: Sequence[Row], columns: Sequence[str]) -> tuple[str, tuple[str, ...], str]:
    """Return which of two columns is the text and which the label, if one repeats its values and the other does not."""
    kinds = {name: len({str(row.cells.get(name)) for row in train}) for name in columns}
    label, text = sorted(columns, key=kinds.__getitem__)
    repeats = 1 < kinds[label] <= len(train) // _ROWS_A_LABEL and kinds[text] > len(train) // 2
    return (SINGLE, (text,), label) if repeats and not _hint_at_header(train, train[0].place) else (SINGLE, (), "")


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
    names = _plain_names(header)
    for roles in (*_SHAPE_OF, *_PAIR_NAMES):
        if roles != ("text",) and all(role in names for role in roles):
            return _SHAPE_OF.get(roles, PAIR), tuple(_only(names[role], role, place) for role in roles)
    text = _known_column(header, _TEXT_NAMES, "text", place)
    return SINGLE, (text,) if text else ()


def _known_column(header: Sequence[str], known: Sequence[str], role: str, place: str) -> str:
    """Return the column whose name tells that it has this role, or an empty string."""
    names = _plain_names(header)
    found = [column for name in known if name in names for column in names[name]]
    if found and known[0] in names:
        return _only(names[known[0]], role, place)
    return _only(found, role, place) if found else ""


def _plain_names(header: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns by their names without regard to case and blanks around them."""
    found: dict[str, list[str]] = {}
    for name in header:
        found.setdefault(name.strip().lower(), []).append(name)
    return found


def _only(columns: Sequence[str], role: str, place: str) -> str:
    """Return the one column that has a role by its name, or ask which."""
    if len(columns) > 1:
        raise InputError(
            f"{place}: which column is the {role}, {' or '.join(columns)}? Name it with "
            f"`columns={{{role!r}: 'COLUMN'}}`"
        )
    return columns[0]


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
        scores = [to_score(row, value) for row, value in found if value is not None]
        _refuse_one_label(scores, train, label, path)
        return task(score_range=(min(scores), max(scores)), metrics=("pearson", "spearman"))
    names = {label_name(value) for row in train if (value := row.label(label)) is not None}
    _refuse_one_label(names, train, label, path)
    return task(labels=sort_labels(names), metrics=("accuracy",))


def _refuse_one_label(found: Collection[str | float], train: Sequence[Row], label: str, path: Path) -> None:
    """Refuse rows of one label only; where some have none, the first of those is what is to be mended."""
    if len(set(found)) == 1:
        for row in train:
            row.require_label(label)
    refuse_one_label(found, path)


def _task_name(path: Path) -> str:
    """Return the name of a file without its suffixes, such as a task may have."""
    # Some systems part letters from their accents, which are not letters by themselves.
    stem = unicodedata.normalize("NFC", path.name.split(".")[0].lower())
    return re.sub(r"[\W_]+", "-", stem)[:_LONG_NAME].strip("-") or "table"
