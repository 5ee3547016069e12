"""`gpt1 augment`: a table of rows in other words, each with the label of the row that it was made of.

The rows to learn from are written anew by a model on this machine, or by one that translates and one that translates
back; dev and test are left as they are. The table is there to be looked at before `gpt1 finetune --more` learns it
(`tasks/made_rows.py`). What is written grows beside the table, chunk by chunk, as answers of `gpt1 predict` do: a start
that was killed goes on and ends with the same bytes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from gpt1.base.devices import find_device
from gpt1.base.errors import InputError, Interrupted, SettingError
from gpt1.base.files import file_hash, partial_file, partial_path, result_file
from gpt1.base.progress import Progress, Silent, stage
from gpt1.base.tables import read_rows
from gpt1.base.wording import many, some
from gpt1.exchange.seq2seq import Writer, folder_identity, open_writer
from gpt1.inference.answer_files import Journal, hash_of, is_done
from gpt1.inference.predicting import Tally
from gpt1.inference.rows import file_chunks
from gpt1.inference.sheets import check_target, columns_beside, kinds_of, write_as_table
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example, Row, same_texts
from gpt1.tasks.made_rows import SOURCE_ROW, require_plain, source_column
from gpt1.tasks.preparing import read_table

AT_ONCE = 8  # rows, which are kept together
MOST_COPIES = 16
VERSION = 1

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Ways:
    """By which models rows are written anew."""

    model: Path
    back: Path | None = None  # the first one translates, and this one back
    prefix: str = ""  # stands before each text that the first one reads
    copies: int = 1  # of each row

    def __post_init__(self) -> None:
        if not 1 <= self.copies <= MOST_COPIES:
            raise SettingError(f"between 1 and {MOST_COPIES} copies are made of a row, not {self.copies}")

    def identity(self) -> dict[str, object]:
        """Return what decides what is written, by the words for it."""
        return {
            "model": folder_identity(self.model),
            "model back": None if self.back is None else folder_identity(self.back),
            "`prefix`": self.prefix,
            "`copies`": self.copies,
        }


class Reworded(NamedTuple):
    """What came of it."""

    rows: int  # to learn from
    made: int
    left: dict[str, int]  # why so many were not


def reword_table(
    table: str | Path,
    out: str | Path,
    *,
    ways: Ways,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    encoding: str = "utf-8",
    resume: bool = False,
    overwrite: bool = False,
    device: str | None = None,
    notice: Notice = warnings.warn,
    progress: Progress | None = None,
    **reading: Any,
) -> Reworded:
    """Write the rows to learn from of a labelled table in other words into a file, and return how many were made.

    Which rows those are is said as to `gpt1.finetune`: without `dev` a tenth is held out, always the same, and left
    alone; so is what stands in `dev` or `test`. `reading` is how the table is read: `columns`, `regression`,
    `symmetric`, `skip_bad`, `fold_labels`, `labels_sep`. Rows that say the same as before are left out.
    """
    table, out, progress = Path(table), Path(out), progress or Silent()
    may_be_done = resume and partial_path(out).is_file()
    check_target(out, overwrite=overwrite or may_be_done)
    identity: dict[str, object] = {"version of gpt1's rewording": VERSION, **ways.identity()}
    sha256 = file_hash(table) if table.is_file() else ""  # before its rows are looked at
    labelled = read_table(table, dev=dev, test=test, encoding=encoding, **reading)
    task, train = labelled.task, labelled.splits["train"]
    require_plain(task)
    for text in labelled.notices:
        notice(text)
    others = [split for name, split in labelled.splits.items() if name != "train"]
    judging = {text for split in others for text in same_texts(task, split)}
    here = find_device(device)
    identity |= {"table": sha256, "rows": [example.row for example in train], "device": here.type, "at once": AT_ONCE}
    if may_be_done and is_done(out, identity):
        notice(f"{out} is whole already")
        return Reworded(len(train), sum(1 for _ in read_rows(out, encoding=encoding)), {})
    with partial_file(out) as kept:
        check_target(out, overwrite=overwrite)
        journal = Journal(kept, out, identity)
        journal.open(resume=resume, overwrite=overwrite, notice=notice)
        writers = [open_writer(folder, here) for folder in (ways.model, ways.back) if folder is not None]
        try:
            _write_rest(journal, writers, ways, train, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped after {journal.total.rows:,} of {many(len(train), 'row')}, kept in {partial_path(out)}; the "
                "same again with `resume=True` goes on"
            ) from None
        written = [list(map(str, line["texts"])) for line in journal.answers()]  # type: ignore[call-overload]
        made, left = _to_keep(task, train, written, ways.copies, judging)
        if not made:
            raise InputError(f"nothing was written that is not there already ({_in_words(left)}); name another model")
        cells = _cells(table, encoding, sha256)
        with result_file(out, overwrite=overwrite) as file:
            _write(file, out, _Table(table, encoding, cells), task, made, notice)
            journal.finish(hash_of(file))
    partial_path(out).unlink(missing_ok=True)
    return Reworded(len(train), len(made), dict(left))


def _write_rest(
    journal: Journal, writers: Sequence[Writer], ways: Ways, train: Sequence[Example], progress: Progress
) -> None:
    """Write what is not written yet; each chunk by itself, so that who goes on writes the same."""
    with stage(progress, "rewording") as bar:
        for start in range(journal.chunks * AT_ONCE, len(train), AT_ONCE):
            chunk = train[start : start + AT_ONCE]
            found: list[dict[str, object]] = [{"texts": texts} for texts in _reworded(writers, ways, chunk)]
            journal.add(found, Tally(rows=len(chunk)))
            bar.show(journal.total.rows / len(train), f"{journal.total.rows:,} of {many(len(train), 'row')}")


def _reworded(writers: Sequence[Writer], ways: Ways, chunk: Sequence[Example]) -> list[list[str]]:
    """Return of each row its texts in other words, copy after copy; nothing of one that a model cannot read whole."""
    first, *others = writers
    texts = [f"{ways.prefix}{text}" for example in chunk for text in example.texts]
    fits = [first.fits(text) for text in texts]
    readable = [text for text, ok in zip(texts, fits, strict=True) if ok]
    written = first.write(readable, 1 if others else ways.copies) if readable else []
    for back in others:
        whole = [copies[0] for copies in written]
        fitting = [text for text in whole if text and back.fits(text)]
        came_back = iter(back.write(fitting, ways.copies) if fitting else [])
        written = [next(came_back) if text and back.fits(text) else [""] * ways.copies for text in whole]
    found = iter(written)
    of_texts = [next(found) if ok else [""] * ways.copies for ok in fits]
    rows, at = [], 0
    for example in chunk:
        own = of_texts[at : at + len(example.texts)]
        at += len(example.texts)
        rows.append([copies[number] for number in range(ways.copies) for copies in own])
    return rows


class _Table(NamedTuple):
    """The table that is written anew, with all cells of its rows."""

    path: Path
    encoding: str
    cells: dict[int, dict[str, Any]]


class _Made(NamedTuple):
    """A row in other words."""

    source: Example
    texts: tuple[str, ...]


def _to_keep(
    task: Task,
    train: Sequence[Example],
    written: Sequence[Sequence[str]],
    copies: int,
    judging: set[tuple[str, ...]],
) -> tuple[list[_Made], Counter[str]]:
    """Return the rows that say something new, in the order of their sources, and why others are left out."""
    known, made, left = set(same_texts(task, train)), list[_Made](), Counter[str]()
    for example, texts in zip(train, written, strict=True):
        size = len(example.texts)
        for number in range(copies):
            own = tuple(texts[number * size : (number + 1) * size])
            (same,) = same_texts(task, [Example(own, None, example.row)])
            if not all(text.strip() for text in own):
                left["too long for the model, or nothing was written"] += 1
            elif same in judging:
                left["stand in dev or test"] += 1
            elif same in known:
                left["say what is there already"] += 1
            else:
                known.add(same)
                made.append(_Made(example, own))
    return made, left


def _in_words(left: Counter[str]) -> str:
    return some([f"{count:,} {why}" for why, count in left.items()])


def _cells(table: Path, encoding: str, sha256: str) -> dict[int, dict[str, Any]]:
    """Return all cells of a table by row, of the table as it was when it was begun."""
    found = chain.from_iterable(file_chunks(table, encoding))
    rows = {row.number: dict(row.cells) for row in found if isinstance(row, Row)}
    if file_hash(table) != sha256:
        raise InputError(f"{table} was changed while it was written anew; leave it as it is, and begin anew")
    return rows


def _write(file: IO[bytes], out: Path, table: _Table, task: Task, made: Sequence[_Made], notice: Notice) -> None:
    """Write the rows with all their cells: other texts, the same label, and beside them what they were made of."""
    cells = table.cells
    sources = {field: source_column(field) for field in task.fields}
    if taken := [name for name in (SOURCE_ROW, *sources.values()) if any(name in own for own in cells.values())]:
        raise InputError(
            f"{table.path} has a column {taken[0]} already; rename it, since that is where a source is told"
        )

    def rows() -> Iterator[dict[str, object]]:
        for one in made:
            own, number = cells[one.source.row], one.source.row
            told = {task.label_field: _label(task, one.source, own[task.label_field])}
            before = {sources[field]: text for field, text in zip(task.fields, one.source.texts, strict=True)}
            yield {SOURCE_ROW: number, **own, **told, **dict(zip(task.fields, one.texts, strict=True)), **before}

    added = {SOURCE_ROW: int, **dict.fromkeys(sources.values(), str)}
    columns = columns_beside(table.path, kinds_of(cells.values()), added)
    write_as_table(file, out, table.path, table.encoding, rows, columns, notice)


def _label(task: Task, example: Example, cell: object) -> object:
    """Return the label as the task names it, where labels that look the same are one; any other as it stands."""
    if not task.labels or isinstance(example.label, tuple) or example.label is None:
        return cell
    return task.labels[int(example.label)]
