"""`gpt1 lessons`, from files to a network that learned them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gpt1 import finetune
from gpt1.base.errors import InputError, SettingError
from gpt1.base.progress import Silent
from gpt1.corpus.unwrap import HARD_WRAPPED
from gpt1.lessons.examples import MAKERS
from gpt1.lessons.making import make_lessons
from gpt1.tasks.encoded import load
from gpt1.text.tokenizer import Tokenizer
from tests.lessons.tools import library

FEW = dict.fromkeys(MAKERS, 40)


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for at, part in enumerate(library(length=600)):
        (folder / f"{at}.txt").write_text(part.text)
    return folder


@pytest.fixture
def tokenizer(words_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_lessons_are_tasks_that_can_be_loaded_and_are_the_same_every_time(
    books: Path, tokenizer: Path, tmp_path: Path
) -> None:
    made = make_lessons(books, tokenizer, tmp_path / "one", counts=FEW)
    make_lessons(books, tokenizer, tmp_path / "other", counts=FEW, workers=1)
    assert list(made) == list(MAKERS)
    for name in made:
        loaded = load(tmp_path / "one" / name)
        assert loaded.task == MAKERS[name][0]
        assert len(loaded.splits["train"]) == 40
        assert 1 <= len(loaded.splits["dev"]) <= 30  # a tenth of the passages
        for file in (tmp_path / "one" / name).iterdir():
            assert file.read_bytes() == (tmp_path / "other" / name / file.name).read_bytes()


def test_a_network_learns_lessons_and_then_a_task_of_its_own(books: Path, trained: Path, tmp_path: Path) -> None:
    lessons = make_lessons(books, trained, tmp_path / "lessons", counts=FEW)
    taught = finetune(
        trained,
        tmp_path / "taught",
        encoded=list(lessons.values()),
        recipe="lessons",
        changes=["training.steps=3"],
        device="cpu",
    )
    assert set(taught.tasks) == set(MAKERS)
    rows = [f"{word} day,{label}" for word in ("good", "fine", "dull") for label in (0, 1)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows, ""]))
    run = finetune(
        taught.path, tmp_path / "own", train=tmp_path / "rows.csv", changes=["training.steps=2"], device="cpu"
    )
    assert list(run.tasks) == ["rows"]


def test_what_cannot_be_made_is_said(books: Path, tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"unknown lesson 'moods'.*mean.*'mood'"):
        make_lessons(books, tokenizer, tmp_path / "out", counts={"moods": 3})
    with pytest.raises(SettingError, match="at least 20 passages, not 3"):
        make_lessons(books, tokenizer, tmp_path / "out", passages=3)
    (tmp_path / "short.txt").write_text("It was a short story. There is no more of it.")
    with pytest.raises(InputError, match=r"the text has 0 passages of 6 sentences in a row"):
        make_lessons(tmp_path / "short.txt", tokenizer, tmp_path / "out")
    (tmp_path / "small.txt").write_text("there once was a king. he saw a ship at sea. " * 400)
    with pytest.raises(InputError, match=r"has 0 passages .* do not begin with a small letter"):
        make_lessons(tmp_path / "small.txt", tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_script_without_capitals_makes_lessons(tokenizer: Path, tmp_path: Path) -> None:
    who, what = (
        ("왕이", "배가", "아이가", "노인이", "고양이가"),
        ("산을", "바다를", "마을을", "하늘을", "영화를", "그림을"),
    )
    lines = [f"{one} 어제 {other} 오래 보았다" for one in who for other in what]
    (tmp_path / "korean.txt").write_text("\n\n".join("\n".join(lines[at:] + lines[:at]) for at in range(30)))
    asked: dict[str, Any] = {"counts": {"similar": 40}, "document": "blank"}
    similar = make_lessons(tmp_path / "korean.txt", tokenizer, tmp_path / "out", **asked)["similar"]
    assert len(similar.splits["train"].labels) == 40
    assert len(set(similar.splits["train"].labels.tolist())) > 5  # scores of all kinds of pairs


def test_a_lesson_that_the_text_has_nothing_for_is_left_out(tokenizer: Path, tmp_path: Path) -> None:
    plain = " ".join(f"The {number} men went on to the town." for number in ["two", "three", "four", "five"] * 60)
    (tmp_path / "plain.txt").write_text(plain)
    assert "mood" not in make_lessons(tmp_path / "plain.txt", tokenizer, tmp_path / "out", counts=FEW)
    assert not (tmp_path / "out" / "mood").exists()


def test_lines_that_are_broken_at_a_margin_are_told(books: Path, tokenizer: Path, tmp_path: Path) -> None:
    class Told(Silent):
        lines: ClassVar[list[str]] = []

        def say(self, line: str) -> None:
            self.lines.append(line)

    for path in books.iterdir():
        path.write_text(textwrap.fill(path.read_text(), 60))
    make_lessons(books, tokenizer, tmp_path / "joined", counts=FEW, unwrap=True, progress=Told())
    assert HARD_WRAPPED not in Told.lines
    with pytest.raises(InputError, match=r"unwrap=True"):  # hardly a line ends where a sentence does
        make_lessons(books, tokenizer, tmp_path / "broken", counts=FEW, progress=Told())
    assert HARD_WRAPPED in Told.lines
