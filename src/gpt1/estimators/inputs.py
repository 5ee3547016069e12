"""What scikit-learn hands over, as rows of texts and as labels: lists, arrays, series and frames.

What a cell must hold is decided where every other row is checked, in `tasks/examples.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import column_or_1d

from gpt1.base.errors import InputError
from gpt1.base.wording import many
from gpt1.tasks.catalog import Task
from gpt1.tasks.data_warnings import look_at_commas
from gpt1.tasks.examples import SEVERAL_LABELS, Example, Row, brief, example_to_answer, to_score

FIELDS = {1: ("text",), 2: ("a", "b")}  # texts a row, and what they are called where they have no name
AS_MATRIX = "a matrix of 0 and 1, a column each, as scikit-learn's MultiLabelBinarizer makes it"
LABELS_SEP = "|"  # between the names of several labels
ROWS = "test"  # the split of rows without labels

_LABEL_FIELDS = ("label", "target", "answer")  # the first that is not the name of a text
_CLASSES = "biufU"  # kinds of arrays whose values can be classes: whole numbers, truth values, strings


@dataclass(frozen=True)
class Texts:
    """Rows of one text or two, not looked at yet."""

    rows: list[Sequence[Any]]
    width: int  # texts a row
    fields: tuple[str, ...]  # what they are called
    columns: tuple[str, ...] | None  # of a frame, where all its columns have names


def read_texts(X: Any) -> Texts:
    """Return the rows of a list, an array, a series or a frame; errors count them from 1."""
    if issparse(X):
        raise InputError("X is sparse, of numbers; give texts as they are: the run has its own tokenizer")
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise InputError(f"X is a {type(X).__name__}; give a list of texts or of pairs, or a DataFrame")
    columns = getattr(X, "columns", None)
    names = tuple(columns) if columns is not None else (getattr(X, "name", None),)
    if hasattr(X, "__array__"):
        table = np.asarray(X, dtype=object)
        if table.ndim > 2 or (table.ndim == 2 and table.shape[1] not in FIELDS):
            raise InputError(f"X has the shape {table.shape}; a row has one text or two: choose their columns")
        X = table.tolist()
    rows = [row if isinstance(row, list | tuple | np.ndarray) else (row,) for row in X]
    if not rows:
        raise InputError("X has no rows")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) not in FIELDS or len(row) != width:
            expected = f"{width} as in the first row" if width in FIELDS else "one or two"
            raise Row({}, "X", number).error(f"{many(len(row), 'text')}, expected {expected}")
    usable = tuple(name for name in names if _is_name(name))
    return Texts(
        rows=[[_none(cell) for cell in row] for row in rows],
        width=width,
        fields=usable if len(set(usable)) == len(names) == width else FIELDS[width],
        columns=names if columns is not None and len(usable) == len(names) else None,
    )


def make_examples(task: Task, texts: Texts) -> list[Example]:
    """Return rows as examples without labels, each text checked."""
    return [
        example_to_answer(task, Row(dict(zip(task.fields, row, strict=True)), "X", number))
        for number, row in enumerate(texts.rows, 1)
    ]


def label_field(y: Any, fields: Sequence[str]) -> str:
    """Return what labels are called: as their series is, if no text has that name."""
    names = (getattr(y, "name", None), *_LABEL_FIELDS)
    return next(name for name in names if _is_name(name) and name not in fields)


def read_labels(y: Any, count: int) -> list[Any]:
    """Return the labels of so many rows, not looked at yet."""
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None; give a label for each row of X")
    try:
        values = column_or_1d(np.asarray(y, dtype=object), warn=True)
    except ValueError as error:
        raise InputError(f"y must have one label a row: {error}") from None
    if len(values) != count:
        raise InputError(f"X has {many(count, 'row')}, y has {len(values):,}")
    return [_none(value) for value in values.tolist()]


def read_classes(y: Any, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes that labels name, in their order, and for each row the index of its class."""
    values = read_labels(y, count)
    for number, value in enumerate(values, 1):
        row = Row({"y": value}, "y", number)
        if isinstance(value, list | tuple | set | frozenset | dict | np.ndarray):
            shown = brief(value.tolist() if isinstance(value, np.ndarray) else value)
            raise row.error(f"the label is {shown}, several; give one a row, or of several {AS_MATRIX}", SEVERAL_LABELS)
        if isinstance(value, float) and (np.isinf(value) or value != np.floor(value)) and not np.isnan(value):
            raise row.error(f"{value} is a continuous score, not a class; GPTRegressor learns scores")
        if row.label("y") is None:
            raise row.error("the label is empty; label the row or take it out")
        if isinstance(value, str) != isinstance(values[0], str):
            raise row.error(
                f"the label is {brief(value)}, the first is {brief(values[0])}; give strings alone, or numbers alone"
            )
    given = np.asarray(y).ravel()  # keeps the type of numbers
    found = given if given.dtype.kind in _CLASSES else np.array(values)
    if found.dtype.kind not in _CLASSES:
        raise InputError(f"y has labels such as {brief(values[0])}; expected strings, whole numbers or truth values")
    classes, codes = np.unique(found, return_inverse=True)
    return classes, codes


def read_indicators(y: Any, count: int) -> tuple[NDArray[np.int64], tuple[str, ...]] | None:
    """Return a matrix of several labels a row, 1 for each that it has, and what they are called; None: y is no matrix.

    It may be an array, a list of lists, a frame or sparse; labels without names have their numbers.
    """
    columns = getattr(y, "columns", None)
    values = y.toarray() if issparse(y) else y
    try:
        table = np.asarray(values)
    except ValueError:  # of lists that are not equally long
        return None
    if table.ndim != 2 or table.shape[1] < 2:
        return None
    if len(table) != count:
        raise InputError(f"X has {many(count, 'row')}, y has {len(table):,}")
    if table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise InputError(f"y has the shape {table.shape}; give one label a row, or of several {AS_MATRIX}")
    names = tuple(map(str, range(table.shape[1])))
    if columns is not None and all(_is_name(name) and name == name.strip() for name in columns):
        given = tuple(columns)
        names = given if len(set(given)) == len(given) and not any(LABELS_SEP in name for name in given) else names
    return table.astype(np.int64), names


def read_scores(y: Any, count: int) -> tuple[list[float], list[str]]:
    """Return labels as numbers, and what to tell of how they were read."""
    rows = [Row({"y": value}, "y", number) for number, value in enumerate(read_labels(y, count), 1)]
    return [to_score(row, row.cells["y"]) for row in rows], look_at_commas(rows, "y", "y")


def _is_name(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and bool(name.strip())


def _none(value: Any) -> Any:
    """Return a cell, None for what pandas has in place of it: that is not even equal to itself, nor unequal."""
    return None if type(value).__name__ == "NAType" else value
