"""`gpt1 labels next`: which unlabelled rows a run learns most from, if a person labels them.

A share is drawn at random from all rows: what is measured on these later is honest, and they show what a run that is
sure and wrong would never ask for. Half of the rest are those that the run is least sure of, without near-copies. The
others are taken from the least sure, each as far as can be from all that are chosen (greedy k-center, Sener and
Savarese 2018), by what the network makes of their texts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import result_file
from gpt1.base.shuffle import permutation
from gpt1.base.wording import many, some
from gpt1.finetuning.measure import TableReading, read_beside_train
from gpt1.inference.answering import answer_split, task_of, thresholds_of
from gpt1.inference.predicting import ROW
from gpt1.inference.run import Run
from gpt1.inference.sheets import check_target
from gpt1.labelling.sheet import TableCells, hash_before, read_cells, require_one_label, text_cells
from gpt1.tasks.answers import Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.columns import with_columns
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose
from gpt1.tasks.examples import Example, same_texts
from gpt1.tasks.learned import in_train

COUNT = 50
RANDOM_SHARE = 0.2
UNSURE, DIFFERENT, RANDOM = "unsure", "different", "random"
WHY, CHOOSE_FROM = "why", "choose_from"

_ROWS = "rows"  # what the split is called
_POOL = 10  # times as many rows as are wanted: the least sure, of which some are chosen for being different
_NEAR = 0.8  # of all words of two texts, from which on, where both have them, one is a near-copy of the other
_WORD = re.compile(r"[^\W\d_]+")  # without digits: letters that differ in a number alone are copies
_MOST_LABELS = 20  # named in a cell

Notice = Callable[[str], None]


@dataclass(frozen=True)
class RowToLabel:
    """A row that is to be labelled, and why."""

    row: int  # of the file
    texts: dict[str, object]  # by their columns
    why: str
    margin: float  # by how much the label that the run would give is ahead of the next


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Rows that may be chosen: each text once, neither labelled nor learned."""

    task: Task
    examples: Sequence[Example]
    split: EncodedSplit
    margins: Floats
    words: Sequence[frozenset[str]]


def next_labels(
    run: Run,
    texts: str | Path,
    out: str | Path,
    *,
    count: int = COUNT,
    random_share: float = RANDOM_SHARE,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool | None = None,
    fold_labels: bool | None = None,
    overwrite: bool = False,
    notice: Notice = warnings.warn,
) -> list[RowToLabel]:
    """Return `count` rows of a table that are worth a label, in the order of the file, and write them to `out`.

    `random_share` of them are drawn from all. Rows that have a label, were learned, or stand there twice are left out.
    `task` is one of the run's. `columns` maps roles to columns where the table calls them otherwise; `skip_bad` and
    `fold_labels` are as in the training where they are not said.
    """
    known, out = task_of(run, task), Path(out)
    require_one_label(known)
    _check(count, random_share)
    check_target(out, overwrite=overwrite)
    how = TableReading(columns, encoding, skip_bad, fold_labels)
    before = hash_before(Path(texts))
    rows = read_beside_train(run, known, Path(texts), _ROWS, how, notice, labelled=False)
    shown = with_columns(known, columns or {})
    candidates = _candidates(run, replace(rows, task=shown), _free(rows, run, Path(texts), notice))
    if len(candidates.examples) < count:
        notice(f"there are {many(len(candidates.examples), 'row')} to choose from, fewer than {count:,}: all are taken")
    chosen = _choose(run, candidates, count, random_share)
    found = [_wanted(candidates, place, why) for place, why in sorted(chosen.items())]
    _write(shown, found, read_cells(Path(texts), encoding, before), out, overwrite, notice)
    return found


def _check(count: int, random_share: float) -> None:
    if count < 1:
        raise SettingError(f"`count` is {count}; at least one row is to be chosen")
    if not 0 <= random_share <= 1:
        raise SettingError(f"`random_share` is {random_share}; it is a share, from 0 to 1")


def _free(rows: EncodedTask, run: Run, path: Path, notice: Notice) -> list[int]:
    """Return the rows that may be chosen, each text once, and tell which others there are."""
    split, texts = rows.splits[_ROWS], same_texts(rows.task, rows.examples[_ROWS])
    labelled = split.labelled
    have_label = {texts[place] for place in np.flatnonzero(labelled)}
    answered = np.array([text in have_label for text in texts], np.bool_)  # by a person: here or in another row
    learned = in_train(rows, _ROWS, run.tokenizer.unknown_id) & ~answered
    first: dict[tuple[str, ...], int] = {}
    for place in np.flatnonzero(~answered & ~learned).tolist():
        first.setdefault(texts[place], place)
    left = {
        "with a label": int(labelled.sum()),
        "of a text that has one elsewhere": int((answered & ~labelled).sum()),
        "learned": int(learned.sum()),
        "of a text that is there": len(split) - int((answered | learned).sum()) - len(first),
    }
    if told := [f"{number:,} {why}" for why, number in left.items() if number]:
        notice(f"{path}: left out of {many(len(split), 'row')}: {', '.join(told)}")
    if not first:
        raise InputError(f"{path} has no row to choose: all have a label, or were learned; name rows without labels")
    return list(first.values())


def _candidates(run: Run, rows: EncodedTask, places: list[int]) -> _Candidates:
    split = choose(rows.splits[_ROWS], places)
    examples = [rows.examples[_ROWS][place] for place in places]
    known = run.tasks[rows.task.name]
    # By classes' factors where there are any, and else all alike: near is near to where the answer would be another.
    weighed = answer_split(run, known, split)[0] * thresholds_of(run, known)
    found = np.sort(weighed / weighed.sum(1, keepdims=True), 1)
    words = [frozenset(_WORD.findall(" ".join(example.texts).casefold())) for example in examples]
    return _Candidates(rows.task, examples, split, found[:, -1] - found[:, -2], words)


def _choose(run: Run, candidates: _Candidates, count: int, random_share: float) -> dict[int, str]:
    """Return which rows are chosen, and why."""
    total = len(candidates.examples)
    drawn = permutation(total, (count, total))(np.arange(min(total, round(count * random_share))))
    chosen = dict.fromkeys(drawn.tolist(), RANDOM)
    surest_last = np.argsort(candidates.margins, kind="stable")
    order = [place for place in surest_last.tolist() if place not in chosen]
    wanted = min(count, total) - len(chosen)
    for place in _not_near(candidates, order, list(chosen)):
        if len(chosen) == len(drawn) + (wanted + 1) // 2:
            break
        chosen[place] = UNSURE
    pool = [place for place in order[: _POOL * count] if place not in chosen]
    for place in _far_apart(run, candidates, pool, list(chosen), min(count, total) - len(chosen)):
        chosen[place] = DIFFERENT
    return chosen


def _not_near(candidates: _Candidates, order: Sequence[int], taken: Sequence[int]) -> Iterator[int]:
    """Yield places in their order, but those whose words are nearly those of one that is taken already."""
    known = [candidates.words[place] for place in taken]
    for place in order:
        own = candidates.words[place]
        if not any(_is_near(own, other) for other in known):
            known.append(own)
            yield place


def _is_near(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _NEAR * max(1, len(one | other))


def _far_apart(
    run: Run, candidates: _Candidates, pool: Sequence[int], chosen: Sequence[int], count: int
) -> Iterator[int]:
    """Yield places of the pool, each as far as can be from those that were chosen before it."""
    if not count:
        return
    places = [*pool, *chosen]
    vectors = _vectors(run, candidates.split, places)
    distances = np.full(len(pool), np.inf)
    for vector in vectors[len(pool) :]:
        distances = np.minimum(distances, ((vectors[: len(pool)] - vector) ** 2).sum(1))
    for _ in range(count):
        furthest = int(distances.argmax())
        yield pool[furthest]
        distances = np.minimum(distances, ((vectors[: len(pool)] - vectors[furthest]) ** 2).sum(1))
        distances[furthest] = -1.0


def _vectors(run: Run, split: EncodedSplit, places: Sequence[int]) -> Floats:
    """Return what the network makes of rows [rows, width]; of one that is read in windows, the mean of all of them."""
    windows = [[ids.tolist() for ids in split.first_sequences(place)] for place in places]
    found = run.embed(list(chain.from_iterable(windows))).astype(np.float64)
    counts = np.array(list(map(len, windows)))
    return np.asarray(np.add.reduceat(found, np.cumsum(counts) - counts) / counts[:, None])


def _wanted(candidates: _Candidates, place: int, why: str) -> RowToLabel:
    example = candidates.examples[place]
    margin = round(float(candidates.margins[place]), 6)
    return RowToLabel(example.row, text_cells(candidates.task, example), why, margin)


def _write(
    task: Task, found: Sequence[RowToLabel], table: TableCells, out: Path, overwrite: bool, notice: Notice
) -> None:
    labels = task.labels or [str(place) for place in range(task.choices)]
    told = {one.row: (some(labels, _MOST_LABELS), one.why) for one in found}
    with result_file(out, overwrite=overwrite) as file:
        table.write(file, out, {ROW: int, CHOOSE_FROM: str, WHY: str}, told, notice, blank=[task.label_field])
