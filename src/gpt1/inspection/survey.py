"""What a worker sees in a batch of document parts, and what all batches come to.

Facts about every part go into a file, in the columns that `corpus.assembly.Parts` reads and some more; what is counted
over the batch as a whole comes back as a `Sighting`. Both hang on the text alone, so results never depend on the
number of workers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.corpus.assembly import Documents, Parts
from gpt1.corpus.batches import read_batch, read_positions
from gpt1.corpus.documents import DocumentPart, TextSource
from gpt1.corpus.duplicates import DIGEST_BYTES, SketchIndex, digest, find_exact, sketch
from gpt1.corpus.unwrap import STRETCH, looks_wrapped
from gpt1.inspection.leakage import Hashes, Hits, Ints, find_hits, hash_words
from gpt1.inspection.verdict import DuplicateFigures, LengthFigures, TextPlace
from gpt1.text.cleaning import TAME, clean
from gpt1.text.normal_form import is_in_parts
from gpt1.text.tokenizer import Tokenizer, Vocabulary
from gpt1.text.words import WORD_END

MOST_MENDED = 5  # lines shown, a batch
SHOWN = 5  # documents that repeat another, of each kind
CONTEXT = 24  # characters shown on either side of damage

NEWLINE = 10
_TAME_CODES = np.array([ord(character) for character in TAME], np.uint32)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>")


@dataclass(frozen=True)
class Mended:
    """A line with damaged encoding as it is and as it should be, around the damage; part and line count from 0."""

    part: int
    line: int
    before: str
    after: str


@dataclass(frozen=True)
class Sighting:
    """What was seen in one batch as a whole."""

    raw_bytes: int
    characters: dict[str, int]  # how often each stands in it
    in_parts: int  # lines with characters in parts
    mojibake_lines: int
    mended: list[Mended]  # the first different ones
    entities: Counter[str]
    tags: int
    unknown: Counter[str]  # characters that the tokenizer does not know
    hits: Hits


@dataclass(frozen=True)
class _Tools:
    tokenizer: Tokenizer | None
    known: set[str]  # the characters of the tokenizer's vocabulary
    task_runs: Hashes


_tools: _Tools | None = None


def begin_worker(vocabulary: Vocabulary | None, task_runs: Path) -> None:
    """Give this process the tokenizer it counts with, if any, and the file of runs of words it looks for."""
    global _tools
    tokens = (token.removesuffix(WORD_END) for token in vocabulary.tokens) if vocabulary else ()
    _tools = _Tools(
        tokenizer=Tokenizer(vocabulary) if vocabulary else None,
        known={token for token in tokens if len(token) == 1},
        task_runs=np.load(task_runs, mmap_mode="r"),
    )


def survey_batch(task: tuple[Path, list[DocumentPart]]) -> Sighting:
    """Write the facts about every part of a batch into its file and return what was seen in it as a whole."""
    path, parts = task
    assert _tools is not None
    texts = [part.text for part in parts]
    hashed = hash_words(texts)
    words = np.array([len(text.split()) for text in texts], np.int64)
    if _tools.tokenizer is not None:
        counts = _count_tokens(parts, texts, _tools.tokenizer)
    else:
        nothing = np.zeros(len(texts), np.int64)
        counts = {
            "tokens": words,
            "unknown": nothing,
            "joint": nothing > 0,
            "sketch": sketch(hashed.hashes, hashed.ends),
        }
    np.savez(
        path,
        allow_pickle=False,
        first=np.array([part.first for part in parts]),
        last=np.array([part.last for part in parts]),
        source=np.array([part.source for part in parts], np.int32),
        raw_bytes=np.array([part.raw_bytes for part in parts], np.int64),
        positions=np.frombuffer(json.dumps([part.position for part in parts]).encode(), np.uint8),
        words=words,
        characters=np.array([len(text) for text in texts], np.int64),
        lines=np.array([_count_lines(part) for part in parts], np.int64),
        wrapped=np.array([part.first and _is_wrapped(part.text) for part in parts]),
        digest=np.frombuffer(b"".join(map(digest, texts)), np.uint8).reshape(-1, DIGEST_BYTES),
        **counts,
    )
    unknown = _unknown_characters([texts[number] for number in np.flatnonzero(counts["unknown"])], _tools.known)
    raw_bytes = sum(part.raw_bytes for part in parts)
    return _look_at(texts, raw_bytes, unknown, find_hits(hashed, _tools.task_runs))


def _count_tokens(
    parts: Sequence[DocumentPart], texts: Sequence[str], tokenizer: Tokenizer
) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that hang on the tokenizer, as `prepare` would have them."""
    ids, ends = tokenizer.encode_flat(texts)
    unknown_so_far = np.append(0, np.cumsum(ids == tokenizer.unknown_id))
    return {
        "tokens": np.diff(ends, prepend=0),
        "unknown": np.diff(unknown_so_far[ends], prepend=0),
        "joint": np.array([not part.last and tokenizer.joint(part.text) is not None for part in parts]),
        "sketch": sketch(ids, ends),
    }


def _count_lines(part: DocumentPart) -> int:
    """Count the lines that end in a part; the last one of a document needs no newline."""
    return part.text.count("\n") + (part.last and bool(part.text) and not part.text.endswith("\n"))


def _is_wrapped(text: str) -> bool:
    # The middle of a long text: at its beginning stand titles and contents.
    middle = max(0, (len(text) - STRETCH) // 2)
    return looks_wrapped(text[middle : middle + STRETCH])


def _unknown_characters(texts: Sequence[str], known: set[str]) -> Counter[str]:
    """Count the characters of texts, as the paper's rules clean them, that are neither known nor white space."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(clean(text).decode().lower())
    return Counter({char: count for char, count in counts.items() if char not in known and not char.isspace()})


def _look_at(texts: Sequence[str], raw_bytes: int, unknown: Counter[str], hits: Hits) -> Sighting:
    joined = "\n".join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
    counts = np.bincount(codes)
    counts[NEWLINE : NEWLINE + 1] -= len(texts) - 1  # those that join the texts
    present = np.flatnonzero(counts)
    part_ends = np.cumsum([len(text) + 1 for text in texts])
    lines, mended = _find_mojibake(joined, codes, part_ends)
    entities = Counter(entity for entity in _ENTITY.findall(joined) if entity[1] == "#" or entity[1:] in html5)
    return Sighting(
        raw_bytes=raw_bytes,
        characters=dict(zip(map(chr, present), counts[present].tolist(), strict=True)),
        in_parts=sum(map(is_in_parts, joined.split("\n"))) if is_in_parts(joined) else 0,
        mojibake_lines=lines,
        mended=mended,
        entities=entities,
        tags=len(_TAG.findall(joined)) if "<" in joined else 0,
        unknown=unknown,
        hits=hits,
    )


def _find_mojibake(
    joined: str, codes: npt.NDArray[np.uint32], part_ends: npt.NDArray[np.int64]
) -> tuple[int, list[Mended]]:
    """Return how many lines ftfy's repair of encodings changes, and the first different ones."""
    from ftfy import fix_encoding

    odd = np.flatnonzero(codes > 127)
    odd = odd[~np.isin(codes[odd], _TAME_CODES)]  # with nothing else outside ASCII, ftfy sees no damage
    bounds = np.concatenate([[-1], np.flatnonzero(codes == NEWLINE), [len(codes)]])
    count = 0
    mended: list[Mended] = []
    for number in np.unique(np.searchsorted(bounds, odd) - 1):
        begin, end = int(bounds[number]) + 1, int(bounds[number + 1])
        line = joined[begin:end]
        fixed = fix_encoding(line)
        if fixed == line:
            continue
        count += 1
        before, after = _around_change(line, fixed)
        if len(mended) < MOST_MENDED and all(before != shown.before for shown in mended):
            part = int(np.searchsorted(part_ends, begin, side="right"))
            first = part_ends[part - 1] if part else 0
            line_number = int(number - (np.searchsorted(bounds, first) - 1))
            mended.append(Mended(part, line_number, before, after))
    return count, mended


def _around_change(before: str, after: str) -> tuple[str, str]:
    """Return both lines around the place where they begin to differ."""
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(after))
    shown = slice(max(0, same - CONTEXT), same + 2 * CONTEXT)
    return before[shown].strip(), after[shown].strip()


# --- all parts together: the documents they make up, where they stand, which ones repeat -------------------------


@dataclass(frozen=True)
class Census:
    """Facts about every document, one array a fact; `good` ones were read to their end and are not empty."""

    documents: Documents
    batch_begins: Ints  # the part each batch begins with
    good: npt.NDArray[np.bool]
    words: Ints
    characters: Ints
    lines: Ints
    part_lines: Ints
    wrapped: npt.NDArray[np.bool]
    source: npt.NDArray[np.int32]

    @classmethod
    def read(cls, batches: Sequence[Path]) -> Census:
        """Put the files of all batches together."""
        parts, batch_begins = Parts.read(batches)
        documents = Documents.of(parts)
        columns = [read_batch(batch, "words", "characters", "lines", "wrapped") for batch in batches]
        words, characters, lines, wrapped = (np.concatenate(column) for column in zip(*columns, strict=True))
        begins = documents.begins
        return cls(
            documents=documents,
            batch_begins=batch_begins,
            good=~documents.broken & (documents.tokens > 0),
            words=np.add.reduceat(words, begins),
            characters=np.add.reduceat(characters, begins),
            lines=np.add.reduceat(lines, begins),
            part_lines=lines,
            wrapped=wrapped[begins],
            source=parts.source,
        )


class Places:
    """Names places in the files the user gave."""

    def __init__(self, census: Census, batches: Sequence[Path], sources: Sequence[TextSource]) -> None:
        self._census, self._sources = census, sources
        self._positions = lru_cache(maxsize=16)(lambda number: read_positions(batches[number]))

    def of_document(self, document: int) -> TextPlace:
        """Return the file of a document and its position there, if it is not the whole file."""
        part = int(self._census.documents.begins[document])
        batch = int(np.searchsorted(self._census.batch_begins, part, side="right")) - 1
        return self._place(part, self._positions(batch)[part - self._census.batch_begins[batch]])

    def of_line(self, batch: int, part: int, line: int) -> TextPlace:
        """Return the file and position of a line of a part of a batch; all count from 0."""
        whole = int(self._census.batch_begins[batch]) + part
        document = self._census.documents.of_part[whole]
        before = int(self._census.part_lines[self._census.documents.begins[document] : whole].sum())
        return self._place(whole, self._positions(batch)[part] or f"line {before + line + 1}")

    def _place(self, part: int, position: str) -> TextPlace:
        source = self._sources[self._census.source[part]].name
        return {"source": source, "position": position} if position else {"source": source}


def find_duplicates(census: Census, batches: Sequence[Path], places: Places) -> DuplicateFigures:
    """Return how many documents repeat an earlier one, exactly or nearly, their share of the bytes, and the first."""
    documents = census.documents
    exact = find_exact(documents.digest, census.good)
    index = SketchIndex(batches[0].parent, len(census.good))
    for batch, begin in zip(batches, census.batch_begins, strict=False):
        (sketches,) = read_batch(batch, "sketch")
        index.add(documents.of_part[begin : begin + len(sketches)], sketches)
    near = index.find_near(census.good & (exact < 0))
    repeats = (exact >= 0) | (near >= 0)
    all_bytes = int(documents.raw_bytes[census.good].sum())
    return {
        "exact_documents": int((exact >= 0).sum()),
        "near_documents": int((near >= 0).sum()),
        "share_of_bytes": int(documents.raw_bytes[repeats].sum()) / all_bytes if all_bytes else 0.0,
        "examples": [
            {
                "kind": kind,
                "document": places.of_document(int(document)),
                "repeats": places.of_document(int(original[document])),
            }
            for kind, original in (("exact", exact), ("near", near))
            for document in np.flatnonzero(original >= 0)[:SHOWN]
        ],
    }


def describe_lengths(census: Census, places: Places) -> LengthFigures:
    """Return the spread of document lengths in words: a histogram by powers of two, and the extremes."""
    good = np.flatnonzero(census.good)
    words = census.words[good]
    powers = np.bincount(np.frexp(words)[1])  # 2^(p-1) <= words < 2^p
    shortest, longest = good[np.argmin(words)], good[np.argmax(words)]
    return {
        "shortest_words": int(census.words[shortest]),
        "shortest": places.of_document(int(shortest)),
        "median_words": int(np.median(words)),
        "longest_words": int(census.words[longest]),
        "longest": places.of_document(int(longest)),
        "histogram": [
            {"from_words": 1 << power >> 1, "to_words": (1 << power) - 1, "documents": int(powers[power])}
            for power in range(int(np.flatnonzero(powers)[0]), len(powers))
        ],
    }
