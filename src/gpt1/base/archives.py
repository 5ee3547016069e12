"""The bytes of a file, unpacked where it is a gz, bz2, xz or zst archive, in little memory whatever it unpacks to."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, Any

from gpt1.base.errors import DamagedFile, InputError
from gpt1.base.files import missing
from gpt1.base.stores import is_stored, open_stored

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
BLOCK_BYTES = 1 << 20
XZ_MEMORY = 1 << 28  # bytes that unpacking xz may take; four times what `xz -9` asks for


def open_bytes(path: str | Path) -> io.BufferedReader:
    """Open a file for reading its bytes, unpacked as its suffix says, whatever the number of archive members."""
    file = open_packed(path)
    if Path(path).suffix.lower() not in COMPRESSIONS:
        return file
    return io.BufferedReader(_Unpacked(path, file), BLOCK_BYTES)


def open_packed(path: str | Path) -> io.BufferedReader:
    """Open a file, here or in a store, for reading its bytes as they are, packed or not."""
    if isinstance(path, str) and is_stored(path):
        return open_stored(path)
    path = Path(path)
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise missing(path) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def byte_position(path: str | Path, at: int) -> str:
    """Return a place of a file in words: that of the bytes that are read, be it packed or not."""
    packed = Path(path).suffix.lower() in COMPRESSIONS
    return f"byte {at} of the unpacked file" if packed else f"byte {at}"


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of an archive; a fault names the archive and how far it could be read."""

    def __init__(self, path: str | Path, packed: io.BufferedReader) -> None:
        self._path, self._packed, self._at = path, packed, 0
        self._kind = Path(path).suffix.lower()
        self._stream: Any = None  # made by the first read, of which the beginning may be damaged

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._stream is None:
                if not self._packed.peek(1):  # to Python's gzip an empty archive, though no packer writes one
                    raise EOFError("the file is empty")
                self._stream = _unpacker(self._kind, self._packed)
            data = self._stream.read1(len(buffer))
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            what = "is damaged or cut short" if self._at else f"is no {self._kind} archive, or damaged at its beginning"
            message = f"the file {what} ({error}); fetch it again, or rename it if it is not packed"
            position = byte_position(self._path, self._at) if self._at else "byte 0"
            raise DamagedFile(self._path, position, message) from None
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            if self._stream is not None:
                self._stream.close()
            self._packed.close()
        super().close()


class _UnpackedXz(io.RawIOBase):
    """The unpacked bytes of an xz archive of any number of streams, in so much memory at most.

    Python's own reader takes as much as each stream asks for, and leaves out what follows them and is none.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._stream = lzma.LZMADecompressor(memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            given = b""
            if self._stream.eof:
                given = self._next_stream()
                if not given:
                    return 0
                self._stream = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
            elif self._stream.needs_input:
                given = self._packed.read(BLOCK_BYTES)
                if not given:
                    raise EOFError("it ends before its last block")
            data = self._stream.decompress(given, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bytes:
        """Return the beginning of the stream that follows one that has ended, nothing where there is none."""
        found = self._stream.unused_data.lstrip(b"\0")  # between two streams zeros may stand
        while not found:
            block = self._packed.read(BLOCK_BYTES)
            if not block:
                return b""
            found = block.lstrip(b"\0")
        return found


def _unpacker(kind: str, packed: IO[bytes]) -> Any:
    if kind == ".gz":
        return gzip.GzipFile(fileobj=packed)
    if kind == ".bz2":
        return bz2.BZ2File(packed)
    if kind == ".xz":
        return io.BufferedReader(_UnpackedXz(packed), BLOCK_BYTES)
    import pyarrow  # the zstandard library takes a file that is cut short for a whole one

    return pyarrow.CompressedInputStream(packed, "zstd")
