"""Deduplication: documents that are the same text again (exact hash), or nearly (MinHash).

Near duplicates are found by MinHash over runs of five tokens: a sketch of 120 numbers a document, cut into 24 bands of
five. Documents that share a band are compared by their whole sketches, whose agreement estimates the share of runs they
have in common (Jaccard). The sketches lie on disk. Of one band at a time the documents are dealt to files by their
hashes, so that those that share it come together, and each file is sorted alone: the memory that this takes does not
grow with the number of documents.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.files import make_folder, not_written, reserve

RUN = 5
BANDS, ROWS = 24, 5
NUMBERS = BANDS * ROWS
SEED = 1
SKETCH_AT_ONCE = 10_000
NEAR = 0.8  # share of common runs from which a document counts as a near duplicate
DIGEST_BYTES = 16
TOO_SHORT = np.uint32(np.iinfo(np.uint32).max)  # every number of a sketch of fewer than five tokens

AT_ONCE = 1 << 18  # documents of which something is held in memory for a while

Sketches = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.uint64]


def digest(text: str) -> bytes:
    """Return a hash of `text` that no two different texts share."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def sketch(ids: npt.NDArray[np.integer], ends: npt.NDArray[np.int64]) -> Sketches:
    """Return one MinHash sketch for each run of ids between `ends`; `TOO_SHORT` where it has no run."""
    from rensa import RMinHash

    result = np.full((len(ends), NUMBERS), TOO_SHORT, np.uint32)
    begins = np.concatenate([[0], ends[:-1]])
    long_enough = np.flatnonzero(ends - begins >= RUN)
    if not len(long_enough):
        return result
    hashes = _hash_runs(ids)
    # A run belongs to a document if it begins and ends in it.
    counts = (ends - begins)[long_enough] - (RUN - 1)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    places = np.repeat(begins[long_enough] - offsets[:-1], counts) + np.arange(offsets[-1])
    for first in range(
        0, len(long_enough), SKETCH_AT_ONCE
    ):  # the library answers with lists of numbers, which are large
        own = slice(first, first + SKETCH_AT_ONCE)
        here = offsets[first : first + SKETCH_AT_ONCE + 1]
        runs = hashes[places[here[0] : here[-1]]]
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(runs, here - here[0], NUMBERS, SEED)
        result[long_enough[own]] = np.array(matrix.to_rows(), np.uint32)
    return result


def _hash_runs(ids: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of the run of ids that begins at each place."""
    mixed = _mix(ids.astype(np.uint64))
    hashes = np.zeros(len(ids) - RUN + 1, np.uint64)
    for step in range(RUN):
        hashes = _mix(hashes * np.uint64(31) + mixed[step : step + len(hashes)])
    return hashes


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread the bits of each value (the finaliser of splitmix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def find_exact(digests: npt.NDArray[np.void], candidates: npt.NDArray[np.bool]) -> npt.NDArray[np.int64]:
    """Return for each candidate that repeats an earlier one the number of the first of them, else -1."""
    original = np.full(len(digests), -1, np.int64)
    places = np.flatnonzero(candidates)
    order = places[np.argsort(digests[places], kind="stable")]
    ordered = digests[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])
    begins, repeats = np.flatnonzero(is_new), np.flatnonzero(~is_new)
    original[order[repeats]] = order[begins[np.searchsorted(begins, repeats) - 1]]
    return original


class SketchIndex:
    """Sketches of documents on disk, band by band, and the near duplicates among them."""

    def __init__(self, folder: Path, documents: int) -> None:
        shape = (BANDS, documents, ROWS)
        self._folder, path = folder, folder / "sketches"
        reserve(path, int(np.prod(shape)) * TOO_SHORT.itemsize)
        self._sketches = np.memmap(path, np.uint32, "r+", shape=shape)
        self._sketches[:] = TOO_SHORT

    def add(self, documents: npt.NDArray[np.int64], sketches: Sketches) -> None:
        """Store the sketches of parts of `documents` (numbers that do not fall); parts of one document combine."""
        begins = np.flatnonzero(np.diff(documents, prepend=-1))
        own = slice(documents[0], documents[-1] + 1)
        combined = np.minimum.reduceat(sketches, begins).reshape(-1, BANDS, ROWS).swapaxes(0, 1)
        self._sketches[:, own] = np.minimum(self._sketches[:, own], combined)

    def find_near(self, candidates: npt.NDArray[np.bool]) -> npt.NDArray[np.int64]:
        """Return for each candidate document an earlier kept one that it nearly repeats, else -1."""
        original = np.full(len(candidates), -1, np.int64)
        places = np.flatnonzero(candidates)
        places = places[self._sketches[0, places, 0] != TOO_SHORT]
        for pairs in self._neighbours(places):
            for later, earlier in pairs.tolist():
                kept = earlier if original[earlier] < 0 else original[earlier]
                if original[later] < 0 and np.mean(self._sketches[:, kept] == self._sketches[:, later]) >= NEAR:
                    original[later] = kept
        return original

    def _neighbours(self, places: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """Yield pairs, later and earlier, of documents next to each other among those that share a band, in order."""
        pairs = _Files(self._folder / "pairs")
        for band in self._sketches:
            sharing = _Files(self._folder / "bands")
            count = len(places) // AT_ONCE + 1
            for first in range(0, len(places), AT_ONCE):
                own = places[first : first + AT_ONCE]
                values = _hash_rows(band[own])
                sharing.deal((values >> np.uint64(40)) * np.uint64(count) >> np.uint64(24), values, own)
            for rows in sharing.take():
                rows = rows[np.argsort(rows[:, 0], kind="stable")]
                same = np.flatnonzero(rows[1:, 0] == rows[:-1, 0])
                later, earlier = rows[same + 1, 1], rows[same, 1]
                pairs.deal(later // np.uint64(AT_ONCE), later, earlier)
        for rows in pairs.take():
            yield np.unique(rows, axis=0).astype(np.int64)


class _Files:
    """Pairs of numbers, dealt to files in a folder, each of which is small enough to be read at once."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # a kill has left it
        self._folder = folder
        self._used: set[int] = set()
        make_folder(folder)

    def deal(self, files: Numbers, *columns: npt.NDArray[Any]) -> None:
        """Append pairs of numbers, in their order, each to the file that is told by its number."""
        order = np.argsort(files, kind="stable")
        rows = np.stack(columns, axis=1, dtype=np.uint64, casting="unsafe")[order]
        numbers, begins = np.unique(files[order], return_index=True)
        for number, own in zip(numbers.tolist(), np.split(rows, begins)[1:], strict=True):
            path = self._folder / str(number)
            try:
                with path.open("ab") as file:
                    file.write(own.data)
            except OSError as error:
                raise not_written(path, error) from error
            self._used.add(number)

    def take(self) -> Iterator[npt.NDArray[np.uint64]]:
        """Yield what each file holds, in the order of their numbers, and remove them."""
        for number in sorted(self._used):
            path = self._folder / str(number)
            yield np.fromfile(path, np.uint64).reshape(-1, 2)
            path.unlink()
        self._folder.rmdir()


def _hash_rows(rows: npt.NDArray[np.uint32]) -> Numbers:
    """Return a 64-bit hash of the numbers of each document in a band."""
    values = np.zeros(len(rows), np.uint64)
    for row in rows.T:
        values = _mix(values * np.uint64(31) + row)
    return values
