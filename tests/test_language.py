"""tools/language.py: a base of text in another language, where little is installed, and what it is worth."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from tests.test_base import TOOLS, load_tool

ABSENT = ("spacy", "ftfy", "sklearn", "scipy", "click", "rich", "jinja2", "pyarrow", "matplotlib", "starlette")
ABSENT += ("pandas", "rensa", "zstandard", "datasets")
BARE = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({ABSENT} if sys.argv.pop(1) == "bare" else []))  # as if they were not installed
sys.path.insert(0, {str(TOOLS)!r})
runpy.run_path({str(TOOLS / "language.py")!r}, run_name="__main__")
"""
NOUNS, PARTICLES = ("영화", "배우", "결말", "음악", "장면", "감독"), ("가", "는", "도", "만")
VERBS = {"positive": ("좋았다", "재미있다", "훌륭하다"), "negative": ("지루하다", "별로였다", "아쉬웠다")}
FEW = ["--pretraining", "training.steps=3", "--finetuning", "training.steps=2"]


def reviews(label: str) -> list[str]:
    return [f"{noun}{particle} {verb}." for noun, particle, verb in product(NOUNS, PARTICLES, VERBS[label])]


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """The words of a command: text of 12 films, reviews with labels, pairs with scores."""
    rows = [{"text": text, "label": label} for label in VERBS for text in reviews(label)]
    films = ["\n".join(row["text"] for row in rows[at::12]) for at in range(12)]
    with lzma.open(tmp_path / "films.txt.xz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join(films))
    pairs = [
        {"a": one["text"], "b": other["text"], "label": 5.0 if one["label"] == other["label"] else 1.5}
        for one, other in zip(rows, rows[7:] + rows[:7], strict=True)
    ]
    for name, own in (("nsmc", rows), ("korsts", pairs)):
        (tmp_path / name).mkdir()
        for split, part in (("train", own[::2]), ("dev", own[1::2])):
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part)
            (tmp_path / name / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    words = [str(tmp_path / "films.txt.xz"), "--document", "blank", "--labels", str(tmp_path / "nsmc")]
    return [*words, "--scores", str(tmp_path / "korsts"), "--out", str(tmp_path / "base"), "--device", "cpu"]


def make(given: list[str], installed: str | None = None) -> str:
    program = [str(TOOLS / "language.py")] if installed is None else ["-c", BARE, installed]
    command = [sys.executable, *program, *given, "--rehearse", *FEW]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_base_is_made_and_asked_where_little_is_installed_and_words_are_counted_later(
    given: list[str], tmp_path: Path
) -> None:
    told = make(given, "bare")
    assert "nsmc: 72 rows to learn, 72 to judge by; not English: Hangul letters" in told
    assert "pre-training: 3 updates" in told
    assert "for later: 1 cell with counted words, since scikit-learn is not installed" in told
    assert re.search(r"korsts, pre-trained, 60 labels: pearson -?\d+\.\d, spearman -?\d+\.\d\n", told)
    for name, metric in (("nsmc", "accuracy"), ("korsts", "pearson")):
        assert f"{name}: 2 of 3 cells" in told
        assert f"{name}, pre-trained, 60 labels: {metric} " in told
        assert f"{name}, from scratch, 60 labels: {metric} " in told
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "base").rglob("*.safetensors")}
    again = make(["--init", str(tmp_path / "base" / "pretrained"), *given[3:]], "all")  # the text need not be there
    assert "nsmc: 3 of 3 cells" in again
    assert "nsmc, TF-IDF, 60 labels: accuracy " in again
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_processes_side_by_side_find_what_one_finds(given: list[str], tmp_path: Path) -> None:
    alone = scores_told(make(given))
    elsewhere = [*given[:-3], str(tmp_path / "beside"), *given[-2:]]
    beside = make([*elsewhere, "--processes", "2"])
    assert len(alone) == 6
    assert scores_told(beside) == alone
    assert "ended with" not in beside


def scores_told(told: str) -> list[str]:
    return [line for line in told.splitlines() if " 60 labels: " in line]


def test_what_cannot_be_done_is_refused_before_anything_is_made(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    tool = load_tool("language")
    with pytest.raises(InputError, match="holds 0 tables called train"):
        tool.source(tmp_path, scores=False)
    tasks = {"nsmc": tool.source(tmp_path / "nsmc", scores=False)}
    with pytest.raises(SettingError, match="layer"):
        tool.look(given[:1], tasks, tool.Settings(pretraining=["shape.layer=3"]))
    with pytest.raises(InputError, match=r"nothing\.txt"):
        tool.look([str(tmp_path / "nothing.txt")], tasks, tool.Settings())
    (tmp_path / "nsmc" / "dev.jsonl").write_bytes(b"{}\n")
    with pytest.raises(InputError, match=r"dev\.jsonl"):
        tool.look(given[:1], tasks, tool.Settings())
    assert not (tmp_path / "base").exists()
