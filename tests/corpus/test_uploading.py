"""A corpus in a store: what is read from one, what is written to one, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

from gpt1 import prepare
from gpt1.base.errors import InputError
from gpt1.base.stores import StoreError
from gpt1.corpus.documents import find_sources, is_unchanged
from gpt1.corpus.prepare import prepare_part
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    store.store.clear()
    for number in range(6):
        store.pipe(f"/books/{number}.txt", make_text(40, number).encode())
    store.pipe("/books/cover.png", b"x")
    yield store
    store.store.clear()


def contents(store: Any, folder: str) -> dict[str, bytes]:
    return {Path(name).name: store.cat_file(name) for name in store.find(folder)}


def local(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_corpus_of_a_store_is_that_of_the_same_files_here(
    memory: Any, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    memory.get("/books", str(tmp_path / "books"), recursive=True)
    here = prepare(tmp_path / "books", words_tokenizer, tmp_path / "here", workers=1)
    there = prepare("memory://books", words_tokenizer, tmp_path / "there", workers=2)
    assert here["splits"] == there["splits"]


def test_a_corpus_is_uploaded_whole_and_its_description_last(
    memory: Any, words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    put = type(memory).put_file
    monkeypatch.setattr(type(memory), "put_file", lambda self, *of, **how: (order.append(of[1]), put(self, *of, **how)))
    for _ in range(2):  # the second time all of it is there
        prepare("memory://books", words_tokenizer, tmp_path / "out", upload="memory://corpora/one/", shard_tokens=500)
    assert order[-1] == "/corpora/one/corpus.json"
    assert len(order) == len(set(order)) == len(local(tmp_path / "out"))
    assert contents(memory, "/corpora/one") == local(tmp_path / "out")


def test_who_puts_the_parts_together_uploads_the_corpus_and_a_part_called_again_what_is_missing(
    memory: Any, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    given: tuple[Any, ...] = ("memory://books", words_tokenizer, tmp_path / "out")
    assert prepare_part(*given, (2, 2), upload="memory://corpora", workers=1) is None
    assert contents(memory, "/corpora") == {}
    assert prepare_part(*given, (1, 2), upload="memory://corpora", workers=1) is not None
    assert contents(memory, "/corpora") == local(tmp_path / "out")
    memory.rm("/corpora/corpus.json")
    prepare_part(*given, (2, 2), upload="memory://corpora", workers=1)
    assert contents(memory, "/corpora") == local(tmp_path / "out")


def test_a_file_of_a_store_that_has_changed_is_known_by_its_size_and_time(memory: Any) -> None:
    sources = find_sources(["memory://books"]).sources
    assert all(map(is_unchanged, sources))
    assert not is_unchanged(replace(sources[0], bytes=7))
    memory.pipe("/books/0.txt", memory.cat("/books/0.txt"))
    assert not is_unchanged(sources[0])


def test_an_upload_that_was_stopped_is_done_again(
    memory: Any, words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = type(memory).put_file

    def torn(self: Any, source: str, place: str, **how: Any) -> None:
        if place.endswith("dropped.jsonl"):
            raise ConnectionResetError("gone")
        put(self, source, place, **how)

    monkeypatch.setattr(type(memory), "put_file", torn)
    with pytest.raises(StoreError, match=r"memory://corpora/dropped\.jsonl cannot be reached"):
        prepare("memory://books", words_tokenizer, tmp_path / "out", upload="memory://corpora")
    assert "corpus.json" not in contents(memory, "/corpora")
    monkeypatch.setattr(type(memory), "put_file", put)
    prepare("memory://books", words_tokenizer, tmp_path / "out", upload="memory://corpora")
    assert contents(memory, "/corpora") == local(tmp_path / "out")


def test_another_corpus_in_the_store_is_left_alone(memory: Any, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    prepare("memory://books", words_tokenizer, tmp_path / "a", upload="memory://corpora")
    before = contents(memory, "/corpora")
    with pytest.raises(InputError, match="memory://corpora holds another corpus"):
        prepare("memory://books", words_tokenizer, tmp_path / "b", upload="memory://corpora", valid=0.5)
    assert contents(memory, "/corpora") == before


def test_a_lost_connection_ends_a_preparation_that_skips_errors(
    memory: Any, words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(memory), "_open", lambda *_, **__: (_ for _ in ()).throw(TimeoutError("slow")))
    with pytest.raises(StoreError, match=r"memory:///books/0\.txt cannot be reached: TimeoutError: slow"):
        prepare("memory://books", words_tokenizer, tmp_path / "out", on_error="skip", workers=1)


def test_a_place_that_is_no_store_is_refused_before_the_work(words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(make_text(9, 1))
    with pytest.raises(InputError, match="corpora is no place in a store"):
        prepare(tmp_path / "a.txt", words_tokenizer, tmp_path / "out", upload="corpora")
    assert not (tmp_path / "out").exists()
