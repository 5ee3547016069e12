"""A run folder: what it says of itself, and the files that grow with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import FormatError, InputError, MissingDependency
from gpt1.recipes.catalog import TINY
from gpt1.recipes.changes import change
from gpt1.training.events import Evaluated, Noticed, RolledBack, Sampled, Saved, Stepped
from gpt1.training.runs import (
    ATTENTION_FILE,
    METRICS_FILE,
    SAMPLES_FILE,
    RunFiles,
    begin_run,
    forget_after,
    in_words,
    is_left_over,
    is_run,
    last_scores,
    read_run,
    tensorboard,
    update_run,
)

SCORES = {"valid_loss": 2.0, "perplexity": 7.39}


def stepped(step: int) -> Stepped:
    return Stepped(step, 20, step - 1, 3.5, {"lm": 3.5}, 1e-3, 0.7, 1000.0, 5.0, 2**20, None)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text('{"a": 1}')
    return tmp_path / "tokenizer.json"


@pytest.fixture
def run(tmp_path: Path, tokenizer: Path) -> Path:
    begin_run(tmp_path / "run", "pretraining", TINY, tokenizer, {"seed": 3, "vocab_size": 5})
    return tmp_path / "run"


def test_a_run_says_what_it_is(run: Path) -> None:
    facts = read_run(run)
    assert (facts["kind"], facts["seed"], facts["recipe"]) == ("pretraining", 3, TINY)
    assert {"gpt1", "git", "python", "torch", "numpy", "machine", "command", "at"} <= facts["made_with"].keys()
    assert (run / "tokenizer.json").read_text() == '{"a": 1}'
    assert sorted(path.name for path in run.iterdir()) == ["run.json", "tokenizer.json"]


def test_a_folder_is_a_run_only_when_it_was_begun_to_the_end(tmp_path: Path, tokenizer: Path) -> None:
    assert not is_run(tmp_path / "run")
    with pytest.raises(InputError, match=r"cannot read .*absent.json: No such file"):
        begin_run(tmp_path / "run", "pretraining", TINY, tmp_path / "absent.json", {})
    assert not is_run(tmp_path / "run")
    begin_run(tmp_path / "run", "pretraining", TINY, tokenizer, {})
    assert is_run(tmp_path / "run")


def test_what_a_run_killed_while_it_began_left_is_known(tmp_path: Path, tokenizer: Path) -> None:
    other = tmp_path / "out"
    other.mkdir()
    for name in ("run.json.7.tmp", "tokenizer.json.7.tmp", "tokenizer.json"):
        (other / name).write_bytes(tokenizer.read_bytes())
        assert is_left_over(other / name, tokenizer)
    for name in ("letters.txt", "letters.7.tmp", "run.json"):
        (other / name).write_text("mine")
        assert not is_left_over(other / name, tokenizer)
    (other / "tokenizer.json").write_text("another one")
    assert not is_left_over(other / "tokenizer.json", tokenizer)


def test_a_changed_recipe_is_written_anew_and_nothing_else_changes(run: Path) -> None:
    before = read_run(run)
    recipe = change(TINY, ["training.steps=77"])
    corpus = {"path": "moved", "identity": "0a"}
    update_run(run, recipe, corpus=corpus)
    assert read_run(run) == {**before, "recipe": recipe, "corpus": corpus}


def test_what_is_no_run_is_refused_in_words(tmp_path: Path, run: Path) -> None:
    with pytest.raises(InputError, match=r"rum does not exist; did you mean 'run'\?"):
        read_run(tmp_path / "rum")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"run.json does not exist; expected a run there"):
        read_run(tmp_path / "empty")
    good = json.loads((run / "run.json").read_text())
    without_recipe = {name: value for name, value in good.items() if name != "recipe"}
    for facts, message in (
        ({"format": "gpt1-corpus"}, "is not a run of gpt1"),
        ({"format": "gpt1-run"}, "is a run of version None; this program reads version 1"),
        ({**good, "version": 2}, "is a run of version 2; this program reads version 1"),
        (without_recipe, "run.json: this is no recipe of this version"),
        (
            {**good, "recipe": {**good["recipe"], "colour": "red"}},
            "'colour' holds no settings",
        ),
    ):
        (run / "run.json").write_text(json.dumps(facts))
        with pytest.raises(FormatError, match=message):
            read_run(run)
    (run / "run.json").write_text('{"format": ')
    with pytest.raises(FormatError, match="is not a run"):
        read_run(run)


# ---- files that grow ----


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


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
    log = (run / "log.txt").read_text().splitlines()
    assert log[0].endswith("step 1: saved " + str(run / "checkpoints" / "step-00000001"))
    assert "step 5: batch 4 blew up (loss nan where 3 was usual" in log[1]
    assert log[2].endswith("mind the gap")


def test_a_rollback_is_told_in_words() -> None:
    said = in_words(RolledBack(step=11, batch=10, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=8))
    assert said.endswith("gradient norm 5); back to step 8, without that batch")


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
    forget_after(run, 6)
    assert json.loads((run / ATTENTION_FILE).read_text()) == {"step": 6, "tokens": ["a"], "weights": [[[[1.0]]]]}
    forget_after(run, 4)
    assert not (run / ATTENTION_FILE).exists()  # the samples to come bring it back
    assert [line["step"] for line in lines_of(run / METRICS_FILE)] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [line["step"] for line in lines_of(run / SAMPLES_FILE)] == [1, 2, 3, 4]
    before = (run / METRICS_FILE).stat().st_mtime_ns
    forget_after(run, 4)
    assert (run / METRICS_FILE).stat().st_mtime_ns == before  # nothing to forget, nothing written
    forget_after(run, 0)
    assert (run / METRICS_FILE).read_bytes() == b""


def test_where_nothing_was_written_there_is_nothing_to_forget(run: Path) -> None:
    forget_after(run, 0)
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
