"""Batches of document parts: how far reading them is, and their encoding by a worker.

An encoded batch is kept in a file of its own until the corpus is put together. The file is a pure function of the text
and the tokenizer, and it is there whole or not at all. That is what makes a preparation that was killed go on where it
was, to the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError
from gpt1.base.files import require_plain, whole_file
from gpt1.base.progress import Bar, Progress
from gpt1.base.wording import many
from gpt1.corpus.documents import DocumentPart, Fault, Found, TextSource
from gpt1.corpus.duplicates import DIGEST_BYTES, digest, sketch
from gpt1.corpus.shards import id_dtype
from gpt1.text.chunks import Ids, Offsets
from gpt1.text.tokenizer import Tokenizer, Vocabulary

BATCH_CHARACTERS = 4_000_000
BATCH_PARTS = 100_000
_ARRAYS = (
    "ids", "first", "last", "tokens", "joint", "raw_bytes", "unknown", "source", "digest", "sketch", "positions",
)  # fmt: skip


def in_batches(parts: Iterable[DocumentPart | Fault], faults: list[Fault]) -> Iterator[list[DocumentPart]]:
    """Group parts into batches of a few megabytes; put faults aside.

    The batches hang on the text alone, whatever the number of workers.
    """
    batch: list[DocumentPart] = []
    characters = 0
    for part in parts:
        if isinstance(part, Fault):
            faults.append(part)
            continue
        batch.append(part)
        characters += len(part.text)
        if characters >= BATCH_CHARACTERS or len(batch) >= BATCH_PARTS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


_tokenizer: Tokenizer | None = None
_sketching = False


def begin_worker(vocabulary: Vocabulary, sketching: bool, lessons: Path | None) -> None:
    """Give this process the tokenizer it encodes with, and say whether near duplicates will be looked for.

    One that has such a tokenizer, and learns from nobody, keeps it with what it has learned.
    """
    global _tokenizer, _sketching
    _sketching = sketching
    if lessons is None and _tokenizer is not None and _tokenizer.vocabulary == vocabulary:
        return
    _tokenizer = Tokenizer(vocabulary, lessons)
    # A batch takes and frees many arrays of megabytes. glibc hands such memory back and fetches it anew, page by page,
    # until it has seen one block as large as this one freed: from then on it keeps what is smaller for the next batch.
    large = np.empty(30 << 20, np.uint8)
    del large


def encode_batch(task: tuple[Path, list[DocumentPart]]) -> int:
    """Encode one batch into its file; return the bytes of text it held."""
    path, parts = task
    assert _tokenizer is not None
    ids, ends = _tokenizer.encode_flat([part.text for part in parts])
    positions = json.dumps([part.position for part in parts]).encode()
    raw_bytes = np.array([part.raw_bytes for part in parts], np.int64)
    with whole_file(path) as file:
        np.savez(
            file,
            ids=ids.astype(id_dtype(_tokenizer.vocab_size)),
            first=np.array([part.first for part in parts]),
            last=np.array([part.last for part in parts]),
            tokens=np.diff(ends, prepend=0),
            joint=np.array([not part.last and _tokenizer.joint(part.text) is not None for part in parts]),
            raw_bytes=raw_bytes,
            unknown=_count_unknown(ids, ends, _tokenizer.unknown_id),
            source=np.array([part.source for part in parts], np.int32),
            digest=np.frombuffer(b"".join(digest(part.text) for part in parts), np.uint8).reshape(-1, DIGEST_BYTES),
            sketch=sketch(ids, ends) if _sketching else np.empty(0),
            positions=np.frombuffer(positions, np.uint8),
        )
    return int(raw_bytes.sum())


def _count_unknown(ids: Ids, ends: Offsets, unknown_id: int | None) -> npt.NDArray[np.int64]:
    if unknown_id is None:
        return np.zeros(len(ends), np.int64)
    up_to = np.concatenate([[0], np.cumsum(ids == unknown_id)])
    return np.diff(up_to[ends], prepend=0)


def check_batch(path: Path) -> bool:
    """Return True for an encoded batch that is as it was written: each array in it has a checksum."""
    try:
        read_batch(path, *_ARRAYS)
    except Exception as error:  # the libraries that open such files raise errors of many families
        raise FormatError(f"{path} is damaged: {error}") from None
    return True


def read_batch(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Read some of the arrays of an encoded batch."""
    require_plain(path)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        return [stored[name] for name in names]


def read_positions(path: Path) -> list[str]:
    """Read where in its source each part of an encoded batch stands."""
    (positions,) = read_batch(path, "positions")
    places: list[str] = json.loads(positions.tobytes())
    return places


# How much larger text is than its compressed file, for want of a better guess while the first one is read.
USUAL_COMPRESSION = 3.0


def announce(found: Found, progress: Progress) -> None:
    """Tell what will be read, and what was found but will not be."""
    size = sum(source.bytes for source in found.sources)
    progress.say(f"reading {many(len(found.sources), 'file')}, {size / 1e6:,.1f} MB on disk")
    for skipped in found.skipped[:5]:
        progress.say(f"  left out: {skipped.name} ({skipped.reason})")
    if len(found.skipped) > 5:
        progress.say(f"  left out: {len(found.skipped) - 5:,} more")


class Meter:
    """Watches parts go by and moves a bar."""

    def __init__(self, sources: Sequence[TextSource], bar: Bar) -> None:
        self._sources = sources
        self._total = max(1, sum(source.bytes for source in sources))
        self._bar = bar
        self._source = self._text_bytes = self._finished_text = self._finished_disk = self._done = 0

    def read(self, batch: Sequence[DocumentPart]) -> None:
        """Note that a batch was read."""
        for part in batch:
            if part.source != self._source:
                self._finished_disk += sum(source.bytes for source in self._sources[self._source : part.source])
                self._finished_text += self._text_bytes
                self._source, self._text_bytes = part.source, 0
            self._text_bytes += part.raw_bytes

    def done(self, text_bytes: int) -> None:
        """Note that so many bytes of text were worked on, and move the bar."""
        self._done += text_bytes
        expansion = self._finished_text / self._finished_disk if self._finished_disk else USUAL_COMPRESSION
        inside = min(self._sources[self._source].bytes, self._text_bytes / max(expansion, 1.0))
        self._bar.update(min(0.99, (self._finished_disk + inside) / self._total), self._done)
