"""All parts that were surveyed, put together: the documents they make up, where they stand, which ones repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.corpus.assembly import Documents, Parts
from gpt1.corpus.batches import read_batch, read_positions
from gpt1.corpus.documents import TextSource
from gpt1.corpus.duplicates import SketchIndex, find_exact

SHOWN = 5

Ints = npt.NDArray[np.int64]


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

    def of_document(self, document: int) -> dict[str, str]:
        """Return the file of a document and its position there, if it is not the whole file."""
        part = int(self._census.documents.begins[document])
        batch = int(np.searchsorted(self._census.batch_begins, part, side="right")) - 1
        return self._place(part, self._positions(batch)[part - self._census.batch_begins[batch]])

    def of_line(self, batch: int, part: int, line: int) -> dict[str, str]:
        """Return the file and position of a line of a part of a batch; all count from 0."""
        whole = int(self._census.batch_begins[batch]) + part
        document = self._census.documents.of_part[whole]
        before = int(self._census.part_lines[self._census.documents.begins[document] : whole].sum())
        return self._place(whole, self._positions(batch)[part] or f"line {before + line + 1}")

    def _place(self, part: int, position: str) -> dict[str, str]:
        source = self._sources[self._census.source[part]].name
        return {"source": source, "position": position} if position else {"source": source}


def find_duplicates(census: Census, batches: Sequence[Path], places: Places) -> dict[str, Any]:
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


def describe_lengths(census: Census, places: Places) -> dict[str, Any]:
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
