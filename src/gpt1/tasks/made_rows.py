"""Rows that were made of others, as `gpt1 augment` writes them: which row each is of, and which of them may be learned.

A made row stays with its source. It is learned where its source is; where that is held out for dev, or what it says
stands in dev or test, it is left out, so that nothing that judges has been learned in other words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpt1.base.errors import InputError, SettingError
from gpt1.base.tables import read_rows
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.columns import require_columns
from gpt1.tasks.examples import Example, Labelled, Row, make_example, same_texts
from gpt1.tasks.shapes import CHOICES

SOURCE_ROW, _SOURCE = "source_row", "source_"
HELD_OUT, JUDGED, TWICE = "made of a row that is held out", "that dev or test has too", "that train has already"


def source_column(field: str) -> str:
    """Return the column that holds what a text was made of."""
    return f"{_SOURCE}{field}"


def require_plain(task: Task) -> None:
    """Refuse tasks of which no rows are made."""
    refuse_words(task, "learning rows made of others")
    if task.shape == CHOICES:
        raise SettingError(f"rows of '{task.name}' have choices, of which no others are made")


def with_made(labelled: Labelled, path: Path, *, encoding: str = "utf-8") -> Labelled:
    """Return labelled rows with those that were made of its rows to learn from, and tell which were left out."""
    task = labelled.task
    require_plain(task)
    rows = [Row(cells, str(path), number) for number, cells in read_rows(path, encoding=encoding)]
    if not rows:
        raise InputError(f"{path} has no rows")
    require_columns(task, rows, with_label=True)
    train = labelled.splits.get("train", [])
    own, held_out = _by_row(train), _by_row(labelled.splits.get(task.dev_splits[0], []))
    judging = {text for name, split in labelled.splits.items() if name != "train" for text in same_texts(task, split)}
    known, learned, left = set(same_texts(task, train)), list[Example](), Counter[str]()
    for row in rows:
        source, made = _source(row), make_example(task, row, "train")
        (text,) = same_texts(task, [made])
        if source in own and _is_of(task, row, own[source]):
            _require_label(row, made, own[source])
            why = JUDGED if text in judging else TWICE if text in known else None
        elif source in held_out and _is_of(task, row, held_out[source]):
            why = HELD_OUT
        else:
            raise row.error(
                f"'{SOURCE_ROW}' is {source}, and that row of the table is another, or is not there; make the rows "
                "anew of the table as it is now"
            )
        if why is None:
            known.add(text)
            learned.append(replace(made, row=source))
        else:
            left[why] += 1
    told = [f"{path}: {many(len(learned), 'row')} made of others are learned too"]
    told += [f"left out: {some([f'{count:,} {why}' for why, count in left.items()])}"] if left else []
    splits = {**labelled.splits, "train": [*train, *learned]}
    return Labelled(task, splits, (*labelled.notices, "; ".join(told)))


def _by_row(examples: Sequence[Example]) -> dict[int, Example]:
    return {example.row: example for example in examples}


def _source(row: Row) -> int:
    value = row.cell(SOURCE_ROW)
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()):
        raise row.error(f"'{SOURCE_ROW}' holds '{text[:20]}', and should say which row of the table this one is of")
    return int(text)


def _is_of(task: Task, row: Row, source: Example) -> bool:
    """Whether the texts that a row says it was made of are those of the source."""
    texts = tuple(str(row.cell(source_column(field))).removeprefix("'") for field in task.fields)
    plain = replace(source, texts=tuple(text.removeprefix("'") for text in source.texts))  # as sheets defuse formulas
    one, other = same_texts(task, [replace(source, texts=texts), plain])
    return one == other


def _require_label(row: Row, made: Example, source: Example) -> None:
    if made.label != source.label:
        raise row.error(f"its label is another than that of row {source.row}, of which it was made; it keeps the label")
