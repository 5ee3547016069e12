"""tools/students.py: what small networks keep, from bases to a table; a call goes on, several work side by side."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from gpt1.base.errors import InputError
from gpt1.inference.run import load_run
from tests.conftest import DEEDS, PEOPLE, THINGS
from tests.test_base import load_tool

STUDENTS = load_tool("students")
SHAPE = ("shape.layers=1", "shape.width=16", "shape.heads=2", "shape.feed_forward=32")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two tasks in the layout of the catalogue, of one text and of two: what is asked is told by who is in it."""
    dice = random.Random(0)

    def line(task: str, place: int) -> dict[str, object]:
        who = ("Ann", "Tom")[place % 2]
        texts = [f"{who} {dice.choice(DEEDS)} {dice.choice(THINGS)} {place}", f"{dice.choice(PEOPLE)} saw it"]
        return {**({"text": texts[0]} if task == "sst2" else dict(zip("ab", texts, strict=True))), "label": place % 2}

    for task in ("sst2", "mrpc"):
        folder = tmp_path / "tasks" / task
        folder.mkdir(parents=True)
        for split, rows in (("train", 80), ("dev", 8)):
            lines = [json.dumps(line(task, place)) + "\n" for place in range(rows)]
            (folder / f"{split}.jsonl").write_text("".join(lines))
    return tmp_path / "tasks"


def call(monkeypatch: pytest.MonkeyPatch, data: Path, corpus: Path, init: Path, out: Path, *words: str) -> None:
    given = ["--corpus", str(corpus), "--init", str(init), "--out", str(out), "--tasks", "sst2,mrpc", "--device", "cpu"]
    line = ["students.py", str(data), *given, "--student", *SHAPE, "--rehearse", "--processes", "1", *words]
    monkeypatch.setattr(sys, "argv", line)
    STUDENTS.main()


def test_all_is_made_and_the_same_call_makes_nothing_anew(
    monkeypatch: pytest.MonkeyPatch,
    data: Path,
    corpus: Path,
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    call(monkeypatch, data, corpus, trained, out)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert told[0].split("|")[6:8] == [" sst2 ", " mrpc "]
    assert [line.split("|")[1].strip() for line in told[2:]] == [*STUDENTS.ARMS, "words"]
    assert all(len(line.split("|")) == len(told[0].split("|")) for line in told)
    half = load_run(out / "base-half" / "run", device="cpu")
    assert half.recipe.shape.layers == 1
    assert load_run(out / "base-dropped" / "run", device="cpu").recipe.shape.layer_drop == 0.2
    taught = load_run(out / "sst2-student-taught-0" / "run", device="cpu").record.taught
    assert taught is not None
    assert taught.teachers[0].run == str((out / "sst2-whole-0" / "run").resolve())
    assert taught.texts is not None
    assert taught.texts.rows == 8
    for name in ("learned", "student_base", "base_again", "half_base", "speeds"):
        monkeypatch.setattr(STUDENTS, name, pytest.fail)
    call(monkeypatch, data, corpus, trained, out)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")] == told
    with pytest.raises(InputError, match="was made with other settings"):
        call(monkeypatch, data, corpus, trained, out, "--changes", "training.batch=4")


def test_an_arm_that_another_process_makes_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, data: Path, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    busy = tmp_path / "out" / "base-student"
    busy.mkdir(parents=True)
    with STUDENTS.alone(busy):
        call(monkeypatch, data, corpus, trained, tmp_path / "out", "--stage", "0", "--process", "1")
    assert not (busy / "figures.json").exists()
    assert (tmp_path / "out" / "base-dropped" / "figures.json").exists()


def test_what_an_arm_keeps_of_the_gain_over_words_is_told_where_there_is_a_gain() -> None:
    found = {("a", "whole"): 0.9, ("a", "words"): 0.5, ("a", "half"): 0.8}
    given = STUDENTS.argparse.Namespace(tasks=["a"])
    assert STUDENTS.share_kept(given, found, "half") == "75%"
    assert STUDENTS.share_kept(given, found, "words") == "0%"
    assert STUDENTS.share_kept(given, found | {("a", "whole"): 0.4}, "half") == ""


def test_rows_that_would_be_learned_and_judged_by_are_refused(data: Path) -> None:
    given = STUDENTS.argparse.Namespace(data=data, labels=60, texts=8, test=30)
    with pytest.raises(InputError, match="sst2 has 80 rows, and 91 are wanted"):
        STUDENTS.drawn("sst2", given, 0)
