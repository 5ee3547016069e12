"""The loop: exact resume, one denominator a step, and what happens when a batch blows up."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from gpt1.base.errors import FormatError, NoRoom, SettingError
from gpt1.runs import checkpoints, writer
from gpt1.runs.checkpoints import (
    MODEL_FILE,
    Checkpoint,
    best_step,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    read_state,
)
from gpt1.runs.events import Evaluated, Event, Noticed, Saved, Stepped
from gpt1.runs.folder import CHECKPOINTS
from gpt1.training.batches import Batch
from gpt1.training.config import Judgement
from gpt1.training.signals import StopRequests
from gpt1.training.trainer import Diverged, Trainer, TrainerState
from tests.training.tools import TOY, Recorder, ToyBatches, toy_trainer, weights_of, with_training

KEEPING_ALL = replace(TOY, logging=replace(TOY.logging, keep=10))  # checkpoints to begin from anywhere


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert different == []


@pytest.mark.parametrize("micro", [None, 3])
def test_a_resumed_run_is_the_unbroken_run_bit_for_bit(tmp_path: Path, micro: int | None) -> None:
    recipe = with_training(KEEPING_ALL, micro_batch=micro)
    record = Recorder()
    unbroken = toy_trainer(tmp_path / "unbroken", recipe, listeners=[record])
    assert unbroken.train()
    for stop in (4, 8, 16):
        again = Recorder()
        resumed = toy_trainer(tmp_path / f"from {stop}", recipe, listeners=[again])
        resumed.restore(_checkpoint_of(tmp_path / "unbroken", stop))
        assert resumed.train()
        assert_same(weights_of(resumed), weights_of(unbroken))
        assert again.losses == {step: loss for step, loss in record.losses.items() if step > stop}


def _checkpoint_of(run: Path, step: int) -> Checkpoint:
    return load_checkpoint(dict(list_checkpoints(run))[step])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("micro", [8, 1, 5])
def test_micro_batches_change_nothing_but_rounding(tmp_path: Path, micro: int, dropout: float) -> None:
    recipe = with_training(
        replace(TOY, shape=replace(TOY.shape, dropout=dropout)), batch=32, steps=1, max_loss_spike=None
    )
    partial = ToyBatches(29)  # the last batch of an epoch is smaller than the others

    def gradients(run: str, micro: int | None) -> tuple[dict[str, torch.Tensor], float]:
        record = Recorder()
        trainer = toy_trainer(tmp_path / run, with_training(recipe, micro_batch=micro), partial, listeners=[record])
        assert trainer.train()
        return {name: tensor.grad.clone() for name, tensor in trainer.model.named_parameters()}, record.losses[1]

    whole, loss = gradients("whole", None)
    parts, loss_of_parts = gradients("parts", micro)
    assert loss_of_parts == pytest.approx(loss, rel=1e-6)
    total = torch.stack([gradient.norm() for gradient in whole.values()]).norm()
    for name, gradient in whole.items():
        error = (gradient - parts[name]).norm() / max(gradient.norm(), 1e-6 * total)
        assert error < 1e-5 or gradient.norm() < 1e-6 * total, name


@pytest.mark.parametrize("poison", [math.nan, math.inf, 50.0])
def test_a_batch_that_blows_up_is_skipped_for_good_and_the_run_ends_well(tmp_path: Path, poison: float) -> None:
    record = Recorder()
    batches = ToyBatches(poison={10: poison})
    trainer = toy_trainer(tmp_path / "run", batches=batches, listeners=[record])
    assert trainer.train()
    (rollback,) = record.rollbacks
    assert (rollback.batch, rollback.step, rollback.to_step) == (10, 11, 8)
    assert trainer.progress.skipped == [10]
    assert (trainer.progress.step, trainer.progress.batch) == (20, 21)
    assert all(torch.isfinite(tensor).all() for tensor in weights_of(trainer).values())
    assert record.losses.keys() == set(range(1, 21))


def test_a_run_with_a_skipped_batch_resumes_bit_for_bit(tmp_path: Path) -> None:
    poison = {10: math.nan}
    whole = toy_trainer(tmp_path / "run", KEEPING_ALL, ToyBatches(poison=poison))
    assert whole.train()
    for step, skipped_before in ((8, []), (12, [10]), (16, [10])):
        record = Recorder()
        resumed = toy_trainer(tmp_path / f"from {step}", KEEPING_ALL, ToyBatches(poison=poison), listeners=[record])
        resumed.restore(_checkpoint_of(tmp_path / "run", step))
        assert resumed.progress.skipped == skipped_before
        resumed.save()  # what was saved before the fault lies where the resumed run looks for it
        assert resumed.train()
        assert len(record.rollbacks) == 1 - len(skipped_before)
        assert_same(weights_of(resumed), weights_of(whole))


def test_a_run_that_blows_up_at_every_batch_stops_with_its_state_saved(tmp_path: Path) -> None:
    record = Recorder()
    trainer = toy_trainer(
        tmp_path / "run", batches=ToyBatches(poison=lambda k: math.nan if k >= 10 else 1.0), listeners=[record]
    )
    with pytest.raises(Diverged, match=r"3 batches blew up .* lower optimizer.lr"):
        trainer.train()
    saved = newest_checkpoint(tmp_path / "run", pytest.fail)
    assert saved is not None
    assert saved.step == 8
    assert saved.progress["skipped"] == [10, 11, 12]
    assert all(torch.isfinite(tensor).all() for tensor in saved.model.values())


def test_the_first_step_can_blow_up_too(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path / "run", batches=ToyBatches(poison={0: math.nan}))
    assert trainer.train()
    assert trainer.progress.skipped == [0]


def test_a_rollback_goes_past_a_damaged_checkpoint_and_names_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record = Recorder()

    def damage(event: Event) -> None:
        if isinstance(event, Saved) and event.step == 8:
            path = event.path / MODEL_FILE
            content = bytearray(path.read_bytes())
            content[-3] ^= 1
            path.write_bytes(content)

    trainer = toy_trainer(run, batches=ToyBatches(poison={10: math.nan}), listeners=[damage, record])
    assert trainer.train()
    assert record.rollbacks[0].to_step == 4
    (notice,) = [event.text for event in record.events if isinstance(event, Noticed)]
    assert "step-00000008 is damaged: model.safetensors does not match its checksum" in notice


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_its_step_with_the_state_saved(tmp_path: Path, number: int) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 6:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    trainer = toy_trainer(tmp_path / "run", listeners=[kill])
    assert not trainer.train()
    assert signal.getsignal(number) == before
    step = trainer.progress.step
    assert 6 < step < 10
    assert list_checkpoints(tmp_path / "run")[-1][0] == step
    whole, resumed = toy_trainer(tmp_path / "whole"), toy_trainer(tmp_path / "run")
    resumed.restore(_checkpoint_of(tmp_path / "run", step))
    assert whole.train()
    assert resumed.train()
    assert_same(weights_of(resumed), weights_of(whole))


def test_the_end_of_the_time_budget_saves_and_stops(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path / "run", minutes=0.0)
    assert not trainer.train()
    assert trainer.out_of_time
    assert list_checkpoints(tmp_path / "run")[-1][0] == trainer.progress.step > 0


def test_the_newest_the_best_and_the_kept_checkpoints_stay(tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0, 2.5, 2.6])
    logging = replace(TOY.logging, evaluate_every=4, keep=1, keep_every=16)
    trainer = toy_trainer(tmp_path / "run", replace(TOY, logging=logging), evaluate=lambda: Judgement({}, next(losses)))
    assert trainer.train()
    assert [step for step, _ in list_checkpoints(tmp_path / "run")] == [0, 8, 16, 20]


def test_what_is_to_be_kept_is_saved_though_it_is_no_time_to_save(tmp_path: Path) -> None:
    logging = replace(TOY.logging, log_every=99, save_every=None, keep=1, keep_every=6)
    assert toy_trainer(tmp_path / "run", replace(TOY, logging=logging)).train()
    assert [step for step, _ in list_checkpoints(tmp_path / "run")] == [0, 6, 12, 18, 20]


WITH_A_CURVE = replace(TOY, logging=replace(TOY.logging, log_every=99, save_every=7, keep=1, keep_weights=3))


def test_weights_of_a_curve_are_saved_when_it_is_time_to_and_stay_without_moments(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert toy_trainer(run, WITH_A_CURVE).train()
    assert [(step, load_checkpoint(path).optimizer is None) for step, path in list_checkpoints(run)] == [
        (0, True),
        (3, True),
        (6, True),
        (12, True),
        (20, False),
    ]
    plain = toy_trainer(tmp_path / "plain", replace(TOY, logging=replace(TOY.logging, save_every=3, keep=99)))
    assert plain.train()
    for step in (3, 6, 12):
        assert_same(_checkpoint_of(run, step).model, _checkpoint_of(tmp_path / "plain", step).model)


def test_the_best_checkpoint_is_the_one_that_was_evaluated_not_one_after_it(tmp_path: Path) -> None:
    losses = iter([3.0, 1.0, 2.0, 2.5])
    logging = replace(TOY.logging, evaluate_every=5, save_every=2, keep=1)
    trainer = toy_trainer(tmp_path / "run", replace(TOY, logging=logging), evaluate=lambda: Judgement({}, next(losses)))
    assert trainer.train()
    assert best_step(tmp_path / "run") == 10
    assert [step for step, _ in list_checkpoints(tmp_path / "run")] == [10, 20]


def test_of_equal_costs_the_lowest_tiebreak_is_kept_also_by_a_run_that_goes_on(tmp_path: Path) -> None:
    given = [(1.0, 0.9), (0.5, 0.4), (0.5, 0.2), (0.5, 0.3), (0.7, 0.1)]
    logging = replace(TOY.logging, evaluate_every=4, keep=1)

    def train(run: Path, first: int, steps: int) -> None:
        found = iter(given[first:])
        recipe = with_training(replace(TOY, logging=logging), steps=steps)
        trainer = toy_trainer(run, recipe, evaluate=lambda: Judgement({}, *next(found)))
        if first:
            trainer.restore(load_checkpoint(list_checkpoints(run)[-1][1]))
        assert trainer.train()

    train(tmp_path / "one go", 0, 20)
    assert best_step(tmp_path / "one go") == 12
    assert [step for step, _ in list_checkpoints(tmp_path / "one go")] == [12, 20]
    for pause in (8, 12, 16):
        train(tmp_path / f"{pause}", 0, pause)
        train(tmp_path / f"{pause}", pause // 4, 20)
        assert [step for step, _ in list_checkpoints(tmp_path / f"{pause}")] == [12, 20]


def test_a_run_that_went_back_behind_damaged_checkpoints_keeps_what_it_saves(tmp_path: Path) -> None:
    run = tmp_path / "run"
    logging = replace(TOY.logging, keep=1, keep_every=8)
    assert toy_trainer(run, replace(TOY, logging=logging)).train()
    for step, path in list_checkpoints(run):
        if step > 8:
            (path / MODEL_FILE).write_bytes(b"")
    resumed = toy_trainer(run, replace(TOY, logging=replace(logging, save_every=3)), minutes=0.0)
    resumed.restore(_checkpoint_of(run, 8))
    assert not resumed.train()
    found = newest_checkpoint(run, lambda text: None)
    assert found is not None
    assert found.step == resumed.progress.step < 12


def test_seconds_are_those_of_training_and_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def tick(event: Event) -> None:
        nonlocal now
        now += 1.0 if isinstance(event, Stepped) else 100.0  # a step takes a second, saving much longer

    monkeypatch.setattr("gpt1.training.trainer.time.monotonic", lambda: now)
    trainer = toy_trainer(tmp_path / "run", listeners=[tick])
    assert trainer.train()
    assert trainer.progress.seconds == 20.0
    seconds = {step: read_state(path)["progress"]["seconds"] for step, path in list_checkpoints(tmp_path / "run")}
    assert seconds == {12: 12.0, 16: 16.0, 20: 20.0}


def test_a_wish_to_stop_at_the_last_step_is_an_end(tmp_path: Path) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 19:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer = toy_trainer(tmp_path / "run", listeners=[kill])
    assert trainer.train()
    assert trainer.progress.step == 20


def test_a_second_signal_ends_at_once_and_what_is_being_written_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    hash_of, remember = checkpoints.file_hash, StopRequests._remember
    heard = threading.Event()

    def heard_once(self: StopRequests, number: int, frame: FrameType | None) -> None:
        remember(self, number, frame)
        heard.set()

    def interrupted(path: Path) -> str:
        is_due = path.name == checkpoints.MODEL_FILE and path.parent.name.startswith("step-00000008")
        if is_due and not heard.is_set():  # a third one would end the writing too
            os.kill(os.getpid(), signal.SIGINT)
            assert heard.wait(600)  # two of a kind at once would be one
            os.kill(os.getpid(), signal.SIGINT)
        return hash_of(path)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "file_hash", interrupted)
        patched.setattr(StopRequests, "_remember", heard_once)
        with pytest.raises(KeyboardInterrupt):
            toy_trainer(run, KEEPING_ALL).train()
    names = [path.name for path in sorted((run / CHECKPOINTS).iterdir())]
    assert names[:3] == ["step-00000000", "step-00000004", "step-00000008"]
    assert not any("tmp" in name for name in names)
    whole, resumed = toy_trainer(tmp_path / "whole"), toy_trainer(run)
    resumed.restore(_checkpoint_of(run, 8))
    assert whole.train()
    assert resumed.train()
    assert_same(weights_of(resumed), weights_of(whole))


def test_without_a_checkpoint_a_run_with_a_parent_goes_back_to_its_first_weights(tmp_path: Path) -> None:
    poison, run = {2: math.nan}, tmp_path / "run"
    record = Recorder()
    trainer = toy_trainer(run, batches=ToyBatches(poison=poison), listeners=[record], has_parent=True)
    assert trainer.train()
    assert [event.to_step for event in record.rollbacks] == [0]
    assert min(event.step for event in record.events if isinstance(event, Saved)) > 0
    with_first = toy_trainer(tmp_path / "with the first", batches=ToyBatches(poison=poison))
    assert with_first.train()
    assert_same(weights_of(trainer), weights_of(with_first))
    assert trainer.progress.skipped == [2]


OVER = replace(TOY, logging=replace(TOY.logging, evaluate_every=4, keep=1, keep_optimizer=False))


def judged_trainer(run: Path, costs: Sequence[float], stop_at: int | None = None) -> Trainer:
    """Return a trainer that finds these costs at the steps 4, 8, ..., and is asked to stop at a step."""

    def stop(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def evaluate() -> Judgement:
        return Judgement({}, costs[trainer.progress.step // 4 - 1])

    trainer = toy_trainer(run, OVER, evaluate=evaluate, listeners=[stop])
    if saved := list_checkpoints(run):
        trainer.restore(load_checkpoint(saved[-1][1]))
    return trainer


def test_a_run_that_is_over_keeps_its_best_weights_alone_and_no_moments_where_none_are_wanted(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer = judged_trainer(run, (3.0, 1.0, 2.0, 2.5, 2.6))
    assert trainer.train()
    ((step, path),) = list_checkpoints(run)
    assert (step, sorted(file.name for file in path.iterdir())) == (8, [MODEL_FILE, "state.json"])
    kept = load_checkpoint(path)
    facts = {"step": 8, "cost": 1.0, "stale": 3, "ended_at": 20}  # of the weights, and of the run
    assert {name: kept.progress[name] for name in facts} == facts
    assert trainer.best is not None
    assert (trainer.best.step, trainer.best.weights_hash) == (8, kept.weights_hash)
    assert_same(kept.model, trainer.best.model)

    again = toy_trainer(run, OVER)
    again.restore(kept)
    assert again.is_done
    assert again.progress.updates_made == 20
    longer = toy_trainer(run, with_training(OVER, steps=30))
    before = weights_of(longer)
    with pytest.raises(SettingError, match=r"step-00000008 was kept without the optimiser's moments, .*keep_optimizer"):
        longer.restore(kept)
    assert_same(weights_of(longer), before)


def test_the_best_weights_are_there_for_who_uses_them_before_they_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SECONDS_A_GIGABYTE", 1e12)
    may_write, save = threading.Event(), writer.save_checkpoint

    def waiting_save(*given: Any) -> Path:
        assert may_write.wait(timeout=600)
        return save(*given)

    monkeypatch.setattr(writer, "save_checkpoint", waiting_save)
    trainer = judged_trainer(tmp_path / "run", (3.0, 1.0, 2.0, 2.5, 2.6))
    with trainer.saving():
        assert trainer.make_updates()
        assert list_checkpoints(tmp_path / "run") == []
        assert trainer.best is not None
        assert (trainer.best.step, trainer.best.weights_hash) == (8, None)
        may_write.set()
        trainer.wait_for_disk()
        assert trainer.best.weights_hash == load_checkpoint(trainer.best.path).weights_hash


@pytest.mark.parametrize("costs", [(3.0, 1.0, 2.0, 2.5, 2.6), (3.0, 2.0, 1.9, 1.8, 1.0), (1.0, 2.0, 2.0, 2.0, 2.0)])
def test_what_is_kept_at_the_end_does_not_depend_on_what_was_on_the_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, costs: tuple[float, ...]
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    for step in (5, 9, 13):
        assert not judged_trainer(run, costs, stop_at=step).train()
    assert judged_trainer(run, costs).train()
    monkeypatch.setattr(writer, "SECONDS_A_GIGABYTE", 1e12)  # nothing is written before the end
    assert judged_trainer(whole, costs).train()
    ((step, path),), ((other, path_of_whole),) = list_checkpoints(run), list_checkpoints(whole)
    assert step == other
    one, two = load_checkpoint(path), load_checkpoint(path_of_whole)
    assert_same(one.model, two.model)
    assert {**one.progress, "seconds": 0} == {**two.progress, "seconds": 0}


def test_where_the_best_on_the_disk_is_damaged_at_the_end_the_last_one_is_kept_too(tmp_path: Path) -> None:
    run, costs = tmp_path / "run", (1.0, 2.0, 2.0, 2.0, 2.0)
    assert not judged_trainer(run, costs, stop_at=9).train()
    best, stopped = list_checkpoints(run)
    assert best[0] == 4 < stopped[0]
    (best[1] / MODEL_FILE).write_bytes(b"damaged")
    trainer = judged_trainer(run, costs)
    assert trainer.train()
    assert [step for step, _ in list_checkpoints(run)] == [4, 20]
    assert trainer.best is None


def test_a_run_of_an_earlier_version_that_goes_on_finds_its_best_weights_on_the_disk(tmp_path: Path) -> None:
    run, costs = tmp_path / "run", (1.0, 2.0, 2.0, 2.0, 2.0)
    assert not judged_trainer(run, costs, stop_at=9).train()
    newest = load_checkpoint(list_checkpoints(run)[-1][1])
    trainer = judged_trainer(run, costs)
    trainer.restore(replace(newest, progress={**newest.progress, "best_step": None}))
    assert trainer.train()
    assert [step for step, _ in list_checkpoints(run)] == [4]


def test_a_run_that_was_stopped_keeps_its_moments(tmp_path: Path) -> None:
    recipe, run = replace(TOY, logging=replace(TOY.logging, keep_optimizer=False)), tmp_path / "run"
    assert not toy_trainer(run, recipe, minutes=0.0).train()
    whole, resumed = toy_trainer(tmp_path / "whole", recipe), toy_trainer(run, recipe)
    resumed.restore(_checkpoint_of(run, list_checkpoints(run)[-1][0]))
    assert whole.train()
    assert resumed.train()
    assert_same(weights_of(resumed), weights_of(whole))


def test_a_full_disk_ends_the_run_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(run: Path, step: int, *rest: object) -> Path:
        if step == 8:
            raise NoRoom("cannot write step-00000008: no space left on device")
        return save(run, step, *rest)

    save = writer.save_checkpoint
    monkeypatch.setattr(writer, "save_checkpoint", full)
    with pytest.raises(NoRoom, match="cannot write step-00000008"):
        toy_trainer(tmp_path / "run").train()
    assert list_checkpoints(tmp_path / "run")[-1][0] == 4


def test_the_state_of_another_network_is_refused_before_anything_changes(tmp_path: Path) -> None:
    assert toy_trainer(tmp_path / "run", with_training(TOY, steps=1)).train()
    checkpoint = _checkpoint_of(tmp_path / "run", 1)
    for shape in (replace(TOY.shape, layers=1), replace(TOY.shape, feed_forward=48)):
        other = toy_trainer(tmp_path / "other", replace(TOY, shape=shape))
        before = weights_of(other)
        with pytest.raises(FormatError, match="does not fit this model"):
            other.restore(checkpoint)
        assert_same(weights_of(other), before)
    with pytest.raises(FormatError, match="colour is not known to this version of gpt1"):
        toy_trainer(tmp_path / "same").restore(replace(checkpoint, progress={"colour": "red"}))


def test_an_error_in_reading_ends_the_run_and_says_which(tmp_path: Path) -> None:
    class Broken(ToyBatches):
        def batch(self, k: int) -> Batch:
            if k == 6:
                raise FormatError("train-00003.tok is damaged")
            return super().batch(k)

    with pytest.raises(FormatError, match=r"train-00003.tok is damaged"):
        toy_trainer(tmp_path / "run", batches=Broken()).train()
    assert list_checkpoints(tmp_path / "run")[-1][0] == 4


def test_the_trainer_reports_evaluations_and_speed(tmp_path: Path) -> None:
    record = Recorder()
    logging = replace(TOY.logging, evaluate_every=10, log_every=5)
    trainer = toy_trainer(
        tmp_path / "run", replace(TOY, logging=logging), evaluate=lambda: Judgement({}, 1.0), listeners=[record]
    )
    assert trainer.train()
    assert [event.step for event in record.events if isinstance(event, Evaluated)] == [10, 20]
    assert list(record.losses) == [1, 5, 10, 15, 20]
    assert all(event.tokens_per_second > 0 for event in record.events if isinstance(event, Stepped))


def test_the_toy_learns(tmp_path: Path) -> None:
    record = Recorder()
    trainer = toy_trainer(tmp_path / "run", with_training(TOY, steps=200), listeners=[record])
    assert trainer.train()
    assert record.losses[200] < record.losses[1] - 0.8


def test_fp16_halves_its_scale_instead_of_rolling_back(tmp_path: Path) -> None:
    # A scale that overflows single precision stands in for half precision's narrow range, which CPUs lack.
    record = Recorder()
    trainer = toy_trainer(tmp_path / "run", with_training(TOY, precision="fp16"), listeners=[record])
    trainer.progress.loss_scale = 2.0**130
    assert trainer.train()
    assert record.rollbacks == []
    assert trainer.progress.step == 20
    assert trainer.progress.batch > 20
    assert trainer.progress.loss_scale < 2.0**130


def test_nothing_is_left_under_a_temporary_name(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path / "run")
    assert trainer.train()
    assert [path.name for path in (tmp_path / "run" / CHECKPOINTS).iterdir() if "tmp" in path.name] == []


def losses_of(trainer: Trainer) -> dict[int, float]:
    record = Recorder()
    trainer._listeners.append(record)
    assert trainer.train()
    return record.losses


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("default")  # the compiler has advice of its own, such as on TensorFloat32
@pytest.mark.parametrize("compiled", [False, True])
def test_a_save_on_the_way_changes_nothing_on_a_gpu_either(tmp_path: Path, compiled: bool) -> None:
    def losses(name: str, save_every: int) -> list[float]:
        record = Recorder()
        recipe = replace(TOY, logging=replace(TOY.logging, save_every=save_every))
        trainer = toy_trainer(tmp_path / name, recipe, listeners=[record], device=torch.device("cuda"))
        if compiled:
            trainer.model.compile()
        assert trainer.train()
        return list(record.losses.values())

    assert losses("often", 2) == pytest.approx(losses("never", 10**9), rel=1e-3)


def test_the_best_cost_and_the_evaluations_since_it_are_remembered() -> None:
    state = TrainerState()
    seen = []
    for cost in (3.0, 1.0, 2.0, math.nan, 1.0, 0.5):
        state.judge(cost)
        seen.append((state.cost, state.best_cost, state.stale))
    assert seen == [(3.0, 3.0, 0), (1.0, 1.0, 0), (2.0, 1.0, 1), (None, 1.0, 2), (1.0, 1.0, 3), (0.5, 0.5, 0)]


def test_patience_ends_when_neither_cost_nor_tiebreak_gets_better() -> None:
    state = TrainerState()
    seen = []
    for cost, tiebreak in ((1.0, 0.5), (1.0, 0.4), (1.0, 0.6), (1.0, math.nan), (2.0, 0.1), (1.0, 0.3), (0.5, 0.9)):
        state.judge(cost, tiebreak)
        seen.append((state.is_best, state.stale))
    assert seen == [(True, 0), (True, 0), (False, 1), (False, 2), (False, 3), (True, 0), (True, 0)]
    assert (state.best_cost, state.best_tiebreak) == (0.5, 0.9)
    state = TrainerState(cost=1.0, best_cost=1.0)  # as an earlier version left it
    state.judge(1.0, 0.5)
    assert (state.is_best, state.stale) == (True, 0)


def test_batches_that_blew_up_are_passed_over() -> None:
    state = TrainerState(skipped=[4, 5, 9])
    assert [state.next_batch(batch) for batch in (2, 3, 4, 8)] == [3, 6, 6, 10]
