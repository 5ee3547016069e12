"""Answers only where few are wrong: which rows are answered, what is told of it, and when nothing can be promised."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import Gpt1Error, InputError, SettingError
from gpt1.cli.app import gpt1 as root
from gpt1.cli.words import command_of, in_words_of
from gpt1.inference.abstaining import in_words, promise
from gpt1.inference.run import Run, load_run
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.records.seeds import SEEDS_FILE, SeedsResult
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.promises import Promise, Surenesses
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import STEP, make_calibrated, make_run, sure_run

MOODS = Task(name="moods", title="moods", shape=SINGLE, labels=("glad", "sad"), metrics=("accuracy",), fields=("text",))
ROWS = [make_text(1, seed).strip() for seed in range(40)]
FLAWLESS = Surenesses([0.9] * 100, [])


def made(folder: Path, tokenizer: Tokenizer, found: TaskCalibration, seeds: int = 1) -> Run:
    make_calibrated(folder, tokenizer, MOODS)
    CalibrationRecord(STEP, {"moods": found}, seeds).write(folder / CALIBRATION_FILE)
    return load_run(folder, device="cpu")


def test_rows_that_are_not_sure_enough_have_no_answer_and_say_so(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    threshold = sure_run(tmp_path / "run", words_tokenizer, MOODS, ROWS)
    run = load_run(tmp_path / "run", device="cpu")
    told: list[str] = []
    with pytest.warns(UserWarning, match="answered") as warned:
        found = list(run.predict(ROWS, abstain=0.1))
    told += [str(one.message) for one in warned]
    plain = list(run.predict(ROWS))
    for row, before in zip(found, plain, strict=True):
        assert row["abstained"] == (float(str(before["confidence"])) < round(threshold, 6))
        assert row["prediction"] == (None if row["abstained"] else before["prediction"])
        assert (row["probabilities"], row["confidence"]) == (before["probabilities"], before["confidence"])
    answered = sum(not row["abstained"] for row in found)
    assert 0 < answered < len(ROWS)
    assert told[0].startswith(
        f"{answered} of 40 rows answered ({100 * answered / 40:.1f} %): with 95 % confidence at most 10 % "
    )


def test_without_it_nothing_is_added(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    sure_run(tmp_path / "run", words_tokenizer, MOODS, ROWS)
    (row,) = load_run(tmp_path / "run", device="cpu").predict(["Ann"])
    assert set(row) == {"text", "prediction", "probabilities", "confidence"}


def test_what_is_promised_is_told_with_what_it_stands_on() -> None:
    assert in_words(Promise(0.05, 0.93, 200, 120, 2)) == (
        "with 95 % confidence at most 5 % of the answers to rows like those for dev are wrong (of 200 rows that were "
        "kept for it 120 are answered so, 2 of these wrong)"
    )


def test_a_temperature_does_not_change_which_rows_are_answered(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    sure_run(tmp_path / "run", words_tokenizer, MOODS, ROWS)
    record = CalibrationRecord.read(tmp_path / "run" / CALIBRATION_FILE)
    found = []
    for temperature in (1.0, 3.0, 0.5):
        changed = {"moods": replace(record.tasks["moods"], temperature=temperature)}
        replace(record, tasks=changed).write(tmp_path / "run" / CALIBRATION_FILE)
        with pytest.warns(UserWarning, match="answered"):
            found.append(list(load_run(tmp_path / "run", device="cpu").predict(ROWS, abstain=0.1)))
    assert len({tuple(row["prediction"] for row in rows) for rows in found}) == 1
    assert len({tuple(row["confidence"] for row in rows) for rows in found}) == 3


@pytest.mark.parametrize("risk", [0, -1, 1, 5, float("nan")])
def test_a_risk_is_a_share(risk: float, tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = made(tmp_path / "run", words_tokenizer, TaskCalibration("", seen=FLAWLESS, kept=FLAWLESS))
    with pytest.raises(SettingError, match="`abstain` is the share of answers that may be wrong"):
        promise(run, MOODS, risk)


def test_where_too_few_rows_were_kept_it_is_told_how_many_are_needed(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    run = made(tmp_path / "run", words_tokenizer, TaskCalibration("", seen=FLAWLESS, kept=FLAWLESS))
    assert promise(run, MOODS, 0.05).answered == 100
    with pytest.raises(
        InputError,
        match=r"at most 1 % .* takes 299 answers .* 100 rows were kept; .* 598 rows for dev or more .*; "
        r"`abstain=0\.03` could be promised with the rows there are, which answers 100 of the 100 rows that were kept",
    ):
        promise(run, MOODS, 0.01)


def test_rows_for_dev_are_told_as_they_are_where_others_gave_the_temperature(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    run = made(tmp_path / "run", words_tokenizer, TaskCalibration("of cross-validation", 1.2, examples=270))
    run.record = replace(run.record, examples={"moods": {"train": 270, "dev": 30}})
    helps = r"fine-tune with 200 rows for dev or more \(`gpt1\.finetune\(dev=TABLE\)`\)$"
    with pytest.raises(InputError, match=f"none were kept of 30 rows for dev; {helps}") as refused:
        promise(run, MOODS, 0.2)
    typed = in_words_of(command_of(root, ["predict"]), root, str(refused.value))
    assert typed.endswith("200 rows for dev or more (gpt1 finetune --dev TABLE)")


def test_where_the_surest_are_wrong_too_often_it_is_told(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    coin = Surenesses([0.9] * 50, [0.9] * 50)
    run = made(tmp_path / "run", words_tokenizer, TaskCalibration("", seen=coin, kept=coin))
    too_often = "even the surest are wrong too often on the 100 rows that were kept for it; .* not even 50 % could be"
    with pytest.raises(InputError, match=too_often):
        promise(run, MOODS, 0.1)


def test_the_best_of_several_seeds_needs_more_rows(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    found = TaskCalibration("", seen=FLAWLESS, kept=FLAWLESS)
    of_seeds = made(tmp_path / "several", words_tokenizer, found, seeds=10)
    with pytest.raises(InputError, match="takes 104 answers"):
        promise(of_seeds, MOODS, 0.05)
    grown = made(tmp_path / "folder" / "seed-0", words_tokenizer, found)
    SeedsResult("seed-0", {f"seed-{seed}": {} for seed in range(10)}, {}).write(tmp_path / "folder" / SEEDS_FILE)
    with pytest.raises(InputError, match="takes 104 answers"):
        promise(grown, MOODS, 0.05)


def test_it_is_of_the_weights_that_were_asked_and_of_labels(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = made(tmp_path / "run", words_tokenizer, TaskCalibration("", seen=FLAWLESS, kept=FLAWLESS))
    record = CalibrationRecord.read(run.path / CALIBRATION_FILE)

    def refused(run: Run, task: Task = MOODS) -> str:
        with pytest.raises(Gpt1Error) as error:
            promise(run, task, 0.1, "the run")
        return str(error.value)

    assert "not with rounded ones; leave `int8` out" in refused(load_run(run.path, device="cpu", int8=True))
    replace(record, step=STEP + 1).write(run.path / CALIBRATION_FILE)
    run.look_again()
    assert re.search("was found for other weights of the run, .*; leave `step` out", refused(run))
    plain = load_run(make_run(tmp_path / "plain", words_tokenizer, MOODS, CATALOGUE["stsb"]), device="cpu")
    assert "was fine-tuned without finetuning.calibrate" in refused(plain)
    assert "answered with scores" in refused(plain, CATALOGUE["stsb"])
