"""Checkpoints are written beside the training: which ones, in which order, and what happens when one cannot be."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import NoRoom
from gpt1.recipes.values import Logging
from gpt1.runs import writer
from gpt1.runs.checkpoints import OPTIMIZER_FILE, list_checkpoints, load_checkpoint, rank
from gpt1.runs.writer import CheckpointWriter, Snapshot
from tests.waiting import eventually

KEEP_ONE = Logging(keep=1)


def snapshot(step: int, cost: float | None = None, best: float | None = None) -> Snapshot:
    tensors = {"w": torch.full((2,), float(step))}
    found = None if cost is None else rank(cost, None)
    return Snapshot(step, tensors, tensors, {"cost": cost}, found, cost is not None and cost == best)


class Gate:
    """Lets a write go on when it is told to."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._may = threading.Semaphore(0)
        self._save = writer.save_checkpoint

    def save(self, run: Path, step: int, *rest: object) -> Path:
        self.begun.append(step)
        assert self._may.acquire(timeout=600)
        return self._save(run, step, *rest)

    def open(self, writes: int = 1) -> None:
        self._may.release(writes)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(writer, "save_checkpoint", gate.save)
    yield gate
    gate.open(100)


def entered(run: Path, logging: Logging = KEEP_ONE) -> CheckpointWriter:
    return CheckpointWriter(run, {}, logging, torch.device("cpu"))


def steps(run: Path) -> list[int]:
    return [step for step, _ in list_checkpoints(run)]


def test_the_training_goes_on_while_a_checkpoint_is_written(tmp_path: Path, gate: Gate) -> None:
    with entered(tmp_path) as checkpoints:
        checkpoints.save(snapshot(1))
        eventually(lambda: gate.begun == [1], "the first write")
        assert checkpoints.written() == []
        assert steps(tmp_path) == []
        gate.open()
        assert [(saved.step, saved.path.name) for saved in checkpoints.finish()] == [(1, "step-00000001")]
        assert checkpoints.finish() == []  # each is told once
    assert torch.equal(load_checkpoint(list_checkpoints(tmp_path)[0][1]).model["w"], torch.ones(2))


def test_large_ones_of_a_short_training_wait_and_give_way_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    monkeypatch.setattr(writer, "SECONDS_A_GIGABYTE", 1e12)
    gate.open(100)
    with entered(tmp_path) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(snapshot(step))
        assert gate.begun == []
        assert [saved.step for saved in checkpoints.finish()] == [3]  # who waits for the disk has it at once
        checkpoints.save(snapshot(4))
    assert gate.begun == [3, 4]  # at the end too
    assert steps(tmp_path) == [4]


def test_the_best_and_the_newest_wait_together_and_who_needs_a_third_place_has_the_oldest_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    monkeypatch.setattr(writer, "SECONDS_A_GIGABYTE", 1e12)
    gate.open(100)
    with entered(tmp_path, Logging(keep=1, keep_every=3)) as checkpoints:
        checkpoints.save(snapshot(1, cost=0.5, best=0.5))
        checkpoints.save(snapshot(2, cost=0.6, best=0.5))  # the best one so far gives way to no worse one
        checkpoints.save(snapshot(3, cost=0.7, best=0.5))
        assert gate.begun == []
        checkpoints.save(snapshot(4, cost=0.8, best=0.5))  # and one that is kept for ever to nobody
        eventually(lambda: gate.begun == [1], "the first write")
        checkpoints.finish()
    assert gate.begun == [1, 3, 4]
    assert steps(tmp_path) == [1, 3, 4]


ENDING = Logging(keep=1, keep_optimizer=False)


def ended(progress: Mapping[str, object]) -> dict[str, object]:
    return {**progress, "ended_at": 9}


@pytest.mark.parametrize("is_on_the_disk", [False, True])
def test_of_a_run_that_is_over_the_best_is_all_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on_the_disk: bool
) -> None:
    monkeypatch.setattr(writer, "SECONDS_A_GIGABYTE", 1e12)
    with entered(tmp_path, ENDING) as checkpoints:
        checkpoints.save(snapshot(1, cost=0.5, best=0.5))
        checkpoints.save(snapshot(2, cost=0.6, best=0.5))
        if is_on_the_disk:
            checkpoints.finish()
            assert steps(tmp_path) == [1, 2]
        found = checkpoints.end(replace(snapshot(3, cost=0.7, best=0.5), optimizer=None), 1, ended)
        assert found is not None
        assert (found.step, found.progress) == (1, {"cost": 0.5, "ended_at": 9})
        checkpoints.finish()
    ((_, path),) = list_checkpoints(tmp_path)
    kept = load_checkpoint(path)
    assert (kept.step, kept.optimizer, kept.progress) == (1, None, found.progress)
    assert torch.equal(kept.model["w"], found.model["w"])
    assert not (path / OPTIMIZER_FILE).exists()


def test_of_a_run_that_is_over_and_keeps_more_the_last_one_stays_too(tmp_path: Path) -> None:
    for number, logging in enumerate((Logging(keep=2, keep_optimizer=False), Logging(keep=1))):
        run = tmp_path / str(number)
        with entered(run, logging) as checkpoints:
            checkpoints.save(snapshot(1, cost=0.5, best=0.5))
            assert checkpoints.end(snapshot(2, cost=0.6, best=0.5), 1, ended) is None  # who asks reads it
            checkpoints.finish()
        assert steps(run) == [1, 2]


def test_one_that_would_be_removed_gives_way_to_a_newer_one(tmp_path: Path, gate: Gate) -> None:
    with entered(tmp_path) as checkpoints:
        checkpoints.save(snapshot(1))
        eventually(lambda: gate.begun == [1], "the first write")
        for step in (2, 3, 4):
            checkpoints.save(snapshot(step))
        gate.open(2)
        assert [saved.step for saved in checkpoints.finish()] == [1, 4]
    assert gate.begun == [1, 4]
    assert steps(tmp_path) == [4]


@pytest.mark.parametrize(
    ("logging", "waiting"),
    [
        (KEEP_ONE, snapshot(2, cost=1.0, best=1.0)),  # the best so far
        (Logging(keep=2), snapshot(2)),
        (Logging(keep=1, keep_every=2), snapshot(2)),
        (Logging(keep=1, keep_weights=2), snapshot(2)),
    ],
)
def test_one_that_is_to_stay_is_waited_for(tmp_path: Path, gate: Gate, logging: Logging, waiting: Snapshot) -> None:
    with entered(tmp_path, logging) as checkpoints:
        checkpoints.save(snapshot(1))
        eventually(lambda: gate.begun == [1], "the first write")
        checkpoints.save(waiting)
        third = threading.Thread(target=checkpoints.save, args=[snapshot(3, cost=2.0, best=1.0)])
        third.start()
        gate.open(3)
        third.join()
        assert [saved.step for saved in checkpoints.finish()] == [1, 2, 3]
    assert steps(tmp_path) == [2, 3]


@pytest.mark.parametrize(
    ("old", "new", "gives_way"),
    [
        ((None, None), (None, None), True),
        ((1.0, 1.0), (2.0, 1.0), False),
        ((1.0, 1.0), (None, 1.0), False),
        ((1.0, 1.0), (1.0, 1.0), True),  # of equals the last is the best
        ((2.0, 1.0), (3.0, 1.0), True),
        ((2.0, 1.0), (None, 1.0), True),
    ],
)
def test_the_best_gives_way_to_a_better_one_alone(
    old: tuple[float | None, float | None], new: tuple[float | None, float | None], gives_way: bool
) -> None:
    assert snapshot(1, *old).gives_way_to(snapshot(2, *new), KEEP_ONE) is gives_way


def test_of_equal_costs_the_lower_tiebreak_stays() -> None:
    def evaluated(step: int, tiebreak: float | None) -> Snapshot:
        return Snapshot(step, {}, {}, {}, rank(1.0, tiebreak), is_best=True)

    assert not evaluated(1, 0.3).gives_way_to(evaluated(2, 0.4), KEEP_ONE)
    assert not evaluated(1, 0.3).gives_way_to(evaluated(2, None), KEEP_ONE)
    for newer in (0.3, 0.2):
        assert evaluated(1, 0.3).gives_way_to(evaluated(2, newer), KEEP_ONE)
    assert evaluated(1, None).gives_way_to(evaluated(2, 9.0), KEEP_ONE)


def test_a_write_that_fails_is_told_whatever_is_asked_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> Path:
        raise NoRoom("no space left on device")

    monkeypatch.setattr(writer, "save_checkpoint", full)
    with entered(tmp_path) as checkpoints:
        checkpoints.save(snapshot(1))
        for ask in (checkpoints.finish, checkpoints.written, lambda: checkpoints.save(snapshot(2))):
            with pytest.raises(NoRoom, match="no space left"):
                ask()
    assert steps(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_whatever_ends_the_training_what_waits_is_written(
    tmp_path: Path, gate: Gate, error: type[BaseException]
) -> None:
    checkpoints = entered(tmp_path)
    with pytest.raises(error), checkpoints:
        checkpoints.save(snapshot(1))
        eventually(lambda: gate.begun == [1], "the first write")
        checkpoints.save(snapshot(2))
        gate.open(2)
        raise error
    assert steps(tmp_path) == [2]


def test_moments_are_dropped_from_all_that_is_kept(tmp_path: Path) -> None:
    with entered(tmp_path, Logging(keep=2)) as checkpoints:
        checkpoints.save(snapshot(1))
        checkpoints.save(snapshot(2))
        checkpoints.drop_moments()
    for step, path in list_checkpoints(tmp_path):
        assert not (path / OPTIMIZER_FILE).exists()
        found = load_checkpoint(path)
        assert found.optimizer is None
        assert torch.equal(found.model["w"], torch.full((2,), float(step)))
