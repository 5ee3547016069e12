"""The labelled data of a fine-tuning: what the user names, turned into encoded tasks that fit the network."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.base.wording import many
from gpt1.recipes.values import ATTENTION, MAX, MEAN
from gpt1.records.run import RecordedSource
from gpt1.runs.folder import run_tokenizer
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, encode_task, load
from gpt1.tasks.hub import HUB
from gpt1.tasks.shapes import CHOICES, TOKENS
from gpt1.tasks.unknowns import Unknown, count_unknown, unknown_by_example
from gpt1.tasks.windows import MOST_WINDOWS, NOT_OF_CHOICES, call_for_windows
from gpt1.text.unknowns import in_numbers

if TYPE_CHECKING:  # an encoded task must not pull in what opens tables
    from gpt1.tasks.examples import Labelled
    from gpt1.text.tokenizer import Tokenizer

_POOLED = {
    MEAN: "and the mean of what those say is answered",
    MAX: "and of each answer what the surest of those says",
    ATTENTION: "and how much each of those counts is learned",
}
_MEMORY = "/dev/shm"  # a folder as any other, where people lay data that is read often


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where labelled data comes from, as a person names it now: tasks in a folder, tables, encoded folders, or values.

    Only what is named so may be imported (`module:NAME`) or fetched (`hub:NAME`); see `read_recorded` for the rest.
    """

    tasks: Sequence[str] = ()  # names, or module:NAME
    data: str | None = None  # the folder of those tasks, or hub:NAME
    train: Path | None = None  # tables
    dev: Path | None = None
    test: Path | None = None
    more: Path | None = None  # rows that were made of those of `train`
    columns: Mapping[str, str] = field(default_factory=dict)
    regression: bool = False
    symmetric: bool = False
    encoding: str = "utf-8"
    skip_bad: bool = False  # rows of tables that cannot be used are left out
    fold_labels: bool = False  # labels of tables that look the same are one
    labels_sep: str | None = None  # what parts the labels of a row of tables; none: each row has one
    metric: str | None = None  # by which a table of one label a row is judged; none: accuracy
    shape: str | None = None  # of tables of which each word has a label; none: as columns and names of files tell
    encoded: Sequence[Path | EncodedTask] = ()
    examples: Labelled | None = None

    def __post_init__(self) -> None:
        named = {
            "`task`": bool(self.tasks),
            "`train`": self.train is not None,
            "`encoded`": bool(self.encoded),
            "examples": self.examples is not None,
        }
        given = [name for name, there in named.items() if there]
        if not given:
            raise SettingError(
                "nothing to learn is named; name a table, `train=TABLE`, or a task and the folder of its data, "
                "`task=NAME` `data=DIR`, or what was prepared of a task, `encoded=DIR`"
            )
        if len(given) > 1:
            raise SettingError(f"one thing is learned at a time; leave out all but one of {' and '.join(given)}")
        if self.data is not None and not self.tasks:
            raise SettingError("`data` is the folder of a `task`; a table or an encoded task stands for itself")
        if self.train is None and (self.dev or self.test or self.columns or self.regression or self.symmetric):
            raise SettingError("`dev`, `test`, `columns`, `regression` and `symmetric` go with `train`")
        if self.train is None and self.more is not None:
            raise SettingError("`more` holds rows that were made of those of a table, so it goes with `train`")
        if self.train is None and (self.skip_bad or self.fold_labels):
            raise SettingError("`skip_bad` and `fold_labels` go with `train`")
        if self.train is None and self.labels_sep is not None:
            raise SettingError("`labels_sep` goes with `train`")
        if self.train is None and self.metric is not None:
            raise SettingError("`metric` goes with `train`; other tasks have metrics of their own")
        if self.train is None and self.shape is not None:
            raise SettingError("`shape` goes with `train`; other tasks have shapes of their own")
        if self.tasks and self.data is None:
            raise SettingError(f"where is the data of '{self.tasks[0]}'? Name its folder with `data`")

    def recorded(self) -> RecordedSource:
        """Return what was named, as far as it can be found again."""
        train, dev, test = (None if path is None else str(path.resolve()) for path in (self.train, self.dev, self.test))
        is_folder = self.data is not None and not self.data.startswith(HUB)
        return RecordedSource(
            tasks=list(self.tasks),
            data=str(Path(str(self.data)).resolve()) if is_folder else self.data,
            train=train,
            dev=dev,
            test=test,
            columns=dict(self.columns),
            regression=self.regression,
            symmetric=self.symmetric,
            encoding=self.encoding,
            skip_bad=self.skip_bad,
            fold_labels=self.fold_labels,
            labels_sep=self.labels_sep,
            metric=self.metric,
            shape=self.shape,
            more=None if self.more is None else str(self.more.resolve()),
            encoded=[str(Path(folder).resolve()) for folder in self.encoded if not isinstance(folder, EncodedTask)],
        )


def read_source(
    source: Source, tokenizer: Tokenizer, context: int, *, windows: bool | None = False
) -> tuple[dict[str, EncodedTask], list[str]]:
    """Return the encoded tasks of a source by name, and what a person should be told about them.

    Rows are encoded with `tokenizer`, and what is encoded already must be made with it. Texts that do not fit the
    context are read in `windows`, or lose their ends; None: they themselves decide, by how many do not fit.
    """
    tasks = [one if isinstance(one, EncodedTask) else load(one) for one in source.encoded]
    told = unknown_notices({one.task.name: one for one in tasks}, tokenizer)
    encode = partial(_encode_all, list(read_labelled(source)), tokenizer, context, told=source.train is not None)
    encoded, notices = encode(unknown=True, windows=bool(windows))
    if windows is None and _calls_for_windows(encoded, context):
        encoded, notices = encode(unknown=True, windows=True)
    found = _by_name([*tasks, *encoded])
    _require_known(found, tokenizer)
    return found, [*told, *notices]


def _calls_for_windows(tasks: Sequence[EncodedTask], context: int) -> bool:
    """Whether so many texts to learn from do not fit the context that they are read in windows."""
    shapes = {one.task.shape for one in tasks}
    cut = [one.splits["train"].cut for one in tasks if "train" in one.splits]
    return bool(cut) and call_for_windows(shapes, np.concatenate(cut), context)


def _require_known(tasks: Mapping[str, EncodedTask], tokenizer: Tokenizer) -> None:
    """Refuse to learn from text that the vocabulary cannot spell."""
    for name, own in unknown_tokens(tasks, tokenizer.unknown_id).items():
        if (unknown := own["train"]).is_too_much:
            raise InputError(
                f"{name} train: {in_numbers(unknown.tokens, unknown.of)}, and from so little nothing can be learned; "
                "start from a run whose vocabulary knows this script, or make one of bytes: "
                "`gpt1.train_tokenizer(kind='bytes')`, which knows all"
            )


def read_recorded(
    source: RecordedSource, tasks: Iterable[Task], run: Path, context: int, *, windows: bool = False
) -> tuple[dict[str, EncodedTask], list[str]]:
    """Return what a run was trained with, read again from where its record says that it lay.

    A record is a file that anybody may have written, so nothing that it names is imported or fetched: the tasks are the
    run's own values, whatever module they came from, and the data lies in plain files and folders.
    """
    from gpt1.tasks.preparing import complete
    from gpt1.tasks.readers import read_folder

    if source.data is not None and source.data.startswith(HUB):
        raise InputError(
            f"it was trained on {source.data}, and what a run names is never fetched by itself; "
            f"`data={source.data!r}` fetches it"
        )
    train, dev, test = (None if path is None else _plain(path) for path in (source.train, source.dev, source.test))
    rows: list[Labelled] = []
    if source.data is not None:
        folder = _plain(source.data)
        rows += [complete(read_folder(task, folder, encoding=source.encoding)) for task in tasks]
    if train is not None:
        more = None if source.more is None else _plain(source.more)
        rows.append(_read_table(source, train, dev, test, more))
    encoded, notices = _encode_all(rows, run_tokenizer(run), context, told=train is not None, windows=windows)
    return _by_name([*(load(_plain(folder)) for folder in source.encoded), *encoded]), notices


def _read_table(
    source: Source | RecordedSource, train: Path, dev: Path | None, test: Path | None, more: Path | None
) -> Labelled:
    from gpt1.tasks.made_rows import with_made
    from gpt1.tasks.preparing import read_table

    found = read_table(
        train,
        dev=dev,
        test=test,
        columns=source.columns,
        regression=source.regression,
        symmetric=source.symmetric,
        encoding=source.encoding,
        skip_bad=source.skip_bad,
        fold_labels=source.fold_labels,
        labels_sep=source.labels_sep,
        metric=source.metric,
        shape=source.shape,
    )
    return found if more is None else with_made(found, more, encoding=source.encoding)


def _plain(named: str) -> Path:
    """Return a path that a record names, unless it is a device or a pipe, which has no end or is another's to read."""
    path = Path(os.path.normpath(named))
    system = path.is_relative_to("/proc") or (path.is_relative_to("/dev") and not path.is_relative_to(_MEMORY))
    if system or not (path.is_file() or path.is_dir()):
        raise InputError(f"{named} is not a file or folder" if path.exists() else f"{named} does not exist")
    return path


def _encode_all(
    rows: Iterable[Labelled],
    tokenizer: Tokenizer,
    context: int,
    *,
    told: bool,
    unknown: bool = False,
    windows: bool = False,
) -> tuple[list[EncodedTask], list[str]]:
    """Return labelled rows encoded, and all notices: how a table was understood where that is `told`, and the rest.

    What is `unknown` to the vocabulary is one of them where nobody else tells it.
    """
    tasks: list[EncodedTask] = []
    notices: list[str] = []
    for labelled in rows:
        tasks.append(encode_task(labelled.task, labelled.splits, tokenizer, context, windows=windows))
        notices += [*([labelled.task.in_short()] if told else []), *labelled.notices]
        if unknown:
            notices += unknown_notices({labelled.task.name: tasks[-1]}, tokenizer, labelled)
    return tasks, notices


def _by_name(tasks: Sequence[EncodedTask]) -> dict[str, EncodedTask]:
    found = {encoded.task.name: encoded for encoded in tasks}
    if len(found) < len(tasks):
        raise SettingError(f"two tasks have one name: {', '.join(encoded.task.name for encoded in tasks)}")
    return found


def read_labelled(source: Source) -> Iterable[Labelled]:
    """Yield the tasks of a source that are rows, not encoded yet."""
    if source.examples is not None:
        yield source.examples
    if not source.tasks and source.train is None:
        return
    from gpt1.tasks.preparing import read_task

    for name in source.tasks:
        yield read_task(name, data=source.data, encoding=source.encoding)
    if source.train is not None:
        yield _read_table(source, source.train, source.dev, source.test, source.more)


def check_fit(tasks: Mapping[str, EncodedTask], *, fingerprint: str, context: int, init: Path) -> None:
    """Refuse encoded tasks that the network of `init` cannot read."""
    for name, encoded in tasks.items():
        if encoded.tokenizer_fingerprint != fingerprint:
            raise InputError(
                f"task '{name}' was encoded with another tokenizer than that of {init}; encode it with "
                f"`gpt1.prepare(tokenizer={str(init)!r})`"
            )
        if encoded.context > context:
            raise InputError(
                f"task '{name}' was encoded for a context of {encoded.context} tokens, {init} has {context}; encode "
                f"it with `gpt1.prepare(context={context})`"
            )


def any_windows(tasks: Mapping[str, EncodedTask]) -> bool:
    """Whether any text is read in several windows."""
    return any(encoded.has_windows for encoded in tasks.values())


def is_cut(encoded: EncodedTask) -> bool:
    """Whether texts lost their ends that windows would have read."""
    return not encoded.has_windows and any((split.cut > 0).any() for split in encoded.splits.values())


def check_windows(tasks: Mapping[str, EncodedTask], windows: bool) -> None:
    """Refuse encoded tasks of which long texts are not encoded as they are to be read."""
    for name, encoded in tasks.items():
        if windows and encoded.task.shape == CHOICES:
            raise SettingError(f"task '{name}': {NOT_OF_CHOICES}")
        if windows and is_cut(encoded):
            raise SettingError(
                f"task '{name}' was encoded without windows, and texts lost their ends; encode it with "
                "`gpt1.prepare(windows=True)`"
            )
        if encoded.has_windows and not windows:
            raise SettingError(
                f"task '{name}' was encoded with windows, which `finetuning.windows` leaves off; say how they answer, "
                "as in `changes=['finetuning.windows=mean']`"
            )


def check_training(tasks: Mapping[str, EncodedTask]) -> None:
    """Refuse tasks without training examples, or with some that have no label."""
    for name, encoded in tasks.items():
        train = encoded.splits.get("train")
        if train is None or not len(train):
            raise InputError(f"task '{name}' has no training examples; it can only be evaluated")
        if not train.labelled.all():
            example = int((~train.labelled).argmax())
            raise InputError(f"task '{name}': training example {example + 1} has no label")


def identity(tasks: Mapping[str, EncodedTask]) -> str:
    """Return what tells these examples to learn from, and to choose by, from all others."""
    digest = hashlib.sha256()
    for encoded in tasks.values():
        digest.update(json.dumps(encoded.task.as_json(), sort_keys=True).encode())
        for name in ("train", *encoded.task.dev_splits):
            if name in encoded.splits:
                split = encoded.splits[name]
                for array in (split.ids, split.offsets, split.labels):
                    digest.update(array.tobytes())
                if split.places is not None:
                    digest.update(split.places.tobytes())
                if split.windows is not None:
                    digest.update(split.windows.tobytes())
    return digest.hexdigest()


def unknown_tokens(tasks: Mapping[str, EncodedTask], unknown_id: int | None) -> dict[str, dict[str, Unknown]]:
    """Return for each split of each task how much of it the vocabulary does not have."""
    return {
        name: {
            split: count_unknown(unknown_by_example(encoded.task, data, unknown_id, encoded.vocab_size))
            for split, data in encoded.splits.items()
        }
        for name, encoded in tasks.items()
    }


def unknown_notices(tasks: Mapping[str, EncodedTask], tokenizer: Tokenizer, rows: Labelled | None = None) -> list[str]:
    """Tell of splits of which a good deal is not in the vocabulary, and which characters where the rows are at hand."""
    found = []
    for name, own in unknown_tokens(tasks, tokenizer.unknown_id).items():
        for split, unknown in own.items():
            characters: list[str] = []
            if unknown.tokens and rows is not None:
                characters = tokenizer.unknown_characters(
                    Counter(chain.from_iterable(text for row in rows.splits[split] for text in row.texts))
                )
            found += unknown.notice(len(tasks[name].splits[split]), f"{name} {split}", characters)
    return found


def truncation_notices(tasks: Mapping[str, EncodedTask]) -> list[str]:
    """Tell of examples that lost tokens to fit the context, or the windows that they have at most."""
    notices = []
    for name, encoded in tasks.items():
        for split, data in encoded.splits.items():
            if encoded.task.labels_words:
                notices += _cut_word_notices(name, split, data)
                continue
            cut = data.cut[data.cut > 0]
            room = f"{encoded.context} tokens" if data.windows is None else f"{MOST_WINDOWS} windows"
            if len(cut):
                notices.append(
                    f"{name} {split}: {len(cut):,} of {len(data):,} examples are longer than {room} "
                    f"and lost {int(cut.sum()):,} in all, at most {int(cut.max()):,} each"
                )
    return notices


def _cut_word_notices(name: str, split: str, data: EncodedSplit) -> list[str]:
    """Tell of words that alone are longer than a window."""
    cut = data.cut[data.cut > 0]
    if not len(cut):
        return []
    lost = f"lost {int(cut.sum()):,} tokens in all"
    return [f"{name} {split}: {many(len(cut), 'sentence')} with words longer than a window, which {lost}"]


def window_notices(tasks: Mapping[str, EncodedTask], windows: str) -> list[str]:
    """Tell of texts that are read in windows, how those answer, by which setting, and what there is to read so."""
    notices = []
    for name, encoded in tasks.items():
        train = encoded.splits.get("train")
        if encoded.task.labels_words:
            notices += _word_window_notices(name, encoded)
        elif train is not None and train.windows is not None:
            long = int((train.windows > 1).sum())
            notices.append(
                f"{name}: of {many(len(train), 'text')} to learn from, {long:,} {'is' if long == 1 else 'are'} longer "
                f"than the {encoded.context} tokens that are read at once: read in up to {int(train.windows.max())} "
                f"windows, {_POOLED[windows]}; {_cost_of_windows(train, encoded.context)}"
            )
    return notices


def _word_window_notices(name: str, encoded: EncodedTask) -> list[str]:
    """Tell of sentences that are read in several windows of whole words, of which each begins with known ones."""
    told = []
    for split, data in encoded.splits.items():
        assert data.windows is not None, "those of words are always counted"
        if long := int((data.windows > 1).sum()):
            twice = ", of which each holds the text twice" if encoded.task.shape == TOKENS else ""
            which = f"{long:,} of {many(len(data), 'sentence')} {'is' if long == 1 else 'are'}"
            told.append(
                f"{name} {split}: {which} read in up to {int(data.windows.max())} windows of {encoded.context} tokens"
                f"{twice}; every word is labelled"
            )
    return told


def _cost_of_windows(train: EncodedSplit, context: int) -> str:
    """Return how much more is read in windows than of the first of each text, and how that is left."""
    lengths = np.diff(train.offsets)
    in_a_window = len(lengths) // int(train.windows.sum()) if train.windows is not None else len(lengths) // len(train)
    firsts = train.begins[:-1, None] + np.arange(in_a_window)
    whole, first = int(lengths.sum()), int(lengths[firsts].sum())
    return (
        f"that is {round(whole / len(train)):,} tokens a text in place of {round(first / len(train)):,}, "
        f"{whole / first:.1f} times as much to read; `changes=['finetuning.windows=off']` cuts texts to {context}"
    )
