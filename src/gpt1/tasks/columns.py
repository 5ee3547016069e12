"""What the columns of a labelled table are, text or label: by their names, by what a person says, or by what they hold.

The labels are read from the training rows; they and the columns are kept in the task that is returned, so that every
later file is read by the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from gpt1.base.errors import InputError, SettingError, did_you_mean, printable, unknown
from gpt1.base.tables import file_format
from gpt1.base.wording import shortened, some
from gpt1.tasks.catalog import MULTILABEL_METRICS, TABLE_METRICS, Task
from gpt1.tasks.data_warnings import refuse_one_label
from gpt1.tasks.examples import (
    NO_COLUMN,
    SHOWN,
    Row,
    RowFault,
    example_to_answer,
    label_name,
    make_example,
    to_score,
    with_point,
)
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE
from gpt1.tasks.spellings import number
from gpt1.tasks.tagging import WORDS_FIELDS

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
_LOOKED_AT = 100  # rows, for what their columns are called
# What the caller may call the text columns, and which shape they then make.
_TEXT_ROLES = ("text", "a", "b", "context", "question", "choices")
_SHAPE_OF = {
    ("text",): SINGLE,
    ("a", "b"): PAIR,
    ("context", "question", "choices"): CHOICES,
    ("context", "choices"): CHOICES,
}

_ROWS_A_LABEL = 5  # at least so many, where a column is taken for the label by what it holds alone
_WORDS_OF_A_TEXT = 5  # without digits, from which on a cell is hardly a name, a date or an address
_NAMELESS = re.compile(r"column \d+|Unnamed: \d+")  # what a column without a name is called here, and by pandas
_NO_HEADER = "The first line looks like a row; is the header missing? Write one, such as text,label"
_OWN = 0.9  # of its rows have a value of their own: a column of names or numbers of the rows, not of labels
_ROWS_OF_THEIR_OWN = 20  # from which on that is said
# Days as people and programs write them, with a time or without.
_DAYS = (
    r"\d{4}[-/.]\d\d?[-/.]\d\d?",
    r"\d\d?[-/.]\d\d?[-/.](\d{4}|\d\d)",
    r"\d\d?\.? [^\W\d_]{3,9}\.? \d{4}",
    r"[^\W\d_]{3,9}\.? \d\d?,? \d{4}",
)
_TIME = r"\d\d?:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?( ?(Z|UTC|[+-]\d\d:?\d\d))?"
_DATE = re.compile(rf"({'|'.join(_DAYS)})([T ,]+{_TIME})?")
_TIME_OF_DAY = re.compile(_TIME)
_KINDS_SHOWN = 3  # values of a column that could be the label
_LONG_NAME = 40  # characters, beyond which a header's cell is hardly the name of a column
_WORDS_OF_A_ROW = 4  # from which on a name may as well be a text
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class ColumnNote:
    """What a person should know of how a table was read, and what helps, if anything."""

    what: str
    advice: str = ""

    def in_words(self) -> str:
        """Return both in a line."""
        return f"{self.what}; {self.advice}" if self.advice else self.what


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read, and as what."""

    shape: str
    texts: tuple[str, ...]
    label: str
    choices: int = 0
    told: Mapping[str, ColumnNote] = field(default_factory=dict)  # by a key

    def task(self, **about: Any) -> Task:
        """Return a task of these columns."""
        return Task(shape=self.shape, fields=self.texts, label_field=self.label, **about)

    @cached_property
    def draft(self) -> Task:
        """A task of these columns whose labels are not known yet."""
        answers: dict[str, Any] = {"choices": self.choices} if self.shape == CHOICES else {"labels": ("0", "1")}
        return self.task(name="table", title="a table", metrics=("accuracy",), **answers)


def check_row(
    columns: Columns, row: Row, *, regression: bool = False, needs_label: bool = True, labels_sep: str = ""
) -> Row:
    """Return a row, unless it cannot be used, whichever labels the table has."""
    if columns.shape == CHOICES:  # whose labels are known: they are the numbers of answers
        make_example(columns.draft, row, "train" if needs_label else "test")
        return row
    example_to_answer(columns.draft, row)
    if labels_sep:
        if needs_label or columns.label in row.cells:
            row.labels(columns.label, labels_sep)
        return row
    find = row.require_label if needs_label else row.label
    if (value := find(columns.label)) is not None and regression:
        to_score(row, value)
    return row


def require_names(columns: Columns, regression: bool, place: object) -> None:
    """Refuse to look at the spelling of labels that are numbers."""
    if regression or columns.shape == CHOICES:
        raise SettingError(f"`fold_labels` is for labels that are names; those of {place} are numbers")


def check_separator(labels_sep: str, columns: Columns, regression: bool, place: object) -> None:
    """Refuse several labels a row where labels are numbers: a score, or the place of the right answer."""
    if not labels_sep:
        raise SettingError("`labels_sep` is empty; name the sign between the labels of a row, such as `labels_sep='|'`")
    if regression:
        raise SettingError("`regression` has one number a row, and `labels_sep` several labels; leave one of them out")
    if columns.shape == CHOICES:
        raise SettingError(f"{place} has choices, of which one is right; leave `labels_sep` out")


def check_metric(metric: str, has_classes: bool) -> None:
    """Refuse a metric that no table may choose, and one for rows that have no one label each."""
    if metric.replace("-", "_") not in TABLE_METRICS:
        raise unknown("metric", metric, [one.replace("_", "-") for one in TABLE_METRICS])
    if not has_classes:
        raise SettingError(
            "`metric` is chosen where each row has one label; scores, choices and several labels a row have metrics of "
            "their own, so leave `metric` out"
        )


def judged_by(task: Task, metric: str | None) -> Task:
    """Return a task whose answers are judged by a metric first; with another than accuracy its classes have factors."""
    if metric is None:
        return task
    check_metric(metric, bool(task.labels) and not task.is_multilabel)
    name = metric.replace("-", "_")
    return task if name == "accuracy" else replace(task, metrics=(name, "accuracy"), class_factors=True)


def with_columns(task: Task, chosen: Mapping[str, str]) -> Task:
    """Return a task that is read from columns called otherwise, which a person names by their roles."""
    roles = _roles(task)
    learned = dict(zip((*task.fields, task.label_field), (*roles, "label"), strict=True))
    for role, column in chosen.items():
        if role in learned and role not in learned.values():
            whose = f"'{role}' is the column that '{task.name}' learned from, and its role is '{learned[role]}'"
            raise _role_first(whose, learned[role], column)
        if role not in learned.values():
            raise unknown("role of a column", role, (*roles, "label"), of=f"'{task.name}'")
    fields = tuple(chosen.get(role, field) for role, field in zip(roles, task.fields, strict=True))
    return replace(task, fields=fields, label_field=chosen.get("label", task.label_field))


def _role_first(problem: str, role: str, column: str) -> SettingError:
    """Return the error for a column that was named where its role should stand."""
    way = {role: column}
    return SettingError(f"{problem}; the role comes first: `columns={way}`")


def _roles(task: Task) -> tuple[str, ...]:
    """Return what the text columns of a task are called by who names others."""
    if task.labels_words:
        return ("text",)
    shape = PAIR if task.shape == BOTH else task.shape
    return next(names for names, own in _SHAPE_OF.items() if own == shape and len(names) == len(task.fields))


@contextmanager
def advising(task: Task) -> Iterator[None]:
    """Say in the error of a row that lacks a column of a task how to name another."""
    try:
        yield
    except RowFault as fault:
        if fault.reason != NO_COLUMN:
            raise
        roles = dict(zip((*task.fields, task.label_field), (*_roles(task), "label"), strict=True))
        lacking = next((role for column, role in roles.items() if f"no column '{column}'" in fault.message), "text")
        advice = f"name the one that is meant with `columns={{{lacking!r}: 'COLUMN'}}`"
        raise RowFault(fault.place, fault.number, f"{fault.message}; {advice}", fault.reason) from None


def require_columns(task: Task, rows: Sequence[Row], *, with_label: bool = False) -> None:
    """Refuse a table without the columns that a task reads, all of them at once; some rows of jsonl may lack one."""
    there = list(dict.fromkeys(name for row in rows[:_LOOKED_AT] for name in row.cells))
    roles = dict(zip(task.fields, _roles(task), strict=True)) | ({task.label_field: "label"} if with_label else {})
    lacking = [column for column in roles if column not in there]
    if task.labels_words and any(name in there for name in WORDS_FIELDS):
        return
    if rows and lacking:
        ways = {roles[column]: "COLUMN" for column in lacking}
        meant = "the one that is" if len(lacking) == 1 else "those that are"
        raise InputError(f"{_lacks(rows[0].place, lacking, there)}; name {meant} meant with `columns={ways!r}`")


def _lacks(place: str, lacking: Sequence[str], header: Sequence[str]) -> str:
    """Return that a table has no such columns, and which it has."""
    columns = f" (columns: {some(header, SHOWN)})"
    if len(lacking) == 1:
        return f"{place} has no column '{lacking[0]}'{did_you_mean(lacking[0], header)}{columns}"
    return f"{place} has none of the columns {some([repr(name) for name in lacking], SHOWN)}{columns}"


def sort_labels(names: set[str]) -> tuple[str, ...]:
    """Sort label names: by value if all are numbers, else by letters."""
    values = {name: number(name) for name in names}
    if None in values.values():
        return tuple(sorted(names))
    return tuple(sorted(names, key=lambda name: (values[name], name)))


class NoLabelColumn(InputError):
    """No column of a table can be the label by what it holds."""

    def __init__(self, place: str, why: str, advice: str) -> None:
        super().__init__(place, why, advice)  # by which it comes whole from another process
        self.place, self.why, self.advice = place, why, advice

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.why}; {self.advice}")


def infer_columns(
    train: Sequence[Row],
    chosen: Mapping[str, str],
    place: str,
    *,
    regression: bool = False,
    labels_sep: str | None = None,
) -> Columns:
    """Return what the columns of a table are, from the caller's choice, their names, and what stands in them."""
    # Of a file whose rows name their own columns the first may lack some.
    header = list(Counter(tuple(row.cells) for row in train[:_LOOKED_AT]).most_common(1)[0][0])
    roles = (*_TEXT_ROLES, "label")
    for role, column in chosen.items():
        if role not in roles and role in header and column in roles:
            raise _role_first(f"'{role}' is a column, and '{column}' is a role", column, role)
        if role not in roles:
            raise unknown("role of a column", role, roles)
    if lacking := [column for column in chosen.values() if column not in header]:
        raise InputError(_lacks(place, lacking, header))
    label = ""
    try:
        label = chosen.get("label") or _known_column(header, _LABEL_NAMES, "label")
        shape, texts = _chosen_texts(chosen) or _known_texts([name for name in header if name != label])
    except _Doubt as doubt:
        known = {**chosen, **({"label": label} if label else {})}
        raise _asked(train, header, known, place, str(doubt)) from None
    told: dict[str, ColumnNote] = {}
    by_name = [name for name in (*texts, label) if name]
    # One name that tells what its column is makes a header, unless labels are called so.
    if not chosen and not (texts and label) and all(name in _cells(train, name) for name in by_name):
        if _seems_a_row(train, place):
            raise InputError(f"{place}: which columns are the text and the label? {_NO_HEADER}")
        told = _doubted_header(train, place)
    rest = [name for name in header if name not in texts and name != label and not _is_index(train, name)]
    rest = _without_numbers_of_rows(train, rest)
    if not label:
        no_labels = {name: why for name in rest if (why := _why_no_label(_labels(train, name, labels_sep), regression))}
        if len(no_labels) == len(rest):
            raise _without_labels(no_labels, place)
    if not texts and label and len(rest) == 1:
        shape, texts = SINGLE, (rest[0],)
    elif texts and not label and len(rest) == 1:
        label = rest[0]
    elif not texts and not label and len(rest) == 2:
        shape, texts, label = _told_apart(train, rest)
    if not texts or not label:
        missing = [name for name, found in (("text", texts), ("label", label)) if not found]
        question = "which columns are the text and the label?" if missing[1:] else f"which column is the {missing[0]}?"
        known = {**dict(zip(_roles_of(shape, texts), texts, strict=True)), **({"label": label} if label else {})}
        raise _asked(train, header, known, place, question)
    if not any(role in chosen for role in _TEXT_ROLES):  # who names a text has seen the others
        told |= _unread(train, [name for name in header if name not in texts and name != label], texts, label)
    if "label" not in chosen and shape != CHOICES:
        told |= _other_labels(train, [name for name in header if name not in texts and name != label], texts, label)
    return Columns(shape, texts, label, _choices(train, texts[-1]) if shape == CHOICES else 0, told)


class _Doubt(Exception):
    """By their names several columns could be what is asked for."""


def _roles_of(shape: str, texts: Sequence[str]) -> tuple[str, ...]:
    return next((roles for roles, own in _SHAPE_OF.items() if own == shape and len(roles) == len(texts)), ())


def _asked(
    train: Sequence[Row], header: Sequence[str], known: Mapping[str, str], place: str, question: str
) -> InputError:
    """Return the error that asks for columns: with an example of each, and how to name them for one text and for two.

    What is likely is proposed: the label repeats its values, and the longest cells are the text.
    """
    cells = {name: _cells(train, name) for name in header}
    there = some([f"{_shown(name)} ({_held(cells[name], len(train))})" for name in header], SHOWN)
    useful = {name: own for name, own in cells.items() if not _is_index(train, name)}
    likely = [way for way in _likely(useful, known) if not any("`" in name for name in way.values())]  # parts a remedy
    ways = [f"`columns={way!r}`" for way in likely]
    named = f"; name them, such as {', or of two texts '.join(ways)}" if ways else ""
    return InputError(f"{place}: {question} Columns: {there}{named}")


def _without_labels(columns: Mapping[str, str], place: str) -> NoLabelColumn:
    """Return the error that says why no column can be the label, and how there will be one."""
    told = some([f"'{_shown(name)}' {why}" for name, why in columns.items()], SHOWN)
    why = f"no column looks like labels{f': {told}' if told else ''}"
    advice = "add a column 'label' with the right answer for each row"
    meant = ", or name the one that is meant with `columns={'label': 'COLUMN'}`" if columns else ""
    return NoLabelColumn(place, why, f"{advice}{meant}")


def _why_no_label(cells: Sequence[str], regression: bool = False) -> str:
    """Return why a column cannot be one of labels; empty where it can, as decimal numbers that may be scores."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled:
        return "is empty"
    if all(map(_DATE.fullmatch, filled)):
        return "holds dates"
    if len(filled) < _ROWS_OF_THEIR_OWN or len(set(filled)) < _OWN * len(filled):
        return ""
    if all(map(_TIME_OF_DAY.fullmatch, filled)):  # a few that come again may be what is asked for
        return "holds times of day"
    if not _are_numbers(filled):
        return "has a value of its own in nearly every row"
    return "numbers the rows" if _are_counted_on(filled) and not regression else ""


def _held(cells: Sequence[str], rows: int) -> str:
    """Return what a column holds: an example; where its values come again, as labels do, how many there are."""
    kinds = [kind for kind, _ in Counter(filter(None, cells)).most_common()]
    if not _repeats(len(kinds), rows):
        return repr(_shown(next(filter(None, cells), "")))
    return f"{len(kinds):,} different: {some([repr(_shown(kind)) for kind in kinds], _KINDS_SHOWN)}"


def _other_labels(
    train: Sequence[Row], others: Sequence[str], texts: Sequence[str], label: str
) -> dict[str, ColumnNote]:
    """Tell of columns whose values come again as those of a label do, and how another is taken for it."""
    cells = {name: _cells(train, name) for name in others}
    may_be = {name: own for name, own in cells.items() if not _why_no_label(own)}
    found = [name for name, own in may_be.items() if _repeats(len({*own} - {""}), len(train))]
    if not found:
        return {}
    taken = f"'{_shown(label)}' is taken for the label ({_held(_cells(train, label), len(train))})"
    named = some([f"'{_shown(name)}' ({_held(cells[name], len(train))})" for name in found], SHOWN)
    what = f"{taken}; by {'its' if len(found) == 1 else 'their'} values {named} could be it too"
    way = {**dict(zip(_roles_of(PAIR if len(texts) > 1 else SINGLE, texts), texts, strict=True)), "label": found[0]}
    if any("`" in name for name in way.values()):  # which parts a remedy
        return {"other-labels": ColumnNote(what)}
    return {"other-labels": ColumnNote(what, f"`columns={way!r}` takes that one")}


def _likely(cells: Mapping[str, Sequence[str]], known: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what the columns could be beside those that are known: of one text, and of two where there are so many."""
    kinds = {name: len(set(values)) for name, values in cells.items() if name not in known.values()}
    may_be = [name for name in kinds if not _why_no_label(cells[name])]
    label = known.get("label") or min(may_be, key=lambda name: (kinds[name] < 2, kinds[name]), default="")
    texts = sorted((name for name in kinds if name != label), key=lambda name: -sum(map(len, cells[name])))
    if not label:
        return []
    if any(role in known for role in _TEXT_ROLES):
        return [{**known, "label": label}]
    pair = sorted(texts[:2], key=list(cells).index)
    alone = [{"text": text, "label": label} for text in texts[:1]]
    return alone + ([{"a": pair[0], "b": pair[1], "label": label}] if pair[1:] else [])


def _shown(text: str) -> str:
    """Return a name or a cell in short, without the sign that remedies stand between."""
    plain = " ".join(printable(text).replace("`", "'").split())
    return shortened(plain, _LONG_NAME)


def _choices(train: Sequence[Row], column: str) -> int:
    """Return how many answers the first row offers that has several."""
    lists = (row.cells.get(column) for row in train)
    return next((len(cell) for cell in lists if isinstance(cell, list) and len(cell) > 1), 2)


def _told_apart(train: Sequence[Row], columns: Sequence[str]) -> tuple[str, tuple[str, ...], str]:
    """Return which of two columns is the text and which the label, if one repeats its values and the other does not."""
    kinds = {name: len(set(_cells(train, name))) for name in columns}
    label, text = sorted(columns, key=kinds.__getitem__)
    repeats = _repeats(kinds[label], len(train)) and kinds[text] > len(train) // 2
    return (SINGLE, (text,), label) if repeats else (SINGLE, (), "")


def _repeats(kinds: int, rows: int) -> bool:
    """Whether a column of so many different values has few of them, as labels are."""
    return 1 < kinds <= rows // _ROWS_A_LABEL


def _cells(train: Sequence[Row], column: str) -> list[str]:
    values = (row.cells.get(column) for row in train)
    return ["" if value is None else str(value) for value in values]


def _labels(train: Sequence[Row], column: str, separator: str | None) -> list[str]:
    """Return what stands in a column; where a row may have several labels, each of them."""
    if not separator:
        return _cells(train, column)
    found: list[str] = []
    for value in (row.cells.get(column) for row in train):
        found += map(str, value) if isinstance(value, list) else ("" if value is None else str(value)).split(separator)
    return found


def _unread(train: Sequence[Row], others: Sequence[str], texts: Sequence[str], label: str) -> dict[str, ColumnNote]:
    """Tell of columns that hold text too and are not read, and how they would be; of a pair nothing is given up."""
    found = [name for name in others if _holds_texts([row.cells.get(name) for row in train])]
    if not found:
        return {}
    named, other = some([f"'{_shown(name)}'" for name in found], SHOWN), found[0]
    verb, are = ("holds", "is") if len(found) == 1 else ("hold", "are")
    what = f"{named} {verb} text too, and {are} not read"
    if len(texts) > 1 or any("`" in name for name in (other, *texts, label)):  # which parts a remedy
        return {"unread-text": ColumnNote(what)}
    ways = {
        "that one": {"text": other, "label": label},
        "both": {"a": texts[0], "b": other, "label": label},
    }
    return {
        "unread-text": ColumnNote(what, ", or ".join(f"`columns={way!r}` reads {which}" for which, way in ways.items()))
    }


def _holds_texts(values: Sequence[object]) -> bool:
    """Whether a column holds texts: most of its cells differ, and have more words than names, dates and addresses."""
    texts = {value for value in values if isinstance(value, str)}
    if 2 * len(texts) <= len(values):
        return False
    return median(sum(not _DIGITS.search(word) for word in text.split()) for text in texts) >= _WORDS_OF_A_TEXT


# ---- is the first line a header? ----


def _doubted_header(train: Sequence[Row], place: str) -> dict[str, ColumnNote]:
    """Tell that the first line was taken for the header, where somebody might take it for a row."""
    if file_format(place) not in ("csv", "tsv") or not any(_is_like_a_cell(train, name) for name in train[0].cells):
        return {}
    names = some([f"'{_shown(name)}'" for name in train[0].cells], SHOWN)
    what = f"the first line is taken for the header: {names}"
    return {"header": ColumnNote(what, "if it is a row, write a header above it")}


def _seems_a_row(train: Sequence[Row], place: str) -> bool:
    """Whether the first line looks like those below it: some of its names are like cells, and none cannot be one."""
    names = list(train[0].cells)
    if file_format(place) not in ("csv", "tsv") or _are_counted(names):
        return False
    return any(_is_like_a_cell(train, name) for name in names) and not any(
        _is_no_cell(name, _cells(train, name)) for name in names
    )


def _is_like_a_cell(train: Sequence[Row], name: str) -> bool:
    """Whether a name stands below itself, is a number over numbers, or longer than names are."""
    is_long = len(name) > _LONG_NAME or len(name.split()) >= _WORDS_OF_A_ROW
    return is_long or _is_number(name, cells := _cells(train, name)) or name in cells


def _is_no_cell(name: str, cells: Sequence[str]) -> bool:
    """Whether the cells of a column are so alike that its name cannot be one of them."""
    if _are_numbers(cells):
        return number(with_point(name)) is None
    kinds = set(cells)
    if _repeats(len(kinds), len(cells)):
        return name not in kinds and not _is_numbered_as(name, kinds)
    return 2 * len(name) < min(map(len, cells))  # of texts


def _is_numbered_as(name: str, labels: Collection[str]) -> bool:
    """Whether a name is a label but for its digits, as intent_0 is beside intent_1: a rare one."""
    return bool(_DIGITS.search(name)) and _DIGITS.sub("0", name) in {_DIGITS.sub("0", label) for label in labels}


def _is_number(name: str, cells: Sequence[str]) -> bool:
    return number(with_point(name)) is not None and _are_numbers(cells)


def _are_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and all(number(with_point(cell)) is not None for cell in filled)


def _are_counted(names: Sequence[str]) -> bool:
    """Whether all names that were given are 0, 1, 2 and so on, or from 1 on, as programs write where there are none."""
    given = [name for name in names if not _NAMELESS.fullmatch(name)]
    return given in ([str(place + first) for place in range(len(given))] for first in (0, 1))


def _are_counted_on(cells: Sequence[str]) -> bool:
    """Whether cells are whole numbers, each one more than that before it; other such numbers may be scores."""
    return all(map(str.isdecimal, cells)) and all(int(one) + 1 == int(two) for one, two in pairwise(cells))


def _is_index(train: Sequence[Row], name: str) -> bool:
    """Whether a column only numbers the rows, as pandas writes it: without a name, and no number twice."""
    return _NAMELESS.fullmatch(name) is not None and _numbers_rows(_cells(train, name))


def _without_numbers_of_rows(train: Sequence[Row], columns: list[str]) -> list[str]:
    """Return columns without those that number the rows, such as ticket_id, where another's values come again."""
    others = [name for name in columns if not _numbers_rows(_cells(train, name))]
    return others if any(_repeats(len(set(_cells(train, name))), len(train)) for name in others) else columns


def _numbers_rows(cells: Sequence[str]) -> bool:
    """Whether all cells are whole numbers, none of which comes twice."""
    return all(cell.isascii() and cell.isdigit() for cell in cells) and len(set(cells)) == len(cells)


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


def _known_texts(header: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return shape and columns as far as the names of the columns tell them."""
    names = _plain_names(header)
    for roles in (*_SHAPE_OF, *_PAIR_NAMES):
        if roles != ("text",) and all(role in names for role in roles):
            return _SHAPE_OF.get(roles, PAIR), tuple(_only(names[role], role) for role in roles)
    text = _known_column(header, _TEXT_NAMES, "text")
    return SINGLE, (text,) if text else ()


def _known_column(header: Sequence[str], known: Sequence[str], role: str) -> str:
    """Return the column whose name tells that it has this role, or an empty string."""
    names = _plain_names(header)
    found = [column for name in known if name in names for column in names[name]]
    if found and known[0] in names:
        return _only(names[known[0]], role)
    return _only(found, role) if found else ""


def _plain_names(header: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns by their names without regard to case and blanks around them."""
    found: dict[str, list[str]] = {}
    for name in header:
        found.setdefault(name.strip().lower(), []).append(name)
    return found


def _only(columns: Sequence[str], role: str) -> str:
    """Return the one column that has a role by its name, or ask which."""
    if len(columns) > 1:
        raise _Doubt(f"which column is the {role}, {' or '.join(columns)}?")
    return columns[0]


def infer_task(
    rows: Mapping[str, list[Row]], path: Path, columns: Columns, regression: bool, labels_sep: str = ""
) -> Task:
    """Return the task that the columns and the labels of a table describe."""
    train, label = rows["train"], columns.label
    task = partial(columns.task, name=task_name(path), title=printable(f"rows of {path.name}"))
    if columns.shape == CHOICES:
        answers = train[0].cell(columns.texts[-1])
        if not isinstance(answers, list) or len(answers) < 2:
            raise train[0].error(f"'{columns.texts[-1]}' holds {answers!r}, expected a list of two answers or more")
        return task(choices=len(answers), metrics=("accuracy",))
    if regression:
        # Every table counts: a score of dev just above the highest of train is no fault of the row.
        found = [(row, row.label(label)) for split in rows.values() for row in split]
        scores = [to_score(row, value) for row, value in found if value is not None]
        _refuse_one_label(scores, train, label, path)
        return task(score_range=(min(scores), max(scores)), metrics=("pearson", "spearman"))
    if labels_sep:
        names = {name for row in train for name in row.labels(label, labels_sep)}
        if len(names) < 2:
            what = f"there is one label alone, '{names.pop()}'" if names else "no row has a label"
            raise InputError(
                f"{path}: {what}; `labels_sep` is for two labels or more: of one, write yes or no in each row"
            )
        return task(labels=sort_labels(names), metrics=MULTILABEL_METRICS, labels_sep=labels_sep)
    names = {label_name(value) for row in train if (value := row.label(label)) is not None}
    _refuse_one_label(names, train, label, path)
    return task(labels=sort_labels(names), metrics=("accuracy",))


def _refuse_one_label(found: Collection[str | float], train: Sequence[Row], label: str, path: Path) -> None:
    """Refuse rows of one label only; where some have none, the first of those is what is to be mended."""
    if len(set(found)) == 1:
        for row in train:
            row.require_label(label)
    refuse_one_label(found, path)


def task_name(path: Path) -> str:
    """Return the name of a file without its suffixes, such as a task may have."""
    # Some systems part letters from their accents, which are not letters by themselves.
    stem = unicodedata.normalize("NFC", path.name.split(".")[0].lower())
    return re.sub(r"[\W_]+", "-", stem)[:_LONG_NAME].strip("-") or "table"
