"""Figure 2 right: every kept checkpoint is asked, and asked once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.run import load_run
from gpt1.inference.zeroshot import zeroshot
from gpt1.studies.paper import normalised
from gpt1.studies.zeroshot import study_zeroshot
from gpt1.text.tokenizer import Tokenizer
from tests.studies.tools import Remembers, make_start, write_tasks

TASKS = ("cola", "storycloze")


def test_every_checkpoint_of_every_run_is_asked_about_every_task(tmp_path: Path, start: Path, lstm: Path) -> None:
    data = write_tasks(tmp_path / "tasks", *TASKS)
    found = study_zeroshot([start, lstm], tmp_path / "out", tasks=TASKS, data=data, device="cpu")
    section = found.sections["zeroshot"]
    assert section["kinds"] == {"books": "transformer", "lstm": "lstm"}
    for task, metric in (("cola", "matthews"), ("storycloze", "accuracy")):
        for run, path, steps in (("books", start, [1, 3]), ("lstm", lstm, [3])):
            points = section["tasks"][task]["runs"][run]
            assert [point["step"] for point in points] == steps
            for point in points:
                alone = zeroshot(
                    load_run(path, device="cpu", step=point["step"]), task, data=data, notice=lambda _: None
                )
                assert point["score"] == alone.metrics[metric]
                assert point["normalised"] == normalised(task, point["score"])
    with (tmp_path / "out" / "zeroshot.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * (2 + 1)  # CoLA has a second threshold
    assert {row["metric"] for row in rows} == {"matthews", "matthews_tuned_on_train", "accuracy"}


def test_answers_are_kept_and_nothing_is_asked_twice(tmp_path: Path, start: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "storycloze"), tmp_path / "out"
    first, second = Remembers(), Remembers()
    found = [
        study_zeroshot([start], out, tasks=["storycloze"], data=data, device="cpu", watcher=watcher)
        for watcher in (first, second)
    ]
    assert found[0] == found[1]
    assert first.made == ["zeroshot-books-storycloze-1", "zeroshot-books-storycloze-3"]
    assert (second.made, second.already) == ([], first.made)
    lines = (out / "cells" / first.made[0] / "predictions-storycloze-dev.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(9))


def test_texts_that_were_cut_are_noted_though_nothing_is_asked_again(tmp_path: Path, start: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "sst2"), tmp_path / "out"
    once, again = (
        study_zeroshot([start], out, tasks=["sst2"], data=data, shots=9, device="cpu").notes for _ in range(2)
    )
    assert any("fewer than 9 solved examples fit" in note for note in once)
    assert once == again


def test_changed_rows_are_not_mixed_in(tmp_path: Path, start: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "storycloze"), tmp_path / "out"
    study_zeroshot([start], out, tasks=["storycloze"], data=data, device="cpu")
    dev = data / "storycloze" / "dev.jsonl"
    dev.write_text("".join(dev.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match=r"other inputs: the rows of storycloze \(zero-shot\) were others\. Choose"):
        study_zeroshot([start], out, tasks=["storycloze"], data=data, device="cpu")


def test_a_damaged_checkpoint_is_told_and_left_out(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    run = make_start(tmp_path / "run", words_tokenizer, steps=(1, 3))
    (run / "checkpoints" / "step-00000001" / "state.json").write_text("{}")
    data, watcher = write_tasks(tmp_path / "tasks", "sst2"), Remembers()
    found = study_zeroshot([run], tmp_path / "out", tasks=["sst2"], data=data, device="cpu", watcher=watcher)
    assert [point["step"] for point in found.sections["zeroshot"]["tasks"]["sst2"]["runs"]["run"]] == [3]
    assert any("step-00000001 is damaged" in line and "left out" in line for line in watcher.lines)


def test_what_cannot_be_studied_is_refused(tmp_path: Path, start: Path) -> None:
    data, out = write_tasks(tmp_path / "tasks", "sst2"), tmp_path / "out"
    for runs, task, error, message in (
        ([start], "rte", SettingError, "no rule is known"),
        ([start], "sst", SettingError, "unknown task 'sst'"),
        ([start], "race", InputError, "has no rows of task 'race'"),
        ([start, start], "sst2", SettingError, "a run is named twice"),
        ([], "sst2", SettingError, "name at least one run"),
        ([tmp_path], "sst2", InputError, "expected a run there"),
    ):
        with pytest.raises(error, match=message):
            study_zeroshot(runs, out, tasks=[task], data=data, device="cpu")
    with pytest.raises(SettingError, match="17 solved examples are asked for, and 'sst2' has 16 to show"):
        study_zeroshot([start], out, tasks=["sst2"], data=data, shots=17, device="cpu")
    assert not out.exists()


def test_runs_of_one_name_are_told_apart_and_different_words_are_told(
    tmp_path: Path, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer
) -> None:
    tokenizers = {"one": words_tokenizer, "two": bytes_tokenizer}
    runs = [make_start(tmp_path / name / "run", tokenizer) for name, tokenizer in tokenizers.items()]
    data, watcher = write_tasks(tmp_path / "tasks", "sst2"), Remembers()
    found = study_zeroshot(runs, tmp_path / "out", tasks=["sst2"], data=data, device="cpu", watcher=watcher)
    assert any("different tokenizers" in line for line in watcher.lines)
    assert found.notes == watcher.lines
    assert list(found.sections["zeroshot"]["kinds"]) == ["one/run", "two/run"]
