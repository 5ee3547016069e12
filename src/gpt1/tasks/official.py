"""The files of the catalogue's tasks as their makers publish them: which lie where, and what is odd in them.

Every layout is data: the names of its folder, and for each split its files and which of `formats.py` reads them.
Official rows are not ours to mend, so they are taken as they are, empty texts and all; what cannot be used (no label
agreed on, a line broken in two) is left out and told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpt1.base.archives import COMPRESSIONS
from gpt1.base.errors import InputError
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.examples import Example, Labelled, Row, make_example
from gpt1.tasks.formats import INDEX, Reader, dpr, nli_jsonl, race, story_cloze, text_lines, tsv
from gpt1.tasks.splitting import ONE_IN, draw_units

_UNDECIDED = "-"  # the label of SNLI and MNLI rows whose annotators did not agree

Rows = Sequence[Row]


@dataclass(frozen=True)
class SplitFiles:
    """The files of one split, put together in their order, and what reads one of them."""

    files: tuple[str, ...]  # names or patterns, relative to the folder
    read: Reader
    many: bool = False  # a pattern stands for any number of files, each with a passage


@dataclass(frozen=True)
class Layout:
    """How one publisher lays out a task."""

    folders: tuple[str, ...]
    parts: dict[str, SplitFiles]
    dev: Callable[[Path, Rows], Sequence[int]] | None = None  # which training rows are for development
    dev_rule: str = ""  # the same in words
    may_break: bool = False  # lines with too few cells are known to stand in the official files


def find_layout(task: Task, folder: Path) -> tuple[Layout, Path] | None:
    """Return how a folder, or the one of the task's or official name in it, holds the task, and which that is."""
    for layout in _layouts(task):
        for base in (folder, *(folder / name for name in (task.name, *layout.folders))):
            if any(_files(base, part) for part in layout.parts.values()):
                return layout, base
    return None


def expected_files(task: Task) -> list[str]:
    """Return the official files that a folder of the task may have, for a message."""
    return [
        f"{layout.folders[0]}/{name}"
        for layout in _layouts(task)
        for name in dict.fromkeys(name for part in layout.parts.values() for name in part.files)
    ]


def read_official(task: Task, layout: Layout, folder: Path, *, encoding: str = "utf-8") -> Labelled:
    """Read every split that is there."""
    splits, notices = {}, []
    for split, part in layout.parts.items():
        files = _files(folder, part)
        if not files:
            continue
        rows, said = _usable_rows(task, split, layout, part, files, encoding)
        examples = [replace(_example(task, split, row), row=number) for number, row in rows]
        dev = set(layout.dev(folder, [row for _, row in rows])) if layout.dev and split == "train" else ()
        if dev:
            splits[task.dev_splits[0]] = [example for place, example in enumerate(examples) if place in dev]
            examples = [example for place, example in enumerate(examples) if place not in dev]
            said.append(f"{files[0]}: {many(len(dev), 'row')} kept for dev, {layout.dev_rule}")
        splits[split] = examples
        notices += said
    return Labelled(task, {split: splits[split] for split in task.splits if split in splits}, tuple(notices))


def _layouts(task: Task) -> tuple[Layout, ...]:
    return LAYOUTS.get(task.name, ()) if CATALOGUE.get(task.name) == task else ()


def _files(base: Path, part: SplitFiles) -> list[Path]:
    """Return the files of a part that are there, each pattern's in order of number or name."""
    files: list[Path] = []
    for name in part.files:
        names = [name + suffix for suffix in ("", *COMPRESSIONS)]
        found = [sorted(base.glob(name), key=_number_or_name) if "*" in name else [base / name] for name in names]
        there = [file for some_files in found for file in some_files if file.is_file()]
        if len(there) > 1 and not part.many:
            raise InputError(f"{base} has two files for one, {there[0].name} and {there[1].name}; keep one")
        files += there
    return files


def _number_or_name(path: Path) -> tuple[int, str]:
    return (int(path.stem) if path.stem.isdecimal() else 0, path.name)


def _usable_rows(
    task: Task, split: str, layout: Layout, part: SplitFiles, files: Sequence[Path], encoding: str
) -> tuple[list[tuple[int, Row]], list[str]]:
    """Return the rows that can be used, counted on from file to file, and what is to be told of the others."""
    needed = [*task.fields, *([] if split in task.test_splits else [task.label_field])]
    rows: list[tuple[int, Row]] = []
    undecided, broken, empty = [], [], []
    before = last = 0
    for file in files:
        before, last = before + last, 0
        for row in part.read(file, encoding):
            last, number = row.number, before + row.number
            absent = [name for name in needed if name not in row.cells]
            if row.cells.get(task.label_field) == _UNDECIDED:
                undecided.append(str(number))
            elif absent and layout.may_break:
                broken.append(str(number))
            elif absent:
                raise row.error(f"the line has too few cells, '{absent[0]}' is missing; fetch the file again")
            else:
                rows.append((number, row))
                empty += [str(number)] if _has_empty_text(task, row) else []
    place = files[0] if len(files) == 1 else files[0].parent
    if not rows:
        raise InputError(f"{place} has no rows of task '{task.name}'")
    told = (
        (undecided, f"whose label is '{_UNDECIDED}' (nobody agreed on one) left out"),
        (broken, "with too few cells left out"),
        (empty, "with an empty text kept as they are"),
    )
    said = [f"{place}: {many(len(found), 'row')} {what} ({some(found)})" for found, what in told if found]
    return rows, said


def _has_empty_text(task: Task, row: Row) -> bool:
    values = [row.cells[name] for name in task.fields]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return any(isinstance(text, str) and not text.strip() for text in texts)


def _example(task: Task, split: str, row: Row) -> Example:
    example = make_example(task, row, split, may_be_empty=True)
    index = row.cells.get(INDEX)
    if index is None:
        return example
    if not isinstance(index, str) or not index.isdecimal():
        raise row.error(f"the index {index!r} is not a whole number; fetch the file again")
    return replace(example, index=int(index))


# Which training rows are for development, where the makers gave none


def _released_story_cloze_dev(folder: Path, rows: Rows) -> Sequence[int]:
    """Return the rows that the paper's released code holds out: 374 of 1,871, by its seed."""
    order = np.random.RandomState(3535999445).permutation(len(rows))
    found: list[int] = order[: round(len(rows) / 5)].tolist()
    return found


def _twins(folder: Path, rows: Rows) -> Sequence[int]:
    """Return a tenth of DPR's twins: neighbours with one text but for some words, whose answers differ."""
    units: list[list[int]] = []
    for place, row in enumerate(rows):
        twin = units and len(units[-1]) == 1 and rows[place - 1].cells["choices"] == row.cells["choices"]
        if twin:
            units[-1].append(place)
        else:
            units.append([place])
    drawn = draw_units(units, max(1, round(len(units) / ONE_IN))) if len(units) > 1 else []
    return [place for unit in drawn for place in unit]


def _mrpc_dev(folder: Path, rows: Rows) -> Sequence[int]:
    """Return the rows that GLUE holds out, which it names by their two ids."""
    if not (folder / "dev_ids.tsv").exists():
        return []
    ids = {tuple(line.split("\t")) for line in text_lines(folder / "dev_ids.tsv", "utf-8")}
    return [place for place, row in enumerate(rows) if (row.cells["id_a"], row.cells["id_b"]) in ids]


# Layouts, those of GLUE first


def _glue(folder: str, train: Reader, test: Reader, **more: Any) -> Layout:
    files = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
    return Layout(
        (folder,),
        {split: SplitFiles(names, test if split == "test" else train) for split, names in files.items()},
        **more,
    )


def _files_of_splits(reader: Reader, **names: str) -> dict[str, SplitFiles]:
    return {split: SplitFiles(tuple(name.split("|")), reader, many=reader is race) for split, name in names.items()}


_COLA = tsv(label=1, text=3)
_SENTENCES = tsv(a="sentence1", b="sentence2", label="label")
_SENTENCES_TEST = tsv(a="sentence1", b="sentence2", index="index")
_MNLI = tsv(a="sentence1", b="sentence2", label="gold_label")
_MSR = tsv(label="Quality", id_a="#1 ID", id_b="#2 ID", a="#1 String", b="#2 String")
_STS = tsv(label=4, a=5, b=6)  # tab-separated, though named csv

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "cola": (
        _glue("CoLA", _COLA, tsv(text="sentence", index="index")),
        Layout(
            ("cola_public/raw", "raw"),
            _files_of_splits(_COLA, train="in_domain_train.tsv", dev="in_domain_dev.tsv|out_of_domain_dev.tsv"),
        ),
    ),
    "sst2": (_glue("SST-2", tsv(text="sentence", label="label"), tsv(text="sentence", index="index")),),
    "mrpc": (
        _glue("MRPC", _MSR, tsv(a="#1 String", b="#2 String", index="index")),
        Layout(
            ("MRPC", "MSRParaphraseCorpus"),
            _files_of_splits(_MSR, train="msr_paraphrase_train.txt", test="msr_paraphrase_test.txt"),
            dev=_mrpc_dev,
            dev_rule="those in dev_ids.tsv, as in GLUE",
        ),
    ),
    "stsb": (
        _glue("STS-B", tsv(a="sentence1", b="sentence2", label="score"), _SENTENCES_TEST),
        Layout(
            ("stsbenchmark",), _files_of_splits(_STS, train="sts-train.csv", dev="sts-dev.csv", test="sts-test.csv")
        ),
    ),
    "qqp": (
        _glue(
            "QQP",
            tsv(a="question1", b="question2", label="is_duplicate"),
            tsv(a="question1", b="question2", index="id"),
            may_break=True,
        ),
    ),
    "mnli": (
        Layout(
            ("MNLI",),
            _files_of_splits(
                _MNLI, train="train.tsv", dev_matched="dev_matched.tsv", dev_mismatched="dev_mismatched.tsv"
            )
            | _files_of_splits(
                _SENTENCES_TEST,
                test_matched="test_matched.tsv",
                test_mismatched="test_mismatched.tsv",
                diagnostic="../diagnostic/diagnostic.tsv",
            ),
        ),
        Layout(
            ("multinli_1.0",),
            _files_of_splits(
                nli_jsonl,
                train="multinli_1.0_train.jsonl",
                dev_matched="multinli_1.0_dev_matched.jsonl",
                dev_mismatched="multinli_1.0_dev_mismatched.jsonl",
            ),
        ),
    ),
    "qnli": (
        _glue(
            "QNLI",
            tsv(a="question", b="sentence", label="label"),
            tsv(a="question", b="sentence", index="index"),
        ),
    ),
    "rte": (_glue("RTE", _SENTENCES, _SENTENCES_TEST),),
    "wnli": (_glue("WNLI", _SENTENCES, _SENTENCES_TEST),),
    "snli": (
        Layout(
            ("snli_1.0",),
            _files_of_splits(
                nli_jsonl, train="snli_1.0_train.jsonl", dev="snli_1.0_dev.jsonl", test="snli_1.0_test.jsonl"
            ),
        ),
    ),
    "scitail": (
        Layout(
            ("SciTailV1.1/tsv_format", "tsv_format"),
            _files_of_splits(
                tsv(a=0, b=1, label=2),
                train="scitail_1.0_train.tsv",
                dev="scitail_1.0_dev.tsv",
                test="scitail_1.0_test.tsv",
            ),
        ),
    ),
    "race": (
        Layout(
            ("RACE",),
            _files_of_splits(
                race,
                train="train/middle/*.txt|train/high/*.txt",
                dev="dev/middle/*.txt|dev/high/*.txt",
                test="test/middle/*.txt|test/high/*.txt",
            ),
        ),
    ),
    "storycloze": tuple(
        Layout(
            ("storycloze",),
            _files_of_splits(story_cloze, train=f"cloze_test_val__{year}*.csv", test=f"cloze_test_test__{year}*.csv"),
            dev=_released_story_cloze_dev,
            dev_rule="a fifth, drawn as the paper's released code does",
        )
        for year in ("spring2016", "winter2018")  # the first is the paper's
    ),
    "dpr": (
        Layout(
            ("dpr",),
            _files_of_splits(dpr, train="train.c.txt", test="test.c.txt"),
            dev=_twins,
            dev_rule="twins together, always the same",
        ),
    ),
}
