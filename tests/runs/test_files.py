"""The files that grow with a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import InputError, MissingDependency
from gpt1.runs.events import Evaluated, Noticed, RolledBack, Sampled, Saved, Stepped
from gpt1.runs.files import (
    ATTENTION_FILE,
    EVENTS_FILE,
    LOG_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    RunFiles,
    forget_after,
    in_words,
    last_scores,
    tensorboard,
    who_hears,
)
from tests.records import facts_in, lines_in

SCORES = {"valid_loss": 2.0, "perplexity": 7.39}


def stepped(step: int) -> Stepped:
    return Stepped(step, 20, step - 1, 3.5, {"lm": 3.5}, 1e-3, 0.7, 1000.0, 5.0, 2**20, None)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return lines_in(path)


def test_events_are_written_where_they_belong(run: Path) -> None:
    write = RunFiles(run)
    for event in (
        stepped(1),
        Evaluated(1, SCORES),
        Sampled(1, [{"prompt": "über", "text": "a\nb"}, {"prompt": "p", "text": "t"}]),
        Saved(1, run / "checkpoints" / "step-00000001"),
        RolledBack(5, 4, float("nan"), 1.0, 3.0, 1),
        Noticed("mind the gap"),
    ):
        write(event)
    first, second = lines_of(run / METRICS_FILE)
    assert (first["step"], first["loss"], first["terms"], first["utilisation"]) == (1, 3.5, {"lm": 3.5}, None)
    assert second == {"step": 1, **SCORES}
    assert lines_of(run / SAMPLES_FILE) == [
        {"step": 1, "prompt": "über", "text": "a\nb"},
        {"step": 1, "prompt": "p", "text": "t"},
    ]
    assert [line["kind"] for line in lines_in(run / EVENTS_FILE)] == ["saved", "rollback", "notice"]
    log = (run / "log.txt").read_text().splitlines()
    assert log[0].endswith("update 1: saved " + str(run / "checkpoints" / "step-00000001"))
    assert "update 5: batch 4 blew up (loss nan where 3 was usual" in log[1]
    assert log[2].endswith("mind the gap")


def test_a_run_that_was_begun_with_a_log_alone_goes_on_so(run: Path) -> None:
    (run / "log.txt").write_text("2026-01-01 12:00:00  begun before\n")
    RunFiles(run)(Noticed("mind the gap"))
    assert not (run / EVENTS_FILE).exists()


def test_a_rollback_is_told_in_words() -> None:
    said = in_words(RolledBack(step=11, batch=10, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=8))
    assert said.endswith("gradient norm 5); back to update 8, without that batch")


def test_a_file_that_cannot_be_written_is_told(run: Path) -> None:
    (run / METRICS_FILE).mkdir()
    with pytest.raises(InputError, match=r"cannot write .*metrics.jsonl: Is a directory"):
        RunFiles(run)(stepped(1))


@pytest.mark.parametrize("torn", [b"", b'{"step": 3, "lo', b'{"step": 1, "loss": 2.5}', b"\0\0\0"])
def test_steps_that_are_made_again_and_a_torn_last_line_are_forgotten(run: Path, torn: bytes) -> None:
    write = RunFiles(run)
    for step in range(1, 7):
        write(stepped(step))
        write(Evaluated(step, SCORES))
        write(Sampled(step, [{"prompt": "p", "text": "t"}], {"tokens": ["a"], "weights": [[[[1.0]]]]}))
    with (run / METRICS_FILE).open("ab") as file:
        file.write(torn)
    told: list[str] = []
    forget_after(run, 6, told.append)
    assert facts_in(run / ATTENTION_FILE) == {"step": 6, "tokens": ["a"], "weights": [[[[1.0]]]]}
    forget_after(run, 4, told.append)
    assert not (run / ATTENTION_FILE).exists()  # the samples to come bring it back
    assert [line["step"] for line in lines_of(run / METRICS_FILE)] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [line["step"] for line in lines_of(run / SAMPLES_FILE)] == [1, 2, 3, 4]
    before = (run / METRICS_FILE).stat().st_mtime_ns
    forget_after(run, 4, told.append)
    assert (run / METRICS_FILE).stat().st_mtime_ns == before  # nothing to forget, nothing written
    forget_after(run, 0, told.append)
    assert (run / METRICS_FILE).read_bytes() == b""
    assert told == []


def turn_bit(path: Path, byte: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


@pytest.mark.parametrize("name", [METRICS_FILE, SAMPLES_FILE])
def test_a_damaged_line_is_told_by_file_and_number_and_left_out(run: Path, name: str) -> None:
    write = RunFiles(run)
    for step in (1, 2, 3):
        write(stepped(step))
        write(Sampled(step, [{"prompt": "p", "text": "t"}]))
    whole = (run / name).read_bytes()
    first = whole.index(b"\n") + 1
    second = whole.index(b"\n", first) + 1
    for byte in range(first, second):
        (run / name).write_bytes(whole)
        turn_bit(run / name, byte)
        told: list[str] = []
        forget_after(run, 3, told.append)
        assert all(f"{run / name}, line 2" in text and text.endswith("; the line is left out") for text in told[:1])
        if byte == second - 1:  # the line end: both lines are one
            assert [line["step"] for line in lines_in(run / name)] == [1]
        else:
            assert [line["step"] for line in lines_in(run / name)] == [1, 3]


def test_a_last_line_whose_end_is_damaged_is_told(run: Path) -> None:
    RunFiles(run)(stepped(1))
    turn_bit(run / METRICS_FILE, -1)
    told: list[str] = []
    forget_after(run, 3, told.append)
    (said,) = told
    assert "metrics.jsonl, line 1" in said
    assert (run / METRICS_FILE).read_bytes() == b""


def test_damaged_attention_is_told_and_removed(run: Path) -> None:
    RunFiles(run)(Sampled(1, [], {"tokens": ["a"], "weights": [[[[0.25]]]]}))
    turn_bit(run / ATTENTION_FILE, (run / ATTENTION_FILE).read_bytes().index(b"0.25") + 2)
    told: list[str] = []
    forget_after(run, 1, told.append)
    (said,) = told
    assert "attention.json is damaged: it does not match its checksum" in said
    assert not (run / ATTENTION_FILE).exists()


def test_who_hears_of_a_run_is_told_of_damaged_events_and_not_of_a_torn_one(run: Path) -> None:
    for text in ("one", "two", "three"):
        RunFiles(run)(Noticed(text))
    with (run / EVENTS_FILE).open("ab") as file:
        file.write(b'{"kind": "not')
    turn_bit(run / EVENTS_FILE, (run / EVENTS_FILE).read_bytes().index(b"two"))
    heard: list[Any] = []
    who_hears(run, [heard.append], curves=False)
    assert [event.text.partition(";")[0] for event in heard] == [
        f"{run / EVENTS_FILE}, line 2 is damaged: it does not match its checksum"
    ]
    assert [line["text"] for line in lines_in(run / EVENTS_FILE)] == ["one", "three", heard[0].text]


def test_where_nothing_was_written_there_is_nothing_to_forget(run: Path) -> None:
    forget_after(run, 0, pytest.fail)
    assert not (run / METRICS_FILE).exists()


def test_the_last_scores_are_those_of_the_last_evaluation(run: Path) -> None:
    assert last_scores(run) == (0, {})
    write = RunFiles(run)
    write(stepped(3))
    assert last_scores(run) == (3, {})
    write(Evaluated(3, {"valid_loss": 9.0}))
    write(Evaluated(6, SCORES))
    write(stepped(7))
    assert last_scores(run) == (6, SCORES)


# ---- tensorboard ----


def test_without_tensorboard_the_way_to_get_it_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if the import had failed
    with pytest.raises(MissingDependency, match="TensorBoard is not installed; run: pip install"):
        tensorboard(run)


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard brings
def test_curves_are_on_the_disk_when_a_checkpoint_is(run: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    listen = tensorboard(run)
    for event in (stepped(1), Evaluated(1, SCORES), Sampled(1, [{"prompt": "p", "text": "t"}]), stepped(2)):
        listen(event)
    listen(Saved(2, run))
    drawn = EventAccumulator(str(run / "tensorboard"))
    drawn.Reload()
    assert [(point.step, point.value) for point in drawn.Scalars("train/loss")] == [(1, 3.5), (2, 3.5)]
    assert {"train/learning_rate", "train/gradient_norm", "train/tokens_per_second", "valid/valid_loss"} <= set(
        drawn.Tags()["scalars"]
    )


@pytest.mark.parametrize("name", [METRICS_FILE, LOG_FILE, EVENTS_FILE])
def test_a_pipe_in_place_of_a_growing_file_is_refused_by_name(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(InputError, match=f"{name} is not a file"):
        RunFiles(run)(stepped(1) if name == METRICS_FILE else Noticed("mind the gap"))
