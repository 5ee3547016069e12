"""Pre-training speed against peers, all in one run: tokens a second and peak memory, whole steps with dropout.

    python -m benchmarks.pretraining                         # the paper's shape on a GPU, `tiny`'s on a CPU
    python -m benchmarks.pretraining --rounds 3 --only gpt1 "a plain GPT"
    python -m benchmarks.pretraining --peer-file nanoGPT/model.py --only gpt1 peer

Contenders: `gpt1` (the real trainer, loading, clipping, guard and optimiser included); on a GPU `gpt1, fused blocks`
(the same with our kernels, `model/kernels/block.py`, and nothing compiled); `a plain GPT` as today's
short teaching codes write it (pre-norm, fused attention, full logits, torch's fused AdamW, compiled on a GPU);
transformers' OpenAIGPT, eager and compiled; and `peer`, a network in a file of your own, such as nanoGPT's `model.py`:
classes `GPT` and `GPTConfig`, which are run as they are. Rounds alternate; medians are printed. Random tokens: speed
does not depend on them.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.results import interleave, measured, tell
from gpt1.base.devices import device_name, find_device, usable_precision
from gpt1.inference.run import DTYPES
from gpt1.model import build_model
from gpt1.model.costs import flops_per_token
from gpt1.pretraining.objective import LanguageModelling
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.values import Recipe
from gpt1.runs.events import Event, Stepped
from gpt1.training.batches import Batch
from gpt1.training.distributed import World
from gpt1.training.session import speed_up
from gpt1.training.trainer import Trainer, TrainerConfig


class RandomTokens:
    """Batches of random ids."""

    def __init__(self, sequences: int, context: int, vocab_size: int) -> None:
        self.size, self.vocab_size = (sequences, context + 1), vocab_size

    def batch(self, k: int) -> Batch:
        """Return batch k."""
        ids = np.random.default_rng(k % 8).integers(0, self.vocab_size, self.size, dtype=np.int32)
        return Batch({"ids": ids[:, :-1], "targets": ids[:, 1:]}, {"lm": float(ids[:, 1:].size)})


def ours(recipe: Recipe, vocab_size: int, device: torch.device, steps: int, warm: int, *, fused: bool = False) -> float:
    """Return the seconds of a step of the real trainer; `fused` blocks have our kernels in place of a compiler's."""
    times: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Stepped):
            synchronize(device)
            times.append(time.perf_counter())

    shape, training = recipe.shape, recipe.training
    model = build_model(shape, vocab_size, compute=DTYPES[training.precision], fused=fused).to(device)
    if not fused and (told := speed_up(model, recipe, device, World())):
        print(told)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            TrainerConfig(
                objective=LanguageModelling(model),
                batches=RandomTokens(training.batch, shape.context, vocab_size),
                updates=warm + steps,
                recipe=replace(
                    recipe,
                    logging=replace(
                        recipe.logging,
                        log_every=warm,
                        evaluate_every=10**9,
                        sample_every=None,
                        save_every=10**9,
                        keep_weights=None,
                    ),
                ),
                tokens_per_step=training.batch * shape.context,
                flops_per_token=flops_per_token(shape, vocab_size),
            ),
            Path(folder),
            device=device,
            world=World(),
            listeners=[listen],
        ).train()
    return (times[-1] - times[1]) / steps  # from the end of the warm-up to the last step


class PlainBlock(nn.Module):
    """A pre-norm block as short teaching codes write it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        n, t, width = x.shape
        q, k, v = (
            part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate if self.training else 0.0, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, t, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.norm_2(x)))))


class PlainGPT(nn.Module):
    """A small GPT as short teaching codes write it, its table filled up to a multiple of 64 rows."""

    def __init__(self, recipe: Recipe, vocab_size: int) -> None:
        super().__init__()
        shape = recipe.shape
        self.tokens = nn.Embedding(-(-vocab_size // 64) * 64, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.drop = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(PlainBlock(shape.width, shape.heads, shape.dropout) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss."""
        x = self.drop(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Wrapped(nn.Module):
    """transformers' OpenAIGPT with the loss computed as ours is: on the next token given beside."""

    def __init__(self, recipe: Recipe, vocab_size: int) -> None:
        super().__init__()
        from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

        shape = recipe.shape
        self.inner = OpenAIGPTLMHeadModel(
            OpenAIGPTConfig(
                vocab_size=vocab_size,
                n_positions=shape.context,
                n_embd=shape.width,
                n_layer=shape.layers,
                n_head=shape.heads,
            )
        )

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss."""
        return F.cross_entropy(self.inner(ids).logits.flatten(0, 1), targets.flatten())


class FromFile(nn.Module):
    """The network of somebody's file, as short teaching codes have it: `GPT(GPTConfig(...))` gives logits and loss."""

    def __init__(self, file: Path, recipe: Recipe, vocab_size: int) -> None:
        super().__init__()
        shape, theirs = recipe.shape, load_module(file)
        sizes = {"block_size": shape.context, "n_embd": shape.width, "n_layer": shape.layers, "n_head": shape.heads}
        rows = -(-vocab_size // 64) * 64  # as such codes advise
        self.inner = theirs.GPT(theirs.GPTConfig(vocab_size=rows, dropout=shape.dropout, bias=True, **sizes))

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss."""
        loss: Tensor = self.inner(ids, targets)[1]
        return loss


def load_module(file: Path) -> Any:
    """Run a Python file that the caller named, and return what it defines."""
    spec = importlib.util.spec_from_file_location("peer", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peer"] = module  # where its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def peer(make: Callable[[Recipe, int], nn.Module], compiled: bool) -> Callable[..., float]:
    """Return a contender that trains a network in the usual way: autocast, clipping, fused AdamW."""

    def run(recipe: Recipe, vocab_size: int, device: torch.device, steps: int, warm: int) -> float:
        model = make(recipe, vocab_size).to(device).train()
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=2.5e-4, fused=True)
        called = torch.compile(model) if compiled else model
        source = RandomTokens(recipe.training.batch, recipe.shape.context, vocab_size)
        dtype = DTYPES[recipe.training.precision] if device.type == "cuda" else torch.float32  # as such codes do it
        for k in range(warm + steps):
            if k == warm:
                synchronize(device)
                began = time.perf_counter()
            arrays = source.batch(k).arrays
            ids, targets = (torch.from_numpy(arrays[name]).to(device).long() for name in ("ids", "targets"))
            with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
                loss = called(ids, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        return (time.perf_counter() - began) / steps

    return run


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Run the contenders in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None)
    parser.add_argument("--recipe", default=None, help="ours; peers take its shape")
    parser.add_argument("--precision", default=None)
    parser.add_argument("--vocab", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--peer-file", type=Path, default=None, metavar="FILE", help="with classes GPT and GPTConfig")
    parser.add_argument("--json", type=Path, default=None, help="add what was found to this file")
    given = parser.parse_args()
    device = find_device(given.device)
    on_gpu = device.type == "cuda"
    recipe = find_recipe(given.recipe or ("paper" if on_gpu else "tiny"))
    recipe = replace(recipe, shape=replace(recipe.shape, dropout=0.1))
    precision, _ = usable_precision(device, given.precision or recipe.training.precision)
    recipe = replace(recipe, training=replace(recipe.training, precision=precision))
    vocab_size = given.vocab or (40478 if on_gpu else 8192)
    contenders: dict[str, Callable[..., float]] = {
        "gpt1": ours,
        "a plain GPT": peer(PlainGPT, compiled=on_gpu),
        "transformers": peer(Wrapped, compiled=False),
    }
    if on_gpu:
        contenders["gpt1, fused blocks"] = partial(ours, fused=True)
        contenders["transformers, compiled"] = peer(Wrapped, compiled=True)
    if given.peer_file is not None:
        contenders["peer"] = peer(partial(FromFile, given.peer_file), compiled=on_gpu)
    tokens = recipe.training.batch * recipe.shape.context
    print(f"{device_name(device)}, recipe {recipe.name}, {precision}, {tokens:,} tokens a step, {vocab_size:,} kinds")
    peaks: dict[str, float] = {}

    def tokens_per_second(name: str) -> float:
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        seconds = contenders[name](recipe, vocab_size, device, given.steps, given.warm)
        if on_gpu:
            peaks[name] = torch.cuda.max_memory_allocated() / 2**30
        gc.collect()
        torch._dynamo.reset()
        if on_gpu:
            torch.cuda.empty_cache()
        return tokens / seconds

    chosen = {name: partial(tokens_per_second, name) for name in given.only or contenders}
    work = f"pre-training, {recipe.name}'s shape, dropout on"
    tell(measured(work, "tokens/s", device_name(device), interleave(chosen, given.rounds), peaks), given.json)


if __name__ == "__main__":
    main()
