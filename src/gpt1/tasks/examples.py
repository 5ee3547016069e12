"""One labelled row, checked: what its cells must hold, and what is said where they do not.

Who reads which file knows where rows come from; here a row is cells with a place, and becomes an example or an error.
A row that cannot be used is an error: which row is to be mended or left out is not ours to decide (`sifting.py` leaves
rows out where a person says so).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpt1.base.errors import InputError, did_you_mean, printable
from gpt1.base.wording import shortened, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import BOTH, CHOICES
from gpt1.tasks.tagging import LONGEST_SENTENCE, WORDS_FIELDS
from gpt1.text.cleaning import to_utf8
from gpt1.text.spans import split_words

SHOWN = 10  # names in a message
# The index of a class or an answer, a score, or the indices of several labels: those that a row has, or of each word
Label = int | float | tuple[int, ...]
LONGEST_LABEL = 1000  # characters, beyond which a cell is hardly the name of a class

EMPTY_ROW, EMPTY_TEXT, EMPTY_LABEL = "empty-row", "empty-text", "empty-label"  # why a row cannot be used
LABEL_IT = "label the row or take it out"
SEVERAL_LABELS, OTHER_LABEL, NO_COLUMN, UNUSABLE = "several-labels", "other-label", "no-column", "unusable"

_LONG = 80  # characters of a value in a message
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)  # as others write 1234, so that nobody can tell
_NO_LABEL = ("nan", "NaN")  # what programs write for an empty cell of a number column


class RowFault(InputError):
    """A row that can be read but not used; `reason` is a short key for counting, as of a fault of the file."""

    def __init__(self, place: str, number: int, message: str, reason: str = UNUSABLE) -> None:
        super().__init__(place, number, message, reason)  # by which it comes whole from another process
        self.place, self.number, self.message, self.reason = place, number, message, reason

    def __str__(self) -> str:
        return printable(f"{self.place}, row {self.number}: {self.message}")


@dataclass(frozen=True)
class Row:
    """One row of a file, and where it stands for the errors."""

    cells: Mapping[str, object]
    place: str
    number: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in any cell."""
        return all(map(_is_empty, self.cells.values()))

    def error(self, message: str, reason: str = UNUSABLE) -> InputError:
        """Return an error about this row."""
        return RowFault(self.place, self.number, message, reason)

    def cell(self, column: str) -> Any:
        """Return what stands in a column, or say which columns there are."""
        if column not in self.cells:
            columns = list(self.cells)
            near = did_you_mean(column, columns)
            raise self.error(f"no column '{column}'{near} (columns: {some(columns, SHOWN)})", NO_COLUMN)
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
            said = f"'{column}' holds {brief(value)}, several labels; write one, or `labels_sep='|'` reads them all"
            raise self.error(said, SEVERAL_LABELS)
        return self._checked_label(value, column)

    def _checked_label(self, value: Any, column: str) -> Any:
        if isinstance(value, str):
            self.check_text(value, column)
            if len(value) > LONGEST_LABEL:
                raise self.error(f"'{column}' holds {len(value):,} characters; a label is short: is it the text?")
        if isinstance(value, float) and math.isinf(value):  # such as 1e999, of which nobody meant a class
            raise self.error(f"label {brief(value)} is not a number")
        return None if _is_empty(value) or str(value).strip() in _NO_LABEL else value

    def labels(self, column: str, separator: str) -> list[str]:
        """Return the names of the labels in a column, each as often as it stands there; an empty cell has none.

        They are parted by the separator; where a file can hold lists, they may be one.
        """
        value = self.cell(column)
        found = []
        for item in value if isinstance(value, list) else value.split(separator) if isinstance(value, str) else [value]:
            if isinstance(item, list | dict):
                raise self.error(f"'{column}' holds {brief(value)}, expected labels", SEVERAL_LABELS)
            if (whole := self._checked_label(item, column)) is None:
                continue
            if separator in (name := label_name(whole)):
                said = f"the label '{name}' holds '{separator}', which parts labels"
                raise self.error(f"{said}; choose a `labels_sep` that no label holds")
            found.append(name)
        return found

    def require_label(self, column: str) -> Any:
        """Return the label in a column, or say that there is none."""
        if (value := self.label(column)) is None:
            self.cell(column)
            raise self.error(f"the label in '{column}' is empty; {LABEL_IT}", EMPTY_LABEL)
        return value


@dataclass(frozen=True)
class Example:
    """One row, checked: its texts in the order of the shape's parts, and its label as a number.

    The texts of choices are context, question ("" where the task has none) and the answers. The label is the index of
    the class or of the right answer, or the score itself; of several labels all indices in their order; None where a
    test row has none. `index` is what an official test file calls the row, and what a submission answers to. Where each
    word of a text has a label, `words` are these, and the label is the index of each word's.
    """

    texts: tuple[str, ...]
    label: Label | None
    row: int
    group: int | None = None
    index: int | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Labelled:
    """A task, its examples by split, and what a person should be told about them."""

    task: Task
    splits: dict[str, list[Example]]
    notices: tuple[str, ...] = ()


def same_texts(task: Task, examples: Sequence[Example]) -> list[tuple[str, ...]]:
    """Return for each example what is equal where texts are; case and blanks do not count, nor the order of `both`."""
    plain: dict[str, str] = {}  # a passage comes with many questions, and is kept once
    for example in examples:
        for text in example.texts:
            if text not in plain:
                plain[text] = " ".join(text.casefold().split())
    found = (tuple(plain[text] for text in example.texts) for example in examples)
    return [tuple(sorted(texts)) if task.shape == BOTH else texts for texts in found]


def make_example(task: Task, row: Row, split: str, *, may_be_empty: bool = False) -> Example:
    """Check one row against its task; only rows of a test split may lack a label, and none a text unless told so."""
    may_lack = split in task.test_splits
    texts = _texts(task, row, may_be_empty)
    if task.is_multilabel:  # an empty cell says that no label applies
        is_unknown = may_lack and task.label_field not in row.cells
        return Example(texts, None if is_unknown else _labels(task, row), row.number, _group(task, row))
    value = (row.label if may_lack else row.require_label)(task.label_field)
    return Example(texts, None if value is None else _label(task, row, value), row.number, _group(task, row))


def example_to_answer(task: Task, row: Row) -> Example:
    """Check the texts of one row that is to be answered; a label that it may have is not looked at."""
    if task.labels_words:
        return _words_to_answer(task, row)
    return Example(_texts(task, row), None, row.number)


def _words_to_answer(task: Task, row: Row) -> Example:
    """Return the words of a row: those of a list, or of a text as `split_words` parts it."""
    lists = [name for name in WORDS_FIELDS if name in row.cells]
    field = task.fields[0] if task.fields[0] in row.cells or not lists else lists[0]
    value = row.cell(field)
    if isinstance(value, list):
        if not value:
            raise row.error(f"'{field}' is empty; fill it or take the row out", EMPTY_TEXT)
        words = tuple(_text(row, word, f"{field}[{place}]") for place, word in enumerate(value))
        text = " ".join(words)
    else:
        text = _text(row, value, field)
        words = tuple(text[span.start : span.end] for span in split_words(text))
    if len(words) > LONGEST_SENTENCE:
        said = f"'{field}' has {len(words):,} words, and at most {LONGEST_SENTENCE:,} are labelled at once"
        raise row.error(f"{said}; part it into sentences")
    return Example((text,), None, row.number, words=words)


def _texts(task: Task, row: Row, may_be_empty: bool = False) -> tuple[str, ...]:
    def text(value: Any, field: str) -> str:
        blank = isinstance(value, str) and not value.strip()
        return value if blank and may_be_empty else _text(row, value, field)

    if task.shape != CHOICES:
        return tuple(text(row.cell(field), field) for field in task.fields)
    *asked, answers = task.fields
    texts = [text(row.cell(field), field) for field in asked] + [""] * (2 - len(asked))
    texts += [text(answer, f"{answers}[{index}]") for index, answer in enumerate(_answers(task, row, answers))]
    return tuple(texts)


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or value != value  # only NaN differs from itself


def _text(row: Row, value: Any, field: str) -> str:
    if _is_empty(value):
        raise row.error(f"'{field}' is empty; fill it or take the row out", EMPTY_TEXT)
    if not isinstance(value, str):
        raise row.error(f"'{field}' holds {brief(value)}, expected text")
    row.check_text(value, field)
    return value


def _answers(task: Task, row: Row, field: str) -> list[Any]:
    value = row.cell(field)
    if not isinstance(value, list):
        raise row.error(f"'{field}' holds {brief(value)}, expected a list of {task.choices} answers")
    if len(value) != task.choices:
        raise row.error(f"'{field}' has {len(value)} answers, task '{task.name}' has {task.choices}")
    return value


def _label(task: Task, row: Row, value: Any) -> int | float:
    if task.shape == CHOICES:
        name = label_name(value)
        if not (name.isascii() and name.isdigit() and int(name) < task.choices):
            raise row.error(f"label {brief(value)} is not the index of an answer (0 to {task.choices - 1})")
        return int(name)
    if task.score_range is None:
        return _place(task, row, label_name(value))
    score, (low, high) = to_score(row, value), task.score_range
    if not low <= score <= high:
        raise row.error(f"score {score} is outside {low} to {high}")
    return score


def _labels(task: Task, row: Row) -> tuple[int, ...]:
    return tuple(sorted({_place(task, row, name) for name in row.labels(task.label_field, task.labels_sep)}))


def _place(task: Task, row: Row, name: str) -> int:
    if name not in task.label_places:
        near = did_you_mean(name, task.labels)
        raise row.error(f"label '{name}' is none of {some(task.labels, SHOWN)}{near}", OTHER_LABEL)
    return task.label_places[name]


def to_score(row: Row, value: Any) -> float:
    """Return a label as a number, or say that it is none; "3,5" is one too, as half of the world writes it."""
    if isinstance(value, str) and _THOUSANDS.fullmatch(value.strip()):
        plain = value.strip()
        either = f"{plain.replace(',', '.')} or {plain.replace(',', '')}"
        raise row.error(f"label {brief(value)} may be {either}; write it with a point, or without the comma")
    try:
        score = math.nan if isinstance(value, bool) else float(with_point(value))
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        hint = "; write digits and one point alone, such as 1234.5" if re.match(r"\s*[+-]?\d", str(value)) else ""
        raise row.error(f"label {brief(value)} is not a number{hint}")
    return score


def has_decimal_comma(value: Any) -> bool:
    """Whether a label is a number as "3,5" is."""
    return isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip()) is not None


def with_point(value: Any) -> Any:
    """Return a label with a point in place of a decimal comma; any other as it is."""
    return value.replace(",", ".") if has_decimal_comma(value) else value


def _group(task: Task, row: Row) -> int | None:
    name = row.cells.get(task.group_field) if task.groups else None
    if name is None:
        return None
    if name not in task.groups:
        raise row.error(f"'{task.group_field}' is {name!r}, expected one of {some(task.groups, SHOWN)}")
    return task.groups.index(name)


def label_name(value: Any) -> str:
    """Return a label as its name: 1, 1.0 and " 1 " are all the label 1."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


def brief(value: Any) -> str:
    """Return a value as Python writes it, cut where it is long: a cell may hold megabytes."""
    return shortened(repr(value), _LONG, "...")
