"""Batches of what was found in files: how far reading is, and how a worker makes documents of them and encodes these.

An encoded batch is kept in a file of its own until the corpus is put together. The file is a pure function of the text
and the tokenizer, and it is there whole or not at all. That is what makes a preparation that was killed go on where it
was, to the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError
from gpt1.base.files import require_plain, whole_file
from gpt1.base.progress import Bar, Progress
from gpt1.base.wording import many
from gpt1.corpus.documents import (
    AnyItem,
    DocumentPart,
    Fault,
    Found,
    Item,
    Losses,
    TextSource,
    counted,
    in_portions,
    size_of,
    with_texts,
)
from gpt1.corpus.duplicates import DIGEST_BYTES, digest, sketch
from gpt1.corpus.quality import NO_SIEVE, Sieve
from gpt1.corpus.shards import id_dtype
from gpt1.text.chunks import Ids, Offsets
from gpt1.text.tokenizer import Tokenizer, Vocabulary

BATCH_CHARACTERS = 4_000_000
_ARRAYS = (
    "ids", "first", "last", "tokens", "joint", "raw_bytes", "unknown", "source", "digest", "sketch", "positions",
    "losses",
)  # fmt: skip


def in_batches(found: Iterable[AnyItem]) -> Iterator[list[AnyItem]]:
    """Group what was found into batches of a few megabytes, which hang on the files alone."""
    return in_portions(found, BATCH_CHARACTERS)


_tokenizer: Tokenizer | None = None
_sieve = NO_SIEVE
_sketching = False


def begin_worker(vocabulary: Vocabulary, sieve: Sieve, sketching: bool, lessons: Path | None) -> None:
    """Give this process the tokenizer it encodes with, and say what passes, and whether near duplicates are looked for.

    One that has such a tokenizer, and learns from nobody, keeps it with what it has learned.
    """
    global _tokenizer, _sieve, _sketching
    _sieve, _sketching = sieve, sketching
    if lessons is None and _tokenizer is not None and _tokenizer.vocabulary == vocabulary:
        return
    _tokenizer = Tokenizer(vocabulary, lessons)
    # A batch takes and frees many arrays of megabytes. glibc hands such memory back and fetches it anew, page by page,
    # until it has seen one block as large as this one freed: from then on it keeps what is smaller for the next batch.
    large = np.empty(30 << 20, np.uint8)
    del large


def encode_batch(task: tuple[Path, list[Item]]) -> tuple[int, list[Fault]]:
    """Encode one batch into its file; return the bytes of text it held, and what could not be read."""
    path, items = task
    assert _tokenizer is not None
    parts, losses = _documents(items, _sieve)
    ids, ends = _tokenizer.encode_flat([part.text for part in parts])
    raw_bytes = np.array([part.raw_bytes for part in parts], np.int64)
    with whole_file(path) as file:
        np.savez(
            file,
            ids=ids.astype(id_dtype(_tokenizer.vocab_size)),
            first=np.array([part.first for part in parts], bool),
            last=np.array([part.last for part in parts], bool),
            tokens=np.diff(ends, prepend=0),
            joint=np.array([not part.last and _tokenizer.joint(part.text) is not None for part in parts], bool),
            raw_bytes=raw_bytes,
            unknown=_count_unknown(ids, ends, _tokenizer.unknown_id),
            source=np.array([part.source for part in parts], np.int32),
            digest=np.frombuffer(b"".join(digest(part.text) for part in parts), np.uint8).reshape(-1, DIGEST_BYTES),
            sketch=sketch(ids, ends) if _sketching else np.empty(0),
            positions=_json_array([part.position for part in parts]),
            losses=_json_array(
                [
                    [asdict(fault) for fault in losses.faults],
                    [(source, reason, count) for (source, reason), count in losses.left_out.items()],
                ]
            ),
        )
    return int(raw_bytes.sum()), losses.faults


def _documents(items: Iterable[Item], sieve: Sieve) -> tuple[list[DocumentPart], Losses]:
    """Return the parts of documents in what was found, and what gave none."""
    parts, losses = list[DocumentPart](), Losses()
    for item in counted(with_texts(items, sieve), losses.left_out):
        if isinstance(item, DocumentPart):
            parts.append(item)
        else:
            losses.faults.append(item)
    return parts, losses


def _json_array(value: object) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


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


def read_losses(batches: Iterable[Path]) -> tuple[list[Path], Losses]:
    """Read what of encoded batches gave no document; return those of them that hold text, and it."""
    holding, losses = list[Path](), Losses()
    for batch in batches:
        first, own = read_batch(batch, "first", "losses")
        faults, left_out = json.loads(own.tobytes())
        losses.faults.extend(Fault(**fault) for fault in faults)
        losses.left_out.update({(source, reason): count for source, reason, count in left_out})
        if len(first):
            holding.append(batch)
    return holding, losses


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

    def read(self, batch: Sequence[Item]) -> None:
        """Note that a batch was read."""
        for item in batch:
            if item.source != self._source:
                self._finished_disk += sum(source.bytes for source in self._sources[self._source : item.source])
                self._finished_text += self._text_bytes
                self._source, self._text_bytes = item.source, 0
            self._text_bytes += item.raw_bytes if isinstance(item, DocumentPart) else size_of(item)

    def done(self, text_bytes: int) -> None:
        """Note that so many bytes of text were worked on, and move the bar."""
        self._done += text_bytes
        expansion = self._finished_text / self._finished_disk if self._finished_disk else USUAL_COMPRESSION
        inside = min(self._sources[self._source].bytes, self._text_bytes / max(expansion, 1.0))
        self._bar.update(min(0.99, (self._finished_disk + inside) / self._total), self._done)
