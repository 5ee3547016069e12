"""Contamination: do texts of the tasks stand in the corpus? Runs of eight words, whatever the case and punctuation.

The runs of the tasks, hashed, are the index; the corpus streams past it. A run lies in one text of one example, so
a text of fewer than eight words has none and is not looked for: short sentences stand in any large corpus by chance.
A hit is a hit of 64-bit hashes; where one is shown, its first eight words were compared as words. Eight in a row may be
a turn of phrase; thirteen hardly are (the measure of the GPT-3 paper), and examples with so many are counted apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import InputError
from gpt1.base.tables import lines_of, read_rows
from gpt1.corpus.documents import HUB, TEXTS, TextSource, find_sources
from gpt1.inspection.verdict import LeakedFile, SharedWords, TextPlace
from gpt1.tasks.catalog import CATALOGUE
from gpt1.text.chunks import number_chunks
from gpt1.text.cleaning import TAME

RUN = 8
QUOTE = 13
SHOWN = 3  # examples a file
SHOWN_WORDS = 24
EXAMPLES_AT_ONCE = 10_000
# Hits that are kept with their words and place, from which the shown ones are chosen; all hits are counted.
MOST_PLACES_A_BATCH = 2_000
MOST_PLACES = 100_000


PlaceOf = Callable[[int, int, int], TextPlace]


# --- words --------------------------------------------------------------------------------------------------

# A word is a run of letters and digits, lower-cased; apostrophes are dropped, all else of ASCII and the usual marks of
# typesetting part words. Only the distinct words of a batch are hashed one by one, the rest is gathering. The hash is
# the same in every process and on every machine.

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

# Chunks that are not words come first, so that their numbers are known; a border ends a text.
_FIRST_CHUNKS = b" \n \0 "
_BLANK, _NEWLINE, _BORDER = range(3)
_MARKS = [(mark.encode(), plain.encode()) for mark, plain in {**TAME, **dict.fromkeys("«»„‚‹›•·\xa0", " ")}.items()]
_PARTING = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == 10 else 32 for byte in range(256))
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class HashedWords:
    """The words of some texts, one after the other: their hashes, and where each text's words end."""

    hashes: Hashes
    ends: Ints
    # Chunks are words, blanks, newlines and borders: how each is spelt, which ones make up the texts, and where among
    # these the words stand.
    spelling: list[str]
    chunks: npt.NDArray[np.int32]
    places: Ints

    def spell(self, begin: int, end: int) -> str:
        """Return the words from `begin` to before `end`, separated by blanks."""
        return " ".join(self.spelling[number].lower() for number in self.chunks[self.places[begin:end]])

    def locate(self, words: Ints) -> tuple[Ints, Ints]:
        """Return for each word the text it belongs to and the line of that text it stands in, both from 0."""
        newlines = np.flatnonzero(self.chunks == _NEWLINE)
        text_begins = np.concatenate([[0], np.flatnonzero(self.chunks == _BORDER)])
        texts = np.searchsorted(self.ends, words, side="right")
        lines = np.searchsorted(newlines, self.places[words]) - np.searchsorted(newlines, text_begins[texts])
        return texts, lines

    def runs(self, length: int) -> tuple[Hashes, Ints]:
        """Return the hash of every run of so many words that lies in one text, and the word it begins with."""
        count = max(0, len(self.hashes) - length + 1)
        runs = np.zeros(count, np.uint64)
        for step in range(length):
            runs = runs * _MULTIPLIER + self.hashes[step : step + count]
        sizes = np.diff(self.ends, prepend=0)
        begins = np.flatnonzero(np.arange(count) + length <= np.repeat(self.ends, sizes)[:count])
        return runs[begins], begins


def hash_words(texts: Sequence[str]) -> HashedWords:
    """Cut texts into words and hash them."""
    numbers, spelling = number_chunks(_FIRST_CHUNKS + b"".join(_plain(text) + b" \0 " for text in texts))
    chunks = numbers[_FIRST_CHUNKS.count(b" ") : -1]
    hashes = np.array([_hash(chunk) for chunk in spelling], np.uint64)
    places = np.flatnonzero(chunks > _BORDER)
    ends = np.searchsorted(places, np.flatnonzero(chunks == _BORDER))
    return HashedWords(hashes[chunks[places]], ends, spelling, chunks, places)


def _plain(text: str) -> bytes:
    raw = text.encode(errors="replace")  # half a surrogate pair, which JSON may hold, is no part of a word
    if not raw.isascii():
        for mark, plain in _MARKS:
            raw = raw.replace(mark, plain)
    return raw.translate(_PARTING, b"'").replace(b"\n", b" \n ")


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.lower().encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class TaskRow:
    """One row of a task file: where it stands, and its texts."""

    file: int
    position: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class TaskTexts:
    """The examples of task files and their runs: the `distinct` hashes, sorted, and where every run stands."""

    files: tuple[str, ...]
    examples: tuple[TaskRow, ...]
    distinct: Hashes
    run_number: Ints  # of each run, its number among the distinct ones
    example_of: Ints  # of each run, the example it stands in
    begins: Ints  # of each run, the number of its first word among those of all examples


@dataclass(frozen=True)
class Match:
    """Where in a batch of corpus parts a run was met first, and its words there."""

    run: int
    part: int
    line: int
    words: str


@dataclass(frozen=True)
class Hits:
    """The runs of the tasks that stand in a batch, and places of the first of them."""

    runs: Ints
    places: Sequence[Match]


NO_HITS = Hits(np.empty(0, np.int64), ())


# --- the tasks ----------------------------------------------------------------------------------------------


def read_task_texts(paths: Sequence[str], encoding: str) -> TaskTexts:
    """Read the examples of task files and folders: every row of a table, every line of a text."""
    found = {source.name: source for path in paths for source in _task_files(path)}
    sources = list(found.values())
    examples = [
        TaskRow(number, position, texts)
        for number, source in enumerate(sources)
        for position, texts in _read(source, encoding)
    ]
    hashes, example_of, begins = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    words_before = 0
    for first in range(0, len(examples), EXAMPLES_AT_ONCE):
        some = examples[first : first + EXAMPLES_AT_ONCE]
        words = hash_words([text for example in some for text in example.texts])
        some_hashes, some_begins = words.runs(RUN)
        texts, _ = words.locate(some_begins)
        example_of_text = np.repeat(np.arange(first, first + len(some)), [len(example.texts) for example in some])
        hashes.append(some_hashes)
        example_of.append(example_of_text[texts])
        begins.append(words_before + some_begins)
        words_before += len(words.hashes)
    distinct, run_number = np.unique(np.concatenate(hashes), return_inverse=True)
    return TaskTexts(
        files=tuple(source.name for source in sources),
        examples=tuple(examples),
        distinct=distinct,
        run_number=run_number,
        example_of=np.concatenate(example_of),
        begins=np.concatenate(begins),
    )


def _task_files(path: str) -> Sequence[TextSource]:
    """Return the files that a path stands for; of a folder with tables only those, not the notes beside them."""
    if path in CATALOGUE and not Path(path).exists():
        raise InputError(f"where are the files of task '{path}'? Give their folder with `against=DIR/{path}`")
    if path.startswith(HUB):
        raise InputError(f"{path} cannot be compared with; save it as a file and give that with `against`")
    sources = find_sources([path], field="").sources  # with a field named, tables are not left out
    return [source for source in sources if source.format not in TEXTS] or sources


def _read(source: TextSource, encoding: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if source.format in TEXTS:
        for number, line in enumerate(lines_of(source.name, encoding), 1):
            if not line.isspace():
                yield f"line {number}", (line,)
        return
    word = "line" if source.format == "jsonl" else "row"
    for number, row in read_rows(source.name, encoding=encoding):
        yield f"{word} {number}", tuple(_strings(list(row.values())))


def _strings(values: Sequence[Any]) -> Iterator[str]:
    """Yield the strings among values and the lists in them; names of labels are too short to matter."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _strings(value)


# --- the corpus ---------------------------------------------------------------------------------------------


def find_hits(words: HashedWords, distinct: Hashes) -> Hits:
    """Return which of the distinct runs stand among the words of a batch."""
    if not len(distinct):
        return NO_HITS
    runs, begins = words.runs(RUN)
    ordered = np.sort(runs)  # looking up in order is several times faster
    nearest = np.minimum(np.searchsorted(distinct, ordered), len(distinct) - 1)
    known = nearest[distinct[nearest] == ordered]
    numbers = known[np.flatnonzero(np.diff(known, prepend=-1))]
    if not len(numbers):
        return NO_HITS
    found = distinct[numbers]
    nearest = np.minimum(np.searchsorted(found, runs), len(found) - 1)
    met = np.flatnonzero(found[nearest] == runs)
    _, first = np.unique(nearest[met], return_index=True)
    shown = met[np.sort(first)[:MOST_PLACES_A_BATCH]]
    parts, part_lines = words.locate(begins[shown])
    places = [
        Match(int(numbers[nearest[hit]]), int(part), int(line), words.spell(begins[hit], begins[hit] + RUN))
        for hit, part, line in zip(shown, parts, part_lines, strict=True)
    ]
    return Hits(numbers, places)


class Leaks:
    """Collects the hits of all batches and tells what they come to for each task file."""

    def __init__(self, tasks: TaskTexts) -> None:
        self._tasks = tasks
        self._found = np.zeros(len(tasks.distinct), bool)
        self._places: dict[int, tuple[int, Match]] = {}

    def add(self, batch: int, hits: Hits) -> None:
        """Note the hits of a batch; batches come in order."""
        self._found[hits.runs] = True
        for place in hits.places:
            if place.run not in self._places and len(self._places) < MOST_PLACES:
                self._places[place.run] = (batch, place)

    def report(self, place_of: PlaceOf) -> list[LeakedFile]:
        """Return the figures of each task file; `place_of` names the place of a batch, part and line."""
        tasks = self._tasks
        found = self._found[tasks.run_number]
        runs, shared, quoted = (
            np.bincount(tasks.example_of[chosen], minlength=len(tasks.examples))
            for chosen in (slice(None), found, self._in_quotes(found))
        )
        file_of = np.array([example.file for example in tasks.examples], np.int64)
        reports: list[LeakedFile] = []
        for number, name in enumerate(tasks.files):
            own = np.flatnonzero(file_of == number)
            reports.append(
                {
                    "file": name,
                    "examples": len(own),
                    "examples_too_short": int((runs[own] == 0).sum()),
                    "examples_sharing_run": int((shared[own] > 0).sum()),
                    "examples_sharing_quote": int((quoted[own] > 0).sum()),
                    "examples_contained": int(((shared[own] == runs[own]) & (runs[own] > 0)).sum()),
                    "shown": self._show(own[np.argsort(-shared[own], kind="stable")], runs, shared, place_of),
                }
            )
        return reports

    def _in_quotes(self, found: npt.NDArray[np.bool]) -> Ints:
        """Return the runs that begin a quote: enough runs found one after the other in the same text."""
        more = QUOTE - RUN
        up_to = np.concatenate([[0], np.cumsum(found)])
        # Two texts are further apart, as the last words of a text begin no run.
        in_a_row = self._tasks.begins[more:] - self._tasks.begins[:-more] == more
        return np.flatnonzero(in_a_row & (up_to[more + 1 :] - up_to[: -more - 1] == more + 1))

    def _show(self, examples: Ints, runs: Ints, shared: Ints, place_of: PlaceOf) -> list[SharedWords]:
        """Return the longest things shared by the examples, which come in the order of how much they share."""
        shown: dict[str, SharedWords] = {}  # by the words, as many examples may be about one passage
        for example in examples[shared[examples] > 0][: 10 * SHOWN].tolist():
            stretch = self._longest_stretch(self._tasks.examples[example])
            if stretch is None or stretch[0] in shown:
                continue
            words, (batch, place) = stretch
            count = words.count(" ") + 1
            shown[words] = {
                "position": self._tasks.examples[example].position,
                "runs": int(runs[example]),
                "shared_runs": int(shared[example]),
                "words_in_a_row": count,
                "words": " ".join(words.split(" ")[:SHOWN_WORDS]) + (" ..." if count > SHOWN_WORDS else ""),
                "corpus": place_of(batch, place.part, place.line),
            }
        return sorted(shown.values(), key=lambda example: -example["words_in_a_row"])[:SHOWN]

    def _longest_stretch(self, example: TaskRow) -> tuple[str, tuple[int, Match]] | None:
        """Return the most words in a row that an example shares, and where they begin, if the words there agree."""
        words = hash_words(example.texts)
        runs, begins = words.runs(RUN)
        numbers = np.searchsorted(self._tasks.distinct, runs)
        found = np.flatnonzero(self._found[numbers])
        stretches = np.split(found, np.flatnonzero(np.diff(begins[found]) > 1) + 1)
        for stretch in sorted(stretches, key=len, reverse=True):
            begin, end = int(begins[stretch[0]]), int(begins[stretch[-1]]) + RUN
            seen = self._places.get(int(numbers[stretch[0]]))
            if seen is not None and seen[1].words == words.spell(begin, begin + RUN):
                return words.spell(begin, end), seen
        return None
