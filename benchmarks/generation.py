"""Generation speed against peers, all in one run: new tokens a second of one text, or of several side by side.

    python -m benchmarks.generation                   # GPT-1's size, prompt of 128 tokens, 256 new, two threads
    python -m benchmarks.generation --prompt 1 --rounds 1 --only gpt1 uncached
    python -m benchmarks.generation --device cuda --prompt 32 --texts 64       # bf16

Contenders: `gpt1` (greedy, with its memory); `gpt1, int8`, the same with its matrices in bytes; `uncached`, the same
network read anew for every token, logits of the last position only (the judge of `tests/inference/test_generation.py`),
which must write the same tokens as ours; and transformers' OpenAIGPT with its own `generate`. Weights are random: speed
does not depend on them. Rounds alternate; medians are printed. `gpt1, int8` and `uncached` are for a CPU and one text.
On a GPU each contender writes once before, since its kernels are loaded then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.results import interleave, measured, tell
from gpt1.base.devices import device_name
from gpt1.inference.generation import continue_ids
from gpt1.inference.sampling import SamplingParams
from gpt1.model import Model, build_model, prepare_for_inference, quantize_int8
from gpt1.recipes.catalog import find_recipe
from tests.reference.generation import greedy

VOCABULARY = 40478
WARM = 40  # tokens that each contender writes before it is measured on a GPU


def ours(model: Model, prompts: list[list[int]], new: int) -> list[list[int]]:
    """Write with a memory."""
    return continue_ids(model, prompts, SamplingParams(max_new_tokens=new, temperature=0))


def uncached(model: Model, prompts: list[list[int]], new: int) -> list[list[int]]:
    """Read everything anew for every token."""
    return [greedy(model, prompt, new) for prompt in prompts]


def theirs(model: Any, prompts: list[list[int]], new: int) -> list[list[int]]:
    """Write with transformers' `generate`."""
    ids = torch.tensor(prompts, device=model.device)
    length = {"max_new_tokens": new, "min_new_tokens": new}
    found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **length)
    written: list[list[int]] = found[:, ids.shape[1] :].tolist()
    return written


def make_contenders(
    recipe: str, device: str, only: list[str] | None
) -> dict[str, tuple[Callable[..., list[list[int]]], Any]]:
    """Return what writes, each with its network; where some are named, only those."""
    shape, on_cpu = replace(find_recipe(recipe).shape, dropout=0.0), device == "cpu"
    compute = torch.float32 if on_cpu else torch.bfloat16
    plain = build_model(shape, VOCABULARY, compute=compute).eval().to(device)
    model = prepare_for_inference(plain)
    found: dict[str, tuple[Callable[..., list[list[int]]], Any]] = {"gpt1": (ours, model)}
    if on_cpu:
        found |= {"gpt1, int8": (ours, quantize_int8(plain)), "uncached": (uncached, model)}
    if recipe == "paper" and "transformers" in (only or ["transformers"]):
        from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

        found["transformers"] = theirs, OpenAIGPTLMHeadModel(OpenAIGPTConfig()).eval().to(device, compute)
    return found


def print_kernels(model: Model, prompts: list[list[int]], new: int, rows: int) -> None:
    """Print the kernels of a whole generation, those that take longest first: calls and microseconds a step."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        ours(model, prompts, new)
    kernels = sorted(found.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    busy = sum(kernel.self_device_time_total for kernel in kernels)
    print(f"{busy / new:.1f} microseconds a step in kernels, of which:")
    for kernel in kernels[:rows]:
        print(f"{kernel.self_device_time_total / new:9.2f}  {kernel.count / new:6.2f} calls  {kernel.key[:120]}")


def main() -> None:
    """Run the contenders in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--json", type=Path, default=None, help="add what was found to this file")
    parser.add_argument(
        "--kernels", type=int, nargs="?", const=20, metavar="ROWS", help="so many, of a GPU and ours alone"
    )
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    contenders = make_contenders(given.recipe, given.device, given.only)
    chosen = given.only or list(contenders)
    draw = torch.Generator().manual_seed(0)
    prompts = torch.randint(0, VOCABULARY, (given.texts, given.prompt), generator=draw).tolist()
    if given.device != "cpu":
        for name in chosen:
            write, network = contenders[name]
            write(network, prompts, WARM)
    if given.kernels is not None:
        print_kernels(contenders["gpt1"][1], prompts, given.new, given.kernels)
        return
    texts: dict[str, list[list[int]]] = {}

    def tokens_per_second(name: str) -> float:
        write, network = contenders[name]
        began = time.perf_counter()
        texts[name] = write(network, prompts, given.new)
        return given.texts * given.new / (time.perf_counter() - began)

    found = interleave({name: partial(tokens_per_second, name) for name in chosen}, given.rounds)
    assert texts.get("gpt1", []) == texts.get("uncached", texts.get("gpt1", [])), (
        "two ways of the same network disagree"
    )
    work = f"generation, {given.recipe}'s shape, {given.texts} x {given.prompt} + {given.new} tokens"
    tell(measured(work, "tokens/s", device_name(torch.device(given.device)), found), given.json)


if __name__ == "__main__":
    main()
