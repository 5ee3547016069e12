"""Figure 2 right: every kept checkpoint is asked, and asked once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.blimp import blimp, read_pairs
from gpt1.inference.run import load_run
from gpt1.inference.zeroshot import zeroshot
from gpt1.studies.paper import normalised
from gpt1.studies.zeroshot import study_zeroshot
from gpt1.text.tokenizer import Tokenizer
from tests.studies.tools import Remembers, make_start, write_pairs, write_tasks

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


def test_minimal_pairs_are_asked_beside_tasks_and_their_fields_are_further_metrics(
    tmp_path: Path, start: Path, lstm: Path
) -> None:
    data, out = write_pairs(write_tasks(tmp_path / "tasks", "storycloze")), tmp_path / "out"
    found = study_zeroshot([start, lstm], out, tasks=["blimp", "storycloze"], data=data, device="cpu")
    tasks = found.sections["zeroshot"]["tasks"]
    assert (list(tasks), found.about["tasks"]) == (["blimp", "storycloze"],) * 2
    assert "groups" not in tasks["storycloze"]
    with (out / "zeroshot.csv").open() as file:
        rows = {
            (row["run"], int(row["step"]), row["metric"]): row for row in csv.DictReader(file) if row["task"] == "blimp"
        }
    assert len(rows) == 3 * (1 + 2)
    for run, path, steps in (("books", start, [1, 3]), ("lstm", lstm, [3])):
        assert [point["step"] for point in tasks["blimp"]["runs"][run]] == steps
        for point in tasks["blimp"]["runs"][run]:
            step = point["step"]
            alone = blimp(load_run(path, device="cpu", step=step), read_pairs(data))
            assert point["score"] == alone.accuracy == float(rows[run, step, "accuracy"]["score"])
            assert point["normalised"] == normalised("blimp", alone.accuracy)
            assert (point["split"], point["examples"]) == ("pairs", 12)
            fields = {one["metric"]: one["score"] for one in tasks["blimp"]["groups"][run] if one["step"] == step}
            assert fields == {f"accuracy/{field}": share for field, share in alone.fields.items()}
            assert all(float(rows[run, step, metric]["score"]) == share for metric, share in fields.items())


def test_answers_to_pairs_are_kept_in_parts_and_once(tmp_path: Path, start: Path) -> None:
    data, out = write_pairs(tmp_path / "tasks"), tmp_path / "out"
    watchers = [Remembers() for _ in range(4)]
    parts = [(1, 2), (2, 2), None, None]
    *_, whole, again = (
        study_zeroshot([start], out, tasks=["blimp"], data=data, device="cpu", part=part, watcher=watcher)
        for part, watcher in zip(parts, watchers, strict=True)
    )
    assert whole == again
    names = ["zeroshot-books-blimp-1", "zeroshot-books-blimp-3"]
    assert [watcher.made for watcher in watchers] == [names[:1], names[1:], [], []]
    kept = json.loads((out / "cells" / names[1] / "cell.json").read_text())["result"]
    assert kept["paradigms"].keys() == {"agreement", "gaps", "order"}
    path = out / "cells" / names[1] / "predictions-blimp-pairs.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(12))
    assert all((line["prediction"] == "good") == (line["scores"][0] > line["scores"][1]) for line in lines)
    right = [line["prediction"] == line["label"] for line in lines]
    assert sum(right[:3]) / 3 == pytest.approx(kept["paradigms"]["agreement"])


def test_changed_pairs_are_not_mixed_in_and_bad_ones_are_refused_by_row(tmp_path: Path, start: Path) -> None:
    data, out = write_pairs(tmp_path / "tasks"), tmp_path / "out"
    study_zeroshot([start], out, tasks=["blimp"], data=data, device="cpu")
    path = data / "blimp" / "order.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join(others))
    with pytest.raises(InputError, match=r"other inputs: the rows of blimp \(zero-shot\) were others\. Choose"):
        study_zeroshot([start], out, tasks=["blimp"], data=data, device="cpu")
    path.write_text(first + json.dumps({"good": "A cat.", "label": 1}) + "\n")
    with pytest.raises(InputError, match=r"order\.jsonl, row 2: a minimal pair has good, bad, .*; found good, label"):
        study_zeroshot([start], tmp_path / "other", tasks=["blimp"], data=data, device="cpu")
    assert not (tmp_path / "other").exists()


def test_too_few_checkpoints_for_a_curve_are_told_with_what_keeps_more(
    tmp_path: Path, start: Path, words_tokenizer: Tokenizer
) -> None:
    data = write_pairs(tmp_path / "tasks")
    one, enough = (
        make_start(tmp_path / name, words_tokenizer, steps=steps)
        for name, steps in (("one", (3,)), ("enough", (1, 2, 3)))
    )
    found = study_zeroshot([start, one, enough], tmp_path / "out", tasks=["blimp"], data=data, device="cpu")
    told = (
        "too few for a curve; gpt1 pretrain keeps the weights after N, 2N, 4N, ... updates with the setting "
        "logging.keep_weights=N"
    )
    assert found.notes == [f"{start} has 2 checkpoints, {told}", f"{one} has 1 checkpoint, {told}"]


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
        ([start], "blmp", SettingError, "unknown task 'blmp'; did you mean 'blimp'?"),
        ([start], "race", InputError, "has no rows of task 'race'"),
        ([start], "blimp", InputError, r"tasks holds no \.jsonl file of minimal pairs"),
        ([start, start], "sst2", SettingError, "a run is named twice"),
        ([], "sst2", SettingError, "name at least one run"),
        ([tmp_path], "sst2", InputError, "expected a run there"),
    ):
        with pytest.raises(error, match=message):
            study_zeroshot(runs, out, tasks=[task], data=data, device="cpu")
    with pytest.raises(SettingError, match="17 solved examples are asked for, and 'sst2' has 16 to show"):
        study_zeroshot([start], out, tasks=["sst2"], data=data, shots=17, device="cpu")
    with pytest.raises(SettingError, match="blimp is asked without solved examples; leave `shots` out"):
        study_zeroshot([start], out, tasks=["sst2", "blimp"], data=data, shots=1, device="cpu")
    with pytest.raises(SettingError, match="two tasks are called 'sst2'"):
        study_zeroshot([start], out, tasks=["sst2", "sst2"], data=data, device="cpu")
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
