"""From text to ids by way of a table of white-space chunks: what a chunk became once, it becomes again.

Texts are cleaned, cut at blanks into chunks, and the chunks numbered by Arrow; only chunks never seen before
are split into words (see `splitting`) and turned into ids, all new ones of a batch together. The rest is
gathering rows of a flat array. Exact, because the ids of a text are the ids of its chunks one after the other,
but for two things that are handled here: newlines, which collapse, and the rare neighbours that spaCy does not
treat apart, which become one entry of the table together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpt1.base.files import require_plain, whole_file
from gpt1.base.garbage import collector_paused
from gpt1.text.cleaning import clean
from gpt1.text.splitting import Splitter

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]  # of chunks in the list of a batch's distinct chunks
Rows = npt.NDArray[np.int64]  # of the table
WordsToIds = Callable[[list[str]], list[tuple[int, ...]]]
# The ids of a stretch of text, and the codes of its outermost tokens in the risky pairs (0: in none).
# A plain tuple, because there are very many, and the garbage collector passes tuples of numbers over.
Entry = tuple[tuple[int, ...], int, int]

BATCH_BYTES = 8_000_000
# So that a process stays under a gigabyte whatever the text: the table starts afresh when it may come to hold this
# much, what was remembered of parts goes sooner, and no more than so many chunks are learned at once.
MOST_CHARACTERS = 16_000_000
MOST_CHUNKS = 900_000
MOST_PARTS = 300_000
LEARN_AT_ONCE = 100_000
# Processes tell each other what they learn while their tables are small. Later, what is new is mostly seen only once.
MOST_SHARED = 500_000
WORTH_TELLING = 1000

_NEWLINE = "\n"
_BORDER = "\0"  # parts two texts; no cleaned text holds a NUL
_WHITE_TO_BLANK = bytes.maketrans(b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f", b" " * 8)


class ChunkEncoder:
    """Encodes texts as the ids that `words_to_ids` gives for their words, remembering every chunk.

    What it learns it shares with other processes, if there are any: then it is given their `lessons`.
    """

    def __init__(
        self,
        splitter: Splitter,
        words_to_ids: WordsToIds,
        newline_ids: tuple[int, ...],
        lessons: Lessons | None = None,
    ) -> None:
        self._splitter = splitter
        self._words_to_ids = words_to_ids
        self._newline_ids = newline_ids
        self._lessons = lessons
        self._risky = np.zeros((len(splitter.codes) + 1, len(splitter.codes) + 1), bool)
        self._risky[tuple(zip(*splitter.code_pairs, strict=True))] = True
        self._reset()

    def _reset(self) -> None:
        self._rows: dict[str, int] = {}
        self._texts: list[str] = []
        self._characters = 0
        self._ids = _Growing(np.int32)
        self._starts = _Growing(np.int64)
        self._lengths = _Growing(np.int32)
        self._firsts = _Growing(np.int16)
        self._lasts = _Growing(np.int16)
        self._forget_parts()
        self._add(_lesson([_NEWLINE, _BORDER], [(self._newline_ids, 0, 0), ((), 0, 0)]))

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        """Return the ids of all `texts` (pieces, at most a million characters each) and where each text ends."""
        results: list[tuple[Ids, Offsets]] = []
        batch: list[bytes] = []
        size = 0
        try:
            for text in texts:
                batch.append(clean(text))
                size += len(batch[-1])
                if size >= BATCH_BYTES:
                    results.append(self._encode_batch(batch))
                    batch, size = [], 0
            if batch:
                results.append(self._encode_batch(batch))
        except BaseException:  # an interrupt may have left half a row in the table
            self._reset()
            raise
        ids = [ids for ids, _ in results]
        shifts = np.cumsum([0, *map(len, ids)])
        ends = [ends + shift for (_, ends), shift in zip(results, shifts, strict=False)]
        empty_ids, empty_ends = np.empty(0, np.int32), np.empty(0, np.int64)
        return np.concatenate([empty_ids, *ids]), np.concatenate([empty_ends, *ends])

    def _encode_batch(self, cleaned: list[bytes]) -> tuple[Ids, Offsets]:
        self._hear_lessons()
        border = f" {_BORDER} ".encode()
        joined = border.join([*cleaned, b"\n"]).translate(_WHITE_TO_BLANK).replace(b"\n", b" \n ")
        numbers, chunks = number_chunks(joined)
        if len(self._texts) + len(chunks) > MOST_CHUNKS or self._characters > MOST_CHARACTERS:
            self._reset()
        rows = self._look_up(chunks)
        newline, edge = chunks.index(_NEWLINE), chunks.index(_BORDER)
        # Nothing is between two blanks, and in a chunk of odd white space alone.
        filled = self._lengths.array[rows] > 0
        filled[[newline, edge]] = True
        numbers = _collapse_newlines(numbers[filled[numbers]], newline, edge)
        numbers, rows = self._join_risky(numbers, rows)
        lengths = self._lengths.array[rows][numbers]
        ends = np.cumsum(lengths, dtype=np.int64)
        shifts = self._starts.array[rows][numbers] - (ends - lengths)
        ids: Ids = self._ids.array[np.repeat(shifts, lengths) + np.arange(ends[-1])]
        return ids, ends[numbers == edge]

    def _look_up(self, chunks: list[str]) -> Rows:
        """Return the table's rows of distinct chunks, learning those it does not have."""
        rows = np.fromiter(map(self._rows.get, chunks, repeat(-1)), np.int64, len(chunks))
        new = np.flatnonzero(rows < 0)
        rows[new] = len(self._texts) + np.arange(len(new))
        with collector_paused():  # which would look again and again at very many new objects, none of them in a circle
            for begin in range(0, len(new), LEARN_AT_ONCE):
                lesson = self._learn([chunks[place] for place in new[begin : begin + LEARN_AT_ONCE]])
                self._add(lesson)
                if self._lessons and len(lesson.chunks) >= WORTH_TELLING:
                    self._lessons.tell(lesson)
        return rows

    def _hear_lessons(self) -> None:
        if self._lessons:
            with collector_paused():
                for lesson in self._lessons.hear():
                    self._add(lesson.without(self._rows))
                    if len(self._texts) > MOST_SHARED:
                        break
            if len(self._texts) > MOST_SHARED:
                self._lessons = None

    def _learn(self, chunks: list[str]) -> SharedChunks:
        if len(self._parts) > MOST_PARTS:
            self._forget_parts()
        cut = self._splitter.cut(chunks)
        known = self._parts
        self._learn_parts(list({part for parts in cut for part in parts if part not in known}))
        return _lesson(chunks, [known[parts[0]] if len(parts) == 1 else self._join(parts) for parts in cut])

    def _learn_parts(self, parts: list[str]) -> None:
        splits = self._splitter.split(parts)
        ids = self._ids_of([word for words, _, _ in splits for word in words])
        begin = 0
        for part, (words, first, last) in zip(parts, splits, strict=True):
            end = begin + len(words)
            self._parts[part] = ids[begin] if end - begin == 1 else _chained(ids[begin:end]), first, last
            begin = end

    def _ids_of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        known = self._words
        new = list({word for word in words if word not in known})
        known.update(zip(new, self._words_to_ids(new), strict=True))
        return [known[word] for word in words]

    def _join(self, parts: list[str]) -> Entry:
        """Return the entry of a chunk from those of its parts."""
        if not parts:  # odd white space alone
            return (), 0, 0
        ids: list[int] = []
        last = 0
        for part in parts:
            part_ids, part_first, part_last = self._parts[part]
            if last and (last, part_first) in self._splitter.code_pairs:
                words, first, last = self._splitter.split_together(parts)
                return _chained(self._ids_of(words)), first, last
            ids += part_ids
            last = part_last
        return tuple(ids), self._parts[parts[0]][1], last

    def _forget_parts(self) -> None:
        """Drop what speeds up learning; the table of chunks does without."""
        self._parts: dict[str, Entry] = {}
        self._words: dict[str, tuple[int, ...]] = {}

    def _add(self, lesson: SharedChunks) -> None:
        chunks = lesson.chunks
        self._starts.extend(len(self._ids.array) + np.cumsum(lesson.lengths, dtype=np.int64) - lesson.lengths)
        self._lengths.extend(lesson.lengths)
        self._ids.extend(lesson.ids)
        self._firsts.extend(lesson.firsts)
        self._lasts.extend(lesson.lasts)
        self._rows.update(zip(chunks, range(len(self._texts), len(self._texts) + len(chunks)), strict=True))
        self._texts += chunks
        self._characters += sum(map(len, chunks))

    def _join_risky(self, numbers: Numbers, rows: Rows) -> tuple[Numbers, Rows]:
        """Replace neighbours that spaCy may treat as one by a row that stands for them together, numbered anew."""
        lasts, firsts = self._lasts.array[rows], self._firsts.array[rows]
        places = np.flatnonzero((lasts > 0)[numbers[:-1]])
        places = places[self._risky[lasts[numbers[places]], firsts[numbers[places + 1]]]]
        if not len(places):
            return numbers, rows
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        joined = [" ".join([self._texts[row] for row in rows[numbers[run[0] : run[-1] + 2]]]) for run in runs]
        distinct = {text: number for number, text in enumerate(dict.fromkeys(joined), len(rows))}
        rows = np.concatenate([rows, self._look_up(list(distinct))])
        numbers[[run[0] for run in runs]] = [distinct[text] for text in joined]
        return np.delete(numbers, places + 1), rows


def _lesson(chunks: list[str], entries: list[Entry]) -> SharedChunks:
    return SharedChunks(
        chunks,
        lengths=np.array([len(ids) for ids, _, _ in entries], np.int32),
        ids=np.array([id for ids, _, _ in entries for id in ids], np.int32),
        firsts=np.array([first for _, first, _ in entries], np.int16),
        lasts=np.array([last for _, _, last in entries], np.int16),
    )


def number_chunks(joined: bytes) -> tuple[Numbers, list[str]]:
    """Cut `joined` at blanks; return for every chunk its number in the list of distinct chunks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = pa.py_buffer(np.array([0, len(joined)], np.int32))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(joined))
    encoded = pc.split_pattern(text, " ").values.dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _collapse_newlines(numbers: Numbers, newline: int, edge: int) -> Numbers:
    """Keep one newline of each run of them, and none at the edges of a text."""
    before = np.concatenate([[edge], numbers[:-1]])
    numbers = numbers[(numbers != newline) | ((before != newline) & (before != edge))]
    after = np.concatenate([numbers[1:], [edge]])
    kept: Numbers = numbers[(numbers != newline) | (after != edge)]
    return kept


def _chained(ids: list[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(ids))


class _Growing:
    """A one-dimensional array that is appended to."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._space = np.empty(1024, dtype)
        self.array = self._space[:0]

    def extend(self, values: npt.NDArray[np.generic]) -> None:
        size = len(self.array) + len(values)
        if size > len(self._space):
            grown = np.empty(2 * size, self._space.dtype)
            grown[: len(self.array)] = self.array
            self._space = grown
        self._space[len(self.array) : size] = values
        self.array = self._space[:size]


# What one process learned of chunks, told to the others that encode with the same tokenizer. A lesson is a file in a
# folder that they share, there whole or not at all. Hearing a chunk costs a tenth of learning it. Nothing hangs on who
# hears what: a chunk has the same ids whoever learned it.


@dataclass(frozen=True)
class SharedChunks:
    """Chunks (none holds a newline), and one array a fact about them: their ids are those of all, one after the other.

    `firsts` and `lasts` are the codes of a chunk's outermost tokens in the risky pairs, see `splitting`.
    """

    chunks: list[str]
    lengths: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int16]
    lasts: npt.NDArray[np.int16]

    def without(self, known: Container[str]) -> SharedChunks:
        """Return the lesson less the chunks that are known."""
        new = np.array([chunk not in known for chunk in self.chunks], bool)
        return SharedChunks(
            [chunk for chunk, wanted in zip(self.chunks, new.tolist(), strict=True) if wanted],
            self.lengths[new],
            self.ids[np.repeat(new, self.lengths)],
            self.firsts[new],
            self.lasts[new],
        )


class Lessons:
    """The lessons in a folder: each is heard once, one's own never."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heard: set[str] = set()

    def tell(self, lesson: SharedChunks) -> None:
        """Let the other processes know."""
        path = self._folder / f"{os.getpid()}-{len(self._heard)}.npz"
        self._heard.add(path.name)
        with whole_file(path) as file:
            np.savez(
                file,
                chunks=np.frombuffer("\n".join(lesson.chunks).encode(), np.uint8),
                lengths=lesson.lengths,
                ids=lesson.ids,
                firsts=lesson.firsts,
                lasts=lesson.lasts,
            )

    def hear(self) -> Iterator[SharedChunks]:
        """Yield what was told since the last time."""
        for path in self._folder.glob("*.npz"):
            if path.name not in self._heard:
                self._heard.add(path.name)
                if (lesson := _read(path)) is not None:
                    yield lesson


def _read(path: Path) -> SharedChunks | None:
    """Return a lesson; a damaged one is none, and its chunks are learned anew."""
    try:
        require_plain(path)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            chunks = stored["chunks"].tobytes().decode().split("\n")
            return SharedChunks(chunks, stored["lengths"], stored["ids"], stored["firsts"], stored["lasts"])
    except Exception:  # the libraries that open such files raise errors of many families
        return None
