"""`gpt1 demo` as a person calls it: what is refused, and in which words."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gpt1.bases import catalog
from gpt1.corpus.vocabularies import train_tokenizer
from gpt1.demo.tour import TOKENIZER
from tests.cli.tools import run
from tests.demo.test_books_tour import SMALL_BOOKS
from tests.demo.test_tour import SMALL

Capture = pytest.CaptureFixture[str]
WRAPPED = """It was a bright cold day, and the boats lay side by side in the
harbour, where the fishermen were mending their nets and telling each
other of the storm that had come over the sea on the night before, so
that nobody had slept, and the lamps were lit in all the houses there.
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.demo.recipe.Plan", lambda: SMALL)
    monkeypatch.setattr("gpt1.demo.recipe.BooksPlan", lambda: SMALL_BOOKS)


def read(capsys: Capture, books: Path) -> tuple[int, str]:
    """Return the exit code of a demo with own text and what it said, which names no option of other verbs."""
    code, printed, said = run(capsys, "demo", "--text", str(books), "--out", str(books.parent / "demo"))
    assert set(re.findall(r"--[a-z-]+", said)) <= {"--out", "--text", "--seeds"}
    return code, printed + said


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    return folder


def test_seeds_are_refused_beside_text(capsys: Capture, tmp_path: Path) -> None:
    code, _, said = run(capsys, "demo", "--text", str(tmp_path), "--seeds", "3", "--out", str(tmp_path / "demo"))
    assert (code, "--seeds" in said) == (2, True)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("kind", ["--books", "--text"])
def test_without_the_libraries_of_its_page_it_says_so_before_the_work(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if the import had failed
    words = ["--books"] if kind == "--books" else ["--text", str(tmp_path)]
    code, _, said = run(capsys, "demo", *words, "--out", str(tmp_path / "demo"))
    assert (code, said) == (1, "error: a report needs jinja2: pip install 'gpt1[report]'\n")
    assert not (tmp_path / "demo").exists()


def test_text_is_refused_beside_books(capsys: Capture, tmp_path: Path) -> None:
    code, _, said = run(capsys, "demo", "--books", "--text", str(tmp_path), "--out", str(tmp_path / "demo"))
    assert (code, "--books is a demo of its own" in said) == (2, True)
    assert not (tmp_path / "demo").exists()


def test_books_without_a_base_are_refused_with_what_can_be_done(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(catalog, "PACKAGED", tmp_path / "none")
    code, _, said = run(capsys, "demo", "--books", "--out", str(tmp_path / "demo"))
    assert code == 2
    assert "this package has no base of its own" in said
    assert "the demo without --books pre-trains its own network" in said
    assert not (tmp_path / "demo").exists()


def test_books_are_shown_to_a_person_and_to_a_program(
    capsys: Capture, tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "PACKAGED", stand_in)
    command = ("demo", "--books", "--out", str(tmp_path / "demo"))
    code, printed, said = run(capsys, *command)
    assert (code, "starting from the base 'small'" in said) == (0, True)
    assert "Which of two endings finishes the sentence?" in printed
    assert "gpt1 finetune --init small" in printed
    code, printed, _ = run(capsys, *command, "--json")
    found = json.loads(printed)
    assert (code, found["base"], len(found["tasks"])) == (0, "small", 2)
    assert Path(found["report"]).is_file()


def test_nothing_that_is_said_on_the_way_names_an_option_of_another_verb(capsys: Capture, books: Path) -> None:
    (books / "one.txt").write_text(WRAPPED * 20)
    (books / "two.txt").write_text("Number 5 went to sea.\n" * 20)
    (books / "index.csv").write_text("title,year\nOne,1900\n")
    code, said = read(capsys, books)
    assert code == 0
    assert "the text looks hard-wrapped" in said
    assert "to read it, name it" in said
    code, said = read(capsys, books)
    assert (code, "all 6 updates are made\n" in said) == (0, True)
    (books / "two.txt").write_text("Number 6 went to sea.\n" * 20)
    code, said = read(capsys, books)
    assert (code, f"(rm -r {books.parent / 'demo'})" in said) == (1, True)


def test_one_long_line_gets_advice_that_can_be_followed(capsys: Capture, books: Path) -> None:
    (books / "one.txt").write_text("Number 5 went to sea in a boat. " * 50)
    code, said = read(capsys, books)
    assert (code, "add texts" in said) == (0, True)


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("old.txt", "Un café.\n".encode("latin-1"), "save the file as UTF-8"),
        ("reviews.csv", b"title,review\nBoats,I like them\n", "call the one that holds the text so"),
    ],
)
def test_what_cannot_be_read_gets_advice_that_can_be_followed(
    capsys: Capture, books: Path, name: str, content: bytes, advice: str
) -> None:
    (books / name).write_bytes(content)
    code, said = read(capsys, books)
    assert (code, advice in said) == (1, True)
    assert "rm -r" not in said  # nothing is there yet


def test_text_that_broke_since_its_vocabulary_was_learned_is_to_be_mended(capsys: Capture, books: Path) -> None:
    (books / "one.txt").write_text("Number 5 went to sea.\n" * 20)
    (books.parent / "demo").mkdir()
    train_tokenizer(books, merges=20, out=books.parent / "demo" / TOKENIZER)
    (books / "one.txt").write_bytes("Un café.\n".encode("latin-1"))
    code, said = read(capsys, books)
    assert code == 1
    assert "save the file as UTF-8; mend it\nTo begin anew, remove the folder" in said
