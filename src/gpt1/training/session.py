"""What every training verb does around the loop: go on or begin, tell what happens, stop with the state saved."""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import nn

from gpt1 import __version__
from gpt1.base.devices import device_name, usable_precision
from gpt1.base.errors import InputError, Interrupted, SettingError
from gpt1.base.files import lock_folder
from gpt1.base.wording import many
from gpt1.model.transformer import why_not_fused
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change, differences, settings
from gpt1.recipes.values import FSDP, LSTM, Recipe, Training
from gpt1.records.run import Hardware, RunRecord
from gpt1.runs.checkpoints import (
    Checkpoint,
    best_step,
    check_numbers,
    clean_up,
    has_moments,
    list_checkpoints,
    newest_checkpoint,
    remove_old,
)
from gpt1.runs.events import Listener, Noticed
from gpt1.runs.files import forget_after, has_saved, who_hears
from gpt1.runs.folder import begin_run, check_made_for, is_run, read_run, update_run
from gpt1.training.batches import share
from gpt1.training.config import TrainerConfig
from gpt1.training.distributed import World
from gpt1.training.trainer import Trainer

# A resumed run may be watched, laid out over devices and ended otherwise; its network, optimiser and batches stay.
FREE_ON_RESUME = (
    "logging.",
    "training.steps",
    "training.epochs",
    "training.micro_batch",
    "training.precision",
    "training.compile",
    "training.fused",
    "training.cuda_graphs",
    "training.checkpoint_activations",
    "training.deterministic",
    "training.parallelism",
    "training.max_loss_spike",
    "training.patience",
    "finetuning.folds",  # until it is decided who answers
)
LENGTHS = ("steps", "epochs", "patience")  # settings of `training` by which a run is over


@dataclass(frozen=True)
class Looked:
    """What is to be run, as the folder for it was found."""

    going_on: bool
    recipe: Recipe
    notices: tuple[str, ...]
    init: Path | None  # the run whose weights to begin with; None: new ones, or those of a checkpoint


Notify = Callable[[str | None], None]


@dataclass(frozen=True)
class Conditions:
    """Where a run is trained, for how long, and who is told of it."""

    out: Path
    world: World
    device: torch.device
    resume: bool = False
    minutes: float | None = None
    curves: bool = False
    listeners: tuple[Listener, ...] = ()


Network = TypeVar("Network", bound=nn.Module)


class Session(ABC, Generic[Network]):
    """A training from the look at its folder to its end: what pre-training and fine-tuning have in common."""

    def __init__(self, conditions: Conditions, notices: Sequence[str] = ()) -> None:
        self.conditions = conditions
        self.out, self.world, self.device = conditions.out, conditions.world, conditions.device
        self._notices = notices  # on what is learned from

    @property
    @abstractmethod
    def tokenizer(self) -> Path:
        """The file of the tokenizer that the run takes over."""

    @abstractmethod
    def data(self) -> dict[str, str]:
        """Return hashes of what is learned from, by what it is."""

    @abstractmethod
    def look(self) -> Looked:
        """Return what is to be run, or refuse the folder."""

    @abstractmethod
    def record(self, recipe: Recipe) -> RunRecord:
        """Return what the run will say of itself."""

    @abstractmethod
    def make_model(self, recipe: Recipe, init: Path | None) -> Network:
        """Return the network with its first weights, those of a run if one is given."""

    @abstractmethod
    def configure(self, model: Network, recipe: Recipe, notify: Notify) -> TrainerConfig:
        """Return what the loop needs; the model is on its device."""

    def begin(self) -> None:
        """Do, in the folder that is held, what comes before the first step."""

    def end(self, trainer: Trainer, notify: Notify) -> bool:
        """Do, in the folder that is held, what comes after the last step; return False where the time was up first.

        What the trainer saved last may still be on its way to the disk.
        """
        return True

    def train(self) -> bool:
        """Train to the end and return True; or stop, saved, when the time is up."""
        looked = self.look()
        training = looked.recipe.training
        precision, notice = usable_precision(self.device, training.precision)
        at_once = sequences_at_once(training, self.world.size, self._hardware_before(looked))
        recipe = replace(looked.recipe, training=replace(training, precision=precision, micro_batch=at_once))
        model = self.make_model(recipe, looked.init)
        self.world.agree(self._facts(looked, recipe))  # so every rank has looked before the first one makes the folder
        with lock_folder(self.out) if self.world.is_first else nullcontext():
            listeners = self._hold_folder(looked, at_once) if self.world.is_first else []
            notify = notifier(listeners)
            for text in (*self._notices, *looked.notices, notice, *on_shares(training, at_once, self.world.size)):
                notify(text)
            checkpoint = checkpoint_to_resume(self.out, notify) if looked.going_on else None
            self.world.agree({"the update to go on from": checkpoint and checkpoint.step})
            if self.world.is_first:
                self.begin()
            trainer = Trainer(
                self.configure(model.to(self.device), recipe, notify),
                self.out,
                device=self.device,
                world=self.world,
                listeners=listeners,
                minutes=self.conditions.minutes,
            )
            with trainer.saving():
                is_done = conduct(trainer, checkpoint, self.conditions.resume, notify)
                if is_done and self.world.is_first:
                    is_done = self.end(trainer, notify)
            self.world.wait()
        return is_done

    def _facts(self, looked: Looked, recipe: Recipe) -> dict[str, object]:
        """Return what must be the same in all processes."""
        versions = {"the version of gpt1": __version__, "the version of torch": torch.__version__}
        return {**versions, **self.data(), "going on with a run": looked.going_on, **settings(recipe)}

    def _hardware_before(self, looked: Looked) -> Hardware | None:
        """Return on what the run that goes on was trained, where that was a device like this one."""
        before = read_run(self.out).trained_on if looked.going_on else None
        return before if before is not None and before.device == device_name(self.device) else None

    def _hold_folder(self, looked: Looked, at_once: int | None) -> list[Listener]:
        """Make the folder, or note what may have changed when its run goes on; return all who hear of the run."""
        if self.look() != looked:
            raise InputError(f"another command was at work in {self.out} while this one began; give the command again")
        own = share(looked.recipe.training.batch, self.world.size)
        hardware = Hardware(device_name(self.device), self.world.size, min(at_once or own, own))
        record = replace(self.record(looked.recipe), trained_on=hardware)
        if looked.going_on:
            clean_up(self.out)
            told = {name: getattr(record, name) for name in ("recipe", "corpus", "source", "trained_on")}
            update_run(self.out, **told)
        else:
            begin_run(self.out, record, self.tokenizer)
        return who_hears(self.out, self.conditions.listeners, curves=self.conditions.curves)


def sequences_at_once(training: Training, processes: int, before: Hardware | None) -> int | None:
    """Return how many sequences a process works on at once, None for its whole share of the batch.

    A run that goes on in fewer processes has larger shares, which need not fit into a device's memory: then each works
    on as many as before, and makes more passes.
    """
    if training.micro_batch is not None or before is None or before.at_once is None:
        return training.micro_batch
    return before.at_once if before.at_once < share(training.batch, processes) else None


def on_shares(training: Training, at_once: int | None, processes: int) -> list[str]:
    """Tell of a batch's shares what is not as a person may expect it."""
    own = share(training.batch, processes)
    told = []
    if at_once != training.micro_batch:
        told.append(
            f"each process works on {many(at_once or own, 'sequence')} at once, as before in more processes, "
            f"of {own} that are its share of a batch; `changes=['training.micro_batch=N']` sets another number"
        )
    if idle := processes - share(training.batch, own):
        told.append(
            f"{idle} of {processes} processes have nothing to do: a batch of {many(training.batch, 'sequence')} "
            f"gives the others {own} each"
        )
    return told


def notifier(listeners: Sequence[Listener]) -> Notify:
    """Return a function that tells listeners a sentence, if there is one."""

    def notify(text: str | None) -> None:
        for listener in listeners if text else ():
            listener(Noticed(str(text)))

    return notify


def as_recipe(recipe: Recipe | str) -> Recipe:
    """Return a recipe that is a value or the name of one."""
    return find_recipe(recipe) if isinstance(recipe, str) else recipe


def require_no_run(folder: Path) -> None:
    """Refuse a folder that holds a run, where another is to begin."""
    if is_run(folder):
        raise InputError(f"{folder} holds a run already; choose another folder, or go on with it by `resume=True`")


def begun_run(run: Path, kind: str) -> RunRecord:
    """Return what the run that is to go on says of itself, if it is of this kind."""
    record = read_run(run)
    if record.kind != kind:
        raise SettingError(f"{run} is a run of another kind ({record.kind})")
    return record


def resumed(
    run: Path,
    old: Recipe,
    asked: Recipe | str | None,
    changes: Iterable[str],
    keep: Callable[[Recipe], Recipe],
    updates: Callable[[Recipe], int],
) -> tuple[Recipe, list[str]]:
    """Return the recipe of a run that goes on, and what changed; refuse where what decides its losses differs.

    `keep` gives the asked recipe what is not asked for but taken over, such as a parent's shape; `updates` says how
    many updates a recipe makes.
    """
    new = keep(change(old if asked is None else as_recipe(asked), changes))
    for name, (before, after) in differences(old, new).items():
        if not name.startswith(FREE_ON_RESUME):
            raise SettingError(
                f"{name} is {before} in the run {run} and {after} now: a run goes on as it was begun; leave "
                f"it, or begin a new run with `init={str(run)!r}`"
            )
    _check_length(run, old, new, updates)
    return new, [f"{name} was {before}, is {after} now" for name, (before, after) in differences(old, new).items()]


def _check_length(run: Path, old: Recipe, new: Recipe, updates: Callable[[Recipe], int]) -> None:
    """Refuse another length where the run is over and kept no moments to go on with, or is further already."""
    lengths = {name: (getattr(old.training, name), getattr(new.training, name)) for name in LENGTHS}
    changed = {name: values for name, values in lengths.items() if values[0] != values[1]}
    for step, path in list_checkpoints(run)[-1:] if changed else ():
        if not has_moments(path):
            name, (before, after) = next(iter(changed.items()))
            raise SettingError(
                f"training.{name} was {before} in the run {run} and is {after} now, but the run is kept without the "
                f"optimiser's moments; begin a new run with the settings wanted, perhaps with `init={str(run)!r}`; "
                "`changes=['logging.keep_optimizer=true']` keeps them there"
            )
        if (wanted := updates(new)) < step:
            name = "epochs" if new.training.steps is None else "steps"
            raise SettingError(
                f"the run {run} has made {step:,} updates; training.{name}={lengths[name][1]} makes {wanted:,}, "
                f"which is fewer; name a greater number, or begin a new run with `init={str(run)!r}`"
            )


def checkpoint_to_resume(run: Path, notify: Notify) -> Checkpoint | None:
    """Return the checkpoint a run goes on from, None where it never got to one."""
    checkpoint = newest_checkpoint(run, notify)
    if checkpoint is not None:
        check_made_for(run, checkpoint)
        check_numbers(checkpoint)
    if checkpoint is None and has_saved(run):
        raise InputError(
            f"{run} has no whole checkpoint to go on from; bring one back into its folder 'checkpoints', or "
            "begin anew in another folder"
        )
    return checkpoint


def why_no_kernels(recipe: Recipe, device: torch.device, world: World) -> str | None:
    """Return why a network cannot learn by blocks of our own kernels (`training.fused`); None: it can."""
    training = recipe.training
    reasons = {
        "there is no GPU": device.type != "cuda",
        "there are several processes": world.size > 1,
        f"the arithmetic is {training.precision}, not bf16": training.precision != "bf16",
        "the run is to be deterministic": training.deterministic,
    }
    return next((reason for reason, holds in reasons.items() if holds), None) or why_not_fused(recipe.shape)


def speed_up(
    model: nn.Module, recipe: Recipe, device: torch.device, world: World, *, sizes_vary: bool = False
) -> str | None:
    """Set what makes the device fast (or repeatable), and say what is not available."""
    training = recipe.training
    if training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS picks its sums' order anew
        torch.use_deterministic_algorithms(True)
    if getattr(model, "fused", False):
        return None
    told = None
    if training.fused:
        reason = why_no_kernels(recipe, device, world) or "this network has no such blocks"
        told = f"without kernels of our own (training.fused): {reason}"
    if not training.compile or device.type != "cuda" or recipe.shape.kind == LSTM:
        return told
    if world.size > 1 and training.parallelism == FSDP:
        return "not compiled: fsdp shares out the weights that compiled code would hold"
    if importlib.util.find_spec("triton") is None:
        return "not compiled: the package triton is not installed; training runs, but slower"
    model.compile(dynamic=sizes_vary or None)  # None: one size is expected, and compiled for
    return told


def conduct(trainer: Trainer, checkpoint: Checkpoint | None, resume: bool, notify: Notify) -> bool:
    """Go on from a checkpoint, or begin, and train, while it saves; return whether all is done (else the time was up).

    A signal to stop ends in `Interrupted`. Either way the state is saved.
    """
    run, updates = trainer.run, trainer.updates
    if checkpoint is not None:
        trainer.restore(checkpoint)
        notify(
            _on_the_end(trainer, checkpoint)
            if trainer.is_done
            else f"going on from update {checkpoint.step} of {updates}"
        )
    elif resume:
        notify(f"nothing to resume in {run}: beginning with the first update")
    if trainer.world.is_first:
        forget_after(run, trainer.progress.updates_made, notify)
        if checkpoint is not None:  # a kill may have come between a save and this
            _tell_of_damaged(run, checkpoint.step, notify)
            remove_old(run, checkpoint.step, trainer.recipe.logging)
    if trainer.make_updates():
        return True
    left = f"stopped at update {trainer.progress.step} of {updates}, saved; the same again with `resume=True` goes on"
    if not trainer.out_of_time:
        raise Interrupted(left)
    notify(left)
    return False


def _tell_of_damaged(run: Path, newest: int, notify: Notify) -> None:
    """Tell of older checkpoints that cannot be read, before they go as old ones; of newer ones it was told."""
    older = [str(path) for step, path in list_checkpoints(run) if step < newest]
    problems: list[str] = []
    best_step(run, problems.append)
    for problem in problems:
        if any(path in problem for path in older):
            notify(problem)


def _on_the_end(trainer: Trainer, checkpoint: Checkpoint) -> str:
    """Tell of a run that is over that it is, and how it would go on, if it can."""
    can_go_on, made = checkpoint.optimizer is not None, trainer.progress.updates_made
    if made >= trainer.updates:
        more = "; `changes=['training.steps=N']` makes more" if can_go_on else ""
        return f"all {trainer.updates} updates are made{more}"
    more = "; more training.patience would go on" if can_go_on else ""
    return f"the run ended at update {made}, its patience at an end{more}"
