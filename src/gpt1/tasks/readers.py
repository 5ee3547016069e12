"""From files to examples: the JSONL layout of the catalogue's tasks, their official files, and any labelled table.

The JSONL layout is a file a split (`train.jsonl`, `dev.jsonl.xz`, ...) whose rows carry the fields the task names. A
table has no task yet: its columns are told by their names or by the caller, its labels are read from the training rows,
and both are kept in the task that is returned, so that every later file is read by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.files import missing
from gpt1.base.tables import BadRow, Undecodable, read_rows
from gpt1.base.wording import some
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.columns import (
    Columns,
    advising,
    check_row,
    check_separator,
    infer_columns,
    infer_task,
    judged_by,
    require_columns,
    require_names,
    with_columns,
)
from gpt1.tasks.data_warnings import doubtful_names, look_at_cells, look_at_commas, look_at_labels, seem_several
from gpt1.tasks.examples import (
    EMPTY_LABEL,
    LABEL_IT,
    NO_COLUMN,
    OTHER_LABEL,
    SHOWN,
    Example,
    Labelled,
    Row,
    RowFault,
    label_name,
    make_example,
)
from gpt1.tasks.official import expected_files, find_layout, read_official
from gpt1.tasks.sentences import words_shape
from gpt1.tasks.shapes import BOTH, PAIR
from gpt1.tasks.sifting import Sifted, Used, notices, read_sifted, require_rows, sift
from gpt1.tasks.spellings import Key, fold, label_key
from gpt1.tasks.word_tables import read_more_words, read_words, words_reading

_GOING_ON = "`skip_bad=True` leaves such rows out; gpt1 check finds them all"


def read_folder(task: Task, folder: Path, *, encoding: str = "utf-8") -> Labelled:
    """Read every split of a task that lies in `folder`, or in the folder of the task's name or official name there.

    The JSONL layout comes first; a task of the catalogue may also lie there as its makers publish it.
    """
    if not folder.exists():
        raise missing(folder)
    if task.labels_words:
        raise SettingError(f"'{task.name}' labels words, whose files are named one by one; name it with `table`")
    own = folder / task.name if (folder / task.name).is_dir() else folder
    if files := find_splits(task, own):
        splits = {split: read_split(task, path, split, encoding=encoding) for split, path in files.items()}
        found, place = Labelled(task, splits), files.get("train", own)
    elif official := find_layout(task, folder):
        layout, place = official
        found = read_official(task, layout, place, encoding=encoding)
    else:
        raise _nothing_of(task, folder)
    if "train" not in found.splits:
        said: tuple[str, ...] = (f"{place} has no training rows: there is nothing to train on, only to evaluate",)
    else:
        said = look_at_labels(task, found.splits["train"], place)
    return replace(found, notices=(*found.notices, *said))


def find_splits(task: Task, folder: Path) -> dict[str, Path]:
    """Return the files of a folder that hold splits of the task in the JSONL layout, compressed or not."""
    files = {}
    for split in task.splits:
        found = sorted([*folder.glob(f"{split}.jsonl"), *folder.glob(f"{split}.jsonl.*")])
        if len(found) > 1:
            raise InputError(f"{folder} has two files for '{split}', {found[0].name} and {found[1].name}; keep one")
        if found and not found[0].is_file():
            raise InputError(f"{found[0]} is not a file; expected the rows of '{split}'")
        if found:
            files[split] = found[0]
    return files


def tasks_in(folder: Path) -> list[str]:
    """Return the tasks of the catalogue that lie in a folder, each in one of its own or official name."""
    return [
        name
        for name, task in CATALOGUE.items()
        if find_splits(task, folder / name) or ((found := find_layout(task, folder)) and found[1] != folder)
    ]


def _nothing_of(task: Task, folder: Path) -> InputError:
    """Return the error for a folder without the task, which says what was looked for and what is there."""
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    expected = f"{', '.join(f'{split}.jsonl' for split in task.splits)} (also compressed), in it or in {task.name}/"
    if official := expected_files(task):
        expected += f", or official files such as {some(official)}"
    return InputError(
        f"{folder} has no rows of task '{task.name}': expected {expected}; found {some(there, SHOWN) or 'nothing'}"
    )


def read_split(task: Task, path: Path, split: str, *, encoding: str = "utf-8") -> list[Example]:
    """Read one file of a task as examples of the given split."""
    if split not in task.splits:
        raise unknown("split", split, task.splits)
    return [make_example(task, row, split) for row in _read(path, encoding)]


def read_further(
    task: Task,
    path: Path,
    split: str,
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    fold_labels: bool = False,
) -> tuple[list[Example], list[str]]:
    """Read a further table of a task as examples of the given split, and return what to tell of it too.

    `columns` maps roles to columns where they are called otherwise than the task's.
    """
    if task.labels_words:
        how = words_reading(columns=columns, encoding=encoding, skip_bad=skip_bad, fold_labels=fold_labels)
        return read_more_words(task, path, split, how)
    task = with_columns(task, columns or {})
    make = _maker(task, split)
    table = _read_to_use(path, encoding, skip_bad)
    require_columns(task, table.rows, with_label=split not in task.test_splits)
    told: list[str] = []
    with _hinting(skip_bad):
        if fold_labels and task.labels:
            folded = fold({split: table.rows}, task.label_field, task.labels, task.labels_sep)
            table, told = replace(table, rows=folded.rows[split]), folded.notices(path)
        with advising(task):
            examples = _used(table, make, skip_bad)
    require_rows(examples, path)
    told += look_at_commas(table.rows, task.label_field, path) if task.score_range is not None else []
    return examples.rows, [*notices(examples, path), *told]


def read_tables(
    paths: Mapping[str, Path],
    *,
    columns: Mapping[str, str] | None = None,
    regression: bool = False,
    symmetric: bool = False,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    fold_labels: bool = False,
    labels_sep: str | None = None,
    metric: str | None = None,
    shape: str | None = None,
) -> Labelled:
    """Read labelled tables (train, and dev and test where given) as a task of their own.

    `columns` maps a role (text; or a and b; or context, question and choices; and label) to a column's name. What was
    inferred stands in `fields`, `label_field` and `labels` or `score_range` of the returned task. The two texts of a
    `symmetric` pair say the same in either order, and are read in both. With `skip_bad` rows that cannot be used are
    left out, and with `fold_labels` labels that look the same are taken for the commonest of them; both are told. With
    `labels_sep` a row may have several labels, which that sign parts, or none. `metric` is what answers of one label a
    row are judged by first, and with another than accuracy classes have factors. Where each word of a text has a label,
    `shape` says so, unless the name of the file does (`sentences.py`); then `columns` has the roles tokens and label.
    """
    if "train" not in paths:
        raise SettingError("a table for 'train' is needed: its rows tell which labels there are")
    if (own := words_shape(paths["train"], shape)) is not None:
        how = words_reading(
            columns=columns,
            encoding=encoding,
            skip_bad=skip_bad,
            regression=regression,
            symmetric=symmetric,
            fold_labels=fold_labels,
            labels_sep=labels_sep,
            metric=metric,
        )
        for path in paths.values():
            words_shape(path, own)
        return read_words(paths, own, how)
    tables = {split: _read_to_use(path, encoding, skip_bad) for split, path in paths.items()}
    said: list[str] = []
    folding: list[str] = []
    with _hinting(skip_bad):
        understood = infer_columns(
            tables["train"].rows, columns or {}, str(paths["train"]), regression=regression, labels_sep=labels_sep
        )
        for split, table in tables.items():
            require_columns(understood.draft, table.rows, with_label=split != "test")
        if labels_sep is not None:
            check_separator(labels_sep, understood, regression, paths["train"])
        separator = labels_sep or ""
        said += [f"{paths['train']}: {told.in_words()}" for told in understood.told.values()]
        if skip_bad:
            tables = {split: _usable(understood, one, split, regression, separator) for split, one in tables.items()}
            require_rows(tables["train"], paths["train"])
        rows = {split: table.rows for split, table in tables.items()}
        if fold_labels:
            rows, folding = _fold(rows, understood, regression, paths["train"], separator)
        task = judged_by(infer_task(rows, paths["train"], understood, regression, separator), metric)
        if separator:
            said += look_at_cells(rows["train"], understood.label, separator, paths["train"])
        task = _as_symmetric(task, paths["train"]) if symmetric else task
        splits: dict[str, list[Example]] = {}
        for split, path in paths.items():
            with _advising_several(task):
                examples = _used(replace(tables[split], rows=rows[split]), _maker(task, split), skip_bad)
            require_rows(examples, path)
            splits[split] = examples.rows
            said += notices(examples, path)
            said += look_at_commas(rows[split], task.label_field, path) if task.score_range is not None else []
    said += [*folding, *look_at_labels(task, splits["train"], paths["train"])]
    return Labelled(task, splits, (*said, *doubtful_names(task, paths["train"])))


def _maker(task: Task, split: str) -> Callable[[Row], Example]:
    """Return what makes an example of a row, and says which label was meant where it is only written otherwise."""
    if split not in task.splits:
        raise unknown("split", split, task.splits)
    known = {label_key(name) for name in task.labels}

    def make(row: Row) -> Example:
        try:
            return make_example(task, row, split)
        except RowFault as fault:
            if fault.reason != OTHER_LABEL or not _is_written_otherwise(task, row, known):
                raise
            message = f"{fault.message}; `fold_labels=True` takes labels that look the same for one"
            raise RowFault(fault.place, fault.number, message, fault.reason) from None

    return make


def _is_written_otherwise(task: Task, row: Row, known: Container[Key]) -> bool:
    """Whether a label that the task does not have looks like one that it has."""
    cell = row.cells[task.label_field]
    names = row.labels(task.label_field, task.labels_sep) if task.is_multilabel else [label_name(cell)]
    return any(name not in task.label_places and label_key(name) in known for name in names)


def _as_symmetric(task: Task, path: Path) -> Task:
    if task.shape != PAIR:
        raise SettingError(f"`symmetric` is for rows of two texts; {path} has {', '.join(task.fields)}")
    return replace(task, shape=BOTH)


def _read_to_use(path: Path, encoding: str, skip_bad: bool) -> Sifted[Row]:
    """Read a table: all its rows, or those that can be read where others are to be skipped."""
    if skip_bad:
        table = read_sifted(path, encoding)
        require_rows(table, path)
        return table
    try:
        return Sifted(_read(path, encoding))
    except (Undecodable, BadRow) as fault:
        if fault.position == "header":
            raise
        raise type(fault)(path, fault.position, f"{fault.message}; {_GOING_ON}") from None


def _used(table: Sifted[Row], use: Callable[[Row], Used], skip_bad: bool) -> Sifted[Used]:
    """Return what is made of the rows of a table; of those of which nothing can be made, the first one's error."""
    return sift(table, use) if skip_bad else Sifted([use(row) for row in table.rows])


@contextmanager
def _hinting(is_skipping: bool) -> Iterator[None]:
    """Say in the error of a row how to go on without such rows."""
    try:
        yield
    except RowFault as fault:
        if is_skipping or fault.reason == NO_COLUMN:  # which all rows of a table lack, or none
            raise
        raise RowFault(fault.place, fault.number, f"{fault.message}; {_GOING_ON}", fault.reason) from None


@contextmanager
def _advising_several(task: Task) -> Iterator[None]:
    """Say in the error of an empty label that it may mean none, where other cells seem to hold several."""
    try:
        yield
    except RowFault as fault:
        if fault.reason != EMPTY_LABEL or task.is_multilabel or (several := seem_several(task.labels)) is None:
            raise
        separator, (name, *_) = several
        what = fault.message.removesuffix(f"; {LABEL_IT}")
        helps = f"`labels_sep={separator!r}` reads '{name}' as several labels, and an empty cell as none of them"
        raise RowFault(fault.place, fault.number, f"{what}; {helps}, or {LABEL_IT}", fault.reason) from None


def _usable(understood: Columns, table: Sifted[Row], split: str, regression: bool, labels_sep: str) -> Sifted[Row]:
    """Return the rows whose texts and label can be used, whichever labels there are."""
    needs_label = split != "test"
    use = partial(check_row, understood, regression=regression, needs_label=needs_label, labels_sep=labels_sep)
    return sift(table, use)


def _fold(
    rows: Mapping[str, list[Row]], understood: Columns, regression: bool, path: Path, labels_sep: str
) -> tuple[dict[str, list[Row]], list[str]]:
    """Return rows whose labels are written in one way each, and what to tell of it."""
    require_names(understood, regression, path)
    folded = fold(rows, understood.label, labels_sep=labels_sep)
    return folded.rows, folded.notices(path)


def _read(path: Path, encoding: str) -> list[Row]:
    rows = [Row(cells, str(path), number) for number, cells in read_rows(path, encoding=encoding)]
    if not rows:
        raise InputError(f"{path} has no rows")
    return rows
