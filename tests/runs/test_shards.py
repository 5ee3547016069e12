"""Sharded checkpoints: whole in any number of processes, refused when a shard is damaged, and whole or not there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

import gpt1
from gpt1.base.errors import FormatError, NoRoom
from gpt1.base.files import json_bytes
from gpt1.base.records import SEAL, sealed
from gpt1.recipes.values import Logging
from gpt1.runs import shards
from gpt1.runs.checkpoints import (
    STATE_FILE,
    Tensors,
    clean_up,
    drop_moments,
    end_with,
    has_moments,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
    weights_hash,
)
from gpt1.runs.folder import CHECKPOINTS
from gpt1.runs.shards import ShardWriter
from gpt1.training.roll_call import LostRank, RollCall
from tests.moments import changes_told, counted, signalled
from tests.processes import finish, start
from tests.records import facts_in
from tests.runs import together as threads
from tests.runs.together import processes, save, snapshot, tensors, together

PATH = os.pathsep.join(map(str, (Path(gpt1.__file__).parents[1], Path(__file__).parents[2])))

GOLDEN = Path(__file__).parents[1] / "golden" / "sharded" / "checkpoints" / "step-00000003"


def assert_same(found: Tensors | None, wanted: Tensors) -> None:
    assert found is not None
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_shards_of_any_number_of_processes_are_whole_in_one(tmp_path: Path, size: int) -> None:
    path = tmp_path / CHECKPOINTS / "step-00000003"
    assert save(tmp_path, 3, size) == [path] * size
    names = [
        f"{part}-{rank:05}-of-{size:05}.safetensors" for part in ("model", "optimizer") for rank in range(1, size + 1)
    ]
    assert sorted(file.name for file in path.iterdir()) == sorted([*names, STATE_FILE])
    found, (model, optimizer) = load_checkpoint(path), tensors(3)
    assert_same(found.model, model)
    assert_same(found.optimizer, optimizer)
    assert (found.step, found.progress["batch"], found.made_for) == (3, 3, {"seed": 0})
    assert has_moments(path)


def test_what_was_written_in_shards_before_is_read_by_every_later_version() -> None:
    found, (model, optimizer) = load_checkpoint(GOLDEN), tensors(3)  # as `together.py` wrote it on 2026-11-19
    assert_same(found.model, model)
    assert_same(found.optimizer, optimizer)
    assert (found.step, found.progress["batch"], found.made_for) == (3, 3, {"seed": 0})


def test_a_whole_checkpoint_and_a_sharded_one_stand_side_by_side(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, *tensors(1), {"cost": 9.0})
    save(tmp_path, 2, 2)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [1, 2]
    found = newest_checkpoint(tmp_path, pytest.fail)
    assert found is not None
    assert found.weights_hash == weights_hash(found.path) != weights_hash(list_checkpoints(tmp_path)[0][1])


@pytest.mark.parametrize("name", ["model-00002-of-00003.safetensors", "optimizer-00003-of-00003.safetensors"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_shard_is_refused_by_name_and_the_checkpoint_before_it_used(
    tmp_path: Path, name: str, damage: str
) -> None:
    save_checkpoint(tmp_path, 1, *tensors(1), {})
    save(tmp_path, 2, 3)
    file = tmp_path / CHECKPOINTS / "step-00000002" / name
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content if damage == "flipped" else content[:-9])
    if damage == "gone":
        file.unlink()
    told: list[str] = []
    found = newest_checkpoint(tmp_path, told.append)
    assert found is not None
    assert found.step == 1
    assert f"step-00000002 is damaged: {name}" in told[0]


def test_a_state_that_does_not_name_all_shards_is_refused(tmp_path: Path) -> None:
    (path, *_) = save(tmp_path, 2, 3)
    state = facts_in(path / STATE_FILE)
    for gone in ("model-00003-of-00003.safetensors", "optimizer-00001-of-00003.safetensors"):
        files = {name: hash for name, hash in state["files"].items() if name != gone}
        changed = {name: value for name, value in {**state, "files": files}.items() if name != SEAL}
        (path / STATE_FILE).write_bytes(json_bytes(sealed(changed)))
        part = gone.split("-")[0]
        with pytest.raises(FormatError, match=rf"state\.json does not name all files of {part}\.safetensors"):
            load_checkpoint(path)


def test_shards_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    def save_other(call: RollCall) -> Path:
        own = snapshot(2, call)
        if call.rank == 1:
            own.model["w"] = torch.ones(2, 5)
        return shards.save_shards(tmp_path, own, {}, call)

    (path, *_) = together(processes(2), save_other)
    with pytest.raises(FormatError, match=r"the shards of model\.safetensors do not belong together"):
        load_checkpoint(path)


def test_moments_go_from_all_shards(tmp_path: Path) -> None:
    (path, *_) = save(tmp_path, 2, 2)
    drop_moments(tmp_path)
    assert not has_moments(path)
    assert not list(path.glob("optimizer*"))
    assert_same(load_checkpoint(path).model, tensors(2)[0])


def test_a_sharded_checkpoint_can_be_all_that_is_kept_of_a_run_that_is_over(tmp_path: Path) -> None:
    (path, *_) = save(tmp_path, 2, 2)
    save(tmp_path, 4, 2)
    found = end_with(tmp_path, 2, lambda progress: {**progress, "ended_at": 4})
    assert found is not None
    assert [step for step, _ in list_checkpoints(tmp_path)] == [2]
    assert not list(path.glob("optimizer*"))
    assert load_checkpoint(path).progress["ended_at"] == 4


def writer(run: Path, call: RollCall) -> ShardWriter:
    return ShardWriter(run, {}, Logging(keep=2), torch.device("cpu"), call)


def test_snapshots_are_written_one_after_the_other_and_old_ones_go(tmp_path: Path) -> None:
    def write(call: RollCall) -> list[int]:
        with writer(tmp_path, call) as own:
            saved = [one for step in range(1, 6) for one in own.save(snapshot(step, call))]
            return [one.step for one in [*saved, *own.finish()]]

    assert together(processes(2), write) == [[1, 2, 3, 4, 5]] * 2
    assert [step for step, _ in list_checkpoints(tmp_path)] == [4, 5]


def test_where_one_cannot_write_all_are_told_and_the_checkpoint_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, 3)
    write = shards.write_parts

    def full(folder: Path, parts: dict[str, Tensors], path: Path) -> dict[str, str]:
        if "model-00002-of-00003.safetensors" in parts:
            raise NoRoom(f"cannot write {path}: No space left on device")
        return write(folder, parts, path)

    def fail(call: RollCall) -> None:
        with writer(tmp_path, call) as own:
            own.save(snapshot(2, call))
            own.finish()

    monkeypatch.setattr(shards, "write_parts", full)
    one, second, third = together(processes(3), fail)
    assert isinstance(second, NoRoom)
    for other in (one, third):
        assert isinstance(other, LostRank)
        assert "process 1 of 3 ended: cannot write" in str(other)
        assert "No space left on device; make room" in str(other)
    assert [entry.name for entry in (tmp_path / CHECKPOINTS).iterdir()] == ["step-00000001"]


def test_who_is_gone_is_not_waited_for_when_the_training_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (call, _) = processes(2)
    monkeypatch.setattr(shards, "LAST_SECONDS", 0.0)
    with pytest.raises(ConnectionError), writer(tmp_path, call) as own:
        own.save(snapshot(1, call))
        raise ConnectionError
    assert list_checkpoints(tmp_path) == []


@pytest.mark.slow
def test_a_save_that_is_killed_before_any_change_of_the_disk_leaves_the_checkpoint_before_it(tmp_path: Path) -> None:
    words = ["-m", threads.__name__, str(tmp_path / "counted"), "2", "2"]
    (tmp_path / "counted").mkdir()
    _, errors = finish(start(counted(tmp_path / "counted", *words), PYTHONPATH=PATH))
    for number in range(1, changes_told(errors) + 1):
        run = tmp_path / str(number)
        save(run, 1, 2)
        words[2] = str(run)
        killed = start(signalled(number, run, signal.SIGKILL, *words), PYTHONPATH=PATH)
        _, errors = killed.communicate()
        assert killed.returncode == -signal.SIGKILL, errors
        clean_up(run)
        found = newest_checkpoint(run, pytest.fail)
        assert found is not None
        assert_same(found.model, tensors(1)[0])
        assert [entry.name for entry in (run / CHECKPOINTS).iterdir()] == ["step-00000001"]
