"""How the base is made, from books to its folder."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from gpt1 import finetune, load_run
from tests.lessons.tools import library

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "base.py"))
TINY = ["shape.layers=1", "shape.width=16", "shape.heads=2", "shape.feed_forward=32", "shape.context=32"]
FEW = ["training.steps=3", "training.batch=4", "logging.evaluate_every=2"]


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for at, part in enumerate(library(documents=4, length=120)):
        (folder / f"book-{at}.txt").write_text(part.text)
    (tmp_path / "without.txt").write_text("book-3\n")
    return folder


def test_a_base_is_made_goes_on_where_it_was_and_is_fine_tuned_from(
    books: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = TOOL["books"]([str(books)], tmp_path / "without.txt")
    assert [Path(name).name for name in files] == ["book-0.txt", "book-1.txt", "book-2.txt"]
    settings = {"pretraining": [*TINY, *FEW], "lessons": FEW, "passages": 40}
    TOOL["make"](files, tmp_path / "base", **settings)
    assert "step 3: " in capsys.readouterr().out
    before = {path: path.read_bytes() for path in (tmp_path / "base" / "small").rglob("*") if path.is_file()}
    TOOL["make"](files, tmp_path / "base", **settings)
    assert "all 3 updates are made" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before

    base = load_run(tmp_path / "base" / "small", device="cpu")
    assert set(base.tasks) == {"similar", "damaged", "follows", "mood"}
    (tmp_path / "rows.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    run = finetune(base.path, tmp_path / "run", train=tmp_path / "rows.csv", changes=["training.steps=1"], device="cpu")
    assert list(run.tasks) == ["rows"]
