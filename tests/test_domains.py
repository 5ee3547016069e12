"""tools/domains.py: every arm comes to its end, judged by the same rows, and a call goes on."""

from __future__ import annotations

import csv
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from gpt1.base.errors import InputError
from gpt1.runs.folder import read_run
from tests.conftest import DEEDS, PEOPLE, THINGS
from tests.test_base import load_tool

DOMAINS = load_tool("domains")
ARMS = ("source", "reading", "adversarial:0.5!", "target")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of one text and the same labels."""
    folder, dice = tmp_path_factory.mktemp("tasks"), random.Random(0)
    for task, people in (("sst2", PEOPLE[:4]), ("cola", PEOPLE[4:])):
        (folder / task).mkdir()
        for split, rows in (("train", 80), ("dev", 30)):
            lines = [
                {
                    "text": f"{dice.choice(people)} {DEEDS[row % 8]} {dice.choice(THINGS)} {split} {row}",
                    "label": row % 2,
                }
                for row in range(rows)
            ]
            (folder / task / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def call(monkeypatch: pytest.MonkeyPatch, data: Path, out: Path, init: Path, *words: str) -> None:
    few = ["--rows", "30", "--texts", "60", "--test", "20", "--seeds", "2", "--set", "training.steps=3"]
    few += ["--set", "training.precision=fp32", "--read", "training.steps=2", "--read", "training.precision=fp32"]
    tasks = ["--data", str(data), "--source", "sst2", "--target", "cola", "--init", str(init), "--device", "cpu"]
    arms = ["--arms", ",".join(ARMS)]
    monkeypatch.setattr(sys, "argv", ["domains.py", "--out", str(out), *tasks, *few, *arms, *words])
    DOMAINS.main()


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_arm_is_judged_by_the_same_rows_and_the_same_call_makes_nothing_anew(
    monkeypatch: pytest.MonkeyPatch, data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, data, tmp_path, trained)
    table = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in table] == ["arm", *ARMS]
    folders = {
        arm: [tmp_path / f"{name}-{seed}" for seed in (0, 1)]
        for arm, name in zip(ARMS, ("source", "reading", "adversarial-0.5-fixed", "target"), strict=True)
    }
    judged = {(folder / "target-dev.csv").read_bytes() for arm in folders.values() for folder in arm}
    assert len(judged) == 1
    for seed in (0, 1):
        source, target, labelled = (
            rows_of(folders["target"][seed] / f"{name}.csv") for name in ("source", "target", "labelled")
        )
        assert (source[0], target[0], len(target)) == (["text", "label"], ["text"], 61)
        assert [row[:1] for row in labelled[1:]] == target[1:31]
        assert {row[0] for row in source[1:]}.isdisjoint(
            row[0] for row in rows_of(folders["source"][seed] / "target.csv")
        )
    assert rows_of(folders["source"][0] / "source.csv") != rows_of(folders["source"][1] / "source.csv")
    runs = {arm: read_run(one[0] / "run") for arm, one in folders.items()}
    assert runs["reading"].parent == str((folders["reading"][0] / "reader").resolve())
    adapted = runs["adversarial:0.5!"]
    assert adapted.adapted is not None
    assert (adapted.recipe.finetuning.domain_weight, adapted.recipe.finetuning.domain_ramp) == (0.5, False)
    assert all(runs[arm].adapted is None for arm in ("source", "reading", "target"))
    for line, arm in zip(table[1:], ARMS, strict=True):
        found = [json.loads((folder / "figures.json").read_text()) for folder in folders[arm]]
        assert all(np.mean(one["right"]) == pytest.approx(one["target"]) for one in found)
        assert len(found[0]["right"]) == 20
        assert float(line.split("\t")[1]) == pytest.approx(50 * sum(one["target"] for one in found), abs=0.05)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.json")}
    call(monkeypatch, data, tmp_path, trained)
    assert capsys.readouterr().out.splitlines() == table
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.json")} == before
    with pytest.raises(InputError, match="was made with other settings"):
        call(monkeypatch, data, tmp_path, trained, "--mix", "0.5")


def test_a_gain_is_that_of_medians_over_seeds_on_rows_drawn_together() -> None:
    dice = np.random.default_rng(0)
    other = dice.integers(0, 2, (3, 200)).tolist()
    one = [[max(a, int(dice.random() < 0.3)) for a in seed] for seed in other]
    value, low, high = DOMAINS.gain(one, other)
    accuracies = [sorted(sum(seed) / 200 for seed in arm)[1] for arm in (one, other)]
    assert value == pytest.approx(accuracies[0] - accuracies[1])
    assert 0 < low < value < high < 1
    assert DOMAINS.gain(one, one) == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--arms", "sorcery"), "there is no arm 'sorcery'"),
        (("--rows", "900"), "sst2 has 80 rows, and 900 are wanted"),
    ],
)
def test_what_there_is_not_is_told(
    monkeypatch: pytest.MonkeyPatch, data: Path, trained: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        call(monkeypatch, data, tmp_path, trained, *words)
