"""Files in an object store or on a server (`s3://bucket/folder`), found, read and written through fsspec.

They are read as a stream, a few megabytes at a time, and nothing of them is kept on the disk. Credentials are those
that the library of a store finds by itself, in the environment or its own files; a name that carries some is refused,
since names are shown and kept. A connection that is lost is an error of its own kind: it must not pass for damage,
which may be left out, or for the end of a file.
"""

from __future__ import annotations

import glob
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpt1.base.errors import Gpt1Error, InputError, MissingDependency

PROTOCOLS = ("s3", "gs", "gcs", "az", "abfs", "https", "http", "file", "memory")
BLOCK_BYTES = 1 << 22  # fetched at a time

_NAME = re.compile(rf"({'|'.join(PROTOCOLS)})://")
_CREDENTIALS = re.compile(r"^\w+://[^/]*@")


class StoreError(InputError):
    """A store could not be reached, or did not do what it was asked for."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store; size and time of change tell whether it is still the one that was read."""

    name: str
    bytes: int
    mtime_ns: int


def is_stored(name: str | Path) -> bool:
    """Whether a name is that of a file in a store."""
    return isinstance(name, str) and _NAME.match(name) is not None


def find_stored(name: str) -> list[StoredFile]:
    """Return the files that a name stands for, sorted: a file, all below a folder, or what a glob matches."""
    with _told(name):
        store, path = _store(name)
        store.invalidate_cache()
        if glob.has_magic(path):
            found = store.glob(path, detail=True)
        elif store.isfile(path):
            found = {path: store.info(path)}
        else:
            found = store.find(path, detail=True)
        files = [_described(store, path, about) for path, about in found.items() if about["type"] == "file"]
    if not files:
        raise InputError(f"{name} holds no file, or does not exist")
    return sorted(files, key=lambda file: file.name)


def open_stored(name: str) -> io.BufferedReader:
    """Open a file of a store for reading its bytes."""
    with _told(name):
        store, path = _store(name)
        return io.BufferedReader(_Stored(name, store.open(path, "rb", block_size=BLOCK_BYTES)), BLOCK_BYTES)


def upload(files: Sequence[Path], folder: str) -> Iterator[Path]:
    """Write files into a folder of a store under their names, in their order; yield each when it is there as a whole.

    A folder that holds files of other names is refused.
    """
    with _told(folder):
        store, path = _store(folder)
        store.invalidate_cache()
        path = path.rstrip("/")
        there = {name.removeprefix(path).lstrip("/") for name in (store.find(path) if store.exists(path) else [])}
    if foreign := sorted(there - {file.name for file in files}):
        raise InputError(f"{folder} holds other files ({foreign[0]}); choose a new or empty folder of the store")
    for file in files:
        place = f"{path}/{file.name}"
        with _told(f"{folder}/{file.name}"):
            store.makedirs(path, exist_ok=True)
            store.put_file(str(file), place)
            store.invalidate_cache()
            size = store.info(place)["size"]
        if size != (whole := file.stat().st_size):
            raise StoreError(f"{folder}/{file.name} is not whole: {size:,} of {whole:,} bytes; upload it again")
        yield file


def read_stored(name: str) -> bytes | None:
    """Return what a small file of a store holds; None where there is none."""
    with _told(name):
        store, path = _store(name)
        store.invalidate_cache()
        return bytes(store.cat_file(path)) if store.exists(path) else None


def check_stored(name: str) -> None:
    """Refuse a name that is none of a store, or one that its library is not there for."""
    if not is_stored(name):
        known = ", ".join(f"{protocol}://" for protocol in PROTOCOLS)
        raise InputError(f"{name} is no place in a store; one begins with {known}")
    with _told(name):
        _store(name)


def _store(name: str) -> tuple[Any, str]:
    """Return the file system that a name belongs to, and its path there."""
    if _CREDENTIALS.match(name):
        raise InputError("the name of a store holds credentials, which would be shown; put them into the environment")
    if name.startswith("http") and "?" in name:
        raise InputError("an address with a query may hold credentials, which would be shown; fetch the file first")
    try:
        from fsspec.core import url_to_fs

        store, path = url_to_fs(name)
    except ImportError as error:
        protocol = name.partition(":")[0]
        raise MissingDependency(
            f"{protocol}:// has no library ({error}): pip install 'gpt1[stores]' has S3's"
        ) from None
    return store, str(path)


def _described(store: Any, path: str, about: dict[str, Any]) -> StoredFile:
    changed = next((about[name] for name in ("LastModified", "mtime", "updated", "created") if name in about), 0)
    seconds = changed.timestamp() if isinstance(changed, datetime) else changed
    mtime_ns = int(seconds * 1e9) if isinstance(seconds, int | float) else 0
    return StoredFile(str(store.unstrip_protocol(path)), int(about.get("size") or 0), mtime_ns)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Tell in words what a store refuses."""
    try:
        yield
    except Gpt1Error:
        raise
    except FileNotFoundError:
        raise InputError(f"{name} does not exist") from None
    except Exception as error:  # the libraries of stores and those below them raise errors of many families
        raise StoreError(f"{name} cannot be reached: {type(error).__name__}: {error}") from error


class _Stored(io.RawIOBase):
    """The bytes of a file of a store."""

    def __init__(self, name: str, file: Any) -> None:
        self._name, self._file = name, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with _told(self._name):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
