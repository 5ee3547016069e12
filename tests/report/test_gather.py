"""What lies in run folders is read as it was written; what is missing is empty, what is damaged is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.documents.figures import LONGEST_TEXT
from gpt1.report.gather import MOST_LINES, gather
from gpt1.runs.events import Noticed, RolledBack, Saved
from gpt1.runs.files import RunFiles
from tests.records import facts_in
from tests.report.tools import LABELS, LOOKS, write_finetuned, write_lines, write_pretrained, write_run, write_seeds


def test_curves_are_those_of_the_metrics_file(tmp_path: Path) -> None:
    (run,) = gather([write_pretrained(tmp_path / "run")])
    assert run.progress is not None
    assert (run.progress.step, run.progress.planned) == (20, 20)
    assert run.progress.curves["valid_loss"].steps == [10, 20]
    assert run.progress.curves["valid_loss"].values == [5.0, 4.5]
    assert len(run.progress.curves["terms.lm"].values) == 20
    assert "utilisation" not in run.progress.curves  # it was never known


def test_a_loss_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    lines = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": float("inf")}]
    write_lines(folder / "metrics.jsonl", lines)
    (run,) = gather([folder])
    assert run.progress is not None
    assert run.progress.curves["loss"].steps == [1]
    assert run.progress.step == 3


def test_a_line_that_is_only_begun_is_left_out(tmp_path: Path) -> None:
    folder = write_pretrained(tmp_path / "run")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 30, "lo')
    (run,) = gather([folder])
    assert run.progress is not None
    assert run.progress.step == 20


@pytest.mark.parametrize("damage", ['{"step": 2, "lo\n', "[1]\n", '{"loss": 1}\n', '{"step": 1, "terms": 3}\n'])
def test_a_damaged_line_is_named(tmp_path: Path, damage: str) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 2}\n' + damage)
    with pytest.raises(FormatError, match=r"metrics\.jsonl, line 2"):
        gather([folder])


@pytest.mark.parametrize("damaged", [{"step": 1, "text": "no prompt"}, {"step": 1, "prompt": 2, "text": "It"}])
def test_a_damaged_sample_is_named(tmp_path: Path, damaged: dict[str, object]) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    write_lines(folder / "samples.jsonl", [damaged])
    with pytest.raises(FormatError, match=r"samples\.jsonl, line 1 is damaged"):
        gather([folder])


def test_attention_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = gather([write_pretrained(tmp_path / "run")])[0].attention
    assert found is not None
    assert (found.step, found.tokens) == (20, ["Ann", " sold", " hats", "."])
    assert found.weights == LOOKS


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ["Ann"]},
        {"tokens": [1, 2, 3, 4]},
        {"tokens": []},
        {"weights": []},
        {"weights": [[[[1.0], [0.5, 0.5], [1.0], [1.0]]]]},
        {"weights": [[[[1.5]]]], "tokens": ["Ann"]},
        {"weights": [[[["1"]]]], "tokens": ["Ann"]},
        {"weights": [[[[float("nan")]]]], "tokens": ["Ann"]},
        {"weights": [[[[1.0]]], [[[1.0]], [[1.0]]]], "tokens": ["Ann"]},
        {"weights": 3},
        {"step": None},
    ],
)
def test_damaged_attention_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_pretrained(tmp_path / "run") / "attention.json"
    path.write_text(json.dumps({**facts_in(path), **change}))
    with pytest.raises(FormatError, match=r"attention\.json is damaged"):
        gather([tmp_path / "run"])
    path.write_text("{")
    with pytest.raises(FormatError, match=r"attention\.json is not the attention of a run"):
        gather([tmp_path / "run"])


def test_a_bare_run_has_nothing_but_its_facts(tmp_path: Path) -> None:
    (run,) = gather([write_run(tmp_path / "run", "pretraining")])
    assert (run.progress, run.samples, run.attention, run.log, run.evaluations) == (None, None, None, None, [])
    assert run.seeds is None
    assert run.recipe.name == "tiny"


def test_what_the_training_logs_is_told_apart(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    files = RunFiles(folder)
    files(Noticed("the device is slow"))
    files(Saved(3, folder / "checkpoints"))
    files(RolledBack(step=9, batch=8, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=3))
    log = gather([folder])[0].log
    assert log is not None
    assert log.notices == ["the device is slow"]
    assert log.rollback_count == 1
    assert log.rollbacks[0].startswith("update 9: batch 8 blew up (loss 99 where 3 was usual")


def test_a_long_log_is_bounded_and_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    (folder / "log.txt").write_text("".join(f"2026-11-15 12:00:00  notice {number}\n" for number in range(500)))
    log = gather([folder])[0].log
    assert log is not None
    assert (len(log.notices), log.notice_count) == (MOST_LINES, 500)


def test_texts_are_cut_and_cannot_break_a_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    sample = {"step": 1, "prompt": "a\x00b\x1bc\ud800", "text": "x" * 10 * LONGEST_TEXT}
    write_lines(folder / "samples.jsonl", [sample])
    samples = gather([folder])[0].samples
    assert samples is not None
    assert samples[0].prompt == "a\ufffdb\ufffdc\\ud800"
    assert len(samples[0].text) == LONGEST_TEXT


def test_evaluations_come_dev_first_then_test_then_others(tmp_path: Path) -> None:
    answers = dict.fromkeys(("april", "test", "dev"), LABELS)
    (run,) = gather([write_finetuned(tmp_path / "run", answers)])
    assert [one.split for one in run.evaluations] == ["dev", "test", "april"]


def test_an_evaluation_is_read_as_it_was_written(tmp_path: Path) -> None:
    wrong_once = [1, *LABELS[1:]]
    found = gather([write_finetuned(tmp_path / "run", {"dev": wrong_once})])[0].evaluation("moods", "dev")
    assert found is not None
    assert found.metrics == {"accuracy": 7 / 8}
    assert found.confusion is not None
    assert found.confusion.counts == [[3, 1], [0, 4]]
    assert found.calibration is not None
    assert found.calibration.ece == pytest.approx(7 / 8 - 0.8)
    assert [(one.label, one.prediction, one.probability) for one in found.mistakes] == [("bad", "good", 0.8)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", [1]),
        ("intervals", {"accuracy": [1]}),
        ("confusion", {"labels": ["bad", "good"], "counts": [[1, 2]]}),
        ("calibration", {"ece": 1}),
        ("mistakes", [{"index": 1}]),
        ("examples", "many"),
    ],
)
def test_a_damaged_evaluation_is_named(tmp_path: Path, key: str, value: object) -> None:
    path = write_finetuned(tmp_path / "run", {"dev": LABELS}) / "evaluation-moods-dev.json"
    path.write_text(json.dumps({**facts_in(path), key: value}))
    with pytest.raises(FormatError, match=r"evaluation-moods-dev\.json is damaged.*gpt1 evaluate"):
        gather([tmp_path / "run"])


def test_an_evaluation_of_another_version_is_refused(tmp_path: Path) -> None:
    path = write_finetuned(tmp_path / "run", {"dev": LABELS}) / "evaluation-moods-dev.json"
    path.write_text(json.dumps({**facts_in(path), "version": 99}))
    with pytest.raises(FormatError, match="no evaluation of this version"):
        gather([tmp_path / "run"])


@pytest.mark.parametrize(
    "about", [{"tasks": {"moods": {"name": 3}}}, {"tasks": {}}, {"vocab_size": "many"}, {"trained_on": "a laptop"}]
)
def test_a_damaged_run_is_named(tmp_path: Path, about: dict[str, object]) -> None:
    kind = "finetuning" if "tasks" in about else "pretraining"
    folder = write_run(tmp_path / "run", kind, **about)
    with pytest.raises(FormatError, match=r"run\.json is damaged"):
        gather([folder])


def test_of_several_seeds_the_best_one_is_shown(tmp_path: Path) -> None:
    (run,) = gather([write_seeds(tmp_path / "run", [LABELS, [0] * 8])])
    assert run.folder == tmp_path / "run" / "seed-0"
    assert run.seeds is not None
    assert run.seeds.summary["moods dev accuracy"]["worst"] == 0.5


def test_a_damaged_result_of_seeds_is_named(tmp_path: Path) -> None:
    folder = write_seeds(tmp_path / "run", [LABELS])
    facts = facts_in(folder / "seeds.json")
    (folder / "seeds.json").write_text(json.dumps({**facts, "seeds": 3}))
    with pytest.raises(FormatError, match=r"seeds\.json is damaged"):
        gather([folder])


def test_runs_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    one, other = write_run(tmp_path / "a" / "run", "pretraining"), write_run(tmp_path / "b" / "run", "pretraining")
    third = write_run(tmp_path / "c", "pretraining")
    assert [run.name for run in gather([one, other, third])] == ["a/run", "b/run", "c"]


def test_a_run_named_twice_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "pretraining")
    with pytest.raises(SettingError, match="named twice"):
        gather([folder, tmp_path / "." / "run"])


def test_no_run_and_a_folder_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="at least one run"):
        gather([])
    with pytest.raises(InputError, match="does not exist"):
        gather([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"run\.json does not exist"):
        gather([tmp_path / "empty"])
