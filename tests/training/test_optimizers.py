from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from gpt1.base.errors import FormatError
from gpt1.recipes.catalog import MODERN, PAPER
from gpt1.recipes.values import Optimizer
from gpt1.training.optimizers import (
    DECAYED,
    MUON,
    UNDECAYED,
    AdamNumbers,
    Optimizers,
    adam_update,
    build_optimizer,
    library_update,
    muon_directions,
    orthogonalize,
)
from tests.reference import adam as reference

ADAM, ADAMW, MUON_SETTINGS = PAPER.optimizer, replace(PAPER.optimizer, kind="adamw"), MODERN.optimizer
YES, NO = torch.tensor(True), torch.tensor(False)
ONE = torch.tensor(1.0)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WIDTH = 6
# Names and shapes of the rooms of a network; sizes that are no multiple of anything.
BLOCK = {
    "attention.qkv.weight": (3 * WIDTH, WIDTH),
    "attention.out.weight": (WIDTH, WIDTH),
    "norm_1.gain": (WIDTH,),
    "feed_forward.up.weight": (4 * WIDTH, WIDTH),
    "feed_forward.down.weight": (WIDTH, 4 * WIDTH),
}
BIASES = {"attention.qkv.bias": (3 * WIDTH,), "norm_1.bias": (WIDTH,), "feed_forward.up.bias": (4 * WIDTH,)}
SHAPES = {
    "paper": {
        "tokens": (37, WIDTH),
        "positions": (5, WIDTH),
        **{f"blocks.{i}.{name}": shape for i in (0, 1) for name, shape in (BLOCK | BIASES).items()},
    },
    "modern": {
        "tokens": (37, WIDTH),
        **{f"blocks.{i}.{name}": shape for i in (0, 1) for name, shape in BLOCK.items()},
        "final_norm.gain": (WIDTH,),
        "output": (37, WIDTH),
    },
    "lstm": {
        "tokens": (37, WIDTH),
        "blocks.0.weight_ih": (4 * 5, WIDTH),
        "blocks.0.weight_hh": (4 * 5, 5),
        "blocks.0.bias": (4 * 5,),
        "out.weight": (WIDTH, 5),
    },
}


class Network:
    """Named parameters of a toy, and gradients for them that are the same for the same seed."""

    def __init__(self, kind: str = "paper", dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        draw = torch.Generator().manual_seed(0)
        self.named = {
            name: nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64).to(device, dtype))
            for name, shape in SHAPES[kind].items()
        }

    def gradients(self, seed: int, size: float = 1.0) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(seed)
        return {
            name: (torch.randn(p.shape, generator=draw, dtype=torch.float64) * size).to(p.device, p.dtype)
            for name, p in self.named.items()
        }

    def values(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.named.items()}

    def backward(self, gradients: dict[str, Tensor]) -> None:
        """Let autograd bring these gradients, as a backward pass does."""
        torch.stack([(p * gradients[name]).sum() for name, p in self.named.items()]).sum().backward()


def build(settings: Optimizer, network: Network) -> Optimizers:
    return build_optimizer(settings, network.named.items())


def clipping(optimizer: Optimizers) -> Tensor:
    return (1.0 / optimizer.gradient_norm()).clamp(max=1.0)


def errors(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Return the largest relative error; a tensor that is zero is measured against all of them."""
    everything = math.sqrt(sum(float(x.norm()) ** 2 for x in wanted.values()))
    return max(
        float((found[name] - x).norm()) / max(float(x.norm()), 1e-6 * everything, 1e-300) for name, x in wanted.items()
    )


def moments(optimizer: Optimizers, slot: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{slot}."): x.clone() for name, x in optimizer.state().items() if name.startswith(f"{slot}.")
    }


def snapshot(optimizer: Optimizers, network: Network) -> dict[str, Tensor]:
    return network.values() | {name: x.clone() for name, x in optimizer.state().items()}


def bits(tensors: dict[str, Tensor]) -> dict[str, bytes]:
    return {name: x.cpu().numpy().tobytes() for name, x in tensors.items()}


# ---- adam, the released code's ----


@pytest.mark.parametrize("updates", [1, 10])
def test_adam_is_the_released_codes_to_the_last_digits(updates: int) -> None:
    network = Network(dtype=torch.float64)
    p = network.values()
    m, v = ({name: torch.zeros_like(x) for name, x in p.items()} for _ in range(2))
    optimizer = build(ADAM, network)
    for t in range(1, updates + 1):
        g = network.gradients(seed=t, size=10.0 ** (t % 4 - 3))  # some are clipped and some are not
        s = reference.cosine((t - 1) / 20, warmup=0.15)
        optimizer.zero_grad()
        network.backward(g)
        optimizer.step(t, s, clipping(optimizer), YES)
        reference.update(p, g, m, v, lr=ADAM.lr, t=t, s=s)
    assert errors(network.values(), p) < 1e-10
    assert errors(moments(optimizer, "m"), m) < 1e-10
    assert errors(moments(optimizer, "v"), v) < 1e-10


def test_both_clipped_and_unclipped_gradients_were_met_above() -> None:
    norms = [reference.norm_of(Network().gradients(seed=t, size=10.0 ** (t % 4 - 3))) for t in range(1, 11)]
    assert min(norms) < 1 < max(norms)


def test_adam_is_not_adamw() -> None:
    ours, theirs = Network(dtype=torch.float64), Network(dtype=torch.float64)
    for settings, network in ((ADAM, ours), (ADAMW, theirs)):
        optimizer = build(settings, network)
        network.backward(network.gradients(seed=1))
        optimizer.step(1, 1.0, ONE, YES)
    assert errors(ours.values(), theirs.values()) > 1e-9


def test_the_first_update_of_a_warm_up_moves_no_weight_but_fills_the_moments() -> None:
    network = Network()
    optimizer = build(ADAM, network)
    before = bits(network.values())
    network.backward(network.gradients(seed=1))
    optimizer.step(1, 0.0, ONE, YES)
    assert bits(network.values()) == before
    assert all(x.abs().min() > 0 for x in optimizer.state().values())


def test_only_what_has_more_than_one_dimension_decays() -> None:
    network = Network(dtype=torch.float64)
    before = network.values()
    build(ADAM, network).step(1, 1.0, ONE, YES)  # no gradient, so that nothing but the decay is left
    rate = ADAM.lr * math.sqrt(1 - ADAM.beta2) / (1 - ADAM.beta1)
    for name, x in network.values().items():
        shrunk = 1 - rate * ADAM.weight_decay if x.ndim > 1 else 1.0
        torch.testing.assert_close(x, before[name] * shrunk, rtol=1e-14, atol=0)


# ---- its faster twins ----


def moving(size: int, device: str = "cpu") -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    p, g, m = (torch.randn(size, generator=draw) for _ in range(3))
    v = torch.rand(size, generator=draw)
    return [x.to(device) for x in (p, g * 1e-2, m * 1e-3, v * 1e-6)]


def judge(update: Callable[..., None], size: int, device: str, tolerance: float = 2e-7) -> None:
    numbers = AdamNumbers(rate=1e-2, decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-8)
    scale = torch.tensor(0.7, device=device)
    found, wanted = moving(size, device), [x.double() for x in moving(size, device)]
    copy = torch.zeros(size, dtype=torch.bfloat16, device=device)
    update(*found, numbers, scale=scale, ok=YES.to(device), copy=copy)
    assert torch.equal(copy, found[0].bfloat16())
    adam_update(*wanted, numbers, scale=scale.double(), ok=YES.to(device))
    for index in (0, 2, 3):
        error = float((found[index] - wanted[index]).norm() / wanted[index].norm())
        assert error < tolerance, index
    before = moving(size, device)
    before[1].fill_(math.nan)
    after = [x.clone() for x in before]
    update(*after, numbers, scale=scale * math.nan, ok=NO.to(device))
    assert all(torch.equal(after[index], before[index]) for index in (0, 2, 3))


@pytest.mark.parametrize("size", [1, 1000, 70_001])
def test_torchs_kernel_stands_in_for_the_formula(size: int) -> None:
    judge(library_update, size, "cpu")
    judge(adam_update, size, "cpu")


@GPU
@pytest.mark.parametrize("size", [1, 1024, 1_000_003])
def test_our_kernel_stands_in_for_the_formula(size: int) -> None:
    from gpt1.model.kernels.adam import fused_update

    judge(fused_update, size, "cuda")
    judge(library_update, size, "cuda", tolerance=5e-6)  # takes 1 - 0.999 in single precision


@GPU
def test_our_kernel_reaches_beyond_two_billion_elements() -> None:
    from gpt1.model.kernels.adam import fused_update

    size = 2**31 + 4096
    tensors = [torch.ones(size, device="cuda") for _ in range(4)]
    numbers = AdamNumbers(rate=0.5, decay=0.0, beta1=0.0, beta2=0.0, epsilon=1e-8)
    fused_update(*tensors, numbers, scale=ONE.cuda(), ok=YES.cuda())
    assert float(tensors[0].min()) == float(tensors[0].max()) == 0.5


@GPU
@pytest.mark.parametrize("settings", [ADAM, ADAMW, MUON_SETTINGS], ids=lambda settings: settings.kind)
def test_a_gpu_moves_the_weights_as_a_cpu_does(settings: Optimizer) -> None:
    here, there = Network("modern"), Network("modern", device="cuda")
    for network, device in ((here, "cpu"), (there, "cuda")):
        optimizer = build(settings, network)
        for t in range(1, 6):
            optimizer.zero_grad()
            network.backward(network.gradients(seed=t))
            optimizer.step(t, 1.0, clipping(optimizer), YES.to(device))
    found = {name: x.cpu() for name, x in there.values().items()}
    assert errors(found, here.values()) < (1e-2 if settings.kind == "muon" else 1e-6)  # bf16 there, fp32 here


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("settings", [ADAM, ADAMW, MUON_SETTINGS], ids=lambda settings: settings.kind)
def test_copies_of_the_weights_follow_every_update(settings: Optimizer, device: str) -> None:
    network = Network("modern", device=device)
    optimizer = build(settings, network)
    copies = optimizer.keep_copies(torch.bfloat16)
    assert copies.keys() == network.named.keys()
    before = network.values()
    for t, ok in ((1, YES), (2, NO), (3, YES)):
        optimizer.zero_grad()
        network.backward(network.gradients(seed=t))
        optimizer.step(t, 1.0, clipping(optimizer), ok.to(device))
        assert all(torch.equal(copies[name], p.bfloat16()) for name, p in network.named.items())
    assert errors(network.values(), before) > 0
    with torch.no_grad():
        network.named["tokens"].fill_(2.0)
    optimizer.renew_copies()
    assert torch.equal(copies["tokens"], torch.full_like(copies["tokens"], 2.0))


# ---- adamw and muon ----


def test_adamw_is_torchs() -> None:
    ours, theirs = Network(dtype=torch.float64), Network(dtype=torch.float64)
    optimizer = build(ADAMW, ours)
    matrices = [p for p in theirs.named.values() if p.ndim > 1]
    vectors = [p for p in theirs.named.values() if p.ndim == 1]
    judges = [
        torch.optim.AdamW(some, lr=ADAMW.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
        for some, decay in ((matrices, 0.01), (vectors, 0.0))
    ]
    for t in range(1, 11):
        g = ours.gradients(seed=t)
        for name, p in theirs.named.items():
            p.grad = g[name]
        optimizer.zero_grad()
        ours.backward(g)
        factor = t / 10
        for other in judges:
            other.param_groups[0]["lr"] = ADAMW.lr * factor
            other.step()
        optimizer.step(t, factor, ONE, YES)
    assert errors(ours.values(), theirs.values()) < 1e-12


@pytest.mark.parametrize("name", ["feed_forward.up.weight", "feed_forward.down.weight", "attention.out.weight"])
def test_muon_is_torchs(name: str) -> None:
    name = f"blocks.0.{name}"
    settings = replace(MUON_SETTINGS, weight_decay=0.1)
    ours, theirs = Network("modern"), Network("modern")
    optimizer = build(settings, ours)
    judge = torch.optim.Muon([theirs.named[name]], lr=settings.matrix_lr, momentum=settings.momentum, weight_decay=0.1)
    start = ours.values()[name]
    for t in (1, 2, 3):
        g = ours.gradients(seed=t)
        theirs.named[name].grad = g[name].clone()
        judge.step()
        optimizer.zero_grad()
        ours.backward(g)
        optimizer.step(t, 1.0, ONE, YES)
    moved, wanted = (network.values()[name] - start for network in (ours, theirs))
    assert float((moved - wanted).norm() / wanted.norm()) < 2e-2  # torch's runs in bf16


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 32, 8), (3, 8, 32)])
def test_orthogonalising_brings_singular_values_near_one(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(orthogonalize(x * 1e-3))
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
    assert torch.equal(orthogonalize(torch.zeros(shape)), torch.zeros(shape))


def test_matrices_handled_together_go_where_each_goes_alone() -> None:
    updates = {name: g for name, g in Network("modern").gradients(seed=1).items() if g.ndim == 2}
    together = muon_directions(updates)
    for name, update in updates.items():
        torch.testing.assert_close(together[name], muon_directions({name: update})[name])


def test_queries_keys_and_values_are_three_matrices() -> None:
    update = Network().gradients(seed=1)["blocks.0.attention.qkv.weight"]
    found = muon_directions({"blocks.0.attention.qkv.weight": update})["blocks.0.attention.qkv.weight"]
    wanted = [muon_directions({"x": part})["x"] for part in update.split(WIDTH)]
    torch.testing.assert_close(found, torch.cat(wanted))


# ---- what holds for all of them ----

ALL = pytest.mark.parametrize("settings", [ADAM, ADAMW, MUON_SETTINGS], ids=lambda settings: settings.kind)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@ALL
@pytest.mark.parametrize("kind", SHAPES)
def test_every_parameter_is_in_exactly_one_group(settings: Optimizer, kind: str) -> None:
    network = Network(kind)
    groups = build(settings, network).groups
    assert sorted(name for names in groups.values() for name in names) == sorted(network.named)
    for group, names in groups.items():
        for name in names:
            is_block_matrix = name.startswith("blocks.") and network.named[name].ndim == 2
            assert (group == MUON) == (settings.kind == "muon" and is_block_matrix)
            assert (group == UNDECAYED) == (network.named[name].ndim == 1)
    assert set(groups) <= {DECAYED, UNDECAYED, MUON}


def test_a_tied_parameter_counts_once_and_a_frozen_one_not_at_all() -> None:
    tied, frozen = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2), requires_grad=False)
    optimizer = build_optimizer(ADAM, [("tokens", tied), ("frozen", frozen), ("output", tied)])
    assert optimizer.groups == {DECAYED: ["tokens"]}
    assert sorted(optimizer.state()) == ["m.tokens", "v.tokens"]
    assert frozen.grad is None


@ALL
@DTYPES
def test_an_update_that_is_not_ok_changes_no_bit(settings: Optimizer, dtype: torch.dtype) -> None:
    network = Network("modern", dtype)
    optimizer = build(settings, network)
    network.backward(network.gradients(seed=1))
    optimizer.step(1, 1.0, ONE, YES)
    before = bits(snapshot(optimizer, network))
    for poison in (math.nan, math.inf):
        optimizer.zero_grad()
        network.backward({name: torch.full_like(p, poison) for name, p in network.named.items()})
        optimizer.step(2, 1.0, torch.tensor(math.nan), NO)
        assert bits(snapshot(optimizer, network)) == before
    optimizer.zero_grad()
    network.backward(network.gradients(seed=2))
    optimizer.step(2, 1.0, ONE, YES)
    assert all(x != before[name] for name, x in bits(snapshot(optimizer, network)).items())


@ALL
@DTYPES
def test_gradients_are_multiplied_by_the_scale(settings: Optimizer, dtype: torch.dtype) -> None:
    found = []
    for size, scale in ((1.0, 0.125), (0.125, 1.0)):
        network = Network("modern", dtype)
        optimizer = build(settings, network)
        for t in (1, 2):
            optimizer.zero_grad()
            network.backward(network.gradients(seed=t, size=size))
            optimizer.step(t, 1.0, torch.tensor(scale), YES)
        found.append(bits(snapshot(optimizer, network)))
    assert found[0] == found[1]  # a power of two loses nothing


@ALL
def test_a_state_that_is_saved_and_loaded_goes_on_as_if_nothing_had_happened(settings: Optimizer) -> None:
    unbroken, resumed = Network("modern"), Network("modern")
    first = build(settings, unbroken)
    for t in (1, 2):
        first.zero_grad()
        unbroken.backward(unbroken.gradients(seed=t))
        first.step(t, 1.0, ONE, YES)
    second = build(settings, resumed)
    with torch.no_grad():
        for name, p in resumed.named.items():
            p.copy_(unbroken.named[name])
    second.load({name: x.clone() for name, x in first.state().items()})
    assert bits(snapshot(second, resumed)) == bits(snapshot(first, unbroken))
    for network, optimizer in ((unbroken, first), (resumed, second)):
        optimizer.zero_grad()
        network.backward(network.gradients(seed=3))
        optimizer.step(3, 1.0, ONE, YES)
    assert bits(snapshot(second, resumed)) == bits(snapshot(first, unbroken))


@ALL
def test_moments_have_their_parameters_names_and_shapes(settings: Optimizer) -> None:
    network = Network("modern")
    state = build(settings, network).state()
    for key, moment in state.items():
        slot, name = key.split(".", 1)
        assert slot in (("m", "v", "momentum") if settings.kind == "muon" else ("m", "v"))
        assert moment.shape == network.named[name].shape
    assert {key.split(".", 1)[1] for key in state} == set(network.named)


def test_a_state_that_does_not_fit_is_refused_whole_and_says_where() -> None:
    network = Network()
    optimizer = build(ADAM, network)
    good = {name: torch.ones_like(x) for name, x in optimizer.state().items()}
    before = bits(snapshot(optimizer, network))
    with pytest.raises(FormatError, match=r"'m\.tokens' is missing"):
        optimizer.load({name: x for name, x in good.items() if name != "m.tokens"})
    with pytest.raises(FormatError, match=r"'momentum\.tokens' belongs to no parameter"):
        optimizer.load(good | {"momentum.tokens": torch.ones(1)})
    with pytest.raises(FormatError, match=r"'v\.positions' has shape \[4, 6\], here \[5, 6\]"):
        optimizer.load(good | {"v.positions": torch.ones(4, WIDTH)})
    assert bits(snapshot(optimizer, network)) == before


@DTYPES
def test_the_norm_is_that_of_all_gradients_together(dtype: torch.dtype) -> None:
    network = Network("modern", dtype)
    optimizer = build(MUON_SETTINGS, network)
    gradients = network.gradients(seed=1)
    network.backward(gradients)
    network.backward(gradients)  # autograd adds
    norm = optimizer.gradient_norm()
    assert norm.shape == ()
    assert norm.dtype == dtype
    assert float(norm) == pytest.approx(2 * reference.norm_of(gradients), rel=1e-6)
    optimizer.zero_grad()
    assert float(optimizer.gradient_norm()) == 0.0
