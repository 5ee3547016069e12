"""Files in a store are found, read and written as local ones are, and what a store refuses is told in words."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from gpt1.base.archives import open_bytes
from gpt1.base.errors import InputError, MissingDependency
from gpt1.base.stores import StoreError, check_stored, find_stored, is_stored, open_stored, read_stored, upload


@pytest.fixture(autouse=True)
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()


def names(place: str) -> list[str]:
    return [file.name for file in find_stored(place)]


def test_names_of_stores_are_told_from_paths() -> None:
    assert [name for name in ("s3://a/b", "gs://a", "https://a/b.txt", "memory://a") if is_stored(name)] == [
        "s3://a/b",
        "gs://a",
        "https://a/b.txt",
        "memory://a",
    ]
    assert not any(map(is_stored, ("books", "c:/books", "hub:books", "ftp://a/b", "zip://a::s3://b", Path("s3://a"))))


def test_a_file_a_folder_and_a_glob_are_found_in_order(memory: Any) -> None:
    for name in ("b/two.txt", "b/one.txt", "b/deep/er.txt", "c.txt"):
        memory.pipe(f"/a/{name}", name.encode())
    assert names("memory://a/c.txt") == ["memory:///a/c.txt"]
    assert names("memory://a/b") == [f"memory:///a/b/{name}" for name in ("deep/er.txt", "one.txt", "two.txt")]
    assert names("memory://a/*/t*.txt") == ["memory:///a/b/two.txt"]
    (file,) = find_stored("memory://a/c.txt")
    assert (file.bytes, file.mtime_ns > 0) == (5, True)
    assert open_stored(file.name).read() == b"c.txt"
    with pytest.raises(InputError, match="memory://b holds no file, or does not exist"):
        find_stored("memory://b")


def test_a_changed_file_is_seen_to_be_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    before = find_stored(f"file://{tmp_path}")
    assert before == find_stored(f"file://{tmp_path}/a.txt")
    (tmp_path / "a.txt").write_text("three")
    assert find_stored(f"file://{tmp_path}") != before


def test_a_packed_file_is_unpacked_and_an_empty_one_named(memory: Any) -> None:
    memory.pipe("/a.txt.gz", gzip.compress(b"text") * 2)
    memory.pipe("/b.txt.gz", b"")
    assert open_bytes("memory://a.txt.gz").read() == b"texttext"
    with pytest.raises(InputError, match=r"memory://b\.txt\.gz, byte 0: .*the file is empty"):
        open_bytes("memory://b.txt.gz").read()


def test_a_lost_connection_is_an_error_of_its_own(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn:
        """A file whose store goes away."""

        def read(self, size: int) -> bytes:
            raise ConnectionResetError("gone")

        def seekable(self) -> bool:
            return True

        def close(self) -> None:
            pass

    memory.pipe("/a.txt.gz", b"x")
    monkeypatch.setattr(type(memory), "open", lambda *_, **__: Torn())
    with pytest.raises(StoreError, match=r"memory://a\.txt\.gz cannot be reached: ConnectionResetError: gone"):
        open_bytes("memory://a.txt.gz").read()


@pytest.mark.parametrize("name", ["s3://key:secret@bucket/a", "https://a.example/b.txt?X-Amz-Signature=secret"])
def test_a_name_with_credentials_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(InputError, match="credentials, which would be shown") as caught:
        find_stored(name)
    assert "secret" not in str(caught.value)


def test_without_the_library_of_a_store_it_is_said_how_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(MissingDependency, match=r"az:// has no library .*adlfs.*'gpt1\[stores\]'"):
        check_stored("az://bucket/folder")
    with pytest.raises(InputError, match="books is no place in a store; one begins with s3://"):
        check_stored("books")


def test_files_are_written_in_order_and_a_folder_of_others_is_left_alone(memory: Any, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b", "a")]
    for file in files:
        file.write_text(file.name * 9)
    assert list(upload(files, "memory://new/place")) == files
    assert list(upload(files, "memory://new/place")) == files
    assert read_stored("memory://new/place/a") == b"a" * 9
    assert read_stored("memory://new/place/c") is None
    memory.pipe("/old/mine.txt", b"x")
    with pytest.raises(InputError, match=r"memory://old holds other files \(mine\.txt\)"):
        list(upload(files, "memory://old"))
    assert memory.ls("/old", detail=False) == ["/old/mine.txt"]


def test_a_file_that_arrives_cut_short_is_told(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("long")
    monkeypatch.setattr(type(memory), "put_file", lambda self, source, place: self.pipe(place, b"lo"))
    with pytest.raises(StoreError, match=r"memory://new/a is not whole: 2 of 4 bytes"):
        list(upload([tmp_path / "a"], "memory://new"))
