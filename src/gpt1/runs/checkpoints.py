"""Checkpoints on disk: folders that are whole or not there, checked when they are read.

`checkpoints/step-00001000/` holds model.safetensors, optimizer.safetensors and state.json, which is written last and
knows the checksum of each file and of itself, and what its run was when it was saved: other words, labels or shapes in
`run.json` do not go with its weights. A damaged checkpoint is refused by name, and the one before it is used. Some stay
without their moments, which are two thirds of them: to be looked at, not to go on from.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired, TypedDict, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from gpt1.base.errors import FormatError, InputError, NoRoom
from gpt1.base.files import (
    file_hash,
    json_bytes,
    lock_folder,
    make_folder,
    read_json,
    remove_folder,
    remove_temporaries,
    require_plain,
    sync_file,
    whole_file,
    whole_folder,
    write_record,
)
from gpt1.base.records import SEAL, Count, Seconds, check_record, checksum, sealed
from gpt1.base.strict_json import finite
from gpt1.recipes.values import Logging
from gpt1.records.run import RunRecord
from gpt1.runs.compact import expanded
from gpt1.runs.folder import CHECKPOINTS, begin_run, checkpoint_name, is_begun_copy, made_for
from gpt1.text.tokenizer import FILE_NAME as TOKENIZER_FILE

STATE_FILE, MODEL_FILE, OPTIMIZER_FILE = "state.json", "model.safetensors", "optimizer.safetensors"
FORMAT, VERSION, SHARDED_VERSION = "gpt1-checkpoint", 2, 3  # the later one where parts lie in shards
MOST_LOOKS = 10  # at the checkpoints of a run that goes on meanwhile
_NAME = re.compile(r"step-(\d{8,})")
_SHARD = re.compile(r"(.+)-(\d{5,})-of-(\d{5,})(\.safetensors)")

_WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

HOST = torch.device("cpu")

Tensors = dict[str, torch.Tensor]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found whole, or one that is about to be written."""

    path: Path
    step: int
    model: Tensors
    optimizer: Tensors | None  # None where they are not kept or were not asked for
    progress: Mapping[str, object]  # of the loop, which knows what is in it
    seconds: float  # of training
    made_for: Mapping[str, object]  # what its run was when it was saved; nothing where an earlier version saved it
    weights_hash: str | None  # of the files that hold them; None where they are not on the disk yet


class _Progress(TypedDict):
    """What others than the loop read of its progress."""

    cost: NotRequired[float | None]
    tiebreak: NotRequired[float | None]
    seconds: NotRequired[Seconds]


class Damaged(FormatError):
    """A checkpoint is not as it was saved."""


class State(TypedDict):
    """What state.json holds."""

    step: Count
    files: dict[str, str]
    progress: _Progress
    made_for: NotRequired[dict[str, object]]


def require_new_run(out: Path, step: int = 0, besides: Collection[str] = ()) -> None:
    """Refuse a folder for a run of one checkpoint that holds anything but what a killed writer of it left there."""
    is_new = not out.exists() or (out.is_dir() and not any(out.iterdir()))
    if not is_new and not (out.is_dir() and is_begun_copy(out, step, {TOKENIZER_FILE, *besides})):
        raise InputError(f"{out} is there already; choose a new or empty folder for the run")


def write_run(
    out: Path,
    record: RunRecord,
    tokenizer: Path,
    model: Tensors,
    *,
    step: int = 0,
    progress: Mapping[str, object] | None = None,
    besides: Mapping[str, bytes] | None = None,
) -> None:
    """Write a run that is not trained: one checkpoint, and files `besides`; a folder that holds another is refused."""
    others = besides or {}
    with lock_folder(out):
        require_new_run(out, step, others)
        clean_up(out)
        save_checkpoint(out, step, model, None, progress or {}, made_for(record))
        for name, content in others.items():
            with whole_file(out / name) as file:
                file.write(content)
        begin_run(out, record, tokenizer)  # which makes the folder a run


def save_checkpoint(
    run: Path,
    step: int,
    model: Tensors,
    optimizer: Tensors | None,
    progress: Mapping[str, object],
    made_for: Mapping[str, object] | None = None,
) -> Path:
    """Write the checkpoint of a step; until it is whole on the disk the ones before it are all there is.

    `made_for` is what decides, besides the weights, what the run answers. Without the optimiser's moments nobody can go
    on from it.
    """
    make_folder(run / CHECKPOINTS)
    path = run / CHECKPOINTS / checkpoint_name(step)
    with whole_folder(path) as folder:
        files = write_parts(folder, parts_of(model, optimizer), path)
        write_state(folder, step, files, progress, made_for)
    return path


def parts_of(model: Tensors, optimizer: Tensors | None) -> dict[str, Tensors]:
    """Return the files of a checkpoint that hold tensors, by their names."""
    return {MODEL_FILE: model} | ({} if optimizer is None else {OPTIMIZER_FILE: optimizer})


def shard_name(name: str, index: int, count: int) -> str:
    """Return what one of `count` shards of a file is called, counted from 0."""
    return f"{Path(name).stem}-{index + 1:05}-of-{count:05}{Path(name).suffix}"


def write_parts(folder: Path, parts: Mapping[str, Tensors], path: Path) -> dict[str, str]:
    """Write files of tensors into the folder that becomes the checkpoint `path`, onto the disk; return their hashes."""
    for name, tensors in parts.items():
        try:
            save_file(_on_the_host(tensors), folder / name)
        except SafetensorError as error:  # how the library reports a full disk
            problem = f"cannot write {path}: {error}"
            raise (NoRoom if os.strerror(errno.ENOSPC) in problem else InputError)(problem) from error
    with ThreadPoolExecutor() as pool:  # as fast as one core reads a file, each; and while the disk takes them
        synced = [pool.submit(sync_file, folder / name) for name in parts]
        files = dict(zip(parts, pool.map(file_hash, (folder / name for name in parts)), strict=True))
        for one in synced:
            one.result()
    return files


def write_state(
    folder: Path,
    step: int,
    files: dict[str, str],
    progress: Mapping[str, object],
    made_for: Mapping[str, object] | None,
) -> None:
    """Write what vouches for the other files of a checkpoint."""
    version = SHARDED_VERSION if MODEL_FILE not in files else VERSION
    state = {"format": FORMAT, "version": version, "step": step, "files": files, "progress": finite(dict(progress))}
    if made_for:
        state["made_for"] = dict(made_for)
    (folder / STATE_FILE).write_bytes(json_bytes(sealed(state)))


def _on_the_host(tensors: Tensors) -> Tensors:
    """Return tensors where a file can be written from; copies from a GPU go into pinned memory, all at once."""
    found = {name: tensor.detach().contiguous().to("cpu", non_blocking=True) for name, tensor in tensors.items()}
    for device in {tensor.device for tensor in tensors.values() if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return found


def read_state(path: Path) -> State:
    """Return the state.json of a checkpoint folder, checked against its own checksum."""
    state = read_json(path / STATE_FILE, "the state of a checkpoint")
    wanted = state.pop(SEAL, None)
    if state.get("format") != FORMAT or wanted != checksum(state):
        raise Damaged(f"{path} is damaged: {STATE_FILE} does not match its checksum")
    if state.get("version") not in (VERSION, SHARDED_VERSION):
        raise FormatError(
            f"{path} is a checkpoint of version {state.get('version')}; this program reads versions {VERSION} and "
            f"{SHARDED_VERSION}: train the run again, or use the gpt1 that made it"
        )
    return check_record(state, State, path / STATE_FILE)


def has_moments(path: Path, *, if_damaged: bool = True) -> bool:
    """Whether training can go on from a checkpoint; of one that is damaged, whoever reads it tells."""
    try:
        return bool(_files_of(OPTIMIZER_FILE, read_state(path), path))
    except (FormatError, InputError):
        return if_damaged


def load_checkpoint(path: Path, *, with_optimizer: bool = True, device: torch.device = HOST) -> Checkpoint:
    """Read a checkpoint onto a device; a file that is missing, cut short or changed is named."""
    state = read_state(path)
    model = expanded(_load_part(path, MODEL_FILE, state, device), path)
    has_optimizer = with_optimizer and _files_of(OPTIMIZER_FILE, state, path)
    optimizer = _load_part(path, OPTIMIZER_FILE, state, device) if has_optimizer else None
    progress = state["progress"]
    seconds = progress.get("seconds", 0.0)
    made_for, vouches = state.get("made_for", {}), weights_hash(path)
    return Checkpoint(path, state["step"], model, optimizer, {**progress}, seconds, made_for, vouches)


def weights_hash(path: Path) -> str:
    """Return what tells the weights of a checkpoint from all others."""
    state = read_state(path)
    hashes = [state["files"][name] for name in _files_of(MODEL_FILE, state, path)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _files_of(part: str, state: State, path: Path) -> list[str]:
    """Return the names of the files that hold a part: its own, or those of its shards in order; none where it went."""
    if part in state["files"]:
        return [part]
    found = [match for name in state["files"] if (match := _SHARD.fullmatch(name)) and match[1] + match[4] == part]
    names = [shard_name(part, index, len(found)) for index in range(len(found))]
    if {match[0] for match in found} != set(names) or (part == MODEL_FILE and not found):
        raise Damaged(f"{path} is damaged: {STATE_FILE} does not name all files of {part}")
    return names


def _load_part(path: Path, part: str, state: State, device: torch.device) -> Tensors:
    """Read the tensors of a part; those in shards are put together along their first dimension."""
    shards = [_load_tensors(path, name, state, device) for name in _files_of(part, state, path)]
    if len(shards) == 1:
        return shards[0]
    try:
        return {name: torch.cat([shard[name] for shard in shards]) for name in shards[0]}
    except (KeyError, RuntimeError) as error:
        raise Damaged(f"{path} is damaged: the shards of {part} do not belong together ({error})") from error


def _load_tensors(path: Path, name: str, state: State, device: torch.device) -> Tensors:
    file = path / name
    require_plain(file)  # before a thread waits for a pipe
    try:
        with ThreadPoolExecutor(1) as pool:  # tensors go to the device while the file's checksum is found
            tensors = pool.submit(load_file, file, str(device))
            if file_hash(file) != state["files"].get(name):
                raise Damaged(f"{path} is damaged: {name} does not match its checksum")
            return tensors.result()
    except SafetensorError as error:
        raise Damaged(f"{path} is damaged: {name} holds no tensors ({error})") from error
    except PermissionError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    except OSError as error:
        raise Damaged(f"{path} is damaged: {name} cannot be read ({error.strerror})") from error


def check_numbers(checkpoint: Checkpoint) -> None:
    """Refuse weights that are no numbers, before anything is computed with them."""
    for name, tensor in checkpoint.model.items():
        if tensor.dtype not in _WEIGHT_TYPES:
            raise FormatError(f"{checkpoint.path} cannot be used: '{name}' holds {tensor.dtype}, which are no weights")
        if tensor.numel() and not all(bound.isfinite() for bound in tensor.aminmax()):  # NaN where there is any
            raise FormatError(
                f"{checkpoint.path} cannot be used: '{name}' holds weights that are no numbers (NaN or infinite); "
                "`step` names another checkpoint, where the run has one"
            )


def list_checkpoints(run: Path) -> list[tuple[int, Path]]:
    """Return the steps and folders of a run's checkpoints, oldest first, whole or damaged."""
    try:
        entries = list((run / CHECKPOINTS).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        entries = []
    found = [(int(match[1]), path) for path in entries if (match := _NAME.fullmatch(path.name))]
    return sorted(found)


def newest_checkpoint(
    run: Path, refused: Callable[[str], None], *, with_optimizer: bool = True, device: torch.device = HOST
) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, telling `refused` of each newer one that is not.

    One that a training beside this reader removed meanwhile gave way to a newer one, which is taken. Who wants moments
    is given one that was kept without them only where no other is left: the run had gone on from there.
    """

    problems: list[str] = []

    def newest() -> Checkpoint | None:
        problems.clear()
        paths = [path for _, path in list_checkpoints(run)]
        for index, path in reversed(list(enumerate(paths))):
            try:
                others = problems or any(has_moments(other, if_damaged=False) for other in paths[:index])
                if with_optimizer and others and not has_moments(path):
                    raise Damaged(f"{path} was kept without the optimiser's moments, to be looked at")
                return load_checkpoint(path, with_optimizer=with_optimizer, device=device)
            except (FormatError, InputError) as error:
                require_there(path)
                problems.append(
                    f"{error}; " + ("using the checkpoint before it" if index else "there is none before it")
                )
        return None

    found = beside_a_writer(newest)
    for problem in problems:
        refused(problem)
    return found


class Gone(Exception):
    """A checkpoint was removed after it was found: a training beside this reader has newer ones."""


def require_there(path: Path) -> None:
    """Tell a checkpoint that is gone from one that is damaged."""
    if not path.exists():
        raise Gone(path)


def beside_a_writer(look: Callable[[], Found]) -> Found:
    """Look among checkpoints, and again where one was gone that had just been there."""
    for _ in range(MOST_LOOKS - 1):
        with suppress(Gone):
            return look()
    try:
        return look()
    except Gone as error:
        raise InputError(
            f"{error} and {MOST_LOOKS - 1} checkpoints before it were removed while they were read: their run saves "
            "faster than it can be read; read it when it has ended, or let it keep more (logging.keep)"
        ) from None


Rank = tuple[float, float]  # of an evaluated checkpoint; less is better


def rank(cost: float, tiebreak: float | None) -> Rank:
    """Return what checkpoints are ordered by: their cost, and between equals what breaks the tie, where it is known."""
    return cost, math.inf if tiebreak is None or math.isnan(tiebreak) else tiebreak


def best_step(run: Path, refused: Callable[[str], None] | None = None) -> int | None:
    """Return the step of the best of the kept checkpoints, of equals the last, if any was evaluated.

    `refused` is told of those that cannot be read, any of which may have been the best.
    """
    ranks = _ranks(run, refused)
    return -min((found, -step) for step, found in ranks.items())[1] if ranks else None


def best_rank(run: Path) -> Rank | None:
    """Return how good the best of the kept checkpoints is, if any was evaluated."""
    return min(_ranks(run, None).values(), default=None)


def _ranks(run: Path, refused: Callable[[str], None] | None) -> dict[int, Rank]:
    """Return how good the kept checkpoints are that were evaluated, by step."""
    ranks = {}
    for step, path in list_checkpoints(run):
        try:
            progress = read_state(path)["progress"]
        except (FormatError, InputError) as error:
            if refused is not None and path.exists():
                refused(f"{error}; it is passed over, though it may have been the best")
            continue
        cost = progress.get("cost")
        if cost is not None and math.isfinite(cost):
            ranks[step] = rank(cost, progress.get("tiebreak"))
    return ranks


def remove_old(run: Path, newest: int, logging: Logging) -> None:
    """Remove checkpoints except the last ones up to step `newest`, the best, and those that are kept for ever.

    Of some of these the moments go. Later ones were refused when the run went back behind them: they are not counted,
    and give way when it gets there.
    """
    steps = [(step, path) for step, path in list_checkpoints(run) if step <= newest]
    best = best_step(run)
    for step, path in steps[: -logging.keep]:
        if step == best or logging.keeps(step):
            continue
        if logging.keeps_weights(step):
            _drop_moments(path)
        else:
            remove_folder(path)


def drop_moments(run: Path) -> None:
    """Remove the optimiser's moments from all checkpoints of a run that is over."""
    for _, path in list_checkpoints(run):
        _drop_moments(path)


def _drop_moments(path: Path) -> None:
    try:
        state = read_state(path)
    except (FormatError, InputError):
        return  # what is damaged stays as it is
    if any(map(_is_of_moments, state["files"])):
        write_record(path / STATE_FILE, _without_moments(state))
    _unlink_moments(path)  # also where a kill came between the two


def _without_moments(state: State) -> dict[str, object]:
    return {**state, "files": {name: sum for name, sum in state["files"].items() if not _is_of_moments(name)}}


def _unlink_moments(path: Path) -> None:
    for file in path.iterdir():
        if _is_of_moments(file.name):
            file.unlink()


def _is_of_moments(name: str) -> bool:
    shard = _SHARD.fullmatch(name)
    return (name if shard is None else shard[1] + shard[4]) == OPTIMIZER_FILE


def end_with(run: Path, step: int, ended: Callable[[Mapping[str, object]], Mapping[str, object]]) -> Checkpoint | None:
    """Make a checkpoint that is on the disk all that is kept of a run that is over; None where it is not whole there.

    `ended` makes of its progress that of the end. Until then there are later ones, from which the run goes on.
    """
    path = run / CHECKPOINTS / checkpoint_name(step)
    try:
        found, state = load_checkpoint(path, with_optimizer=False), read_state(path)
    except (FormatError, InputError):
        return None
    progress = finite(dict(ended(found.progress)))
    write_record(path / STATE_FILE, {**_without_moments(state), "progress": progress})
    keep_alone(run, step)
    _unlink_moments(path)
    return replace(found, progress=progress)


def keep_alone(run: Path, step: int) -> None:
    """Remove all checkpoints but that of a step."""
    for other, path in list_checkpoints(run):
        if other != step:
            remove_folder(path)


def clean_up(run: Path) -> None:
    """Remove what a killed writer left, of moments that it dropped in a checkpoint too."""
    for folder in (run, run / CHECKPOINTS, *(path for _, path in list_checkpoints(run))):
        if folder.is_dir():
            remove_temporaries(folder)
