"""tools/suspects.py: what `gpt1 labels` is worth, measured by what scikit-learn measures it by; a call goes on."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from gpt1.base.errors import InputError
from tests.test_base import load_tool

SUSPECTS = load_tool("suspects")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Tasks in the layout of the catalogue: a mood is told by one word."""
    folder, dice = tmp_path / "tasks" / "sst2", random.Random(0)
    folder.mkdir(parents=True)
    words = ("bad", "dull", "poor"), ("good", "fine", "great")
    for split, rows in (("train", 300), ("dev", 20)):
        lines = [
            {"text": f"a {dice.choice(words[place % 2])} film {place}", "label": place % 2} for place in range(rows)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder.parent


def call(monkeypatch: pytest.MonkeyPatch, data: Path, out: Path, *words: str) -> None:
    sizes = ["--rows", "120", "--start", "40", "--pool", "120", "--count", "20", "--test", "80"]
    line = ["suspects.py", "sst2", "--data", str(data), "--out", str(out), "--words", *sizes, *words]
    monkeypatch.setattr(sys, "argv", line)
    SUSPECTS.main()


def test_average_precision_is_that_of_scikit_learn() -> None:
    for seed in range(20):
        flipped = np.random.default_rng(seed).random(80) < 0.2
        assert SUSPECTS.average_precision(flipped) == pytest.approx(
            average_precision_score(flipped, -np.arange(len(flipped)))
        )


def test_the_curve_tells_the_precision_at_which_each_tenth_is_found() -> None:
    flipped = np.array([True, False, True, True, False, False, False, False, False, True])
    found = dict(SUSPECTS.curve(flipped))
    assert found[0.1] == found[0.2] == 1.0
    assert found[0.5] == pytest.approx(2 / 3)
    assert found[0.7] == pytest.approx(3 / 4)
    assert found[1.0] == pytest.approx(4 / 10)


def test_flipped_labels_of_an_easy_task_are_found_and_the_same_call_makes_nothing_anew(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    call(monkeypatch, data, out)
    told = capsys.readouterr().out
    found = {line.split("\t")[3]: float(line.split("\t")[4]) for line in told.splitlines()}
    assert found["average precision, words"] > 95
    assert found["average precision, label shares"] < 40
    assert found["accuracy with 80 labels, random"] == found["accuracy with 80 labels, asked"] == 100
    monkeypatch.setattr(SUSPECTS, "KINDS", {})
    call(monkeypatch, data, out)
    assert capsys.readouterr().out == told
    with pytest.raises(InputError, match="was made with other settings"):
        call(monkeypatch, data, out, "--rows", "100")


def test_a_cell_that_another_process_makes_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    busy = out / "sst2-suspect-0-words"
    busy.mkdir(parents=True)
    with SUSPECTS.alone(busy):
        call(monkeypatch, data, out, "--process", "1")
    assert not (busy / "figures.json").exists()
    assert (out / "sst2-next-0-words" / "figures.json").exists()


def test_rows_that_would_be_learned_and_measured_on_are_refused(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="sst2 has 300 rows, and 1,040 are wanted"):
        call(monkeypatch, data, tmp_path / "out", "--kinds", "next", "--test", "880")
