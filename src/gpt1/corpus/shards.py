"""Token shards: the one format in which a corpus lies on disk, memory-mapped and never read whole.

A shard is a header (magic, version, bytes per id, counts, tokenizer fingerprint, checksum), then the ids, little-endian
and of two or four bytes, then the places where documents start. The tokens of a split are one stream: a document's
ids and one newline token, document after document, cut into shards of equal size wherever that falls.

The sha256 in the header is of a whole shard. What is read here and there is compared with sums of blocks, which lie in
a file of the corpus: each block is looked at once, when something in it is first read.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import require_plain, whole_file
from gpt1.base.records import Count, RecordPart, Size

MAGIC = b"gpt1tok\n"
VERSION = 1
# magic, version, bytes per id, tokens, documents, tokenizer fingerprint, sha256 of all that follows the header
HEADER = struct.Struct("<8sIIQQ32s32s")
HEADER_BYTES = 128  # so that ids begin at a round place
SUFFIX = ".tok"
BLOCK_BYTES = 1 << 16  # of what follows the header: small, for the first windows of a run fall into as many blocks
SUM = np.dtype("<u4")  # crc32, which is for damage, not malice, and twice as fast as the fastest hash

Tokens = npt.NDArray[np.unsignedinteger]


def id_dtype(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """Return the smaller of the two types of ids that holds every id of a vocabulary."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


@dataclass(frozen=True)
class RecordedShard(RecordPart):
    """What a corpus says of a shard."""

    file: str
    tokens: Count
    documents: Count
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RecordedSums(RecordPart):
    """What a corpus says of the file with the sums of its blocks."""

    file: str = ""
    block_bytes: Size
    sha256: str


@dataclass(frozen=True)
class Shard:
    """An open shard: `ids`, `starts` (of documents, in tokens) and `content`, the bytes of both, are memory-mapped."""

    path: Path
    fingerprint: str
    checksum: str
    ids: Tokens
    starts: npt.NDArray[np.uint64]
    content: npt.NDArray[np.uint8]


def _layout(tokens: int, id_bytes: int, documents: int) -> tuple[int, int]:
    """Return where the starts begin (a multiple of eight) and where the file ends."""
    starts_at = -(-(HEADER_BYTES + tokens * id_bytes) // 8) * 8
    return starts_at, starts_at + 8 * documents


def open_shard(path: Path) -> Shard:
    """Open a shard without reading it; its header and its size are checked."""
    require_plain(path)
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
    if any(header[HEADER.size :]):
        raise FormatError(f"{path} is damaged: its header ends in other bytes than zeros; prepare it anew")
    # An array, for slices of a memmap are slow; it is still mapped.
    content = np.asarray(np.memmap(path, np.uint8, "r", HEADER_BYTES)) if size > HEADER_BYTES else np.empty(0, np.uint8)
    ids = content[: tokens * id_bytes].view(f"<u{id_bytes}")
    starts = content[starts_at - HEADER_BYTES :].view("<u8")
    return Shard(path, fingerprint.hex(), checksum.hex(), ids, starts, content)


def verify_shard(path: Path) -> BlockSums:
    """Read a shard once through and compare its checksum; return the sums of its blocks."""
    shard = open_shard(path)
    found, sums = hashlib.sha256(), BlockSums()
    for first in range(0, len(shard.content), BLOCK_BYTES):
        block = shard.content[first : first + BLOCK_BYTES].data
        found.update(block)
        sums.update(block)
    if found.hexdigest() != shard.checksum:
        raise FormatError(f"{path} is damaged: its content does not match its checksum; prepare it anew")
    return sums


class BlockSums:
    """The sums of the blocks of bytes that come in pieces of any size."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._filled = BLOCK_BYTES  # of the last block

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        left = memoryview(data).cast("B")
        while left:
            if self._filled == BLOCK_BYTES:
                self._sums.append(0)
                self._filled = 0
            piece, left = left[: BLOCK_BYTES - self._filled], left[BLOCK_BYTES - self._filled :]
            self._sums[-1] = zlib.crc32(piece, self._sums[-1])
            self._filled += len(piece)

    def tobytes(self) -> bytes:
        """Return all sums as a file holds them."""
        return np.array(self._sums, SUM).tobytes()


def blocks_in(shard: Shard) -> int:
    """Return how many blocks a shard has."""
    return -(-len(shard.content) // BLOCK_BYTES)


class CheckedIds:
    """The ids of a shard, each block compared with its sum before anything in it is read for the first time.

    Without sums, as in corpora made before there were any, the whole shard is one block. Threads may read at the same
    time: at worst two of them compare the same block.
    """

    def __init__(self, shard: Shard, sums: npt.NDArray[np.uint32] | None) -> None:
        self._shard, self._sums = shard, sums
        self._ids = shard.ids
        self._block = BLOCK_BYTES if sums is not None else max(1, len(shard.content))
        self._good = np.zeros(-(-len(shard.content) // self._block), bool)

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, low: int, high: int) -> Tokens:
        """Return the ids from `low` to `high`, or to the end of the shard."""
        ids = self._ids[low:high]
        width = ids.itemsize
        first, last = low * width // self._block, ((low + len(ids)) * width - 1) // self._block
        if not self._good[first : last + 1].all():
            self._compare(first, last)
        return ids

    def compare_all(self) -> None:
        """Compare every block that was not compared yet."""
        self._compare(0, len(self._good) - 1)

    def _compare(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            if not self._good[number]:
                self._compare_one(number)
                self._good[number] = True

    def _compare_one(self, number: int) -> None:
        if self._sums is None:
            verify_shard(self._shard.path)
            return
        block = self._shard.content[number * self._block : (number + 1) * self._block]
        if zlib.crc32(block.data) != self._sums[number]:
            raise self._damage(number)

    def _damage(self, number: int) -> FormatError:
        low = HEADER_BYTES + number * self._block
        high = min(low + self._block, HEADER_BYTES + len(self._shard.content))
        return FormatError(
            f"{self._shard.path} is damaged: bytes {low:,} to {high - 1:,} (block {number + 1} of {len(self._good)}) "
            "do not match their checksum; copy the shard again from where it is whole, or make the corpus anew with "
            "`gpt1.prepare(restart=True)`"
        )


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
) -> Iterator[tuple[RecordedShard, BlockSums, float]]:
    """Write a split as shards of `shard_tokens` tokens, each appearing only when it is whole.

    Yield for each, in order, what the corpus says of it, its sums, and the share of the shards that is written.
    """
    total = int(stream.sizes.sum())
    count = max(1, -(-total // shard_tokens))
    stretch = lru_cache(threads + 1)(stream.stretch)  # where shards are smaller than stretches
    cached = Stream(stream.sizes, stretch)

    def write(number: int) -> tuple[RecordedShard, BlockSums]:
        low, high = number * shard_tokens, min(total, (number + 1) * shard_tokens)
        return _write_shard(folder / f"{split}-{number:05}{SUFFIX}", _between(cached, low, high), dtype, fingerprint)

    pool = ThreadPoolExecutor(threads)  # threads, because hashing, copying and syncing do without Python's lock
    try:
        for number, (shard, sums) in enumerate(pool.map(write, range(count)), 1):
            yield shard, sums, number / count
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
) -> tuple[RecordedShard, BlockSums]:
    tokens = 0
    starts = [np.empty(0, "<u8")]
    checksum, sums = hashlib.sha256(), BlockSums()
    with whole_file(path) as file:

        def put(data: bytes | memoryview) -> None:
            checksum.update(data)
            sums.update(data)
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
    return RecordedShard(path.name, tokens, documents, digest.hex()), sums


def is_shard_name(name: str) -> bool:
    """Whether a name is that of a shard in its corpus's own folder, not of a file elsewhere."""
    return name.endswith(SUFFIX) and Path(name).name == name


def shard_files(folder: Path) -> Iterator[Path]:
    """Yield the shard files of a folder in order."""
    yield from sorted(folder.glob(f"*{SUFFIX}"))


def write_sums(path: Path, sums: Iterable[BlockSums]) -> RecordedSums:
    """Write the sums of all blocks of the shards of a corpus, in order; return what the corpus says of them."""
    content = b"".join(one.tobytes() for one in sums)
    with whole_file(path) as file:
        file.write(content)
    return RecordedSums(file=path.name, block_bytes=BLOCK_BYTES, sha256=hashlib.sha256(content).hexdigest())


def read_sums(path: Path, recorded: RecordedSums, blocks: int) -> npt.NDArray[np.uint32]:
    """Return the sums of all `blocks` blocks of the shards of a corpus, in order."""
    again = "the same 'gpt1 prepare' as before writes it anew"
    if recorded.block_bytes != BLOCK_BYTES:
        raise FormatError(f"{path} is of blocks of {recorded.block_bytes} bytes, not {BLOCK_BYTES}; {again}")
    require_plain(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {path}, the checksums of the corpus: {error.strerror}; {again}") from error
    if hashlib.sha256(content).hexdigest() != recorded.sha256 or len(content) != blocks * SUM.itemsize:
        raise FormatError(f"{path}, the checksums of the corpus, is damaged; {again}")
    return np.frombuffer(content, SUM)
