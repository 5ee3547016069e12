"""The kernels of fused blocks on a GPU: each against its plain twin and beside what the trainer runs without it.

    python -m benchmarks.kernels                     # kernels, then whole steps
    python -m benchmarks.kernels --only attention norm gelu "column sums"
    python -m benchmarks.kernels --only steps --rounds 3
    python -m benchmarks.kernels --only sweep        # other launch shapes of attention and norm
    python -m benchmarks.kernels --only profile      # where a whole step with fused blocks spends its time

GPT-1's shape, 64 x 512 tokens, bf16, dropout 0.1. First a kernel's result and gradients are held to those of its twin
in float64, on sequences of uneven lengths; then it is timed on the whole batch: "kernels" is the time that its kernels
took, forward alone and with the backward pass, by torch's profiler; "calls" the median of whole calls, both passes,
by Triton's `do_bench`; "floor" what moving the bytes (4.3 TB/s) or the products (785 TFLOP/s) must take. What fails is
told, and the rest goes on. At the end whole steps of the trainer, contenders taking turns.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.pretraining import PlainGPT, ours, peer
from benchmarks.results import interleave
from gpt1.base.devices import device_name
from gpt1.model.attention import attend, attend_packed
from gpt1.model.dropout import DropoutKey, dropout, dropout_key
from gpt1.model.layers import LAYER_EPSILON, gelu
from gpt1.model.packing import Packing, grid_packing, pack
from gpt1.recipes.catalog import find_recipe

B, T, C, H, WIDE, RATE, SITE, VOCAB = 64, 512, 768, 12, 3072, 0.1, 5, 40478
LENGTHS = 512, 1, 130, 511, 64, 333  # of the sequences on which numbers are compared
BYTES_PER_MS, FLOPS_PER_MS = 4.3e9, 785e9
ERROR = 0.02  # of bf16, relative to a tensor's norm

Results = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True)
class Case:
    """One kernel: what it is given over so many rows, its twin, and what runs in its place today."""

    name: str
    given: Callable[[int], list[Tensor]]
    fused: Callable[[Packing, DropoutKey], Results]
    twin: Callable[[Packing, DropoutKey], Results]
    landed: Callable[[Packing, DropoutKey], Results]
    floor: tuple[float, float]  # ms: forward, both passes


def cases() -> Iterator[Case]:
    """Yield every kernel with its twin."""
    from gpt1.model.kernels.attention import fused_attention
    from gpt1.model.kernels.columns import column_sums
    from gpt1.model.kernels.gelu import fused_bias_gelu
    from gpt1.model.kernels.masks import masks_at
    from gpt1.model.kernels.norm import Norm, fused_drop_add_norm

    def attention(packing: Packing, noise: DropoutKey, qkv: Tensor) -> Sequence[Tensor]:
        return (fused_attention(qkv.view(-1, 3, H, C // H), masks_at(RATE, noise, SITE, packing)),)

    def plain_attention(packing: Packing, noise: DropoutKey, qkv: Tensor) -> Sequence[Tensor]:
        q, k, v = (x.transpose(0, 1) for x in qkv.view(-1, 3, H, C // H).unbind(1))
        y = attend_packed(q, k, v, packing=packing, rate=RATE, noise=noise, site=SITE)
        return (y.transpose(0, 1),)

    def library_attention(packing: Packing, noise: DropoutKey, qkv: Tensor) -> Sequence[Tensor]:
        q, k, v = qkv.view(-1, T, 3, H, C // H).transpose(1, 3).unbind(2)
        return (attend(q, k, v, rate=RATE, noise=noise, site=SITE).transpose(1, 2).reshape(-1, H, C // H),)

    def norm(packing: Packing, noise: DropoutKey, *x: Tensor) -> Sequence[Tensor]:
        masks = masks_at(RATE, noise, SITE, packing)
        return fused_drop_add_norm(x[0], x[1], x[2], Norm(x[3], x[4], LAYER_EPSILON, True), masks)[:1]

    def plain_norm(packing: Packing, noise: DropoutKey, *x: Tensor) -> Sequence[Tensor]:
        total = x[0] + dropout(x[1] + x[2].to(x[1].dtype), RATE, noise, SITE, packing)
        wide = torch.promote_types(total.dtype, x[3].dtype)
        return (F.layer_norm(total.to(wide), (C,), x[3], x[4], LAYER_EPSILON).to(total.dtype),)

    def plain_gelu(packing: Packing, noise: DropoutKey, x: Tensor, bias: Tensor) -> Sequence[Tensor]:
        return (gelu(x + bias.to(x.dtype)),)

    def fused_gelu(packing: Packing, noise: DropoutKey, x: Tensor, bias: Tensor) -> Sequence[Tensor]:
        return (fused_bias_gelu(x, bias),)

    rows, ms = B * T * 2, 1 / BYTES_PER_MS  # bytes of a column in bf16
    flops = 4 * B * T * T * C / 2
    yield Case(
        "attention",
        lambda n: [normal(n, 3 * C, seed=1)],
        lambda *where: partial(attention, *where),
        lambda *where: partial(plain_attention, *where),
        lambda *where: partial(library_attention, *where),
        (max(4 * C * rows * ms, flops / FLOPS_PER_MS), max(12 * C * rows * ms, 3.5 * flops / FLOPS_PER_MS)),
    )
    yield Case(
        "norm",
        lambda n: [*(normal(n, C, seed=k) for k in (1, 2)), *(normal(C, seed=k).float() for k in (3, 4, 5))],
        lambda *where: partial(norm, *where),
        lambda *where: partial(plain_norm, *where),
        lambda *where: torch.compile(lambda *x: plain_norm(*where, *x)),
        (4 * C * rows * ms, 8 * C * rows * ms),
    )
    yield Case(
        "gelu",
        lambda n: [normal(n, WIDE, seed=1), normal(WIDE, seed=2).float()],
        lambda *where: partial(fused_gelu, *where),
        lambda *where: partial(plain_gelu, *where),
        lambda *where: torch.compile(lambda *x: plain_gelu(*where, *x)),
        (2 * WIDE * rows * ms, 5 * WIDE * rows * ms),
    )
    yield Case(
        "column sums",
        lambda n: [normal(n, 3 * C, seed=1)],
        lambda *where: lambda x: (column_sums(x),),
        lambda *where: lambda x: (x.detach().sum(0),),
        lambda *where: torch.compile(lambda x: (x.detach().sum(0, dtype=torch.float32),)),
        (3 * C * rows * ms, 3 * C * rows * ms),
    )


def normal(*size: int, seed: int) -> Tensor:
    """Return normal numbers."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(size, generator=generator, device="cuda", dtype=torch.bfloat16)


def whole() -> tuple[Packing, DropoutKey]:
    """Return the packing and the noise of a whole batch."""
    device = torch.device("cuda")
    return grid_packing(B, T, device), dropout_key(0, 1, torch.arange(B, device=device))


def check(case: Case) -> float:
    """Return the largest error of a kernel's results and gradients against its twin in float64."""
    packing = pack(torch.tensor(LENGTHS, device="cuda"))
    noise = dropout_key(3, 4, torch.arange(7, 7 + len(LENGTHS), device="cuda"))
    given = case.given(sum(LENGTHS))
    found = with_gradients(case.fused(packing, noise), given)
    wanted = with_gradients(case.twin(packing, noise), [x.double() for x in given])
    return max(
        float(torch.linalg.vector_norm(x.double() - y) / torch.linalg.vector_norm(y))
        for x, y in zip(found, wanted, strict=True)
    )


def with_gradients(function: Results, given: Sequence[Tensor]) -> list[Tensor]:
    """Return what a function gives, and its gradients for random ones of that where it has any."""
    leaves = [x.detach().requires_grad_() for x in given]
    results = function(*leaves)
    if not results[0].requires_grad:
        return list(results)
    grads = [normal(*y.shape, seed=50 + k).to(y.dtype) for k, y in enumerate(results)]
    return [*(y.detach() for y in results), *torch.autograd.grad(list(results), leaves, grads)]


def kernels_ms(call: Callable[[], object], times: int = 10) -> float:
    """Return the time that the kernels of a call take."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(times):
            call()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in found.key_averages()) / times / 1e3


def tell_time(name: str, function: Results, given: Sequence[Tensor]) -> None:
    """Print a line of what a function costs on a whole batch."""
    from triton.testing import do_bench

    leaves = [x.detach().requires_grad_() for x in given]
    grads = [torch.randn_like(y) for y in function(*leaves)]

    def both() -> object:
        results = function(*leaves)
        return torch.autograd.grad(list(results), leaves, grads) if results[0].requires_grad else results

    forward, passes = kernels_ms(lambda: function(*leaves)), kernels_ms(both)
    calls = do_bench(both, warmup=10, rep=50, return_mode="median")
    print(f"  {name:20}{forward:10.3f}{passes:14.3f}{calls:14.3f}", flush=True)


def look_at(case: Case) -> None:
    """Print how near a kernel is to its twin, and the times of the kernel and of what runs in its place."""
    error = check(case)
    print(f"\n{case.name}: error {error:.1e}{'' if error < ERROR else f', MORE THAN {ERROR}'}", flush=True)
    print(f"  {'ms':20}{'forward':>10}{'both passes':>14}{'both, calls':>14}")
    where, given = whole(), case.given(B * T)
    for name, function in ("fused", case.fused), ("landed", case.landed):
        attempt(f"{case.name}, {name}", partial(tell_time, name, function(*where), given))
    print(f"  {'floor':20}{case.floor[0]:10.3f}{case.floor[1]:14.3f}", flush=True)


def attempt(name: str, work: Callable[[], object]) -> None:
    """Do something; where it fails, say so and go on."""
    try:
        work()
    except Exception:  # whatever a compiler or a driver may raise
        print(f"{name}: FAILED\n{traceback.format_exc(limit=-3)}", flush=True)
        torch.cuda.empty_cache()


def sweep() -> None:
    """Print the times of other launch shapes; the fastest belongs into the kernel's file."""
    from gpt1.model.kernels import attention, norm

    found = {case.name: case for case in cases()}
    choices: list[tuple[Any, str, str, list[Any]]] = [
        (attention, "FORWARD", "attention", [(64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 4, 3), (128, 128, 8, 2)]),
        (
            *(attention, "BACKWARD", "attention"),
            [(32, 128, 4, 3), (32, 128, 8, 3), (64, 128, 8, 2), (64, 64, 4, 2), (32, 64, 4, 3), (32, 128, 4, 2)],
        ),
        (norm, "BACKWARD_SHAPE", "norm", list(itertools.product((1, 2, 4), (4, 8), (528, 1056)))),
    ]
    where = whole()
    for module, constant, name, shapes in choices:
        case = found[name]
        given, before = case.given(B * T), getattr(module, constant)
        print(f"{name}, {constant}", flush=True)
        for shape in shapes:
            setattr(module, constant, shape)
            attempt(str(shape), partial(tell_time, str(shape), case.fused(*where), given))
        setattr(module, constant, before)


def steps(rounds: int) -> None:
    """Print the tokens a second of whole steps."""
    recipe = find_recipe("paper")
    recipe = replace(recipe, shape=replace(recipe.shape, dropout=RATE))
    contenders = {"gpt1": ours, "gpt1, fused blocks": partial(ours, fused=True), "a plain GPT": peer(PlainGPT, True)}

    def tokens_per_second(name: str) -> float:
        try:
            return B * T / contenders[name](recipe, VOCAB, torch.device("cuda"), 25, 8)
        except Exception:  # the others go on
            print(f"{name}: FAILED\n{traceback.format_exc(limit=-3)}", flush=True)
            return math.nan
        finally:
            gc.collect()
            torch._dynamo.reset()
            torch.cuda.empty_cache()

    found = interleave({name: partial(tokens_per_second, name) for name in contenders}, rounds)
    plain = median(found["a plain GPT"])
    for name, rates in found.items():
        print(f"{name:24}{median(rates):12,.0f} tokens/s{median(rates) / plain:8.3f}x")


def profile_step() -> None:
    """Print the kernels that a whole step with fused blocks spends its time in."""
    recipe = find_recipe("paper")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        seconds = ours(recipe, VOCAB, torch.device("cuda"), 5, 5, fused=True)
    print(f"{1e3 * seconds:.1f} ms a step; all ten steps:")
    print(found.key_averages().table(sort_by="self_device_time_total", row_limit=30, max_name_column_width=70))


def main() -> None:
    """Look at each kernel, then at whole steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["attention", "norm", "gelu", "column sums", "steps"]
    parser.add_argument("--only", nargs="*", choices=[*parts, "sweep", "profile"], default=parts)
    parser.add_argument("--rounds", type=int, default=1, help="of whole steps")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here")
    began = time.perf_counter()
    print(f"{device_name(torch.device('cuda'))}, torch {torch.__version__}")
    for case in cases():
        if case.name in given.only:
            attempt(case.name, partial(look_at, case))
    others = {"sweep": sweep, "profile": profile_step, "steps": partial(steps, given.rounds)}
    for name, work in others.items():
        if name in given.only:
            print(f"\n{name}", flush=True)
            attempt(name, work)
    print(f"\n{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
