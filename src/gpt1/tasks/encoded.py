"""Encoded tasks: labelled rows turned into token sequences once, in memory and on disk.

Fine-tuning reads nothing else. Whether rows were encoded a moment ago or saved last week, the arrays are the same to
the bit, and reading them takes numpy alone. On disk a task is a folder:

    task.json        format and version, the task, context, tokenizer fingerprint and vocabulary size;
                     for every split its arrays (name, dtype, count), bytes and sha256; a checksum of all this
    SPLIT.encoded    eight bytes that name the format, then the arrays one after another, little-endian

Arrays of windows, and the version that knows them, are there only where long texts are read in windows; that of
places, with a version of its own, only where each word of a text has a label.

`task.json` stands before the splits that it names get their names: what a kill leaves is known by it, and does not fit
it. What neither is `task.json` nor named by it is nobody's to remove: a folder that holds such is never written to.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import FormatError, InputError, unknown
from gpt1.base.files import (
    is_of_format,
    make_folder,
    read_json,
    remove_temporaries,
    require_own_folder,
    require_plain,
    whole_file,
    write_json,
)
from gpt1.base.records import Count, RecordPart, Size, check_record, checksum
from gpt1.tasks.catalog import Task
from gpt1.tasks.shapes import BOTH, CHOICES, CONTEXT, LaidOut, lay_out, lay_out_words
from gpt1.tasks.tagging import NO_WORD
from gpt1.tasks.windows import LaidOutWindows, lay_out_windows, windows_of
from gpt1.text.specials import SPECIALS

if TYPE_CHECKING:  # reading an encoded task must not pull in what opens tables
    from gpt1.tasks.examples import Example

MANIFEST = "task.json"
FORMAT = "gpt1-encoded-task"
VERSION, VERSION_OF_WINDOWS, VERSION_OF_WORDS = 1, 2, 3
MAGIC = b"gpt1enc\n"  # eight bytes, so that the arrays behind it are aligned

_ARRAYS = ("offsets", "labels", "groups", "cut", "ids")  # ids last: the others have eight bytes an element
_ARRAYS_OF_WINDOWS = ("offsets", "labels", "groups", "cut", "windows", "again", "ids")
_ARRAYS_OF_WORDS = ("offsets", "labels", "places", "groups", "cut", "windows", "again", "ids")
_OUR_TEMPORARIES = re.compile(r"(task\.json|.+\.encoded)\.\d+\.tmp")  # such as a kill leaves
_BATCH = 4096  # texts handed to the tokenizer at once


_Dtype = Literal["<u2", "<u4", "<i8", "<f8"]


@dataclass(frozen=True)
class _RecordedArray(RecordPart):
    name: str
    dtype: _Dtype
    count: Count


@dataclass(frozen=True)
class _RecordedSplit(RecordPart):
    bytes: Count
    sha256: str
    arrays: list[_RecordedArray]


@dataclass(frozen=True)
class _Manifest(RecordPart):
    """What task.json holds."""

    task: Task
    context: Size
    tokenizer_fingerprint: str
    vocab_size: Size
    splits: dict[str, _RecordedSplit]


class TaskTokenizer(Protocol):
    """What encoding needs of a tokenizer."""

    @property
    def vocab_size(self) -> int:
        """How many ids there are, special tokens not counted."""

    @property
    def fingerprint(self) -> str:
        """What tells this tokenizer from every other."""

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text."""


@dataclass(frozen=True, eq=False)
class EncodedSplit:
    """The token sequences of a split, K an example, and the label of each example; all arrays are read-only.

    Where long texts are read in windows, an example has K sequences for each of its windows, window after window.
    """

    ids: NDArray[Any]  # all sequences one after another: uint16, or uint32 for a large vocabulary
    offsets: NDArray[np.int64]  # sequence s is ids[offsets[s]:offsets[s + 1]]; example i's begin at `begins[i]`
    # int64 index of class or answer, -1 for none; or float64 score, NaN for none; or int64 [examples, labels], 1 for
    # each label that an example has, else 0, and -1 in all places where it is not known which; or int64 [examples,
    # words], the index of each word's label, -1 where it is not known, and behind the last word
    labels: NDArray[Any]
    groups: NDArray[np.int64]  # index into the task's groups, -1 for none
    cut: NDArray[np.int64]  # tokens an example lost to fit the context, or the windows that it has at most
    windows: NDArray[np.int64] | None = None  # of each example; None: one each
    again: NDArray[np.int64] | None = None  # see `LaidOutWindows`: of each part of each window, one after the other
    # [examples, words]: the token of all of an example's windows at which a word's label is read, -1 behind the last
    places: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept of it on disk."""
        names = _ARRAYS if self.windows is None else _ARRAYS_OF_WINDOWS
        return {name: getattr(self, name) for name in (names if self.places is None else _ARRAYS_OF_WORDS)}

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """The first sequence of each example, and behind them how many sequences there are."""
        ends = self._window_ends
        return np.asarray(ends * ((len(self.offsets) - 1) // max(1, int(ends[-1]))))

    @cached_property
    def _window_ends(self) -> NDArray[np.int64]:
        """How many windows stand before each example, and behind them how many there are."""
        return np.arange(len(self) + 1) if self.windows is None else np.concatenate(([0], np.cumsum(self.windows)))

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which examples have a label."""
        known: NDArray[np.bool_] = ~np.isnan(self.labels) if self.labels.dtype.kind == "f" else self.labels >= 0
        if self.places is not None:
            known = known | (self.places == NO_WORD)
        return known if known.ndim == 1 else np.asarray(known.all(1))

    def sequences(self, example: int) -> list[NDArray[Any]]:
        """Return the K sequences of one example, or of each of its windows."""
        bounds = self.offsets[self.begins[example] : self.begins[example + 1] + 1]
        return [self.ids[start:end] for start, end in pairwise(bounds)]

    def first_sequences(self, example: int) -> list[NDArray[Any]]:
        """Return the first sequence of one example, or of each of its windows."""
        found = self.sequences(example)
        return found[:1] if self.windows is None else found[:: len(found) // int(self.windows[example])]

    def again_in(self, example: int) -> NDArray[np.int64]:
        """Return what the parts of one example have again in each of its windows [windows, parts]."""
        assert self.again is not None, "there are no windows"
        ends = self._window_ends
        return self.again.reshape(int(ends[-1]), -1)[ends[example] : ends[example + 1]]

    def parts(self, example: int, vocab_size: int) -> list[NDArray[Any]]:
        """Return the ids of each part of one example that is not of choices, as far as they are read, each once."""
        by_window = [_parts_of(ids, vocab_size) for ids in self.first_sequences(example)]
        if self.windows is None:
            return by_window[0]
        count = self.again_in(example).shape[1]  # of words' windows, in which a text may stand twice, the last one
        by_window = [parts[-count:] for parts in by_window]
        new = [
            [part[known:] for part, known in zip(parts, again, strict=True)]
            for parts, again in zip(by_window, self.again_in(example).tolist(), strict=True)
        ]
        return [np.concatenate(part) for part in zip(*new, strict=True)]


def _parts_of(ids: NDArray[Any], vocab_size: int) -> list[NDArray[Any]]:
    """Return what stands between the special tokens of a sequence."""
    return [ids[start + 1 : end] for start, end in pairwise(np.flatnonzero(ids >= vocab_size).tolist())]


@dataclass(frozen=True, eq=False)
class EncodedTask:
    """A task, its encoded splits, and the tokenizer and context they were made for."""

    task: Task
    context: int
    tokenizer_fingerprint: str
    vocab_size: int
    splits: dict[str, EncodedSplit]
    examples: dict[str, Sequence[Example]] = field(default_factory=dict)  # what is measured on, where rows are at hand
    train_texts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # digests, where rows were

    @property
    def has_windows(self) -> bool:
        """Whether any of its texts is read in several windows, which answer together: not those of words."""
        return not self.task.labels_words and any(split.windows is not None for split in self.splits.values())


def encode_task(
    task: Task,
    splits: Mapping[str, Sequence[Example]],
    tokenizer: TaskTokenizer,
    context: int = CONTEXT,
    *,
    windows: bool = False,
) -> EncodedTask:
    """Turn the examples of every split into token sequences; with `windows` long texts are read in several."""
    for split in splits:
        if split not in task.splits:
            raise unknown("split", split, task.splits)
    ids_of = encode_texts(_texts_of(task, chain.from_iterable(splits.values())), tokenizer)
    return EncodedTask(
        task=task,
        context=context,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=tokenizer.vocab_size,
        splits={
            split: _encode_split(task, split, splits[split], ids_of, tokenizer.vocab_size, context, windows)
            for split in task.splits
            if split in splits
        },
        # Of which mistakes are; of labelled words all, as a yardstick learns from words as they stand in the file.
        examples={name: rows for name, rows in splits.items() if name != "train" or task.labels_words},
        train_texts=text_digests(task, splits.get("train", ())),
    )


def text_digests(task: Task, examples: Sequence[Example]) -> NDArray[np.uint64]:
    """Return for each example a number that is equal where texts are, so that a training need not keep its texts."""
    from gpt1.tasks.examples import same_texts  # which whoever only loads what is encoded does without

    return np.array([_digest(texts) for texts in same_texts(task, examples)], np.uint64)


def _digest(texts: Sequence[str]) -> int:
    content = "\0".join(texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def encode_examples(
    task: Task, examples: Sequence[Example], tokenizer: TaskTokenizer, context: int, *, windows: bool = False
) -> EncodedSplit:
    """Turn examples of no split of the task's into token sequences, such as rows to be answered."""
    ids_of = encode_texts(_texts_of(task, examples), tokenizer)
    return _encode_split(task, "rows", examples, ids_of, tokenizer.vocab_size, context, windows)


def _texts_of(task: Task, examples: Iterable[Example]) -> Iterator[str]:
    """Yield what is encoded by itself: texts, or words as they stand in one."""
    for example in examples:
        yield from words_as_encoded(example.words) if task.labels_words else example.texts


def words_as_encoded(words: Sequence[str]) -> list[str]:
    """Return words as each is encoded by itself: all but the first with a blank before it, as in a text."""
    return [f" {word}" if place else word for place, word in enumerate(words)]


def encode_texts(texts: Iterable[str], tokenizer: TaskTokenizer) -> dict[str, array[int]]:
    """Encode every distinct text once: a passage of RACE comes with each of its questions."""
    distinct = list(dict.fromkeys(texts))
    ids_of = {}
    for start in range(0, len(distinct), _BATCH):
        batch = distinct[start : start + _BATCH]
        for text, ids in zip(batch, tokenizer.encode_batch(batch), strict=True):
            ids_of[text] = array("I", ids)  # a ninth of the memory of a list
    return ids_of


def _encode_split(
    task: Task,
    split: str,
    examples: Sequence[Example],
    ids_of: Mapping[str, array[int]],
    vocab_size: int,
    context: int,
    in_windows: bool,
) -> EncodedSplit:
    if task.labels_words:
        return _encode_words(task, split, examples, ids_of, vocab_size, context)
    small = vocab_size + len(SPECIALS) <= 2**16
    ids, offsets, cut = array("H" if small else "I"), array("q", [0]), array("q")
    windows, again = array("q"), array("q")
    for example in examples:
        if len(example.texts) != task.texts:  # would shift every sequence that follows
            raise InputError(f"{split}, row {example.row}: {len(example.texts)} texts, expected {task.texts}")
        parts = [ids_of[text] for text in example.texts]
        laid_out: LaidOut | LaidOutWindows
        if in_windows:
            found = windows_of(task.shape, list(map(len, parts)), context)
            laid_out = lay_out_windows(task.shape, parts, found, vocab_size=vocab_size)
            windows.append(laid_out.windows)
            again.extend(laid_out.again)
        else:
            laid_out = lay_out(task.shape, parts, vocab_size=vocab_size, context=context)
        for sequence in laid_out.sequences:
            ids.extend(sequence)
            offsets.append(len(ids))
        cut.append(laid_out.cut)
    has_windows = any(count > 1 for count in windows)
    return EncodedSplit(
        ids=_fixed(ids, "<u2" if small else "<u4"),
        offsets=_fixed(offsets, "<i8"),
        labels=_labels(task, examples),
        groups=_fixed([-1 if example.group is None else example.group for example in examples], "<i8"),
        cut=_fixed(cut, "<i8"),
        windows=_fixed(windows, "<i8") if has_windows else None,
        again=_fixed(again, "<i8") if has_windows else None,
    )


def _encode_words(
    task: Task,
    split: str,
    examples: Sequence[Example],
    ids_of: Mapping[str, array[int]],
    vocab_size: int,
    context: int,
) -> EncodedSplit:
    """Return examples of which each word has a label."""
    small = vocab_size + len(SPECIALS) <= 2**16
    ids, offsets, cut = array("H" if small else "I"), array("q", [0]), array("q")
    windows, again = array("q"), array("q")
    most = max((len(example.words) for example in examples), default=1)
    labels, places = np.full((2, len(examples), most), NO_WORD, np.int64)
    for row, example in enumerate(examples):
        if example.label is not None and len(cast(tuple[int, ...], example.label)) != len(example.words):
            raise InputError(f"{split}, row {example.row}: {len(example.words)} words and another number of labels")
        words = [ids_of[word] for word in words_as_encoded(example.words)]
        laid_out = lay_out_words(task.shape, words, vocab_size=vocab_size, context=context)
        for sequence in laid_out.sequences:
            ids.extend(sequence)
            offsets.append(len(ids))
        cut.append(laid_out.cut)
        windows.append(len(laid_out.sequences))
        again.extend(laid_out.again)
        places[row, : len(words)] = laid_out.places
        labels[row, : len(words)] = NO_WORD if example.label is None else example.label
    return EncodedSplit(
        ids=_fixed(ids, "<u2" if small else "<u4"),
        offsets=_fixed(offsets, "<i8"),
        labels=_fixed(labels, "<i8"),
        groups=_fixed(np.full(len(examples), -1), "<i8"),
        cut=_fixed(cut, "<i8"),
        windows=_fixed(windows, "<i8"),
        again=_fixed(again, "<i8"),
        places=_fixed(places, "<i8"),
    )


def _labels(task: Task, examples: Sequence[Example]) -> NDArray[Any]:
    if not task.is_multilabel:
        none, dtype = (-1, "<i8") if task.score_range is None else (np.nan, "<f8")
        return _fixed([none if example.label is None else example.label for example in examples], dtype)
    found = np.zeros((len(examples), len(task.labels)), np.int64)
    for row, example in zip(found, examples, strict=True):
        if example.label is None:
            row[:] = -1
        else:
            row[list(cast(tuple[int, ...], example.label))] = 1
    return _fixed(found, "<i8")


def choose(split: EncodedSplit, examples: Sequence[int]) -> EncodedSplit:
    """Return some examples of a split, in this order."""
    sequences = [ids for example in examples for ids in split.sequences(example)]
    return EncodedSplit(
        ids=_fixed(np.concatenate(sequences), split.ids.dtype.str),
        offsets=_fixed(np.cumsum([0, *map(len, sequences)]), "<i8"),
        labels=_fixed(split.labels[examples], split.labels.dtype.str),
        groups=_fixed(split.groups[examples], split.groups.dtype.str),
        cut=_fixed(split.cut[examples], split.cut.dtype.str),
        windows=None if split.windows is None else _fixed(split.windows[examples], "<i8"),
        again=None
        if split.windows is None
        else _fixed(np.concatenate([split.again_in(example).ravel() for example in examples]), "<i8"),
        places=None if split.places is None else _fixed(split.places[examples], "<i8"),
    )


def join(one: EncodedSplit, other: EncodedSplit) -> EncodedSplit:
    """Return the examples of two splits of a task, one after the other."""
    both = (one, other)
    windows, again = None, None
    in_windows = next((split for split in both if split.windows is not None and split.again is not None), None)
    if in_windows is not None:
        parts = len(cast(Any, in_windows.again)) // int(cast(Any, in_windows.windows).sum())
        windows = _fixed(np.concatenate([_windows_or_ones(split) for split in both]), "<i8")
        again = _fixed(np.concatenate([_again_or_none(split, parts) for split in both]), "<i8")
    return EncodedSplit(
        ids=_joined(one.ids, other.ids),
        offsets=_joined(one.offsets, one.offsets[-1] + other.offsets[1:]),
        labels=_joined(one.labels, other.labels),
        groups=_joined(one.groups, other.groups),
        cut=_joined(one.cut, other.cut),
        windows=windows,
        again=again,
    )


def _joined(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return _fixed(np.concatenate((one, other)), one.dtype.str)


def _windows_or_ones(split: EncodedSplit) -> NDArray[np.int64]:
    return np.ones(len(split), np.int64) if split.windows is None else split.windows


def _again_or_none(split: EncodedSplit, parts: int) -> NDArray[np.int64]:
    return np.zeros(len(split) * parts, np.int64) if split.again is None else split.again


def text_key(split: EncodedSplit, example: int) -> bytes:
    """Return what is equal where the whole text of two examples is, as it was encoded."""
    start, *_, end = split.offsets[split.begins[example] : split.begins[example + 1] + 1]
    return split.ids[start:end].tobytes()


def examples_by_text(encoded: EncodedTask, split: EncodedSplit) -> dict[bytes, list[int]]:
    """Return the examples of each different text, as it was encoded; of `both` a pair is the same in either order."""
    found: dict[bytes, list[int]] = {}
    for example in range(len(split)):
        if encoded.task.shape == BOTH:  # by its parts: which windows they stand in may be another in the other order
            parts = sorted(part.tobytes() for part in split.parts(example, encoded.vocab_size))
            text = split.ids.dtype.type(encoded.vocab_size).tobytes().join(parts)
        else:
            text = b"".join(ids.tobytes() for ids in split.first_sequences(example))
        found.setdefault(text, []).append(example)
    return found


def _fixed(values: Any, dtype: str) -> NDArray[Any]:
    found = np.array(values, dtype=dtype)
    found.setflags(write=False)
    return found


def save(encoded: EncodedTask, folder: Path, *, restart: bool = False) -> None:
    """Write an encoded task to a folder; the same task always gives the same bytes.

    One that the folder holds is left as it is if it is the same, and replaced only to `restart`.
    """
    make_folder(folder)
    check_folder(folder)
    if not restart and (held := _held(folder)) is not None:
        if _facts(held) != _facts(encoded):
            raise InputError(f"{folder} holds another task; choose another folder, or replace it with `restart=True`")
        return
    remove_temporaries(folder)
    with ExitStack() as whole:  # at whose end the splits get their names
        splits = {
            split: _save_split(data, whole.enter_context(whole_file(_file(folder, split))))
            for split, data in encoded.splits.items()
        }
        found = _Manifest(encoded.task, encoded.context, encoded.tokenizer_fingerprint, encoded.vocab_size, splits)
        version = VERSION_OF_WINDOWS if encoded.has_windows else VERSION
        version = VERSION_OF_WORDS if encoded.task.labels_words else version
        manifest = {"format": FORMAT, "version": version, **found.as_json()}
        _remove_splits(folder)
        write_json(folder / MANIFEST, manifest | {"checksum": checksum(manifest)})


def _remove_splits(folder: Path) -> None:
    """Remove the splits of the task in a folder, some of which a new one may not have."""
    try:
        for path in folder.iterdir():
            if _is_own_split(path):
                path.unlink()
    except OSError as error:
        raise InputError(f"cannot replace the task in {folder}: {error.strerror}") from error


def _held(folder: Path) -> EncodedTask | None:
    """Return the task that a folder holds; one that is damaged is none."""
    try:
        return load(folder) if (folder / MANIFEST).exists() else None
    except FormatError:
        return None


def _facts(encoded: EncodedTask) -> tuple[Any, ...]:
    """Return all that makes an encoded task what it is, to be compared."""
    arrays = {
        (split, name): found.tobytes() for split, data in encoded.splits.items() for name, found in data.arrays.items()
    }
    return encoded.task, encoded.context, encoded.tokenizer_fingerprint, encoded.vocab_size, arrays


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but an encoded task."""
    require_own_folder(folder, _is_ours)


def _is_ours(path: Path) -> bool:
    if path.name == MANIFEST:
        return is_of_format(path, FORMAT)
    is_temporary = path.is_file() and _OUR_TEMPORARIES.fullmatch(path.name) is not None
    return is_temporary or _is_own_split(path) or not path.exists()  # another start gave it its name, or removed it


def _is_own_split(path: Path) -> bool:
    """Whether a file is a split that the manifest beside it names; where that is damaged, whether it begins as one."""
    manifest = path.with_name(MANIFEST)
    if path.suffix != ".encoded" or not path.is_file() or not is_of_format(manifest, FORMAT):
        return False
    try:
        named = read_json(manifest, "the manifest of an encoded task").get("splits")
    except FormatError:
        return is_of_format(path, MAGIC.decode())
    return isinstance(named, dict) and path.stem in named


def _save_split(split: EncodedSplit, file: IO[bytes]) -> _RecordedSplit:
    """Write the arrays of a split and return what the manifest says of them."""
    digest = hashlib.sha256()
    size = 0
    arrays = split.arrays
    for block in (MAGIC, *(found.tobytes() for found in arrays.values())):
        file.write(block)
        digest.update(block)
        size += len(block)
    described = [_RecordedArray(name, cast(_Dtype, found.dtype.str), found.size) for name, found in arrays.items()]
    return _RecordedSplit(size, digest.hexdigest(), described)


def load(folder: Path) -> EncodedTask:
    """Read an encoded task, or say which of its files is not as it was written."""
    path = folder / MANIFEST
    manifest = read_json(path, "the manifest of an encoded task")
    if manifest.get("format") != FORMAT:
        raise FormatError(f"{path} is not the manifest of an encoded task: its format is {manifest.get('format')!r}")
    if manifest.get("version") not in (VERSION, VERSION_OF_WINDOWS, VERSION_OF_WORDS):
        known = f"{VERSION} to {VERSION_OF_WORDS}"
        raise FormatError(f"{path} has version {manifest.get('version')}, this gpt1 reads {known}; prepare it again")
    if manifest.pop("checksum", None) != checksum(manifest):
        raise FormatError(f"{path} is damaged: its checksum does not match; prepare the task again")
    found = check_record(manifest, _Manifest, path, "prepare the task again")
    if odd := [split for split in found.splits if split not in found.task.splits]:  # it becomes a name of files
        raise FormatError(f"{path} is damaged: '{odd[0]}' is no split of '{found.task.name}'; prepare the task again")
    return EncodedTask(
        task=found.task,
        context=found.context,
        tokenizer_fingerprint=found.tokenizer_fingerprint,
        vocab_size=found.vocab_size,
        splits={split: _load_split(_file(folder, split), about, found) for split, about in found.splits.items()},
    )


def _load_split(path: Path, about: _RecordedSplit, manifest: _Manifest) -> EncodedSplit:
    require_plain(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FormatError(f"{path} is missing; copy it too, or prepare the task again") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if len(data) != about.bytes:
        raise FormatError(f"{path} has {len(data)} bytes, {MANIFEST} says {about.bytes}; copy or prepare it again")
    if hashlib.sha256(data).hexdigest() != about.sha256:
        raise FormatError(f"{path} is damaged: its sha256 is not the one in {MANIFEST}; copy or prepare it again")
    arrays: dict[str, NDArray[Any]] = {}
    start = len(MAGIC)
    for described in about.arrays:
        size = described.count * np.dtype(described.dtype).itemsize
        if start + size > len(data):
            raise FormatError(f"{path} is damaged: it is shorter than {MANIFEST} says; prepare the task again")
        arrays[described.name] = np.frombuffer(data, described.dtype, described.count, start)
        start += size
    task = manifest.task
    if task.is_multilabel and "labels" in arrays and arrays["labels"].size % len(task.labels) == 0:
        arrays["labels"] = arrays["labels"].reshape(-1, len(task.labels))
    if task.labels_words and "groups" in arrays and arrays["groups"].size:
        for name in ("labels", "places"):
            if name in arrays and arrays[name].size % arrays["groups"].size == 0:
                arrays[name] = arrays[name].reshape(arrays["groups"].size, -1)
    known: tuple[str, ...] = _ARRAYS_OF_WINDOWS if "windows" in arrays else _ARRAYS
    known = _ARRAYS_OF_WORDS if task.labels_words else known
    if arrays.keys() != set(known) or not _fit(split := EncodedSplit(**arrays), manifest):
        raise FormatError(
            f"{path} is damaged: its arrays are not those of '{manifest.task.name}'; prepare the task again"
        )
    return split


def _fit(split: EncodedSplit, manifest: _Manifest) -> bool:
    """Whether the arrays of a split are those of examples of the task: as many, in their order, with known labels."""
    task = manifest.task
    examples, offsets, labels = len(split.labels), split.offsets, split.labels
    windows = examples if split.windows is None else int(split.windows.sum())
    if len(offsets) != windows * task.sequences + 1 or {len(split.groups), len(split.cut)} != {examples}:
        return False
    if split.windows is not None and not _windows_fit(split, task, windows):
        return False
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(split.ids) or ((lengths < 1) | (lengths > manifest.context)).any():
        return False
    if len(split.ids) and split.ids.max() >= manifest.vocab_size + len(SPECIALS):
        return False
    if ((split.groups < -1) | (split.groups >= len(task.groups))).any():
        return False
    if task.score_range is not None:
        return labels.dtype.kind == "f"
    if task.labels_words:
        return _words_fit(split, task)
    if task.is_multilabel:
        is_whole = labels.ndim == 2 and labels.dtype.kind == "i" and ((labels >= -1) & (labels <= 1)).all()
        return bool(is_whole and ((labels >= 0).all(1) | (labels < 0).all(1)).all())
    classes = task.choices or len(task.labels)
    return labels.dtype.kind == "i" and bool(((labels >= -1) & (labels < classes)).all())


def _words_fit(split: EncodedSplit, task: Task) -> bool:
    """Whether each word has a place among the tokens of its example, one behind the other, and a known label."""
    labels, places = split.labels, split.places
    if places is None or labels.ndim != 2 or places.shape != labels.shape or labels.dtype.kind != "i":
        return False
    tokens = np.diff(split.offsets[split.begins])
    there = places != NO_WORD
    in_order = (np.diff(np.where(there, places, np.iinfo(np.int64).max), axis=1) >= 0).all()
    inside = ((places >= NO_WORD) & (places < tokens[:, None])).all()
    known = (labels >= NO_WORD) & (labels < len(task.labels)) & (there | (labels == NO_WORD))
    return bool(in_order and inside and known.all())


def _windows_fit(split: EncodedSplit, task: Task, windows: int) -> bool:
    """Whether each example has windows, and they have nothing again that is not in them."""
    counts, again = split.windows, split.again
    if counts is None or again is None or task.shape == CHOICES or {len(counts)} != {len(split)}:
        return False
    if (counts < 1).any() or len(again) != windows * task.texts or (again < 0).any():
        return False
    lengths = np.diff(split.offsets)[:: task.sequences]
    return bool((again.reshape(windows, task.texts).sum(1) <= lengths - 1 - task.texts).all())


def _file(folder: Path, split: str) -> Path:
    return folder / f"{split}.encoded"
