"""A small network learns a task from a larger one, through kills bit for bit, and refuses what cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.finetuning.data import Source
from gpt1.finetuning.distill import distill_task
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import load_run
from gpt1.report.card import make_card
from gpt1.runs.events import Stepped
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import (
    SETTINGS,
    Told,
    assert_same_run,
    encode,
    lines_of,
    make_examples,
    make_pretrained,
    make_task,
    write_table,
)
from tests.processes import kill_after, start

MOODS = make_task()


@pytest.fixture(scope="module")
def folder(trained: Path, tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Path:
    """A teacher, a base to teach that has another vocabulary, labelled rows, and texts without labels."""
    folder = tmp_path_factory.mktemp("distill")
    rows = make_examples(MOODS, 100)
    write_table(folder / "moods.csv", MOODS, rows[:60])
    (folder / "more.csv").write_text("text\n" + "".join(f'"{row.texts[0]}"\n' for row in rows[60:]))
    finetune(trained, folder / "teacher", train=folder / "moods.csv", changes=SETTINGS, device="cpu")
    make_pretrained(folder / "base", bytes_tokenizer, "shape.context=32")
    return folder


@pytest.fixture(scope="module")
def student(folder: Path) -> Path:
    source = Source(train=folder / "moods.csv")
    out, texts = folder / "student", folder / "more.csv"
    distill_task([folder / "teacher"], folder / "base", out, source=source, texts=texts, changes=SETTINGS, device="cpu")
    return out


def test_a_student_of_another_vocabulary_is_a_run_like_any_other(student: Path, folder: Path) -> None:
    run = load_run(student, device="cpu")
    assert run.record.parent == str((folder / "base").resolve())
    taught = run.record.taught
    assert taught is not None
    assert taught.texts is not None
    assert (taught.texts.path, taught.texts.rows) == (str((folder / "more.csv").resolve()), 40)
    steps = [line for line in lines_of(student) if "loss" in line]
    assert len(steps) == 2 * -(-(54 + 40) // 8)  # two epochs of all that is read
    assert steps[0]["terms"].keys() == {"moods", "_lm", "_teacher"}
    assert len(list(run.predict(["Ann sold nothing"]))) == 1
    assert "the teacher teacher on the labelled rows and 40 texts of more.csv (weight 0.5" in make_card(student)


def test_a_killed_distillation_goes_on_bit_for_bit(student: Path, folder: Path, tmp_path: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    asked = ["--teacher", folder / "teacher", "--init", folder / "base", "--train", folder / "moods.csv"]
    asked += ["--texts", folder / "more.csv", "--out", tmp_path / "run", "--device", "cpu"]
    command = [sys.executable, "-m", "gpt1", "distill", *map(str, asked), *words]
    kill_after(start(command), tmp_path / "run", 9)
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert_same_run(student, tmp_path / "run")


def test_folds_of_the_cross_validation_are_taught_too(folder: Path, tmp_path: Path) -> None:
    told = Told()
    changes = [*SETTINGS, "finetuning.ensemble=true", "finetuning.folds=1", "training.epochs=1"]
    source, texts = Source(train=folder / "moods.csv"), folder / "more.csv"
    out, teachers = tmp_path / "run", [folder / "teacher"]
    given = {"changes": changes, "device": "cpu", "listeners": [told]}
    run = distill_task(teachers, folder / "base", out, source=source, texts=texts, **given)  # type: ignore[arg-type]
    assert run.ensembles["moods"].record.examples > 0
    steps = [event for event in told.events if isinstance(event, Stepped)]
    assert {event.fold is None for event in steps} == {True, False}
    assert all("_teacher" in event.terms for event in steps)


def test_a_student_goes_on_with_its_teachers_and_texts_alone(student: Path, folder: Path) -> None:
    source, init = Source(train=folder / "moods.csv"), folder / "base"
    given = {"changes": SETTINGS, "resume": True, "device": "cpu"}
    with pytest.raises(SettingError, match=r"was begun with the teacher .*, and without a teacher now"):
        finetune(init, student, train=folder / "moods.csv", **given)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"and 40 texts of .*, and with the teacher .*teacher \(weight"):
        distill_task([folder / "teacher"], init, student, source=source, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="holds a run already"):
        distill_task([folder / "teacher"], init, student, source=source, changes=SETTINGS, device="cpu")


def test_what_is_encoded_has_no_texts_for_a_teacher(folder: Path, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    source = Source(encoded=[encode(MOODS, words_tokenizer)])
    with pytest.raises(SettingError, match="teachers read texts, and what is encoded has none"):
        distill_task([folder / "teacher"], folder / "base", tmp_path / "run", source=source, device="cpu")
    assert not (tmp_path / "run").exists()
