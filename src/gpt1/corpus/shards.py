"""Token shards: the one format in which a corpus lies on disk, memory-mapped and never read whole.

A shard is a header (magic, version, bytes per id, counts, tokenizer fingerprint, checksum), then the ids, little-endian
and of two or four bytes, then the places where documents start. The tokens of a split are one stream: a document's
ids and one newline token, document after document, cut into shards of equal size wherever that falls.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

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


class ShardWriter:
    """Writes one split as shards of `shard_tokens` tokens, each appearing only when it is whole."""

    def __init__(
        self, folder: Path, split: str, dtype: np.dtype[np.unsignedinteger], fingerprint: str, shard_tokens: int
    ) -> None:
        self._folder = folder
        self._split = split
        self._dtype = dtype
        self._fingerprint = bytes.fromhex(fingerprint)
        self._shard_tokens = shard_tokens
        self._stack = ExitStack()
        self._file: IO[bytes] | None = None
        self.shards: list[dict[str, str | int]] = []

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and (self._file is not None or not self.shards):
            self._begin_shard_if_none()
            self._end_shard()
        else:
            self._stack.__exit__(kind, error, trace)

    def write(self, ids: npt.NDArray[np.integer], starts: npt.NDArray[np.int64]) -> None:
        """Append ids to the stream; documents begin at `starts` among them."""
        done = 0
        while done < len(ids):
            self._begin_shard_if_none()
            taken = min(len(ids) - done, self._shard_tokens - self._tokens)
            here = starts[(starts >= done) & (starts < done + taken)]
            self._starts.append((here - done + self._tokens).astype("<u8"))
            self._put(np.ascontiguousarray(ids[done : done + taken], self._dtype).data)
            self._tokens += taken
            done += taken
            if self._tokens == self._shard_tokens:
                self._end_shard()

    def _begin_shard_if_none(self) -> None:
        if self._file is None:
            self._name = f"{self._split}-{len(self.shards):05}{SUFFIX}"
            self._file = self._stack.enter_context(whole_file(self._folder / self._name))
            self._file.write(bytes(HEADER_BYTES))
            self._hash = hashlib.sha256()
            self._tokens = 0
            self._starts: list[npt.NDArray[np.uint64]] = []

    def _put(self, data: bytes | memoryview) -> None:
        assert self._file is not None
        self._hash.update(data)
        self._file.write(data)

    def _end_shard(self) -> None:
        assert self._file is not None
        documents = sum(map(len, self._starts))
        starts_at, _ = _layout(self._tokens, self._dtype.itemsize, documents)
        self._put(bytes(starts_at - HEADER_BYTES - self._tokens * self._dtype.itemsize))
        for starts in self._starts:
            self._put(starts.tobytes())
        header = HEADER.pack(
            MAGIC, VERSION, self._dtype.itemsize, self._tokens, documents, self._fingerprint, self._hash.digest()
        )
        self._file.seek(0)
        self._file.write(header)
        self._file = None
        self._stack.close()
        self.shards.append(
            {"file": self._name, "tokens": self._tokens, "documents": documents, "sha256": self._hash.hexdigest()}
        )


def shard_files(folder: Path) -> Iterator[Path]:
    """Yield the shard files of a folder in order."""
    yield from sorted(folder.glob(f"*{SUFFIX}"))
