from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from gpt1.recipes.catalog import MODERN, PAPER
from gpt1.training.optimizers import Optimizers, build_optimizer
from gpt1.training.storage import ALIGNMENT, NORM_BLOCK, Flat, norm_of

ONE, YES, NO = torch.tensor(1.0), torch.tensor(True), torch.tensor(False)


# ---- flat ----


def test_parameters_and_gradients_become_views_of_aligned_buffers() -> None:
    parameters = {"a": nn.Parameter(torch.randn(3, 5)), "b": nn.Parameter(torch.randn(7))}
    before = {name: p.detach().clone() for name, p in parameters.items()}
    ((weights, gradients, moment),) = Flat(parameters, ("m",)).pieces()
    assert all(torch.equal(p, before[name]) for name, p in parameters.items())
    for p in parameters.values():
        for buffer, view in ((weights, p.data), (gradients, p.grad)):
            assert view.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
            assert view.storage_offset() % ALIGNMENT == 0
    assert moment.shape == weights.shape == (2 * ALIGNMENT,)


def test_autograd_adds_into_the_buffer() -> None:
    p = nn.Parameter(torch.ones(3))
    ((_, gradients, _),) = (flat := Flat({"p": p}, ("m",))).pieces()
    for _ in range(2):
        (p * 2).sum().backward()
    assert gradients[:4].tolist() == [4.0, 4.0, 4.0, 0.0]
    assert len(flat.pieces()) == 1


def test_a_gradient_that_left_its_buffer_is_noticed() -> None:
    module = nn.Linear(2, 2)
    optimizer = build_optimizer(PAPER.optimizer, module.named_parameters())
    optimizer.zero_grad()
    module.zero_grad(set_to_none=True)
    with pytest.raises(AssertionError, match="left its buffer"):
        optimizer.gradient_norm()


@pytest.mark.parametrize("kept", [(), ("a",), ("b", "c"), ("d",), ("a", "b", "c", "d")])
def test_gradients_become_zero_but_those_that_are_left_out(kept: tuple[str, ...]) -> None:
    parameters = {
        name: nn.Parameter(torch.zeros(size)) for name, size in zip("abcd", (3, 2 * ALIGNMENT, 7, 1), strict=True)
    }
    flat = Flat(parameters, ("m",))
    for parameter in parameters.values():
        parameter.grad.fill_(1)  # type: ignore[union-attr]
    flat.zero_gradients(kept)
    assert {name: parameter.grad.unique().tolist() for name, parameter in parameters.items()} == {  # type: ignore[union-attr]
        name: [float(name in kept)] for name in "abcd"
    }


def test_gather_and_scatter_undo_each_other() -> None:
    flat = Flat({"a": nn.Parameter(torch.randn(3, 5)), "b": nn.Parameter(torch.randn(7))}, ())
    wholes = {"a": torch.randn(3, 5), "b": torch.randn(7)}
    found = flat.gather(flat.scatter(wholes))
    assert all(torch.equal(found[name], whole) for name, whole in wholes.items())


@pytest.mark.parametrize("size", [0, 1, NORM_BLOCK - 1, NORM_BLOCK, 3 * NORM_BLOCK + 5])
def test_the_norm_in_one_go_has_the_bits_of_the_norm_block_by_block(size: int) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(size))
    one_by_one = [torch.linalg.vector_norm(block) for block in x.split(NORM_BLOCK)]
    assert torch.equal(norm_of([x]), torch.linalg.vector_norm(torch.stack(one_by_one)))


def test_the_norm_of_many_numbers_does_not_drift() -> None:
    x = torch.full((10_000_000,), 1.1)
    assert float(norm_of([x, 2 * x])) == pytest.approx(1.1 * math.sqrt(50e6), rel=2e-6)


def test_a_state_of_views_can_be_saved(tmp_path: Path) -> None:
    optimizer = build_optimizer(PAPER.optimizer, nn.Linear(3, 2).named_parameters())
    save_file(optimizer.state(), tmp_path / "state.safetensors")
    assert sorted(load_file(tmp_path / "state.safetensors")) == ["m.bias", "m.weight", "v.bias", "v.weight"]


# ---- sharded: the same numbers on many ranks as in one process ----


class Block(nn.Module):
    """A block whose odd sizes do not split evenly, and one of whose vectors leaves the second rank without a shard."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(5, 15)
        self.down = nn.Linear(15, 5)
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain * self.down(torch.tanh(self.qkv(x)))


class Network(nn.Module):
    """Two blocks and a tensor of tokens, the same for the same seed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Parameter(torch.randn(11, 5))
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens[ids]
        for block in self.blocks:
            x = block(x)
        return (x @ self.tokens.T).logsumexp(-1).sum()


def train(network: nn.Module, optimizer: Optimizers, rows: slice) -> list[float]:
    """Make some updates, one of them not ok, each from this rank's rows; return the norms of the gradients."""
    norms = []
    for t in (1, 2, 3, 4):
        ids = torch.randint(11, (4, 7), generator=torch.Generator().manual_seed(t))[rows]
        optimizer.zero_grad()
        network(ids).backward()
        norm = optimizer.gradient_norm()
        optimizer.step(t, 0.5, (1 / norm).clamp(max=1.0), NO if t == 2 else YES)
        norms.append(float(norm))
    return norms


def whole(x: Tensor) -> Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone()


def everything(network: nn.Module, optimizer: Optimizers) -> dict[str, Tensor]:
    return {name: whole(x) for name, x in (*network.named_parameters(), *optimizer.state().items())}


def sharded_network() -> Network:
    network, mesh = Network(), init_device_mesh("cpu", (dist.get_world_size(),))  # also where there is a GPU
    for module in (*network.blocks, network):
        shards = fully_shard(module, mesh=mesh)
        shards.set_gradient_divide_factor(1.0)  # add the ranks' gradients up
        shards.set_force_sum_reduction_for_comms(True)  # gloo cannot do otherwise
    return network


def compare_with_one_process(rank: int, ranks: int) -> None:
    rows = slice(rank * 4 // ranks, (rank + 1) * 4 // ranks)
    for settings in (PAPER.optimizer, MODERN.optimizer):
        alone, ours = Network(), sharded_network()
        one, many = (build_optimizer(settings, network.named_parameters()) for network in (alone, ours))
        assert many.groups == one.groups
        assert float(many.gradient_norm()) == 0.0  # before any backward pass
        wanted = train(alone, one, slice(None))
        assert train(ours, many, rows) == pytest.approx(wanted, rel=1e-5)
        torch.testing.assert_close(everything(ours, many), everything(alone, one), rtol=1e-4, atol=1e-5)
        # A state of whole tensors, as a checkpoint has it, and one of shards can both be taken over.
        for state in ({name: whole(x) for name, x in many.state().items()}, many.state()):
            fresh = build_optimizer(settings, sharded_network().named_parameters())
            fresh.load(state)
            assert all(torch.equal(whole(x), whole(many.state()[name])) for name, x in fresh.state().items())


def count_copies_once(ranks: int) -> None:
    mesh = init_device_mesh("cpu", (ranks,))
    draw = torch.Generator().manual_seed(0)
    values = {"split": torch.randn(5, 3, generator=draw), "copied": torch.randn(4, 2, generator=draw)}
    parameters = {
        name: nn.Parameter(distribute_tensor(values[name], mesh, [placement]))
        for name, placement in (("split", Shard(0)), ("copied", Replicate()))
    }
    optimizer = build_optimizer(PAPER.optimizer, parameters.items())
    for parameter in parameters.values():
        parameter.grad = parameter.detach().clone()
    assert float(optimizer.gradient_norm()) == pytest.approx(float(norm_of(values.values())), rel=1e-6)


def run_rank(rank: int, ranks: int, store: str) -> None:
    torch.set_num_threads(1)  # a second rank is a process of its own
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    try:
        compare_with_one_process(rank, ranks)
        count_copies_once(ranks)
    finally:
        dist.destroy_process_group()


def test_weights_in_shards_move_as_whole_ones_do(tmp_path: Path) -> None:
    run_rank(0, 1, str(tmp_path / "store"))


@pytest.mark.slow
def test_weights_in_shards_on_two_ranks_move_as_whole_ones_do(tmp_path: Path) -> None:
    mp.spawn(run_rank, (2, str(tmp_path / "store")), nprocs=2)
