"""`gpt1 demo` as a person calls it: what is refused, and in which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpt1.corpus.vocabularies import train_tokenizer
from gpt1.demo.tour import TOKENIZER
from tests.cli.tools import run
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
