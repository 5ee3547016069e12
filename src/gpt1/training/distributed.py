"""Several processes at one run, on PyTorch's own engine: started by torchrun, DDP or FSDP2, gloo or NCCL.

Every rank works on its share of the same global batch, so the number of ranks changes nothing but rounding. For
checkpoints whole tensors are gathered, or each rank has its rows copied: either is read in any number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gpt1.base.errors import SettingError
from gpt1.recipes.values import FSDP
from gpt1.training.roll_call import RANK_TIMEOUT, RollCall, open_store


@dataclass(frozen=True)
class World:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1
    roll_call: RollCall | None = None  # of several

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> Tensor:
        """Add a tensor over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Wait until every rank is here."""
        if self.size > 1:
            dist.barrier()

    def agree(self, facts: Mapping[str, object]) -> None:
        """Wait until every rank is here, and refuse to go on where they differ in what must be the same."""
        if self.roll_call is not None:
            self.roll_call.agree(facts)


@contextmanager
def join_world(device: torch.device, minutes: float = RANK_TIMEOUT) -> Iterator[tuple[World, torch.device]]:
    """Join the processes that torchrun started, if it did; each gets a device of its own.

    One that others wait for so many minutes is taken for lost.
    """
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if size == 1:
        yield World(), device
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        if local >= torch.cuda.device_count():
            raise SettingError(f"process {local} has no GPU: there are {torch.cuda.device_count()}")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    roll_call = RollCall(open_store(rank, minutes), rank, size, minutes)
    with _losses_told(roll_call), _process_group(device, roll_call, rank, size):
        yield World(rank, size, roll_call), device


@contextmanager
def _losses_told(roll_call: RollCall) -> Iterator[None]:
    """Tell who is gone where others are, and the others why this process ends where it is the one."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, RuntimeError) and _is_lost_peer(error):
            raise roll_call.lost(error) from error
        roll_call.leave(str(error) or type(error).__name__)
        raise


@contextmanager
def _process_group(device: torch.device, roll_call: RollCall, rank: int, size: int) -> Iterator[None]:
    """Let tensors be exchanged between the processes, once all are there."""
    roll_call.begin()
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore("group", roll_call.store),
        rank=rank,
        world_size=size,
        timeout=timedelta(minutes=roll_call.minutes),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _is_lost_peer(error: RuntimeError) -> bool:
    words = ("connection", "peer", "gloo", "nccl", "timed out")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)


def distribute(objective: nn.Module, model: nn.Module, world: World, how: str) -> nn.Module:
    """Make a module whose backward pass adds the gradients up over the ranks; `objective` holds `model`."""
    if world.size == 1:
        return objective
    if how == FSDP:
        for module in (*cast(nn.ModuleList, model.blocks), model):
            sharded = fully_shard(module)
            sharded.set_gradient_divide_factor(1.0)  # losses are divided by global counts: gradients are added
            sharded.set_force_sum_reduction_for_comms(True)  # gloo knows no factor in a sum
        return objective
    return nn.parallel.DistributedDataParallel(
        objective, find_unused_parameters=getattr(objective, "leaves_weights_out", False)
    )


def accumulating(objective: nn.Module, model: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Return a context in which a backward pass that is not the last of its step keeps its gradients to itself."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
    elif isinstance(objective, nn.parallel.DistributedDataParallel) and not last:
        return objective.no_sync()
    return nullcontext()


def reshard(model: nn.Module) -> None:
    """Give back what a forward pass without a backward one gathered: an update would leave it stale."""
    if isinstance(model, FSDPModule):
        model.reshard()


def gradient_factor(objective: nn.Module, world: World) -> float:
    """Return what a rank's loss is multiplied by so that gradients come out added up: DDP takes their mean."""
    return float(world.size) if isinstance(objective, nn.parallel.DistributedDataParallel) else 1.0


def whole(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Return copies of tensors, gathered from all ranks, on the first one; every rank must ask.

    They lie on the device, from which somebody else may fetch them meanwhile; where it has no room, in main memory.
    """
    gathered = ((name, _gathered(tensor)) for name, tensor in tensors.items())
    copies = {name: _copied(tensor) if world.is_first else tensor for name, tensor in gathered}
    return copies if world.is_first else {}


def shares(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of this rank's rows of tensors that FSDP has spread, where `whole` would put them."""
    return {name: _copied(cast(DTensor, tensor).to_local()) for name, tensor in tensors.items()}


def _gathered(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _copied(tensor: Tensor) -> Tensor:
    try:
        return tensor.detach().clone()
    except torch.OutOfMemoryError:
        return tensor.detach().cpu()


def all_finite(tensors: Iterable[Tensor], world: World) -> bool:
    """Whether no tensor holds a NaN or an infinity, on any rank; every rank must ask."""
    locals_ = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    bad = torch.stack([(~torch.isfinite(tensor.detach()).all()).float() for tensor in locals_]).sum()
    return world.add_up(bad).item() == 0


def load_whole(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy whole tensors into a module's parameters, each rank its part."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            value = tensors[name].to(parameter.device, parameter.dtype)
            if isinstance(parameter, DTensor):
                value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
            parameter.copy_(value)
