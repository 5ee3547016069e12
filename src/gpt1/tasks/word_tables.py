"""From files of labelled words to examples: a task of their own, and further files of a task that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpt1.base.errors import FileError, SettingError, did_you_mean, printable
from gpt1.base.tables import ENCODING, BadRow
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.columns import sort_labels, task_name
from gpt1.tasks.data_warnings import refuse_one_label
from gpt1.tasks.examples import SHOWN, Example, Labelled
from gpt1.tasks.sentences import Sentence, WordFile, labelled_only
from gpt1.tasks.sifting import Sifted, notices, require_rows, unreadable
from gpt1.tasks.tagging import PLAIN_METRICS, SPAN_METRICS, kinds_of, loose, scheme_of, spell_spans

TEXT, LABELS = "text", "labels"  # what a text and its labels are called by who asks for answers

NOT_OF_WORDS = ("regression", "symmetric", "fold_labels", "labels_sep", "metric")  # ways to read tables


@dataclass(frozen=True)
class WordTable:
    """The sentences of a file."""

    path: Path
    sentences: Sifted[Sentence]
    told: list[str] = field(default_factory=list)

    @property
    def labels(self) -> list[Sequence[str]]:
        """The labels of each sentence that has some."""
        return [one.labels for one in self.sentences.rows if one.labels is not None]


@dataclass(frozen=True)
class WordReading:
    """How files of labelled words are read."""

    columns: Mapping[str, str]  # of the roles tokens and label, which are called otherwise
    encoding: str = ENCODING
    skip_bad: bool = False


def words_reading(**settings: Any) -> WordReading:
    """Return how files of labelled words are read, of how tables are, or refuse what means nothing there."""
    if given := [name for name in NOT_OF_WORDS if settings.get(name)]:
        raise SettingError(
            f"`{given[0]}` is for tables of one answer a row, and here each word has a label; leave it out"
        )
    return WordReading(
        settings.get("columns") or {}, settings.get("encoding") or ENCODING, bool(settings.get("skip_bad"))
    )


def read_words(paths: Mapping[str, Path], shape: str, how: WordReading) -> Labelled:
    """Read files of labelled words (train, and dev and test where given) as a task of their own."""
    tables = {split: read_word_table(path, how, needs_labels=split != "test") for split, path in paths.items()}
    train = tables["train"]
    known = {label for labels in train.labels for label in labels}
    refuse_one_label(known, train.path)
    every = known.union(*(labels for table in tables.values() for labels in table.labels))
    names = sort_labels(every)
    task = Task(
        name=task_name(train.path),
        title=printable(f"words of {train.path.name}"),
        shape=shape,
        metrics=SPAN_METRICS if spell_spans(names) else PLAIN_METRICS,
        fields=(TEXT,),
        labels=names,
        label_field=LABELS,
    )
    said = [text for table in tables.values() for text in table.told]
    if others := sorted(every - known):
        said.append(f"{train.path}: labels that it does not have, so that none is ever given: {some(others, SHOWN)}")
    said.append(f"{train.path}: {scheme_in_words(train)}")
    said += [text for table in tables.values() for text in loose_in_words(table, scheme_of(train.labels), names)]
    splits = {split: [_example(task, one) for one in table.sentences.rows] for split, table in tables.items()}
    return Labelled(task, splits, tuple(said))


def read_more_words(task: Task, path: Path, split: str, how: WordReading) -> tuple[list[Example], list[str]]:
    """Read a further file of a task as examples of the given split, and return what to tell of it too."""
    table = read_word_table(path, how, needs_labels=split not in task.test_splits)
    for one in table.sentences.rows:
        for line, label in zip(one.lines, one.labels or (), strict=False):
            if label not in task.label_places:
                near = did_you_mean(label, task.labels)
                said = f"label '{label}' is none of {some(task.labels, SHOWN)}{near}"
                raise BadRow(path, f"line {line}", said)
    return [_example(task, one) for one in table.sentences.rows], table.told


def read_word_table(path: Path, how: WordReading, *, needs_labels: bool) -> WordTable:
    """Read a file of sentences: all of them, or those that can be used where others are to be skipped."""
    file = WordFile(path, how.encoding, how.columns)
    found: Sifted[Sentence] = Sifted([])
    for one in labelled_only(file.sentences(), path) if needs_labels else file.sentences():
        if not isinstance(one, FileError):
            found.rows.append(one)
        elif how.skip_bad:
            found.left_out.append(unreadable(one))
        else:
            raise one
    require_rows(found, path)
    return WordTable(path, found, [*file.notices(), *notices(found, path)])


def scheme_in_words(table: WordTable) -> str:
    """Return what labels are, in a sentence."""
    names = {label for labels in table.labels for label in labels}
    if not spell_spans(sorted(names)):
        return f"{many(len(names), 'label')} of words, each judged by itself"
    kinds = kinds_of(sorted(names))
    return (
        f"labels of spans ({scheme_of(table.labels)}) of {many(len(kinds), 'kind')}, {some(kinds)}, judged as a whole"
    )


def loose_in_words(table: WordTable, scheme: str, names: Sequence[str]) -> list[str]:
    """Tell of labels that follow nothing that they can follow, with their lines."""
    lines = loose_lines(table, scheme) if spell_spans(names) else []
    if not lines:
        return []
    where = some([str(line) for line in lines], SHOWN)
    return [
        f"{table.path}: {many(len(lines), 'label')} that {scheme} does not allow there, taken as conlleval takes "
        f"them (an I that follows nothing begins a span): line{'s' if len(lines) > 1 else ''} {where}"
    ]


def loose_lines(table: WordTable, scheme: str) -> list[int]:
    """Return the lines of labels that a scheme does not allow where they stand."""
    return [
        one.lines[word] for one in table.sentences.rows if one.labels is not None for word in loose(one.labels, scheme)
    ]


def _example(task: Task, sentence: Sentence) -> Example:
    labels = None if sentence.labels is None else tuple(task.label_places[one] for one in sentence.labels)
    return Example((" ".join(sentence.words),), labels, sentence.lines[0], words=sentence.words)
