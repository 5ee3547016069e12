"""Answers for a table of any length: its rows come in by chunks and go out with what a fine-tuned run says of them.

A chunk is all that is ever held.
"""

from __future__ import annotations

import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.errors import FileError, InputError, SettingError
from gpt1.base.wording import many, some, x100
from gpt1.inference.abstaining import abstentions, in_words, promise
from gpt1.inference.answering import Predictions, answer, reading_notices, task_of
from gpt1.inference.explaining import Explain, Explanation, check_explain, explain_answer, in_a_line
from gpt1.inference.rows import ByteStream, Found, by_chunks, file_chunks, rows_at_once, stream_chunks
from gpt1.inference.run import Run
from gpt1.inference.words import LABELS, TOKENS, stretches
from gpt1.tasks.assessment import MOST_SHARES, word_labels
from gpt1.tasks.catalog import Task
from gpt1.tasks.columns import advising, require_columns, with_columns
from gpt1.tasks.examples import Example, Row, example_to_answer
from gpt1.tasks.promises import Promise
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.sifting import unreadable
from gpt1.tasks.unknowns import is_unread, unread_notice

ROW, ANSWER, PROBABILITIES, CONFIDENCE, ERROR = "row", "prediction", "probabilities", "confidence", "error"
ABSTAINED, EXPLANATION = "abstained", "explanation"
SHARE = "p_"  # before a label, the column of its probability
PREFIX = "gpt1_"  # put before our columns where a table has one of that name

_ROWS = "rows"  # what rows that came from no file are called

Notice = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be told of each row."""

    task: Task = field(kw_only=False)
    skip_bad: bool = False  # why a row cannot be used, in place of an error
    abstain: float | None = None  # an answer only where at most this share of them is wrong
    numbered: bool = False  # where it stands in its file
    spread: bool = False  # probabilities by columns, not as a mapping
    explain: Explain = False  # which words speak for the answer, or for the one of this name
    with_gradients: bool = False  # and what the network's gradients say of them

    def __post_init__(self) -> None:
        check_explain(self.task, self.explain)

    @property
    def explains(self) -> bool:
        """Whether it is to be told which words speak for an answer."""
        return self.explain is not False

    @property
    def spreads(self) -> bool:
        """Whether there are columns for probabilities: of very many labels there are none."""
        return self.spread and self._classes <= MOST_SHARES

    @property
    def _classes(self) -> int:
        return len(self.task.labels) or self.task.choices

    @property
    def has_confidence(self) -> bool:
        """Whether one answer is given, and has a probability; several labels have one each."""
        return self.task.score_range is None and not self.task.is_multilabel

    @property
    def columns(self) -> dict[str, type]:
        """What is added to a row, in its order, and as what kind of value."""
        if self.task.labels_words:
            ours = {ROW: int, TOKENS: list, LABELS: list, ANSWER: list, ERROR: str}
            left_out = {ROW: not self.numbered, ERROR: not self.skip_bad}
            return {name: kind for name, kind in ours.items() if not left_out.get(name)}
        answer = str if self.task.labels else int if self.task.score_range is None else float
        found: dict[str, type] = {ROW: int} if self.numbered else {}
        found[ANSWER] = answer
        if self.task.score_range is None:
            names = self.task.labels or [str(place) for place in range(self.task.choices)]
            found |= {} if self.spread else {PROBABILITIES: dict}
            found |= {CONFIDENCE: float} if self.has_confidence else {}
            found |= {SHARE + name: float for name in names} if self.spreads else {}
        found |= {} if self.abstain is None else {ABSTAINED: bool}
        found |= {EXPLANATION: str if self.spread else list} if self.explains else {}
        return found | ({ERROR: str} if self.skip_bad else {})

    def notices(self) -> list[str]:
        """Return what is not told for being too much."""
        if self._classes <= MOST_SHARES or self.task.labels_words:
            return []
        if self.spread:
            return [f"{self._classes:,} labels are too many for a column each; .jsonl has the likeliest of each row"]
        return [f"of {self._classes:,} labels, probabilities are told of the {MOST_SHARES} likeliest of each row"]


@dataclass
class Tally:
    """What was met in rows that were answered."""

    rows: int = 0
    bad: int = 0  # that could not be used
    cut: int = 0  # longer than the context
    abstained: int = 0  # not sure enough to be answered
    strange: Counter[str] = field(default_factory=Counter)  # characters of rows with something not in the vocabulary
    unknown: array[int] = field(default_factory=lambda: array("I"))  # tokens of each row that are not in it
    tokens: array[int] = field(default_factory=lambda: array("I"))  # all that were read of each row

    def add(self, other: Tally) -> None:
        """Count further rows."""
        self.rows += other.rows
        self.bad += other.bad
        self.cut += other.cut
        self.abstained += other.abstained
        self.strange.update(other.strange)
        self.unknown.extend(other.unknown)
        self.tokens.extend(other.tokens)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return vars(self) | {"unknown": self.unknown.tolist(), "tokens": self.tokens.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Tally:
        """Return what `as_json` wrote."""
        arrays = {name: array("I", value[name]) for name in ("unknown", "tokens")}
        return cls(**{**value, **arrays, "strange": Counter(value["strange"])})


def predict_rows(
    run: Run,
    rows: Iterable[Mapping[str, object] | str],
    *,
    task: str | None = None,
    skip_bad: bool = False,
    abstain: float | None = None,
    explain: Explain = False,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows one after another, each with its answer; errors count them from 1.

    A row needs the text columns of the task; its label, if any, is not looked at. Where the task has one text, a row
    may be the text itself. With `skip_bad` a row that cannot be used comes back with an error in place of an answer.
    With `abstain` only so many answers are given that at most this share of them is wrong (`abstaining.py`); other rows
    have None in place of one. With `explain` each has which words speak for its answer, or for that of this name
    (`explaining.py`). `notice` is told what a person should know.
    """
    known = task_of(run, task)
    _require_rows(rows)
    found = (Row(_cells(known, row, number), _ROWS, number) for number, row in enumerate(rows, 1))
    asked = Wanted(known, skip_bad=skip_bad, abstain=abstain, explain=explain, with_gradients=True)
    return Answers(run, asked, by_chunks(found), notice)


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
    if len(task.fields) != 1:
        named = ", ".join(f"{field!r}: ..." for field in task.fields)
        raise InputError(f"{_ROWS}, row {number}: is a string; '{task.name}' has several texts, as in {{{named}}}")
    return {task.fields[0]: row}


def predict_texts(
    run: Run,
    texts: Sequence[str],
    *,
    task: str | None = None,
    abstain: float | None = None,
    explain: Explain = False,
    with_gradients: bool = False,
    notice: Notice = warnings.warn,
) -> dict[str, object]:
    """Return the answer to one text, or to two of a pair, without the texts; and how they were read."""
    known = task_of(run, task)
    if known.shape == CHOICES:
        raise SettingError(f"'{known.name}' has answers to choose from; give it rows with {', '.join(known.fields)}")
    if len(texts) != len(known.fields):
        raise SettingError(
            f"'{known.name}' has {many(len(known.fields), 'text')} ({', '.join(known.fields)}), not {len(texts)}; give "
            "as many, each in quotes"
        )
    cells = dict(zip(known.fields, texts, strict=True))
    chunks = iter([[Row(cells, "the text", 1)]])
    asked = Wanted(known, abstain=abstain, explain=explain, with_gradients=with_gradients)
    answers = Answers(run, asked, chunks, notice)
    (row,) = answers
    told = {name: value for name, value in row.items() if name in answers.added}
    unknown, tokens = answers.unknown[0], answers.tokens[0]
    told |= {"unknown": unknown, "tokens": tokens, "truncated": bool(answers.truncated)}
    return {**told, "notice": unread_notice(tokens)} if is_unread(unknown, tokens) else told


def predict_file(
    run: Run,
    file: str | Path | ByteStream,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    abstain: float | None = None,
    spread: bool = False,
    explain: Explain = False,
    notice: Notice = warnings.warn,
) -> Answers:
    """Return the rows of a table, or of a stream of JSON lines, one after another, each with its answer.

    `row` is where each stands in the file. `columns` maps roles (text, or a and b, ...) to columns where they are
    called otherwise than in the training. With `spread` each label has a column of its own for its probability.
    """
    known = with_columns(task_of(run, task), columns or {})
    asked = Wanted(known, skip_bad=skip_bad, abstain=abstain, numbered=True, spread=spread, explain=explain)
    if not isinstance(file, str | Path):
        return Answers(run, asked, stream_chunks(file), notice)
    chunks = file_chunks(file, encoding, of_words=known.labels_words)
    first = next(chunks, None)
    if first is None:
        raise InputError(f"{file} has no rows")
    require_columns(known, [row for row in first if isinstance(row, Row)])
    return Answers(run, asked, chain([first], chunks), notice)


class Answering:
    """Answers rows a chunk at a time, with names for our columns that no `taken` one has."""

    def __init__(self, run: Run, asked: Wanted, taken: Collection[str], notice: Notice) -> None:
        self._run, self._asked, self._task = run, asked, asked.task
        self.promise = None if asked.abstain is None else promise(run, asked.task, asked.abstain)
        self.total, self.last = Tally(), Tally()  # of all chunks so far, and of the last one
        self._names = free_names(asked.columns, taken, notice)
        for text in asked.notices():
            notice(text)

    @property
    def added(self) -> dict[str, type]:
        """The columns that answers, or errors, stand in, and what kind of value each holds."""
        return {self._names[name]: kind for name, kind in self._asked.columns.items()}

    @property
    def of_words(self) -> bool:
        """Whether words are labelled."""
        return self._task.labels_words

    @property
    def words_and_labels(self) -> tuple[str, str]:
        """The columns in which words and their labels stand."""
        return self._names[TOKENS], self._names[LABELS]

    def answer(self, chunk: Sequence[Found]) -> tuple[list[dict[str, object]], InputError | None]:
        """Return what is added to each row, up to the first that cannot be used and is not to be skipped."""
        checked: list[Example | InputError] = []
        refused: InputError | None = None
        for row in chunk:
            try:
                checked.append(self.check(row))
            except InputError as error:  # said when the rows before it are answered
                refused = error
                break
        tally = Tally(rows=len(checked), bad=sum(isinstance(one, InputError) for one in checked))
        found = self._predict([example for example in checked if isinstance(example, Example)], tally)
        ours = []
        for row, example in zip(chunk, checked, strict=False):
            told = next(found) if isinstance(example, Example) else {ERROR: str(example)}
            number = {ROW: row_number(row)} if self._asked.numbered else {}
            ours.append({self._names[name]: value for name, value in {**number, **told}.items()})
        self.last = tally
        self.total.add(tally)
        return ours, refused

    def check(self, row: Found) -> Example | InputError:
        """Return the row as an example, or why it cannot be one."""
        try:
            if isinstance(row, FileError):
                raise row
            if clash := [name for name in self._names.values() if name in row.cells]:
                raise row.error(f"a column '{clash[0]}' that the first rows do not have; rename it, ours has that name")
            with advising(self._task):
                return example_to_answer(self._task, row)
        except InputError as error:
            if not self._asked.skip_bad:
                raise
            return error

    def whole(self, row: Found, ours: Mapping[str, object]) -> dict[str, object]:
        """Return a row with what is added to it; where it stands in its file comes first."""
        place = {name: ours[name] for name in [self._names.get(ROW)] if name is not None}
        return {**place, **(row.cells if isinstance(row, Row) else {}), **ours}

    def summary(self) -> list[str]:
        """Return what a person should know of all rows."""
        total, found = self.total, []
        if total.bad:
            found.append(f"{total.bad:,} of {many(total.rows, 'row')} could not be used: see '{self._names[ERROR]}'")
        if self.promise is not None:
            answered = total.rows - total.bad - total.abstained
            share = f" ({x100(answered / total.rows):.1f} %)" if total.rows else ""
            found.append(f"{answered:,} of {many(total.rows, 'row')} answered{share}: {in_words(self.promise)}")
        counts = np.stack((total.unknown, total.tokens), 1)
        strange = self._run.tokenizer.unknown_characters(total.strange)
        context, windows = self._run.recipe.shape.context, self._run.has_windows
        shape = self._task.shape
        told = reading_notices(total.rows, total.cut, counts, context, strange, windows=windows, shape=shape)
        return [*found, *told]

    def _predict(self, examples: Sequence[Example], tally: Tally) -> Iterator[dict[str, object]]:
        if not examples:
            return iter(())
        found = answer(self._run, self._task, examples)
        tally.cut += int((found.cut > 0).sum())
        tally.unknown.extend(found.unknown.tolist())
        for strange in np.flatnonzero(found.unknown).tolist():
            tally.strange.update(chain.from_iterable(examples[strange].texts))
        tally.tokens.extend(found.tokens.tolist())
        silent = abstentions(found, self.promise)
        tally.abstained += int(silent.sum())
        return (self._told(examples[place], found, place, bool(silent[place])) for place in range(len(found)))

    def _told(self, example: Example, found: Predictions, place: int, silent: bool) -> dict[str, object]:
        if self._task.labels_words:
            given = found.answers[place]
            spelled = stretches(self._task, example.texts[0], example.words, given, found.probabilities[place])
            return {TOKENS: list(example.words), LABELS: word_labels(self._task, given), ANSWER: spelled}
        told: dict[str, object] = {ANSWER: None if silent else found.name(place)}
        if (shares := found.shares(place)) is not None:
            told |= {} if self._asked.spread else {PROBABILITIES: shares}
            told |= {CONFIDENCE: found.confidence(place)} if self._asked.has_confidence else {}
            told |= {SHARE + name: share for name, share in shares.items()} if self._asked.spreads else {}
        told |= {} if self.promise is None else {ABSTAINED: silent}
        return {**told, EXPLANATION: self._why(example, found, place, silent)} if self._asked.explains else told

    def _why(self, example: Example, found: Predictions, place: int, silent: bool) -> str | list[Explanation]:
        """Return which words speak for an answer; for one that is not given, only where it is named."""
        asked, why = self._asked, list[Explanation]()
        if not silent or isinstance(asked.explain, str):
            with_gradients = asked.with_gradients
            why = explain_answer(
                self._run, self._task, example, found, place, asked.explain, with_gradients=with_gradients
            )
        return in_a_line(why) if asked.spread else why


def row_number(found: Found) -> int:
    """Return where a row stands in its file, as a person counts."""
    return found.number if isinstance(found, Row) else unreadable(found).row


def free_names(ours: Iterable[str], taken: Collection[str], notice: Notice) -> dict[str, str]:
    """Return names for our columns, none of which a table has."""
    names = {name: name for name in ours}
    there = [name for name in names if name in taken]
    while any(name in taken for name in names.values()):
        names = {name: PREFIX + tried for name, tried in names.items()}
    if there:
        notice(f"the table has {some(there)} already; what is added is called {some(list(names.values()))}")
    return names


class Answers(Iterator[dict[str, object]]):
    """Rows with their answers, of which `added` names the columns; made by `predict_rows` and `predict_file`."""

    def __init__(self, run: Run, asked: Wanted, chunks: Iterator[Sequence[Found]], notice: Notice) -> None:
        first = next(chunks, [])
        taken = {column for row in first if isinstance(row, Row) for column in row.cells}
        self._answering, self._notice = Answering(run, asked, taken, notice), notice
        # Its columns are looked for in as many rows, however few are answered at once.
        size = rows_at_once(explained=asked.explains)
        self._answered = self._answer_all(some for chunk in chain([first], chunks) for some in by_chunks(chunk, size))

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that answers, or errors, stand in."""
        return tuple(self._answering.added)

    @property
    def promise(self) -> Promise | None:
        """What is promised of the answers that are given."""
        return self._answering.promise

    @property
    def abstained(self) -> int:
        """How many rows so far have no answer."""
        return self._answering.total.abstained

    @property
    def truncated(self) -> int:
        """How many rows so far had more text than the model reads."""
        return self._answering.total.cut

    @property
    def unknown(self) -> array[int]:
        """Of each row that was answered, the tokens that are not in the vocabulary."""
        return self._answering.total.unknown

    @property
    def tokens(self) -> array[int]:
        """Of each row that was answered, all tokens that were read."""
        return self._answering.total.tokens

    def __next__(self) -> dict[str, object]:
        return next(self._answered)

    def _answer_all(self, chunks: Iterable[Sequence[Found]]) -> Iterator[dict[str, object]]:
        for chunk in chunks:
            ours, refused = self._answering.answer(chunk)
            yield from map(self._answering.whole, chunk, ours)
            if refused is not None:
                raise refused
        for text in self._answering.summary():
            self._notice(text)
