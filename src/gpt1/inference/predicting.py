"""Answers for a table of any length: its rows come in by chunks and go out with what a fine-tuned run says of them.

A chunk is all that is ever held.
"""

from __future__ import annotations

import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from gpt1.base.errors import FileError, InputError, SettingError
from gpt1.base.wording import many, some, x100
from gpt1.inference.abstaining import abstentions, in_words, promise
from gpt1.inference.answering import answer, reading_notices, task_of
from gpt1.inference.rows import ByteStream, Found, by_chunks, file_chunks, stream_chunks
from gpt1.inference.run import Run
from gpt1.tasks.assessment import MOST_SHARES
from gpt1.tasks.catalog import Task
from gpt1.tasks.columns import with_columns
from gpt1.tasks.examples import Example, Row, example_to_answer
from gpt1.tasks.shapes import SINGLE

ANSWER, PROBABILITIES, CONFIDENCE, ERROR = "prediction", "probabilities", "confidence", "error"
ABSTAINED = "abstained"
PREFIX = "gpt1_"  # put before our columns where a table has one of that name

_ROWS = "rows"  # what rows that came from no file are called

Notice = Callable[[str], None]


def predict_rows(
    run: Run,
    rows: Iterable[Mapping[str, object] | str],
    *,
    task: str | None = None,
    skip_bad: bool = False,
    abstain: float | None = None,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows one after another, each with its answer; errors count them from 1.

    A row needs the text columns of the task; its label, if any, is not looked at. Where the task has one text, a row
    may be the text itself. With `skip_bad` a row that cannot be used comes back with an error in place of an answer.
    With `abstain` only so many answers are given that at most this share of them is wrong (`abstaining.py`); other rows
    have None in place of one. `notice` is told what a person should know.
    """
    known = task_of(run, task)
    _require_rows(rows)
    found = (Row(_cells(known, row, number), _ROWS, number) for number, row in enumerate(rows, 1))
    return Answers(run, known, by_chunks(found), skip_bad, abstain, notice)


def _require_rows(rows: object) -> None:
    """Refuse one row in place of several, and a table of pandas: their letters and names would be answered as texts."""
    if isinstance(rows, str | Mapping):
        raise SettingError("`rows` is one row; expected several: `[row]`")
    if hasattr(rows, "columns") or not isinstance(rows, Iterable):
        raise SettingError(
            f"`rows` is a {type(rows).__name__}; expected texts or mappings, as `table.to_dict('records')` of pandas"
        )


def _cells(task: Task, row: Mapping[str, object] | str, number: int) -> Mapping[str, object]:
    if isinstance(row, Mapping):
        return row
    if not isinstance(row, str):
        raise InputError(f"{_ROWS}, row {number}: is a {type(row).__name__}; expected a mapping, or a text")
    if task.shape != SINGLE:
        named = ", ".join(f"{field!r}: ..." for field in task.fields)
        raise InputError(f"{_ROWS}, row {number}: is a string; '{task.name}' has several texts, as in {{{named}}}")
    return {task.fields[0]: row}


def predict_file(
    run: Run,
    file: str | Path | ByteStream,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    abstain: float | None = None,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows of a table, or of a stream of JSON lines, one after another, each with its answer.

    `columns` maps roles (text, or a and b, ...) to columns where they are called otherwise than in the training.
    """
    known = with_columns(task_of(run, task), columns or {})
    if not isinstance(file, str | Path):
        return Answers(run, known, stream_chunks(file), skip_bad, abstain, notice)
    chunks = file_chunks(file, encoding)
    first = next(chunks, None)
    if first is None:
        raise InputError(f"{file} has no rows")
    return Answers(run, known, chain([first], chunks), skip_bad, abstain, notice)


class Answers(Iterator[dict[str, object]]):
    """Rows with their answers, of which `added` names the columns; made by `predict_rows` and `predict_file`."""

    def __init__(
        self,
        run: Run,
        task: Task,
        chunks: Iterator[Sequence[Found]],
        skip_bad: bool,
        abstain: float | None,
        notice: Notice,
    ) -> None:
        self._run, self._skip_bad, self._notice = run, skip_bad, notice
        self._task = task
        self.promise = None if abstain is None else promise(run, task, abstain)
        self.abstained = 0  # rows so far that have no answer
        self._rows = self._bad = self._cut = 0
        self._strange: Counter[str] = Counter()  # characters of rows with something that is not in the vocabulary
        self.unknown, self.tokens = array("I"), array("I")  # of each row, those not in the vocabulary, and all it read
        first = next(chunks, [])
        self._names = self._choose_names([found for found in first if isinstance(found, Row)])
        if len(task.labels) > MOST_SHARES:
            notice(f"of {len(task.labels):,} labels, probabilities are told of the {MOST_SHARES} likeliest of each row")
        self._answered = self._answer_all(chain([first], chunks))

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that answers, or errors, stand in."""
        return tuple(self._names.values())

    def __next__(self) -> dict[str, object]:
        return next(self._answered)

    def _choose_names(self, rows: Sequence[Row]) -> dict[str, str]:
        """Return names for our columns, none of which the first rows have."""
        ours = [ANSWER] if self._task.score_range is not None else [ANSWER, PROBABILITIES, CONFIDENCE]
        ours += [] if self.promise is None else [ABSTAINED]
        ours += [ERROR] if self._skip_bad else []
        taken = {column for row in rows for column in row.cells}
        names = {name: name for name in ours}
        while taken.intersection(names.values()):
            names = {name: PREFIX + tried for name, tried in names.items()}
        if there := [name for name in ours if name in taken]:
            self._notice(f"the table has {some(there)} already; what is added is called {some(list(names.values()))}")
        return names

    def _answer_all(self, chunks: Iterable[Sequence[Found]]) -> Iterator[dict[str, object]]:
        for chunk in chunks:
            self._rows += len(chunk)
            yield from self._answer(chunk)
        if self._bad:
            self._notice(f"{self._bad:,} of {many(self._rows, 'row')} could not be used: see '{self._names[ERROR]}'")
        if self.promise is not None:
            answered = self._rows - self._bad - self.abstained
            share = f" ({x100(answered / self._rows):.1f} %)" if self._rows else ""
            self._notice(f"{answered:,} of {many(self._rows, 'row')} answered{share}: {in_words(self.promise)}")
        counts = np.stack((self.unknown, self.tokens), 1)
        strange = self._run.tokenizer.unknown_characters(self._strange)
        for text in reading_notices(self._rows, self._cut, counts, self._run.recipe.shape.context, strange):
            self._notice(text)

    def _answer(self, chunk: Sequence[Found]) -> Iterator[dict[str, object]]:
        checked: list[Example | InputError] = []
        refused: InputError | None = None
        for row in chunk:
            try:
                checked.append(self._check(row))
            except InputError as error:  # said when the rows before it are answered
                refused = error
                break
        found = self._predict([example for example in checked if isinstance(example, Example)])
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
            return example_to_answer(self._task, row)
        except InputError as error:
            if not self._skip_bad:
                raise
            return error

    def _predict(self, examples: Sequence[Example]) -> Iterator[dict[str, object]]:
        if not examples:
            return
        found = answer(self._run, self._task, examples)
        self._cut += int((found.cut > 0).sum())
        self.unknown.extend(found.unknown.tolist())
        for strange in np.flatnonzero(found.unknown).tolist():
            self._strange.update(chain.from_iterable(examples[strange].texts))
        self.tokens.extend(found.tokens.tolist())
        silent = abstentions(found, self.promise)
        self.abstained += int(silent.sum())
        for place in range(len(found)):
            shares = found.shares(place)
            told = {} if shares is None else {PROBABILITIES: shares, CONFIDENCE: max(shares.values())}
            told |= {} if self.promise is None else {ABSTAINED: bool(silent[place])}
            yield {ANSWER: None if silent[place] else found.name(place), **told}
