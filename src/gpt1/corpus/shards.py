"""Token shards: the one format in which a corpus lies on disk, memory-mapped and never read whole.

A shard is a header (magic, version, bytes per id, counts, tokenizer fingerprint, checksum), then the ids, little-endian
and of two or four bytes, then the places where documents start. The tokens of a split are one stream: a document's
ids and one newline token, document after document, cut into shards of equal size wherever that falls.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import whole_file

MAGIC = b"gpt1tok\n"
VERSION = 1
# magic, version, bytes per id, tokens, documents, tokenizer fingerprint, sha256 of all that follows the header
HEADER = struct.Struct("<8sIIQQ32s32s")
HEADER_BYTES = 128  # so that ids begin at a round place
SUFFIX = ".tok"

Tokens = npt.NDArray[np.unsignedinteger]


def id_dtype(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """Return the smaller of the two types of ids that holds every id of a vocabulary."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


@dataclass(frozen=True)
class Shard:
    """An open shard: `ids` and `starts` (of documents, in tokens) are memory-mapped."""

    path: Path
    fingerprint: str
    checksum: str
    ids: Tokens
    starts: npt.NDArray[np.uint64]


def _layout(tokens: int, id_bytes: int, documents: int) -> tuple[int, int]:
    """Return where the starts begin (a multiple of eight) and where the file ends."""
    starts_at = -(-(HEADER_BYTES + tokens * id_bytes) // 8) * 8
    return starts_at, starts_at + 8 * documents


def open_shard(path: Path) -> Shard:
    """Open a shard without reading it; its header and its size are checked."""
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"cannot read the shard {path}: {error.strerror}") from error
    if len(header) < HEADER_BYTES or header[: len(MAGIC)] != MAGIC:
        raise FormatError(f"{path} is not a token shard")
    _, version, id_bytes, tokens, documents, fingerprint, checksum = HEADER.unpack(header[: HEADER.size])
    if version != VERSION:
        raise FormatError(f"{path} is a shard of version {version}; this program reads version {VERSION}: prepare anew")
    starts_at, end = _layout(tokens, id_bytes, documents)
    if id_bytes not in (2, 4) or size != end:
        raise FormatError(f"{path} is damaged: it has {size:,} bytes, its header asks for {end:,}; prepare it anew")
    ids = np.memmap(path, f"<u{id_bytes}", "r", HEADER_BYTES, (tokens,)) if tokens else np.empty(0, f"<u{id_bytes}")
    starts = np.memmap(path, "<u8", "r", starts_at, (documents,)) if documents else np.empty(0, "<u8")
    return Shard(path, fingerprint.hex(), checksum.hex(), ids, starts)


def verify_shard(path: Path) -> None:
    """Read a shard once through and compare its checksum."""
    wanted = open_shard(path).checksum
    found = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(HEADER_BYTES)
        while block := file.read(1 << 20):
            found.update(block)
    if found.hexdigest() != wanted:
        raise FormatError(f"{path} is damaged: its content does not match its checksum; prepare it anew")


@dataclass(frozen=True)
class Stream:
    """The tokens of a split in stretches that are made when they are needed, perhaps more than once.

    `sizes` are their numbers of tokens; `stretch(number)` returns the ids of one, and where documents begin in it.
    """

    sizes: npt.NDArray[np.int64]
    stretch: Callable[[int], tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]]


def write_shards(
    folder: Path,
    split: str,
    stream: Stream,
    dtype: np.dtype[np.unsignedinteger],
    fingerprint: str,
    shard_tokens: int,
    threads: int = 1,
) -> Iterator[tuple[dict[str, str | int], float]]:
    """Write a split as shards of `shard_tokens` tokens, each appearing only when it is whole.

    Yield for each, in order, what the corpus says of it, and the share of the shards that is written.
    """
    total = int(stream.sizes.sum())
    count = max(1, -(-total // shard_tokens))
    stretch = lru_cache(threads + 1)(stream.stretch)  # where shards are smaller than stretches
    cached = Stream(stream.sizes, stretch)

    def write(number: int) -> dict[str, str | int]:
        low, high = number * shard_tokens, min(total, (number + 1) * shard_tokens)
        return _write_shard(folder / f"{split}-{number:05}{SUFFIX}", _between(cached, low, high), dtype, fingerprint)

    pool = ThreadPoolExecutor(threads)  # threads, because hashing, copying and syncing do without Python's lock
    try:
        for number, shard in enumerate(pool.map(write, range(count)), 1):
            yield shard, number / count
    finally:
        pool.shutdown(cancel_futures=True)


def _between(stream: Stream, low: int, high: int) -> Iterator[tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]]:
    """Yield the tokens from `low` to `high`, stretch by stretch, and where documents begin, counted from `low`."""
    ends = np.cumsum(stream.sizes)
    begins = ends - stream.sizes
    for number in np.flatnonzero(np.maximum(begins, low) < np.minimum(ends, high)).tolist():
        ids, starts = stream.stretch(number)
        shift = int(begins[number]) - low
        starts = starts + shift
        yield ids[max(0, -shift) : high - low - shift], starts[(starts >= 0) & (starts < high - low)]


def _write_shard(
    path: Path,
    stretches: Iterable[tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]],
    dtype: np.dtype[np.unsignedinteger],
    fingerprint: str,
) -> dict[str, str | int]:
    tokens = 0
    starts = [np.empty(0, "<u8")]
    checksum = hashlib.sha256()
    with whole_file(path) as file:

        def put(data: bytes | memoryview) -> None:
            checksum.update(data)
            file.write(data)

        file.write(bytes(HEADER_BYTES))
        for ids, begins in stretches:
            put(np.ascontiguousarray(ids, dtype).data)
            tokens += len(ids)
            starts.append(begins.astype("<u8"))
        documents = sum(map(len, starts))
        starts_at, _ = _layout(tokens, dtype.itemsize, documents)
        put(bytes(starts_at - HEADER_BYTES - tokens * dtype.itemsize))
        put(np.concatenate(starts).tobytes())
        file.seek(0)
        digest = checksum.digest()
        file.write(HEADER.pack(MAGIC, VERSION, dtype.itemsize, tokens, documents, bytes.fromhex(fingerprint), digest))
    return {"file": path.name, "tokens": tokens, "documents": documents, "sha256": digest.hex()}


def is_shard_name(name: str) -> bool:
    """Whether a name is that of a shard in its corpus's own folder, not of a file elsewhere."""
    return name.endswith(SUFFIX) and Path(name).name == name


def shard_files(folder: Path) -> Iterator[Path]:
    """Yield the shard files of a folder in order."""
    yield from sorted(folder.glob(f"*{SUFFIX}"))
