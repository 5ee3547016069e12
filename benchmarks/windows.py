"""What a long text costs: full attention, a sliding window, and a window with global tokens.

    python -m benchmarks.windows                     # 512 to 16,384 tokens: minutes on a CPU, under one on a GPU
    python -m benchmarks.windows --lengths 512 2048 --window 128

The shortest time and the peak memory of forward and backward pass: on a CPU over one text in two layers of width 256
and fp32, on a GPU over as many texts as have 16,384 tokens in twelve of width 768 and bf16. A text is a pair as
fine-tuning lays it out, so that three of its tokens are global, two of them far from the beginning. On a CPU each
figure is of a process of its own: the processor's time, which other programs hardly change, and memory from before the
first pass on; on a GPU memory is what torch allocated at most. Weights are not counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gpt1.base.devices import device_name, find_device
from gpt1.model import build_model
from gpt1.model.packing import pack
from gpt1.recipes.catalog import PAPER
from gpt1.recipes.values import Shape

SPECIALS, VOCAB = 3, 1003
START, DELIMITER, EXTRACT = range(VOCAB - SPECIALS, VOCAB)
LENGTHS = 512, 1024, 2048, 4096, 8192, 16384
WINDOW = 256
GPU_TOKENS = 16384  # at once
CPU = replace(PAPER.shape, layers=2, width=256, heads=4, feed_forward=1024)
ARMS = "full attention", "window", "window and global"


@dataclass(frozen=True)
class Cost:
    """What the texts took."""

    seconds: float
    peak_bytes: int


def shape_of(arm: str, base: Shape, length: int, window: int, dropout: float) -> Shape:
    """Return the network of a contender."""
    shape = replace(base, context=length, dropout=dropout, positions="rotary")
    if arm == "full attention":
        return shape
    return replace(shape, window=window, global_tokens=1 if arm == "window and global" else 0)


def make_pair(length: int, device: torch.device) -> Tensor:
    """Return the ids of a pair of texts of this length together."""
    ids = torch.randint(0, START, (length,), generator=torch.Generator().manual_seed(0))
    ids[0], ids[length // 2], ids[-1] = START, DELIMITER, EXTRACT
    return ids.to(device)


def measure(shape: Shape, device_type: str, rounds: int) -> Cost:
    """Return the shortest time of texts in a network, forwards and backwards, and the most memory that was taken."""
    device = torch.device(device_type)
    on_gpu = device.type == "cuda"
    compute = torch.bfloat16 if on_gpu else torch.float32
    model = build_model(shape, VOCAB, compute=compute, specials=SPECIALS).to(device)
    ids = make_pair(shape.context, device)
    texts = max(1, GPU_TOKENS // shape.context) if on_gpu else 1
    packing = pack(torch.full((texts,), shape.context, device=device), shape.context)
    ids = ids.repeat(texts)
    before = torch.cuda.memory_allocated() if on_gpu else _peak_of_process()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    seconds, clock = [], time.perf_counter if on_gpu else time.process_time
    for _ in range(rounds + on_gpu):
        began = clock()
        hidden, _ = model(ids, None, packing)
        hidden.float().square().mean().backward()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(clock() - began)
        model.zero_grad(set_to_none=True)
    peak = torch.cuda.max_memory_allocated() if on_gpu else _peak_of_process()
    return Cost(min(seconds), peak - before)


def _peak_of_process() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure_all(
    lengths: Sequence[int], *, device: torch.device, window: int, dropout: float, rounds: int
) -> dict[tuple[int, str], Cost]:
    """Measure every contender at every length, and print each line when it is known."""
    base, found = CPU if device.type == "cpu" else PAPER.shape, {}
    print(f"{'tokens':>8}" + "".join(f"{arm:>28}" for arm in ARMS))
    for length in lengths:
        line = f"{length:8,}"
        for arm in ARMS:
            asked = shape_of(arm, base, length, window, dropout), device.type, rounds
            if device.type == "cpu":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    cost = pool.apply(measure, asked)
            else:
                cost = measure(*asked)
            found[length, arm] = cost
            line += f"{1000 * cost.seconds:14,.1f} ms {cost.peak_bytes / 2**20:6,.0f} MiB"
        print(line, flush=True)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default=None)
    given = parser.parse_args()
    device = find_device(given.device)
    print(f"{device_name(device)}, torch {torch.__version__}, a window of {given.window}, dropout {given.dropout}")
    measure_all(given.lengths, device=device, window=given.window, dropout=given.dropout, rounds=given.rounds)


if __name__ == "__main__":
    main()
