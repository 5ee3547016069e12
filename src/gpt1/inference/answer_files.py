"""A table answered into a file: chunk by chunk, whole or not there, and gone on with where it was.

What is answered is kept in `OUT.partial`, a line of JSON a chunk, before the table is read once more and the file is
written. A chunk is answered by itself, so whoever goes on after a kill ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from gpt1.base.errors import FormatError, InputError, Interrupted, SettingError
from gpt1.base.files import file_hash, line_bytes, parse_line, partial_file, partial_path, result_file
from gpt1.base.progress import Progress, Silent, clock, stage
from gpt1.base.wording import many, some
from gpt1.inference.answering import task_of
from gpt1.inference.explaining import Explain
from gpt1.inference.predicting import Answering, Notice, Tally, Wanted
from gpt1.inference.rows import Found, file_chunks, rows_at_once
from gpt1.inference.run import Run
from gpt1.inference.sheets import check_target, columns_beside, has_cells, kinds_of, write_as_table
from gpt1.inference.words import column_lines
from gpt1.records.calibration import CALIBRATION_FILE
from gpt1.records.ensemble import ENSEMBLE_FILE
from gpt1.records.thresholds import THRESHOLDS_FILE
from gpt1.tasks.columns import advising, require_columns, with_columns
from gpt1.tasks.examples import Row, example_to_answer
from gpt1.tasks.sentences import is_column_file

FORMAT, VERSION = "gpt1-answers", 2
_ANEW = "begin anew with `overwrite=True`"


def answer_table(
    run: Run,
    file: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    abstain: float | None = None,
    explain: Explain = False,
    resume: bool = False,
    overwrite: bool = False,
    notice: Notice = warnings.warn,
    progress: Progress | None = None,
) -> int:
    """Answer the rows of a table into a file (csv, tsv, jsonl, parquet by its name), and return how many there are.

    All rows are checked before the first is answered. The file appears when it is whole; until then what is answered
    lies beside it, and with `resume` the same again goes on there. A csv or tsv file is written as the table was.
    """
    out, progress = Path(out), progress or Silent()
    if out.exists() and Path(file).exists() and out.samefile(file):
        raise SettingError(f"{out} is the table that is read; write the answers to another file")
    may_be_done = resume and partial_path(out).is_file()
    known = with_columns(task_of(run, task), columns or {})
    check_target(out, overwrite=overwrite or may_be_done, of_words=known.labels_words)
    spread = has_cells(out)
    asked = Wanted(known, skip_bad=skip_bad, abstain=abstain, numbered=True, spread=spread, explain=explain)
    table = _look_at(file, encoding, asked)
    identity = _identity(run, asked, table, encoding)
    if may_be_done and is_done(out, identity):
        notice(f"{out} is whole already")
        return table.rows
    answering = Answering(run, asked, table.kinds, notice)
    with partial_file(out) as kept:
        check_target(
            out, overwrite=overwrite, of_words=known.labels_words
        )  # the writer before this one may have ended meanwhile
        journal = Journal(kept, out, identity)
        journal.open(resume=resume, overwrite=overwrite, notice=notice)
        try:
            chunks = file_chunks(
                table.path, encoding, rows_at_once(explained=asked.explains), of_words=known.labels_words
            )
            _answer_rest(answering, journal, chunks, table.rows, progress)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped after {journal.total.rows:,} of {many(table.rows, 'row')}, kept in {partial_path(out)}; the "
                "same again with `resume=True` goes on"
            ) from None
        answering.total = journal.total
        _write(answering, journal, table, out, encoding, overwrite, notice)
    partial_path(out).unlink(missing_ok=True)
    for text in answering.summary():
        notice(text)
    return table.rows


@dataclass(frozen=True)
class _Table:
    """What a table holds, read once through."""

    path: Path
    sha256: str
    rows: int
    kinds: dict[str, set[type]]  # of the values of each column


def _look_at(file: str | Path, encoding: str, asked: Wanted) -> _Table:
    """Read a table through; a row that cannot be used is an error now, unless such are to be skipped."""
    rows, kinds = 0, dict[str, set[type]]()
    for chunk in file_chunks(file, encoding, of_words=asked.task.labels_words):
        if not rows:
            require_columns(asked.task, [found for found in chunk if isinstance(found, Row)])
        rows += len(chunk)
        for found in chunk:
            if not isinstance(found, Row):
                if not asked.skip_bad:
                    raise found
                continue
            for name in found.cells:
                kinds.setdefault(name, set())
            if not asked.skip_bad:
                with advising(asked.task):
                    example_to_answer(asked.task, found)
        for name, own in kinds_of(found.cells for found in chunk if isinstance(found, Row)).items():
            kinds[name] |= own
    if not rows:
        raise InputError(f"{file} has no rows")
    return _Table(Path(file), file_hash(Path(file)), rows, kinds)


def _identity(run: Run, asked: Wanted, table: _Table, encoding: str) -> dict[str, object]:
    """Return what the answers are made of, by the words for it where one is another now."""
    records = [run.path / name for name in (ENSEMBLE_FILE, CALIBRATION_FILE, THRESHOLDS_FILE)]
    return {
        "version of gpt1's answers": VERSION,
        "run": [run.checkpoint.step, run.checkpoint.weights_hash, run.record.tokenizer],
        **{path.name: file_hash(path) if path.exists() else None for path in records},
        "table": table.sha256,
        "task": [asked.task.name, *asked.task.fields],
        "`encoding`": encoding,
        "`skip_bad`": asked.skip_bad,
        "`abstain`": asked.abstain,
        "`explain`": asked.explain or None,  # which answers of before do not name
        "`int8`": run.int8,
        "device": run.device.type,
        "rows at once": rows_at_once(explained=asked.explains),
    }


class Journal:
    """What is answered so far, in a file of which each line is a chunk."""

    def __init__(self, file: IO[bytes], out: Path, identity: Mapping[str, object]) -> None:
        self._file, self._identity = file, dict(identity)
        self._out, self._path = out, partial_path(out)
        self.chunks, self.total = 0, Tally()

    def open(self, *, resume: bool, overwrite: bool, notice: Notice) -> None:
        """Go on with what is there, or begin; what somebody else left is replaced only where that is asked for."""
        is_anew = overwrite and not resume  # whatever is there, damaged or not
        first = None if is_anew else next(self._lines(), None)
        if first is not None and resume:
            self._require_same(first)
            for line in self._chunks():
                self.chunks += 1
                self.total.add(Tally.from_json(line["tally"]))
            self._file.truncate()  # a line that a kill left half written
            notice(f"going on after {many(self.total.rows, 'row')}")
            return
        if first is not None and next(self._chunks(), None) is not None:
            raise InputError(
                f"{self._path} holds answers of a start that did not end; go on with `resume=True`, or {_ANEW}"
            )
        self._file.seek(0)
        self._file.truncate()
        self._append({"format": FORMAT, "of": self._identity})

    def add(self, answers: list[dict[str, object]], tally: Tally) -> None:
        """Keep a chunk."""
        self._append({"answers": answers, "tally": tally.as_json()})
        self.chunks += 1
        self.total.add(tally)

    def finish(self, sha256: str) -> None:
        """Keep what the whole file will be."""
        self._append({"finished": sha256})

    def has_finished(self, sha256: str) -> bool:
        """Whether this is the whole file; what was begun with anything else is refused."""
        lines = self._lines()
        header = next(lines, None)
        if header is None:
            return False
        self._require_same(header)
        return any(line.get("finished") == sha256 for line in lines)

    def answers(self) -> Iterator[dict[str, object]]:
        """Yield what is added to each row."""
        return chain.from_iterable(line["answers"] for line in self._chunks())

    def _append(self, line: Mapping[str, Any]) -> None:
        self._file.seek(0, 2)
        self._file.write(line_bytes(line))
        self._file.flush()

    def _chunks(self) -> Iterator[dict[str, Any]]:
        return (line for line in self._lines() if "answers" in line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield the whole lines; the file then stands behind the last of them."""
        at = number = 0
        while True:
            self._file.seek(at)
            line = self._file.readline()
            if not line.endswith(b"\n"):  # half written, also where the line end alone is missing
                self._file.seek(at)
                return
            found = parse_line(line, self._path, number := number + 1, _ANEW)
            assert found is not None  # a line that ends is not only begun
            at += len(line)
            yield found

    def _require_same(self, header: Mapping[str, Any]) -> None:
        before = header.get("of")
        if header.get("format") != FORMAT or not isinstance(before, dict):
            raise FormatError(f"{self._path} is no file of answers; {_ANEW}")
        if changed := [name for name, value in self._identity.items() if before.get(name) != value]:
            raise InputError(f"{self._path} was begun with another {some(changed)}; give the same again, or {_ANEW}")


def is_done(out: Path, identity: Mapping[str, object]) -> bool:
    """Whether a start was killed after its file was whole, and before all was tidied up; then that is done."""
    if not out.is_file():
        return False
    with partial_file(out) as kept:
        if not Journal(kept, out, identity).has_finished(file_hash(out)):
            return False
    partial_path(out).unlink()
    return True


def _answer_rest(
    answering: Answering, journal: Journal, chunks: Iterator[Sequence[Found]], rows: int, progress: Progress
) -> None:
    """Answer the chunks that are not answered yet."""
    before, began = journal.total.rows, time.monotonic()
    with stage(progress, "answering") as bar:
        for chunk in islice(chunks, journal.chunks, None):
            ours, refused = answering.answer(chunk)
            if refused is not None:  # the table was whole when it was looked at
                raise refused
            journal.add(ours, answering.last)
            done = journal.total.rows
            bar.show(done / rows, rows_line(done, rows, done - before, time.monotonic() - began))


def rows_line(done: int, rows: int, lately: int, seconds: float) -> str:
    """Return a line such as `2,048 of 9,000 rows  310 a second  0:22 left`; `lately` were answered in `seconds`."""
    speed = lately / max(seconds, 1e-9)
    left = [f"{clock((rows - done) / speed)} left"] if done < rows else []
    shown = f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"  # reasons take longer than answers
    return "  ".join([f"{done:,} of {many(rows, 'row')}", f"{shown} a second", *left])


def _write(
    answering: Answering, journal: Journal, table: _Table, out: Path, encoding: str, overwrite: bool, notice: Notice
) -> None:
    """Write the file of the rows and their answers."""

    def rows() -> Iterator[dict[str, object]]:
        found = chain.from_iterable(file_chunks(table.path, encoding, of_words=answering.of_words))
        for row, ours in zip(found, journal.answers(), strict=True):
            yield answering.whole(row, ours)
        if file_hash(table.path) != table.sha256:
            raise InputError(f"{table.path} was changed while it was answered; leave it as it is, and {_ANEW}")

    columns = columns_beside(table.path, table.kinds, answering.added)
    with result_file(out, overwrite=overwrite) as file:
        if is_column_file(out):
            file.writelines(column_lines(rows(), *answering.words_and_labels))
        else:
            write_as_table(file, out, table.path, encoding, rows, columns, notice)
        journal.finish(hash_of(file))


def hash_of(file: IO[bytes]) -> str:
    """Return the hash of what was written to a file that is still open."""
    file.flush()
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
