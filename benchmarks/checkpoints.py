"""What a checkpoint costs the training that it is made of: how long the loop stands still, and the updates beside.

    python -m benchmarks.checkpoints                     # FSDP on all GPUs (one: plain), else two processes on a CPU
    python -m benchmarks.checkpoints --processes 4 --rounds 5
    python -m benchmarks.checkpoints --set shape.layers=2 --only gpt1

Contenders: `gpt1` (the real trainer: copies handed to a thread; under FSDP each process writes its shards), and, in the
same trainer with the same tensors, PyTorch's `torch.distributed.checkpoint`: `async_save`, and `save`, which returns
when all is on the disk. Rounds alternate; the figures are the first process's. All are synced to the disk; ours are
hashed besides. Random tokens: nothing depends on them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from benchmarks.pretraining import RandomTokens, synchronize
from benchmarks.results import ROOT, measured, tell
from gpt1.base.devices import device_name, find_device, usable_precision
from gpt1.inference.run import DTYPES
from gpt1.model import build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.objective import LanguageModelling
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import change
from gpt1.recipes.values import FSDP, Recipe
from gpt1.runs.events import Event, Stepped
from gpt1.training.distributed import World, join_world
from gpt1.training.trainer import Trainer, TrainerConfig

VOCAB = 40478


class Timed(Trainer):
    """Notes how long each save keeps the loop, and each update from its beginning to its end."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named, listeners=[self._hear])
        self.stalls: list[float] = []
        self.updates_took: list[float] = []
        self._updated = 0.0

    def save(self) -> None:
        """Save, timed."""
        synchronize(self.device)
        began = time.perf_counter()
        self.hand_over()
        synchronize(self.device)
        self._updated = time.perf_counter()
        self.stalls.append(self._updated - began)

    def hand_over(self) -> None:
        """Save as the trainer does."""
        super().save()

    def finish(self) -> None:
        """Wait until all is on the disk, which the trainer itself has seen to."""

    def _hear(self, event: Event) -> None:
        if isinstance(event, Stepped):
            now = time.perf_counter()
            self.updates_took.append(now - self._updated)
            self._updated = now


class Peers(Timed):
    """Saves as PyTorch does."""

    waits = True
    _before: Future[Any] | None = None

    def hand_over(self) -> None:
        """Save each process's shards, or have them saved."""
        state = {"model": dict(self.model.named_parameters()), "optimizer": self.optimizer.state()}
        to = self.run / f"step-{self.progress.step}"
        alone = self.world.size == 1
        if self.waits:
            dcp.save(state, checkpoint_id=to, no_dist=alone)
            return
        self.finish()  # as its makers ask for
        group = None if alone else gloo_group()
        self._before = cast(Future[Any], dcp.async_save(state, checkpoint_id=to, process_group=group, no_dist=alone))

    def finish(self) -> None:
        """Wait for the save that is on its way."""
        if self._before is not None:
            self._before.result()


class PeersBeside(Peers):
    """The same, beside the training."""

    waits = False


@cache
def gloo_group() -> Any:
    """Return the group by which PyTorch plans a save beside a training."""
    return dist.new_group(backend="gloo")


CONTENDERS: dict[str, Callable[..., Timed]] = {
    "gpt1": Timed,
    "torch.distributed.checkpoint, async_save": PeersBeside,
    "torch.distributed.checkpoint, save": Peers,
}


def train(kind: Callable[..., Timed], recipe: Recipe, folder: Path, world: World, device: torch.device) -> Timed:
    """Return a trainer that has trained."""
    shape, training = recipe.shape, recipe.training
    model = build_model(shape, VOCAB, compute=DTYPES[training.precision]).to(device)
    trainer = kind(
        TrainerConfig(
            objective=LanguageModelling(model),
            batches=RandomTokens(training.batch, shape.context, VOCAB),
            updates=cast(int, training.steps),
            recipe=recipe,
            tokens_per_step=training.batch * shape.context,
            flops_per_token=flops_per_token(shape, VOCAB),
        ),
        folder,
        device=device,
        world=world,
    )
    trainer.train()
    trainer.finish()
    return trainer


def measure(recipe: Recipe, only: list[str], rounds: int, world: World, device: torch.device) -> dict[str, Any]:
    """Return by contender the seconds of each save but the first and last, and of the updates between them."""
    stalls: dict[str, list[float]] = {name: [] for name in only}
    updates: dict[str, list[float]] = {name: [] for name in only}
    for round_ in range(rounds):
        for name in only if round_ % 2 == 0 else reversed(only):
            shared = [tempfile.mkdtemp() if world.is_first else None]
            if world.size > 1:
                dist.broadcast_object_list(shared)
            trainer = train(CONTENDERS[name], recipe, Path(cast(str, shared[0])), world, device)
            stalls[name] += trainer.stalls[1:-1]
            updates[name] += trainer.updates_took[1:]
            world.wait()
            if world.is_first:
                shutil.rmtree(cast(str, shared[0]))
    return {"stalls": stalls, "updates": updates}


def main() -> None:
    """Start the processes, or be one of them; the first prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--recipe", default=None)
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--every", type=int, default=6, help="updates from one save to the next")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--json", type=Path, default=None, help="add what was found to this file")
    given = parser.parse_args()
    device = find_device(given.device)
    processes = given.processes or (torch.cuda.device_count() if device.type == "cuda" else 2)
    if processes > 1 and "RANK" not in os.environ:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        sys.exit(subprocess.run([*torchrun, "-m", "benchmarks.checkpoints", *sys.argv[1:]], cwd=ROOT).returncode)
    recipe = find_recipe(given.recipe or ("paper" if device.type == "cuda" else "tiny"))
    precision, _ = usable_precision(device, recipe.training.precision)
    recipe = replace(
        change(recipe, given.changes),
        logging=replace(recipe.logging, log_every=1, save_every=given.every, evaluate_every=None, sample_every=None),
    )
    training = replace(recipe.training, steps=given.steps, precision=precision, compile=False, parallelism=FSDP)
    with join_world(device) as (world, own_device):
        found = measure(replace(recipe, training=training), given.only, given.rounds, world, own_device)
    if world.is_first:
        where = f"{device_name(device)}, {processes} processes" if processes > 1 else device_name(device)
        row = partial(measured, unit="s", machine=where)
        shown = f"{recipe.name}'s shape"
        rows = [*row(f"standstill of a save, {shown}", found=found["stalls"])]
        tell([*rows, *row(f"an update with saves beside, {shown}", found=found["updates"])], given.json)


if __name__ == "__main__":
    main()
