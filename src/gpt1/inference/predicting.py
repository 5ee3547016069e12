"""Answers for a table of any length: its rows come in by chunks and go out with what a fine-tuned run says of them.

Rows are checked, encoded and laid out by the very functions that fine-tuning uses. A chunk is all that is ever held.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FileError, InputError, RuinedWeights, SettingError, unknown
from gpt1.base.wording import many, some
from gpt1.inference.classification import probabilities, probabilities_by_portion
from gpt1.inference.rows import ByteStream, Found, by_chunks, file_chunks, stream_chunks
from gpt1.inference.run import Run
from gpt1.tasks.answers import Floats, predictions
from gpt1.tasks.assessment import MOST_SHARES, Answered, answer_name, hold_against, joined, likeliest, share_names
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, encode_task
from gpt1.tasks.examples import Example, Row, make_example
from gpt1.tasks.unknowns import count_unknown, unknown_by_example

ANSWER, PROBABILITIES, CONFIDENCE, ERROR = "prediction", "probabilities", "confidence", "error"
PREFIX = "gpt1_"  # put before our columns where a table has one of that name

_ROWS = "rows"  # what rows that came from no file are called, and the split that rows to be answered make

Notice = Callable[[str], None]


def predict_rows(
    run: Run,
    rows: Iterable[Mapping[str, Any]],
    *,
    task: str | None = None,
    skip_bad: bool = False,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows one after another, each with its answer; errors count them from 1.

    A row needs the text columns of the task; its label, if any, is not looked at. With `skip_bad` a row that cannot be
    used comes back with an error in place of an answer. `notice` is told what a person should know.
    """
    found = (Row(cells, _ROWS, number) for number, cells in enumerate(rows, 1))
    return Answers(run, task_of(run, task), by_chunks(found), skip_bad, notice)


def predict_file(
    run: Run,
    file: str | Path | ByteStream,
    *,
    task: str | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows of a table, or of a stream of JSON lines, one after another, each with its answer."""
    chunks = file_chunks(file, encoding) if isinstance(file, str | Path) else stream_chunks(file)
    return Answers(run, task_of(run, task), chunks, skip_bad, notice)


def task_of(run: Run, name: str | None = None) -> Task:
    """Return the task of this name that a run has learned; without a name, its only one."""
    if name is None and len(run.tasks) > 1:
        raise SettingError(f"{run.path} has learned several tasks; name one with `task`: {', '.join(run.tasks)}")
    if name is not None and name not in run.tasks:
        raise unknown(f"task of {run.path}", name, run.tasks)
    return run.tasks[name or next(iter(run.tasks))]


def answer_split(run: Run, task: Task, split: EncodedSplit) -> tuple[Floats, NDArray[Any]]:
    """Return the probabilities that a run gives the classes, answers or bins of each example, and what it answers."""
    found = probabilities(run.ready_classifier, task.name, split, run.pause)
    _check_finite(run, found)
    return found, predictions(task, found)


def answer_labelled(run: Run, task: Task, split: EncodedSplit) -> Answered:
    """Return what a run answers to each example, held against its label, in memory that classes hardly add to."""
    parts = []
    for examples, found in probabilities_by_portion(run.ready_classifier, task.name, split, run.pause):
        _check_finite(run, found)
        parts.append((examples, hold_against(task, split.labels[examples], found)))
    return joined(parts)


def _check_finite(run: Run, found: Floats) -> None:
    if not np.isfinite(found).all():
        raise RuinedWeights(
            f"{run.checkpoint.path.name} gives probabilities that are no numbers: its weights are ruined; "
            "use the checkpoint of another step, or train again"
        )


class Answers(Iterator[dict[str, Any]]):
    """Rows with their answers, of which `added` names the columns; made by `predict_rows` and `predict_file`."""

    def __init__(self, run: Run, task: Task, chunks: Iterator[Sequence[Found]], skip_bad: bool, notice: Notice) -> None:
        self._run, self._skip_bad, self._notice = run, skip_bad, notice
        self._task = replace(task, dev_splits=(), test_splits=(_ROWS,))  # test rows may lack a label
        self._rows = self._bad = 0
        self.unread: list[int] = []  # tokens of each answered row that the context had no room for
        self.unknown, self.tokens = array("I"), array("I")  # of each, those not in the vocabulary, and all it has read
        first = next(chunks, [])
        self._names = self._choose_names([found for found in first if isinstance(found, Row)])
        if len(task.labels) > MOST_SHARES:
            notice(f"of {len(task.labels):,} labels, probabilities are told of the {MOST_SHARES} likeliest of each row")
        self._answered = self._answer_all(chain([first], chunks))

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that answers, or errors, stand in."""
        return tuple(self._names.values())

    def __next__(self) -> dict[str, Any]:
        return next(self._answered)

    def _choose_names(self, rows: Sequence[Row]) -> dict[str, str]:
        """Return names for our columns, none of which the first rows have."""
        ours = [ANSWER] if self._task.score_range is not None else [ANSWER, PROBABILITIES, CONFIDENCE]
        ours += [ERROR] if self._skip_bad else []
        taken = {column for row in rows for column in row.cells}
        names = {name: name for name in ours}
        while taken.intersection(names.values()):
            names = {name: PREFIX + tried for name, tried in names.items()}
        if there := [name for name in ours if name in taken]:
            self._notice(f"the table has {some(there)} already; what is added is called {some(list(names.values()))}")
        return names

    def _answer_all(self, chunks: Iterable[Sequence[Found]]) -> Iterator[dict[str, Any]]:
        for chunk in chunks:
            self._rows += len(chunk)
            yield from self._answer(chunk)
        if self._bad:
            self._notice(f"{self._bad:,} of {many(self._rows, 'row')} could not be used: see '{self._names[ERROR]}'")
        if cut := sum(tokens > 0 for tokens in self.unread):
            self._notice(
                f"{cut:,} of {many(self._rows, 'row')} had more text than the model's {self._context} tokens; "
                "the ends were not read"
            )
        for text in count_unknown(np.stack((self.unknown, self.tokens), 1)).notice(len(self.unknown)):
            self._notice(text)

    @property
    def _context(self) -> int:
        return self._run.recipe.shape.context

    def _answer(self, chunk: Sequence[Found]) -> Iterator[dict[str, Any]]:
        checked: list[Example | InputError] = []
        refused: InputError | None = None
        for row in chunk:
            try:
                checked.append(self._check(row))
            except InputError as error:  # said when the rows before it are answered
                refused = error
                break
        found = iter(self._predict([example for example in checked if isinstance(example, Example)]))
        for row, example in zip(chunk, checked, strict=False):
            cells = row.cells if isinstance(row, Row) else {}
            if isinstance(example, Example):
                yield {**cells, **{self._names[name]: value for name, value in next(found).items()}}
            else:
                self._bad += 1
                yield {**cells, self._names[ERROR]: str(example)}
        if refused is not None:
            raise refused

    def _check(self, row: Found) -> Example | InputError:
        """Return the row as an example, or why it cannot be one."""
        try:
            if isinstance(row, FileError):
                raise row
            if clash := [name for name in self.added if name in row.cells]:
                raise row.error(f"a column '{clash[0]}' that the first rows do not have; rename it, ours has that name")
            unused = (self._task.label_field, self._task.group_field)
            cells = {name: cell for name, cell in row.cells.items() if name not in unused}
            return make_example(self._task, replace(row, cells=cells), _ROWS)
        except InputError as error:
            if not self._skip_bad:
                raise
            return error

    def _predict(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        if not examples:
            return []
        encoded = encode_task(self._task, {_ROWS: examples}, self._run.tokenizer, self._context)
        split = encoded.splits[_ROWS]
        self.unread += split.cut.tolist()
        unknown_id = self._run.tokenizer.unknown_id
        counts = unknown_by_example(self._task, split, unknown_id, encoded.vocab_size)
        self.unknown.extend(counts[:, 0].tolist())
        self.tokens.extend(counts[:, 1].tolist())
        return [
            self._named(row, answer) for row, answer in zip(*answer_split(self._run, self._task, split), strict=True)
        ]

    def _named(self, row: Floats, answer: float) -> dict[str, Any]:
        named = {ANSWER: answer_name(self._task, answer)}
        if self._task.score_range is not None:
            return named
        places = likeliest(row[None])[0]
        shares = share_names(self._task, places, row[places])
        return {**named, PROBABILITIES: shares, CONFIDENCE: max(shares.values())}
