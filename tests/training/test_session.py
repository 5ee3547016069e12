"""What every training verb does around the loop: going on or beginning, telling, stopping."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from gpt1.base.errors import InputError, Interrupted, SettingError
from gpt1.recipes.catalog import PAPER, TINY
from gpt1.recipes.changes import change, settings
from gpt1.recipes.values import Recipe
from gpt1.records.run import Hardware, RunRecord
from gpt1.runs.checkpoints import MODEL_FILE, Checkpoint, list_checkpoints, newest_checkpoint
from gpt1.runs.events import Event, Noticed, Stepped
from gpt1.runs.files import RunFiles
from gpt1.runs.folder import begin_run
from gpt1.training.distributed import World
from gpt1.training.session import (
    FREE_ON_RESUME,
    as_recipe,
    begun_run,
    checkpoint_to_resume,
    conduct,
    notifier,
    on_shares,
    resumed,
    sequences_at_once,
    speed_up,
    why_no_kernels,
)
from gpt1.training.trainer import Trainer
from tests.training.tools import TOY, Recorder, toy_trainer, weights_of


class Told(list[str]):
    """Remembers sentences."""

    def __call__(self, text: str | None) -> None:
        if text:
            self.append(text)


# ---- telling ----


def test_a_notifier_passes_sentences_on_and_nothing_else() -> None:
    heard: list[Event] = []
    notify = notifier([heard.append, heard.append])
    notify("a sentence")
    notify(None)
    notify("")
    assert heard == [Noticed("a sentence"), Noticed("a sentence")]
    notifier([])("nobody listens")


# ---- recipes ----


def test_a_recipe_is_a_value_or_a_name() -> None:
    assert as_recipe("tiny") is TINY
    assert as_recipe(PAPER) is PAPER
    with pytest.raises(SettingError, match="unknown recipe 'tinny'; did you mean 'tiny'"):
        as_recipe("tinny")


def as_it_is(recipe: Recipe) -> Recipe:
    return recipe


def updates_of(recipe: Recipe) -> int:
    return recipe.training.steps or round(10 * recipe.training.epochs)


def test_a_resumed_run_keeps_its_recipe_and_tells_what_may_change() -> None:
    old = change(TINY, ["training.steps=20"])
    assert resumed(Path("run"), old, None, [], as_it_is, updates_of) == (old, [])
    new, told = resumed(Path("run"), old, None, ["training.steps=30", "logging.keep=5"], as_it_is, updates_of)
    assert new == change(old, ["training.steps=30", "logging.keep=5"])
    assert told == ["training.steps was 20, is 30 now", "logging.keep was 2, is 5 now"]
    asked, told = resumed(Path("run"), old, "tiny", ["training.steps=20"], as_it_is, updates_of)
    assert (asked, told) == (old, [])


@pytest.mark.parametrize("name", [name for name in settings(PAPER) if not name.startswith(FREE_ON_RESUME)])
def test_whatever_decides_the_losses_must_stay(name: str) -> None:
    value = settings(PAPER)[name]
    other = {
        "shape.kind": "transformer",
        "shape.norm": "rms",
        "shape.positions": "rotary",
        "shape.activation": "relu2",
        "optimizer.kind": "adamw",
        "schedule.kind": "linear",
        "shape.heads": "6",
        "shape.width": "1536",
        "shape.layers": "2",
        "finetuning.windows": "mean",
    }.get(name)
    if name == "shape.kind":
        old = change(PAPER, ["shape.kind=lstm", "shape.layers=1"])
        asked = ["shape.kind=transformer", "shape.layers=1"]
    else:
        wanted = {"shape.global_tokens": "shape.window=64", "finetuning.bidirectional": "finetuning.lm_weight=0"}
        old = change(PAPER, [wanted[name]]) if name in wanted else PAPER
        if other is None:
            other = str(not value) if isinstance(value, bool) else "7" if isinstance(value, int | None) else "0.0123"
        asked = [f"{name}={other}"]
    with pytest.raises(SettingError) as caught:
        resumed(Path("runs/a"), old, None, asked, as_it_is, updates_of)
    assert str(caught.value).startswith(f"{name} is ")
    assert "in the run runs/a" in str(caught.value)
    assert "leave it, or begin a new run with `init='runs/a'`" in str(caught.value)


def test_what_is_taken_over_is_no_difference() -> None:
    old = change(TINY, ["shape.layers=2"])
    new, told = resumed(Path("run"), old, "tiny", [], lambda recipe: replace(recipe, shape=old.shape), updates_of)
    assert (new, told) == (old, [])


# ---- shares of a batch ----


def test_fewer_processes_work_on_as_many_sequences_at_once_as_more_did() -> None:
    batch = replace(TINY.training, batch=64)
    assert sequences_at_once(batch, 2, before=None) is None
    assert sequences_at_once(batch, 2, Hardware("a GPU", 4, at_once=None)) is None  # of an earlier version
    assert sequences_at_once(batch, 2, Hardware("a GPU", 4, at_once=16)) == 16
    assert sequences_at_once(batch, 8, Hardware("a GPU", 4, at_once=16)) is None
    assert sequences_at_once(replace(batch, micro_batch=5), 2, Hardware("a GPU", 4, at_once=16)) == 5


def test_it_is_told_what_processes_do_not_work_on_or_not_at_once() -> None:
    batch = replace(TINY.training, batch=8)
    assert on_shares(batch, None, 3) == []
    (told,) = on_shares(batch, None, 6)
    assert told == "2 of 6 processes have nothing to do: a batch of 8 sequences gives the others 2 each"
    (told,) = on_shares(batch, 2, 1)
    assert told.startswith("each process works on 2 sequences at once, as before in more processes, of 8 that are its")


# ---- the run that is there ----


def test_a_run_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").touch()
    record = RunRecord("pretraining", TOY, tokenizer="", vocab_size=50)
    begin_run(tmp_path / "run", record, tmp_path / "tokenizer.json")
    assert begun_run(tmp_path / "run", "pretraining").kind == "pretraining"
    with pytest.raises(SettingError, match=r"is a run of another kind \(pretraining\)"):
        begun_run(tmp_path / "run", "finetuning")


# ---- checkpoints ----


def test_a_run_that_never_began_has_nothing_to_go_on_from_and_one_that_did_must_have(tmp_path: Path) -> None:
    told = Told()
    assert checkpoint_to_resume(tmp_path, told) is None
    assert toy_trainer(tmp_path / "run").train()
    found = checkpoint_to_resume(tmp_path / "run", told)
    assert found is not None
    assert (found.step, told) == (20, [])
    (list_checkpoints(tmp_path / "run")[-1][1] / MODEL_FILE).write_bytes(b"")
    found = checkpoint_to_resume(tmp_path / "run", told)
    assert found is not None
    assert found.step == 16
    assert "step-00000020 is damaged" in told[0]
    for _, path in list_checkpoints(tmp_path / "run"):
        (path / MODEL_FILE).write_bytes(b"")
    with pytest.raises(InputError, match="has no whole checkpoint to go on from; bring one back"):
        checkpoint_to_resume(tmp_path / "run", told)


def test_metrics_without_any_checkpoint_are_those_of_a_run_that_began(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(InputError, match="has no whole checkpoint"):
        checkpoint_to_resume(tmp_path, Told())


# ---- devices ----


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


@pytest.mark.usefixtures("restored")
def test_a_run_can_ask_to_be_repeatable() -> None:
    cpu = torch.device("cpu")
    assert speed_up(nn.Linear(1, 1), TOY, cpu, World()) is None
    assert not torch.are_deterministic_algorithms_enabled()
    strict = replace(TOY, training=replace(TOY.training, deterministic=True))
    assert speed_up(nn.Linear(1, 1), strict, cpu, World()) is None
    assert torch.are_deterministic_algorithms_enabled()


class Compiled(nn.Module):
    """Knows whether it was asked to compile itself."""

    asked = False

    def compile(self, *given: object, **named: object) -> None:
        self.asked = True


class Fused(Compiled):
    """Has blocks of our own kernels."""

    fused = True


def test_only_a_gpu_compiles_and_says_where_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(TOY, training=replace(TOY.training, compile=True))
    fsdp = replace(recipe, training=replace(recipe.training, parallelism="fsdp"))
    lstm = replace(recipe, shape=replace(recipe.shape, kind="lstm", layers=1))
    cuda = torch.device("cuda")
    for given, device, world, compiles, said in (
        (recipe, torch.device("cpu"), World(), False, None),
        (TOY, cuda, World(), False, None),
        (lstm, cuda, World(), False, None),
        (fsdp, cuda, World(0, 2), False, "not compiled: fsdp shares out"),
        (fsdp, cuda, World(), True, None),
    ):
        monkeypatch.setattr("gpt1.training.session.importlib.util.find_spec", lambda name: object())
        model = Compiled()
        told = speed_up(model, given, device, world)
        assert model.asked == compiles
        assert told is None if said is None else str(told).startswith(said)
    monkeypatch.setattr("gpt1.training.session.importlib.util.find_spec", lambda name: None)
    model = Compiled()
    assert "the package triton is not installed" in str(speed_up(model, recipe, cuda, World()))
    assert not model.asked


def test_kernels_of_our_own_are_used_where_they_are_asked_for_and_fit() -> None:
    cuda, fp16 = torch.device("cuda"), replace(TOY, training=replace(TOY.training, precision="fp16"))
    bf16, strict = (
        replace(TOY, training=replace(TOY.training, precision="bf16", deterministic=exact)) for exact in (False, True)
    )
    assert why_no_kernels(bf16, torch.device("cpu"), World()) == "there is no GPU"
    assert why_no_kernels(bf16, cuda, World(0, 2)) == "there are several processes"
    assert why_no_kernels(fp16, cuda, World()) == "the arithmetic is fp16, not bf16"
    assert why_no_kernels(strict, cuda, World()) == "the run is to be deterministic"
    normalised = replace(bf16, shape=replace(bf16.shape, norm_first=True))
    assert why_no_kernels(normalised, cuda, World()) is not None


def test_who_asks_for_kernels_in_vain_is_told_why() -> None:
    asked, model = replace(TOY, training=replace(TOY.training, fused=True)), Compiled()
    told = speed_up(model, asked, torch.device("cpu"), World())
    assert told == "without kernels of our own (training.fused): there is no GPU"
    compiled, fused = replace(asked, training=replace(asked.training, compile=True)), Fused()
    assert speed_up(fused, compiled, torch.device("cuda"), World()) is None
    assert not fused.asked


# ---- conducting ----


def conducted(trainer: Trainer, checkpoint: Checkpoint | None, resume: bool, told: Told) -> bool:
    with trainer.saving():
        return conduct(trainer, checkpoint, resume, told)


def test_a_training_begins_ends_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole, told = toy_trainer(tmp_path / "whole"), Told()
    assert conducted(whole, None, False, told)
    assert told == []
    run = tmp_path / "run"
    assert not conducted(toy_trainer(run, minutes=0.0), None, True, told)
    assert told[0] == f"nothing to resume in {run}: beginning with the first update"
    assert told[1] == "stopped at update 1 of 20, saved; the same again with `resume=True` goes on"
    again, told = toy_trainer(run), Told()
    assert conducted(again, newest_checkpoint(run, pytest.fail), True, told)
    assert told == ["going on from update 1 of 20"]
    one, other = weights_of(whole), weights_of(again)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_finished_training_is_left_alone(tmp_path: Path) -> None:
    told, record = Told(), Recorder()
    assert toy_trainer(tmp_path / "run").train()
    again = toy_trainer(tmp_path / "run", listeners=[record])
    assert conducted(again, newest_checkpoint(tmp_path / "run", pytest.fail), True, told)
    assert told == ["all 20 updates are made; `changes=['training.steps=N']` makes more"]
    assert record.events == []


def test_a_signal_ends_in_an_interruption_with_the_state_saved(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer = toy_trainer(tmp_path / "run", listeners=[stop])
    with pytest.raises(
        Interrupted, match=r"stopped at update \d+ of 20, saved; the same again with `resume=True` goes on"
    ):
        conducted(trainer, None, False, Told())
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert list_checkpoints(tmp_path / "run")[-1][0] == trainer.progress.step


def test_what_is_made_again_is_told_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert toy_trainer(run, listeners=[RunFiles(run)]).train()
    for step, path in list_checkpoints(run):
        if step > 12:
            (path / MODEL_FILE).write_bytes(b"")
    again = toy_trainer(run, listeners=[RunFiles(run)])
    assert conducted(again, newest_checkpoint(run, lambda text: None), True, Told())
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 21))
