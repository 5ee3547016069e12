"""Are rows that come in still like those by which a run was judged? What `gpt1 drift RUN TABLE` finds.

The scores of a run are promised for rows like its own for dev. Rows without labels can break that promise in ways that
are seen without labels: other lengths, other words (bits per byte by the run's own language model, tokens that are not
in its vocabulary), other answers, answers less sure. Each of these figures is held against the same of known rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FileError, InputError, SettingError
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many
from gpt1.finetuning.measure import read_again
from gpt1.inference.answering import Predictions, answer, task_of
from gpt1.inference.rows import file_chunks
from gpt1.inference.run import Run
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.columns import advising, require_columns, with_columns
from gpt1.tasks.drift import (
    ANSWERS,
    BITS,
    LENGTH,
    SURENESS,
    UNKNOWN,
    DriftReport,
    Moved,
    StrangeRow,
    find_shifts,
    middle,
    tail_share,
)
from gpt1.tasks.encoded import EncodedTask, text_digests
from gpt1.tasks.examples import Example, Row, example_to_answer
from gpt1.tasks.learned import in_train

ENCODING = "utf-8"
FEWEST = 30  # rows on either side: of fewer only a landslide could be told from chance
MOST = 2_000  # rows on either side that are asked, drawn at random
STRANGEST = 5  # rows that are shown
_KEY = 2  # of the draw
_SCARCE = 0.02  # the share of known rows as far out, from which on down a row's figure is named

_HELPS = "; name a table of rows as they were when it was well with `reference`"

Notice = Callable[[str], None]
Digests = NDArray[np.uint64]


def find_drift(
    run: Run,
    table: str | Path,
    *,
    reference: str | Path | None = None,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = ENCODING,
    skip_bad: bool = False,
    notice: Notice = warnings.warn,
) -> DriftReport:
    """Hold the rows of a table against those for dev and test of a run's training, or against a `reference` table.

    Labels are not looked at. `columns` maps roles to columns where the tables call them otherwise than the training.
    """
    if reference is not None and Path(reference).resolve() == Path(table).resolve():
        raise SettingError(f"{table} would be held against itself; `reference` is a table of earlier rows")
    known_task = task_of(run, task)
    refuse_words(known_task, "looking for drift")
    asking = with_columns(known_task, columns or {})
    read, rows, bad = read_unlabelled(table, asking, encoding, skip_bad)
    if reference is None:
        known = list(chain.from_iterable(_not_learned(run, _read_judged(run)[known_task.name])))
        which = f"{many(len(known), 'row')} that it was judged by and did not learn from"
    else:
        known = never_learned(
            run, known_task, read_unlabelled(reference, asking, encoding, skip_bad)[0], reference, notice
        )
        which = f"{many(len(known), 'row')} of {reference}"
    new = never_learned(run, known_task, read, table, notice)
    for some, where in ((new, str(table)), (known, which)):
        if len(some) < FEWEST:
            raise too_few(some, where, helps=_HELPS if some is known else "")
    if len(known) > MOST:
        notice(f"of {which}, {MOST:,} that are drawn at random are asked")
    if len(new) > MOST:
        notice(f"of {many(len(new), 'row')} of {table}, {MOST:,} that are drawn at random are asked")
    known, new = drawn(known, MOST), drawn(new, MOST)
    before, after = (_Figures(run, known_task, some) for some in (known, new))
    shifts = find_shifts(before.values, after.values, before.unordered)
    moved = {name: Moved(shift, before.middle(name), after.middle(name)) for name, shift in shifts.items()}
    cut = int((after.answered.cut > 0).sum())
    return DriftReport(str(table), rows, bad, len(new), which, cut, moved, _strangest(before, after, new))


# ---- rows ----


def read_unlabelled(table: str | Path, task: Task, encoding: str, skip_bad: bool) -> tuple[list[Example], int, int]:
    """Return the rows of a table that can be used, labels or not, how many there are, and how many cannot be."""
    found, bad = [], 0
    rows = list(chain.from_iterable(file_chunks(table, encoding)))
    require_columns(task, [row for row in rows if isinstance(row, Row)])
    for row in rows:
        try:
            if isinstance(row, FileError):
                raise row
            with advising(task):
                found.append(example_to_answer(task, row))
        except InputError:
            if not skip_bad:
                raise
            bad += 1
    return found, len(found) + bad, bad


def never_learned(run: Run, task: Task, rows: list[Example], table: str | Path, notice: Notice) -> list[Example]:
    """Return the rows of a table that a run did not learn: what it learned it expects, and is surer of."""
    return _without(learned_texts(run, task, table, notice), task, rows, table, notice)


def learned_texts(run: Run, task: Task, table: str | Path, notice: Notice) -> Digests:
    """Return the digests of the texts that a run learned, in order; none where nobody knows them, which is told."""
    try:
        tasks, _ = read_again(run)
    except InputError:
        notice(f"whether {run.path} learned rows of {table} is not known; learned ones look unlike all others")
        return np.array([], np.uint64)
    return np.sort(tasks[task.name].train_texts)


def were_learned(task: Task, rows: Sequence[Example], learned: Digests) -> NDArray[np.bool_]:
    """Return which rows are among the learned, whose digests are in order: a few rows are found without reading all."""
    digests = text_digests(task, rows)
    return np.searchsorted(learned, digests, "left") < np.searchsorted(learned, digests, "right")


def _without(learned: Digests, task: Task, rows: list[Example], table: str | Path, notice: Notice) -> list[Example]:
    out = were_learned(task, rows, learned)
    if out.any():
        notice(f"{int(out.sum()):,} of {many(len(rows), 'row')} of {table} were learned, and are left out")
    return [row for row, is_out in zip(rows, out, strict=True) if not is_out]


@dataclass(frozen=True)
class KnownRows:
    """Rows of a task, without labels, that others are held against, and the learned ones that are left out of both."""

    task: Task
    rows: list[Example]
    learned: Digests  # in order


def known_rows(
    run: Run, tasks: Sequence[Task], reference: Path | None, most: int, notice: Notice
) -> Iterator[KnownRows]:
    """Yield for each task at most so many rows that others are held against.

    They are those for dev and test that the run did not learn, or those of a table, of a run that has one task.
    """
    if reference is None:
        read = _read_judged(run)
        for task in tasks:
            encoded = read[task.name]
            rows = list(chain.from_iterable(_not_learned(run, encoded)))
            yield KnownRows(task, without_labels(drawn(rows, most)), np.sort(encoded.train_texts))
    else:
        (task,) = tasks
        rows, _, _ = read_unlabelled(reference, task, ENCODING, skip_bad=False)
        learned = learned_texts(run, task, reference, notice)
        rows = _without(learned, task, rows, reference, notice)
        yield KnownRows(task, without_labels(drawn(rows, most)), learned)


def too_few(rows: Sequence[Example], where: str, helps: str = _HELPS) -> InputError:
    """Return what is said of rows that are too few to hold others against."""
    wanted = f"{FEWEST} rows and more that the run did not learn"
    return InputError(f"{where}: drift is told of {wanted}, there are {len(rows):,}{helps}")


def _read_judged(run: Run) -> dict[str, EncodedTask]:
    """Return what a run was trained with and judged by, by task."""
    try:
        tasks, _ = read_again(run)
    except InputError as error:
        raise InputError(f"{error}{_HELPS}") from None
    return tasks


def _not_learned(run: Run, encoded: EncodedTask) -> Iterator[list[Example]]:
    """Yield the rows for dev and test that a run did not learn from, by split."""
    for name in (*encoded.task.dev_splits, *encoded.task.test_splits):
        rows = encoded.examples.get(name, ())
        if name in encoded.splits and len(rows) == len(encoded.splits[name]):
            learned = in_train(encoded, name, run.tokenizer.unknown_id)
            yield [row for row, is_learned in zip(rows, learned, strict=True) if not is_learned]


def drawn(rows: Sequence[Example], most: int) -> list[Example]:
    """Return at most so many rows, drawn at random, in their order."""
    places = permutation(len(rows), (_KEY, len(rows)))(np.arange(min(most, len(rows)))).tolist()
    return [rows[place] for place in sorted(places)]


# ---- figures ----


class _Figures:
    """What is looked at in rows: a value of each row for each figure."""

    def __init__(self, run: Run, task: Task, rows: Sequence[Example]) -> None:
        self.answered = answer(run, task, without_labels(rows))
        self.unordered = unordered(task)
        told = figures_of(self.answered)
        self.values = {LENGTH: told.pop(LENGTH), UNKNOWN: told.pop(UNKNOWN), BITS: _bits(run, rows), **told}

    def middle(self, name: str) -> float | dict[str, float]:
        """Return what stands for all rows."""
        return middle(self.values[name], name, is_ordered=name not in self.unordered)


def without_labels(rows: Sequence[Example]) -> list[Example]:
    """Return rows as they are when nobody has labelled them."""
    return [replace(row, label=None) for row in rows]


def unordered(task: Task) -> list[str]:
    """Return the figures of a task that are names."""
    return [] if task.score_range is not None else [ANSWERS]


def figures_of(answered: Predictions) -> dict[str, NDArray[Any]]:
    """Return what an answer tells of each row: all figures but the bits, which ask the language model besides."""
    found: dict[str, NDArray[Any]] = {
        LENGTH: answered.tokens + answered.cut,
        UNKNOWN: answered.unknown / np.maximum(1, answered.tokens),
        ANSWERS: _answers(answered),
    }
    if answered.task.score_range is None:
        found[SURENESS] = answered.sure
    return found


def _answers(answered: Predictions) -> NDArray[Any]:
    if answered.task.score_range is not None:
        return np.asarray(answered.answers, np.float64)
    if answered.task.is_multilabel:
        return np.array([" and ".join(answered.labels(place)) or "none" for place in range(len(answered))])
    return np.array([str(answered.name(place)) for place in range(len(answered))])


def _bits(run: Run, rows: Sequence[Example]) -> Floats:
    """Return the bits per byte of each row's texts by the language model that the run is, each text by itself."""
    texts = [[text for text in row.texts if text] for row in rows]
    scored = iter(run.score([*chain.from_iterable(texts)]))
    found = []
    for own in texts:
        nats = -sum(sum(value for value in next(scored).log_probabilities if value is not None) for _ in own)
        found.append(nats / math.log(2) / sum(len(text.encode()) for text in own))
    return np.array(found)


def _strangest(before: _Figures, after: _Figures, rows: Sequence[Example]) -> list[StrangeRow]:
    """Return the rows with the figures that fewest of the known ones have, of equals those that are hardest to read."""
    far = {name: tail_share(before.values[name], after.values[name]) for name in (BITS, LENGTH, UNKNOWN)}
    if SURENESS in after.values:
        far[SURENESS] = tail_share(-before.values[SURENESS], -after.values[SURENESS])
    least = np.min([*far.values()], axis=0)
    order = np.lexsort((-after.values[BITS], least))[:STRANGEST].tolist()
    return [
        StrangeRow(
            rows[place].row,
            " | ".join(filter(None, rows[place].texts)),
            {name: float(after.values[name][place]) for name, shares in far.items() if shares[place] <= _SCARCE},
        )
        for place in order
        if least[place] <= _SCARCE
    ]
