"""The page: complete, narrow, and readable when nothing or everything is wrong."""

from __future__ import annotations

import json
from pathlib import Path

from gpt1.inspection.doctor import examine
from gpt1.inspection.page import draw_page
from gpt1.inspection.verdict import percent

LINE = "The quick brown fox jumps over the lazy dog by the river every single day"


def broken_corpus(folder: Path) -> tuple[Path, Path]:
    """Write a corpus with every defect, under long names, and a task that leaked into it."""
    corpus = folder / ("a-folder-with-a-very-long-name-" * 3)
    corpus.mkdir()
    damage = "cafÃ© \ufffd \x07 \x1b[2J \ufeff \u200b \ue000 &amp; <b>bold</b> ̃ 漢字 " * 20
    for name in ("one", "two"):
        (corpus / f"{name}{'-and-a-long-file-name' * 4}.txt").write_text(f"{LINE}\n{damage}\n" * 3, "utf-8")
    (corpus / "bad.txt").write_bytes(b"\xff" * 10)
    (corpus / "empty.txt").write_text("")
    (corpus / "left-out.bin").write_text("")
    task = folder / "task.jsonl"
    task.write_text(json.dumps({"text": LINE, "label": "0"}))
    return corpus, task


def test_no_line_is_over_80_columns_and_nothing_moves_the_cursor(tmp_path: Path) -> None:
    corpus, task = broken_corpus(tmp_path)
    page = draw_page(examine([corpus], against=[task], workers=1))
    assert max(map(len, page.split("\n"))) <= 80
    assert all(character.isprintable() or character == "\n" for character in page)
    for part in (
        "Duplicates",
        "repeats",
        "lines of mojibake",
        "->",
        "undecodable",
        "left out",
        "Verdict",
        "combining tilde",
    ):
        assert part in page


def test_sections_say_how_to_get_what_was_not_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LINE)
    page = draw_page(examine([tmp_path / "a.txt"], workers=1))
    assert "give a `tokenizer`" in page
    assert "give a file or folder with `against`" in page
    assert "every file was read to its end" in page


def test_shares_read_well() -> None:
    shares = [percent(share) for share in (0, 0.00001, 0.0025, 0.025, 0.25, 1)]
    assert shares == ["0 %", "under 0.01 %", "0.25 %", "2.5 %", "25 %", "100 %"]
