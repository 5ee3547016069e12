"""The rows about books that lie in the package: small, balanced, apart from each other, and to be made again."""

from __future__ import annotations

import json
import runpy
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpt1.base.errors import FormatError
from gpt1.bases.catalog import bases
from gpt1.demo import books
from gpt1.demo.books import BOOK_TASKS, COUNTS, EXCHANGE, FINISH, PASSAGES, SPLIT_BOOKS, BookRow, write_rows
from gpt1.linear.words import answer_by_words
from gpt1.tasks.readers import read_folder

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "books.py"))
MOST_BYTES = 1_000_000
FILES = [f"{task.name}/{split}.jsonl" for task in BOOK_TASKS for split in COUNTS]


def rows(name: str) -> list[BookRow]:
    return [json.loads(line) for line in (PASSAGES / name).read_text().splitlines()]


def words_of(row: BookRow) -> list[Counter[str]]:
    """Return the words of all that a row tells of sentences, in whatever order."""
    if "text" in row:
        return [Counter(row["text"].split())]
    return [Counter(f"{row['context']} {ending}".split()) for ending in row["choices"]]


def test_the_package_has_these_files_and_they_are_small() -> None:
    found = {path.relative_to(PASSAGES).as_posix(): path.stat().st_size for path in PASSAGES.rglob("*.*")}
    assert sorted(found) == sorted(FILES)
    assert sum(found.values()) <= MOST_BYTES


def test_they_are_in_what_is_installed() -> None:
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["gpt1.demo"]
    found = {path.relative_to(PASSAGES).as_posix() for pattern in packaged for path in PASSAGES.parent.glob(pattern)}
    assert found == set(FILES)


def test_words_alone_stay_near_chance() -> None:
    for task in BOOK_TASKS:
        splits = read_folder(task, PASSAGES).splits
        right = answer_by_words(task, splits["train"], splits["test"]) == [row.label for row in splits["test"]]
        assert right.mean() <= 0.55


def test_at_most_three_hundred_labels_are_learned_and_enough_are_tested() -> None:
    assert COUNTS["train"] <= 300
    assert COUNTS["test"] >= 300
    for task in BOOK_TASKS:
        found = read_folder(task, PASSAGES)
        assert {split: len(own) for split, own in found.splits.items()} == COUNTS
        assert found.notices == ()


@pytest.mark.parametrize("name", FILES)
def test_labels_and_books_are_equally_frequent(name: str) -> None:
    own = rows(name)
    books = SPLIT_BOOKS[Path(name).stem]
    pairs = Counter((row["book"], row["label"]) for row in own)
    assert pairs.keys() == {(book, label) for book in books for label in {row["label"] for row in own}}
    assert set(pairs.values()) == {len(own) // len(books) // 2}


def test_no_book_is_in_two_splits_and_no_sentence_in_two_rows() -> None:
    names = [name for own in SPLIT_BOOKS.values() for name in own]
    assert len(set(names)) == len(names) == 10
    for task in BOOK_TASKS:
        told = [
            frozenset(words.items())
            for split in COUNTS
            for row in rows(f"{task.name}/{split}.jsonl")
            for words in words_of(row)
        ]
        assert len(set(told)) == len(told)


def test_a_row_of_one_task_stands_in_no_row_of_the_other() -> None:
    whole = {
        frozenset(words_of(row)[row["label"]].items())
        for split in COUNTS
        for row in rows(f"{FINISH.name}/{split}.jsonl")
    }
    told = {frozenset(words_of(row)[0].items()) for split in COUNTS for row in rows(f"{EXCHANGE.name}/{split}.jsonl")}
    assert not whole & told


def test_texts_are_short_and_no_quotation_mark_tells_one_half_from_the_other() -> None:
    for name in FILES:
        for row in rows(name):
            assert all(10 <= words.total() <= 26 for words in words_of(row))
            assert not set('"“”()') & set(json.dumps(row, ensure_ascii=False).partition('"book"')[0].replace('"', ""))


def test_the_first_rows_are_written_as_tasks_are_read(tmp_path: Path) -> None:
    write_rows(tmp_path, {"train": 8, "dev": 4, "test": 6})
    for task in BOOK_TASKS:
        whole, few = read_folder(task, PASSAGES).splits, read_folder(task, tmp_path).splits
        assert {split: len(own) for split, own in few.items()} == {"train": 8, "dev": 4, "test": 6}
        assert all(own == whole[split][: len(own)] for split, own in few.items())


def test_a_file_of_rows_that_was_cut_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PASSAGES, tmp_path / "packaged")
    monkeypatch.setattr(books, "PASSAGES", tmp_path / "packaged")
    cut = tmp_path / "packaged" / FINISH.name / "dev.jsonl"
    cut.write_bytes(cut.read_bytes()[:-5])
    with pytest.raises(FormatError, match=r"dev\.jsonl is damaged: it holds 99 of 100 rows; install gpt1 again"):
        write_rows(tmp_path / "rows", COUNTS)


def test_no_base_that_ships_has_read_one_of_the_books() -> None:
    for base in bases():
        read = (base.path / "books.txt").read_text()
        assert [name for own in SPLIT_BOOKS.values() for name in own if name in read] == []


# ---- how they are made ----


BOOK = [
    f"{name} {deed} slowly to the {place} with a basket of {things} and was home before night."
    for name in ("Anna", "Berta", "Clara", "Dora")
    for deed in ("walked", "went", "wandered")
    for place in ("garden", "harbour", "old chapel")
    for things in ("pears", "small apples")
]


@pytest.fixture
def pool(tmp_path: Path) -> object:
    short, quoted = "She was there.", '"Come with me to the harbour before it is night, and do not wait," she said.'
    (tmp_path / "book.txt").write_text(" ".join([*BOOK, short, quoted, *BOOK[:3]]))
    return TOOL["Pool"](tmp_path / "book.txt", Random(0))


def test_every_sentence_of_a_book_that_fits_is_taken_once(pool: Any) -> None:
    assert sorted(pool.take() for _ in BOOK) == sorted(BOOK)
    with pytest.raises(IndexError):
        pool.take()


@pytest.mark.parametrize("label", [0, 1])
def test_an_ending_is_the_sentences_own_or_of_another_that_is_as_long(pool: Any, label: int) -> None:
    row = TOOL["finish"](pool, Random(0), label)
    own, other = row["choices"][label], row["choices"][1 - label]
    assert row["label"] == label
    assert f"{row['context']} {own}" in BOOK
    assert any(sentence.endswith(f" {other}") for sentence in BOOK)
    assert abs(len(own) - len(other)) <= len("small ")


def test_a_sentence_is_as_it_was_written_or_has_two_neighbours_exchanged(pool: Any) -> None:
    assert TOOL["exchange"](pool, Random(0), 1)["text"] in BOOK
    row = TOOL["exchange"](pool, Random(0), 0)
    words = row["text"].split()
    back = [" ".join([*words[:at], words[at + 1], words[at], *words[at + 2 :]]) for at in range(1, len(words) - 2)]
    assert (row["label"], row["text"] in BOOK) == ("exchanged", False)
    assert len(set(back) & set(BOOK)) == 1


def test_the_tool_makes_the_same_bytes_from_the_same_books(data: Path, tmp_path: Path) -> None:
    TOOL["write"](data / "books", tmp_path)
    assert [name for name in FILES if (tmp_path / name).read_bytes() != (PASSAGES / name).read_bytes()] == []
