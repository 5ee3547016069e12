"""Checkpoints: back bit for bit, refused when damaged anywhere, and only the right ones removed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import write_json
from gpt1.recipes.values import Logging
from gpt1.runs import checkpoints
from gpt1.runs.checkpoints import (
    MODEL_FILE,
    OPTIMIZER_FILE,
    STATE_FILE,
    Checkpoint,
    best_rank,
    best_step,
    clean_up,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    read_state,
    remove_old,
    save_checkpoint,
)
from gpt1.runs.folder import CHECKPOINTS

PROGRESS: dict[str, Any] = {"batch": 3, "skipped": [1], "running_loss": 0.1 + 0.2, "cost": None}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8]


def save(run: Path, step: int, cost: float | None = None) -> Path:
    """Save a small checkpoint whose every number tells its step."""
    model = {"w": torch.full((3, 2), float(step)), "b": torch.arange(4.0)}
    return save_checkpoint(run, step, model, {"m.w": torch.ones(3, 2)}, {**PROGRESS, "cost": cost})


def steps_of(run: Path) -> list[int]:
    return [step for step, _ in list_checkpoints(run)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    raw = torch.randint(0, 2, (5, 3, 8), generator=draw, dtype=torch.uint8)
    whole = raw.bool() if dtype == torch.bool else (raw * 93 + 1).contiguous().view(dtype).clone()
    if dtype.is_floating_point:
        whole[0, 0, 0], whole[1, 0, 0], whole[2, 0, 0] = torch.nan, -torch.inf, -0.0
    scalar, none = whole[0, 0, 0].clone(), whole[:0].clone()
    model = {"whole": whole, "turned": whole.transpose(0, 1), "scalar": scalar, "none": none}
    path = save_checkpoint(tmp_path, 7, model, {"m.whole": whole}, PROGRESS)
    found = load_checkpoint(path)
    assert (found.step, found.path, found.progress) == (7, path, PROGRESS)
    for name, tensor in model.items():
        assert (found.model[name].dtype, found.model[name].shape) == (dtype, tensor.shape)
        assert _bytes(found.model[name]) == _bytes(tensor)
    assert found.optimizer.keys() == {"m.whole"}


def _bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def test_views_of_one_buffer_are_saved_apart(tmp_path: Path) -> None:
    buffer = torch.arange(10.0)
    path = save_checkpoint(tmp_path, 0, {"a": buffer[:4], "b": buffer[4:]}, {}, PROGRESS)
    found = load_checkpoint(path).model
    assert (found["a"].tolist(), found["b"].tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])


def test_the_optimiser_is_left_where_it_is_not_wanted(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    (path / OPTIMIZER_FILE).unlink()
    assert load_checkpoint(path, with_optimizer=False).optimizer is None
    with pytest.raises(FormatError, match=r"step-00000001 is damaged: optimizer.safetensors cannot be read"):
        load_checkpoint(path)


@pytest.mark.parametrize("name", [STATE_FILE, MODEL_FILE, OPTIMIZER_FILE])
@pytest.mark.parametrize("place", ["first", "header", "middle", "last"])
def test_one_changed_bit_anywhere_is_refused(tmp_path: Path, name: str, place: str) -> None:
    path = save(tmp_path, 1)
    content = bytearray((path / name).read_bytes())
    at = {"first": 0, "header": 20, "middle": len(content) // 2, "last": len(content) - 2}[place]
    content[at] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(FormatError, match=name):
        load_checkpoint(path)


@pytest.mark.parametrize("name", [STATE_FILE, MODEL_FILE, OPTIMIZER_FILE])
def test_a_file_cut_short_grown_empty_gone_or_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1)
    content = (path / name).read_bytes()
    for changed in (content[:-2], content[: len(content) // 2], b"", content + b"\0"):
        (path / name).write_bytes(changed)
        with pytest.raises(FormatError, match=name):
            load_checkpoint(path)
    (path / name).unlink()
    with pytest.raises((FormatError, InputError), match=name):
        load_checkpoint(path)
    (path / name).mkdir()
    with pytest.raises((FormatError, InputError), match=name):
        load_checkpoint(path)


@pytest.mark.parametrize("name", [STATE_FILE, MODEL_FILE, OPTIMIZER_FILE])
def test_a_pipe_in_place_of_a_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, 1)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(InputError, match=f"{name} is not a file"):
        load_checkpoint(path)


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, 1)

    def refused(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints, "file_hash", refused)
    with pytest.raises(InputError, match=r"^cannot read .*step-00000001/model.safetensors: Permission denied$"):
        load_checkpoint(path)


def test_files_of_two_checkpoints_do_not_mix(tmp_path: Path) -> None:
    one, other = save(tmp_path, 1), save(tmp_path, 2)
    (one / MODEL_FILE).write_bytes((other / MODEL_FILE).read_bytes())
    with pytest.raises(FormatError, match=r"step-00000001 is damaged: model.safetensors does not match its checksum"):
        load_checkpoint(one)


def test_a_state_edited_by_hand_is_refused_and_one_of_another_version_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, 1)
    state = json.loads((path / STATE_FILE).read_text())
    write_json(path / STATE_FILE, {**state, "progress": {**PROGRESS, "batch": 4}})
    with pytest.raises(FormatError, match=r"state.json does not match its checksum"):
        read_state(path)
    monkeypatch.setattr(checkpoints, "VERSION", 4)
    newer = save(tmp_path, 2)
    monkeypatch.undo()
    with pytest.raises(FormatError, match="is a checkpoint of version 4; this program reads versions 2 and 3: train"):
        read_state(newer)


def test_the_newest_whole_checkpoint_is_found_and_the_refused_are_named(tmp_path: Path) -> None:
    refused: list[str] = []
    assert newest_checkpoint(tmp_path, refused.append) is None
    for step in (0, 5, 10, 100_000_000):
        save(tmp_path, step)
    assert steps_of(tmp_path) == [0, 5, 10, 100_000_000]
    for step in (10, 100_000_000):
        (tmp_path / CHECKPOINTS / f"step-{step:08}" / MODEL_FILE).write_bytes(b"")
    found = newest_checkpoint(tmp_path, refused.append)
    assert found is not None
    assert found.step == 5
    assert ["step-100000000" in refused[0], "step-00000010" in refused[1], len(refused)] == [True, True, 2]
    assert all(text.endswith("using the checkpoint before it") for text in refused)


def rotating(run: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have a training save anew, and remove what it saved before, each time one is to be read."""
    load = checkpoints.load_checkpoint

    def rotated(path: Path, **settings: Any) -> Checkpoint:
        nonlocal times
        if times > 0:
            times -= 1
            newest = steps_of(run)[-1] + 1
            save(run, newest)
            remove_old(run, newest, Logging(keep=1))
        return load(path, **settings)

    monkeypatch.setattr(checkpoints, "load_checkpoint", rotated)


def test_a_checkpoint_that_gives_way_to_a_newer_one_while_it_is_read_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    rotating(tmp_path, monkeypatch, times=1)
    found = newest_checkpoint(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 2


def test_a_run_that_saves_faster_than_it_is_read_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    rotating(tmp_path, monkeypatch, times=1000)
    with pytest.raises(InputError, match=r"step-0000\d+ and 9 checkpoints before it were removed while they were read"):
        newest_checkpoint(tmp_path, pytest.fail)


def test_the_best_is_the_lowest_loss_of_those_evaluated_and_of_equals_the_later(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert best_step(tmp_path) is None
    for step, loss in ((2, 3.0), (3, 2.0), (4, 2.0), (5, None), (6, 2.5)):
        save(tmp_path, step, loss)
    assert best_step(tmp_path) == 4
    (tmp_path / CHECKPOINTS / "step-00000004" / STATE_FILE).write_text("{}")
    assert best_step(tmp_path) == 3


def test_between_equal_costs_the_tiebreak_decides_where_it_is_known(tmp_path: Path) -> None:
    assert best_rank(tmp_path) is None
    known = [(1, 2.0, 0.1), (2, 1.0, 0.5), (3, 1.0, 0.3), (4, 1.0, 0.4), (5, 1.0, None), (6, 1.0, math.nan)]
    for step, cost, tiebreak in known:
        progress = {**PROGRESS, "cost": cost, "tiebreak": tiebreak}
        save_checkpoint(tmp_path, step, {"w": torch.ones(2)}, {}, progress)
    assert best_step(tmp_path) == 3
    assert best_rank(tmp_path) == (1.0, 0.3)
    remove_old(tmp_path, 6, Logging(keep=1))
    assert [step for step, _ in list_checkpoints(tmp_path)] == [3, 6]
    save_checkpoint(tmp_path, 7, {"w": torch.ones(2)}, {}, {**PROGRESS, "cost": 1.0, "tiebreak": 0.3})
    assert best_step(tmp_path) == 7  # of equals in both the later


@pytest.mark.parametrize(
    ("keep", "keep_every", "left"),
    [(1, None, [2, 7]), (3, None, [2, 5, 6, 7]), (2, 3, [0, 2, 3, 6, 7]), (99, None, [0, 1, 2, 3, 4, 5, 6, 7])],
)
def test_the_newest_the_best_and_every_nth_stay(
    tmp_path: Path, keep: int, keep_every: int | None, left: list[int]
) -> None:
    for step in range(8):
        save(tmp_path, step, 1.0 if step == 2 else None)
    remove_old(tmp_path, 7, Logging(keep=keep, keep_every=keep_every))
    assert steps_of(tmp_path) == left
    assert {path.name for path in (tmp_path / CHECKPOINTS).iterdir()} == {f"step-{step:08}" for step in left}


def has_moments_on_disk(run: Path) -> list[int]:
    return [step for step, path in list_checkpoints(run) if (path / OPTIMIZER_FILE).exists()]


def test_after_each_doubling_the_weights_stay_for_ever_and_their_moments_as_long_as_those_of_others(
    tmp_path: Path,
) -> None:
    for step in range(14):
        save(tmp_path, step, 1.0 if step == 6 else None)
        remove_old(tmp_path, step, Logging(keep=2, keep_every=9, keep_weights=3))
    assert steps_of(tmp_path) == [0, 3, 6, 9, 12, 13]  # 6 is the best too, 12 among the newest
    assert has_moments_on_disk(tmp_path) == [0, 6, 9, 12, 13]
    save(tmp_path, 14, 0.5)
    remove_old(tmp_path, 14, Logging(keep=1, keep_weights=3))
    assert steps_of(tmp_path) == [0, 3, 6, 12, 14]
    assert has_moments_on_disk(tmp_path) == [14]
    kept = load_checkpoint(tmp_path / CHECKPOINTS / "step-00000006")
    assert (kept.optimizer, kept.progress["cost"], kept.model["w"][0, 0]) == (None, 1.0, 6.0)


def test_moments_whose_removal_was_cut_short_go_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (4, 5):
        save(tmp_path, step)

    def killed(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", killed)
        remove_old(tmp_path, 5, Logging(keep=1, keep_weights=4))
    assert has_moments_on_disk(tmp_path) == [4, 5]
    assert load_checkpoint(tmp_path / CHECKPOINTS / "step-00000004").optimizer is None
    remove_old(tmp_path, 5, Logging(keep=1, keep_weights=4))
    assert has_moments_on_disk(tmp_path) == [5]


def test_who_goes_on_is_given_no_weights_that_were_kept_to_be_looked_at(tmp_path: Path) -> None:
    for step in (3, 4, 5):
        save(tmp_path, step)
    remove_old(tmp_path, 5, Logging(keep=1, keep_every=3, keep_weights=4))
    assert (steps_of(tmp_path), has_moments_on_disk(tmp_path)) == ([3, 4, 5], [3, 5])
    (tmp_path / CHECKPOINTS / "step-00000005" / MODEL_FILE).write_bytes(b"")
    refused: list[str] = []
    going_on, to_look_at = (
        newest_checkpoint(tmp_path, refused.append, with_optimizer=needed) for needed in (True, False)
    )
    assert going_on is not None
    assert to_look_at is not None
    assert (going_on.step, to_look_at.step) == (3, 4)
    assert "step-00000004 was kept without the optimiser's moments" in refused[1]
    assert refused[1].endswith("using the checkpoint before it")
    shutil.rmtree(tmp_path / CHECKPOINTS / "step-00000005")
    going_on = newest_checkpoint(tmp_path, refused.append)
    assert going_on is not None
    assert going_on.step == 3
    shutil.rmtree(tmp_path / CHECKPOINTS / "step-00000003")
    alone = newest_checkpoint(tmp_path, refused.append)  # of a run that is over, perhaps
    assert alone is not None
    assert alone.step == 4


def test_a_run_that_went_back_keeps_what_it_saves_though_later_damaged_checkpoints_lie_there(tmp_path: Path) -> None:
    for step in (4, 8):
        save(tmp_path, step)
    (tmp_path / CHECKPOINTS / "step-00000008" / MODEL_FILE).write_bytes(b"")
    save(tmp_path, 6)
    remove_old(tmp_path, 6, Logging(keep=1))
    found = newest_checkpoint(tmp_path, lambda text: None)
    assert found is not None
    assert found.step == 6


def test_a_checkpoint_of_the_same_step_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 3, 2.0)
    save(tmp_path, 3, 1.0)
    assert read_state(tmp_path / CHECKPOINTS / "step-00000003")["progress"]["cost"] == 1.0
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["step-00000003"]


@pytest.mark.parametrize("name", [MODEL_FILE, OPTIMIZER_FILE, STATE_FILE])
def test_an_interruption_during_a_save_leaves_the_checkpoints_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save(tmp_path, 1)

    def interrupted(value: object, path: Path) -> None:
        if path.name == name:
            raise KeyboardInterrupt
        path.write_bytes(b"x")

    monkeypatch.setattr(checkpoints, "save_file", interrupted)
    monkeypatch.setattr(checkpoints, "json_bytes", lambda value: interrupted(value, Path(STATE_FILE)))
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["step-00000001"]


def test_a_writer_killed_on_the_way_leaves_a_folder_that_is_ignored_and_cleaned_up(tmp_path: Path) -> None:
    save(tmp_path, 1)
    code = (
        "import os, sys, pathlib, torch\nfrom gpt1.runs import checkpoints\n"
        "checkpoints.file_hash = lambda path: os.kill(os.getpid(), 9)\n"
        "checkpoints.save_checkpoint(pathlib.Path(sys.argv[1]), 2, {'w': torch.ones(2)}, {}, {})\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment).returncode == -9
    assert len(list((tmp_path / CHECKPOINTS).iterdir())) == 2
    assert steps_of(tmp_path) == [1]
    found = newest_checkpoint(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 1
    clean_up(tmp_path)
    assert [path.name for path in (tmp_path / CHECKPOINTS).iterdir()] == ["step-00000001"]


def test_clean_up_also_removes_half_a_description_and_nothing_else(tmp_path: Path) -> None:
    clean_up(tmp_path / "absent")
    (tmp_path / "run.json.77.tmp").write_text("{")
    (tmp_path / "run.json").write_text("{}")
    clean_up(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_what_a_writer_left_that_was_killed_while_it_dropped_moments_is_cleaned_up(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    kept = {file.name for file in path.iterdir()}
    (path / "state.json.77.tmp").write_text("{")
    clean_up(tmp_path)
    assert {file.name for file in path.iterdir()} == kept


def test_what_has_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 12)
    for name in ("step-12", "step-00000013.9.tmp", "best", "step-0000001x"):
        (tmp_path / CHECKPOINTS / name).mkdir()
    assert steps_of(tmp_path) == [12]


def test_a_cost_that_is_no_number_is_kept_as_json_and_an_older_file_with_it_is_still_read(tmp_path: Path) -> None:
    path = save(tmp_path, 1, cost=float("nan"))
    assert "NaN" not in (path / "state.json").read_text()
    assert checkpoints.read_state(path)["progress"]["cost"] is None
    old = checkpoints.read_state(path)
    old["progress"]["cost"] = float("nan")
    (path / "state.json").write_text(
        json.dumps({**old, "sha256": hashlib.sha256(json.dumps(old, sort_keys=True).encode()).hexdigest()})
    )
    assert checkpoints.load_checkpoint(path).step == 1
    assert best_step(tmp_path) is None
