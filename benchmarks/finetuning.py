"""Fine-tuning speed against transformers, all in one run: milliseconds of an update on a batch of short texts.

    python -m benchmarks.finetuning                # GPT-1's shape on a GPU, a small one on a CPU
    python -m benchmarks.finetuning --rounds 3 --only gpt1 "gpt1, not recorded"
    python -m benchmarks.finetuning --kernels                      # where an update on a GPU spends its time
    python -m benchmarks.finetuning --whole storycloze stsb        # seconds from the call of `finetune` to its return
    python -m benchmarks.finetuning --whole storycloze --layers 1 --examples 4      # large weights, little arithmetic

Contenders: `gpt1` (the real trainer: packed rows, the auxiliary language model, loading, clipping, guard, optimiser),
and transformers' OpenAIGPT with both heads as people call it: padded to the longest text of the batch, autocast,
clipping, fused AdamW. Random tokens of real lengths (8 to 45 tokens): speed does not depend on what they say.

Whole fine-tunings of a base with random weights, with as many examples and tokens as the task has: the process is warm
(one fine-tuning comes before those that count), the seconds are parted into those to the first update, those of the
updates with their evaluations, and those after the last update.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.results import interleave, measured, tell
from gpt1.base.devices import device_name, find_device, usable_precision
from gpt1.bases.catalog import PACKAGED
from gpt1.finetuning.batches import PackingOptions, TaskBatches, make_lesson
from gpt1.finetuning.finetune import CUDA_BLOCK, finetune
from gpt1.finetuning.objective import TaskLearning
from gpt1.inference.classification import head_shape
from gpt1.inference.run import DTYPES
from gpt1.model import build_classifier, build_model
from gpt1.recipes.catalog import FINETUNE, PAPER, TINY
from gpt1.recipes.values import Recipe
from gpt1.records.run import PRETRAINING, RunRecord
from gpt1.runs.checkpoints import save_checkpoint
from gpt1.runs.events import Event, Stepped
from gpt1.runs.folder import begin_run, read_run
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import EncodedSplit, EncodedTask
from gpt1.text import bytes as byte_kind
from gpt1.text.specials import SPECIALS, special_ids
from gpt1.text.tokenizer import Tokenizer, new_tokenizer
from gpt1.training.distributed import World
from gpt1.training.trainer import Trainer, TrainerConfig

TASK, EXAMPLES = CATALOGUE["sst2"], 3200
VOCABULARY = 40_478  # the paper's


class Size(NamedTuple):
    """How much a task has to learn and to measure."""

    train: int  # examples
    dev: int
    shortest: int  # tokens of a sequence
    longest: int


SIZES = {"storycloze": Size(1497, 374, 40, 80), "stsb": Size(5749, 1500, 16, 48)}


def random_texts(vocab_size: int) -> EncodedTask:
    """Return examples of random ids, each between start and extract."""
    draw = np.random.default_rng(0)
    start, _, extract = special_ids(vocab_size).values()
    lengths = draw.integers(6, 44, EXAMPLES)
    texts = [[start, *draw.integers(0, vocab_size, length).tolist(), extract] for length in lengths]
    split = EncodedSplit(
        ids=np.concatenate(texts).astype(np.int32),
        offsets=np.cumsum([0, *map(len, texts)]),
        labels=draw.integers(0, 2, EXAMPLES),
        groups=np.full(EXAMPLES, -1),
        cut=np.zeros(EXAMPLES, np.int64),
    )
    return EncodedTask(TASK, context=512, tokenizer_fingerprint="", vocab_size=vocab_size, splits={"train": split})


# ---- whole fine-tunings ----


def make_base(folder: Path, recipe: Recipe, vocab_size: int) -> Tokenizer:
    """Make a pre-trained run with random weights, and return its tokenizer, whose words are any."""
    pairs = itertools.islice(itertools.product(sorted(byte_kind.BYTES), repeat=2), vocab_size - len(byte_kind.BYTES))
    merges = list(pairs)
    tokenizer = new_tokenizer("bytes", byte_kind.layout(merges), merges)
    folder.mkdir()
    tokenizer.save(folder / "tokenizer.json")
    record = RunRecord(PRETRAINING, recipe, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size)
    begin_run(folder, record, folder / "tokenizer.json")
    model = build_model(recipe.shape, tokenizer.vocab_size, seed=0)
    save_checkpoint(folder, 1, dict(model.named_parameters()), None, {"cost": 0.5})
    return tokenizer


def random_task(name: str, tokenizer: Tokenizer, most: int | None) -> EncodedTask:
    """Return as many examples of random ids as a task has, or at most so many."""
    task, size, draw = CATALOGUE[name], SIZES[name], np.random.default_rng(0)
    start, _, extract = special_ids(tokenizer.vocab_size).values()

    def split(count: int) -> EncodedSplit:
        lengths = draw.integers(size.shortest - 2, size.longest - 1, count * task.sequences)
        texts = [[start, *draw.integers(0, tokenizer.vocab_size, length).tolist(), extract] for length in lengths]
        scores = task.score_range is not None
        labels: NDArray[Any] = draw.uniform(0, 5, count) if scores else draw.integers(0, task.choices or 2, count)
        ids, offsets = np.concatenate(texts).astype(np.int32), np.cumsum([0, *map(len, texts)])
        return EncodedSplit(ids, offsets, labels, np.full(count, -1), np.zeros(count, np.int64))

    counts = {"train": size.train, "dev": size.dev}
    splits = {name: split(min(count, most or count)) for name, count in counts.items()}
    return EncodedTask(task, PAPER.shape.context, tokenizer.fingerprint, tokenizer.vocab_size, splits)


def whole(base: Path, out: Path, task: EncodedTask, device: torch.device) -> dict[str, float]:
    """Return the seconds of a fine-tuning from its call to its return, and their parts."""
    times: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Stepped):
            times.append(time.perf_counter())

    began = time.perf_counter()
    finetune(base, out, encoded=task, recipe=FINETUNE, device=str(device), listeners=[listen])
    ended = time.perf_counter()
    parts = {"to the first update": times[0] - began, "updates": times[-1] - times[0], "after": ended - times[-1]}
    return {"seconds": ended - began, **parts}


def print_whole(
    names: list[str], device: torch.device, rounds: int, most: int | None, base: Recipe, vocab_size: int
) -> None:
    """Fine-tune on tasks in turn, first to warm up, and print the median of each part of the seconds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_base(Path(folder) / "base", base, vocab_size)
        tasks = {name: random_task(name, tokenizer, most) for name in names}
        for _ in range(rounds + 1):
            for name, task in tasks.items():
                out = Path(folder) / name
                found[name].append(whole(Path(folder) / "base", out, task, device))
                shutil.rmtree(out)
    shape = base.shape
    print(f"{device_name(device)}, {shape.layers} x {shape.width}, whole fine-tunings, medians of {rounds}")
    for name, runs in found.items():
        medians = {part: round(statistics.median(run[part] for run in runs[1:]), 2) for part in runs[0]}
        print(json.dumps({"name": name, **medians}), flush=True)


# ---- updates ----


def ours(recipe: Recipe, task: EncodedTask, device: torch.device, steps: int, warm: int) -> float:
    """Return the seconds of an update of the real trainer."""
    times: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Stepped):
            synchronize(device)
            times.append(time.perf_counter())

    body = build_model(recipe.shape, task.vocab_size + len(SPECIALS), compute=DTYPES[recipe.training.precision])
    model = build_classifier(body, {TASK.name: head_shape(TASK)}, seed=0).to(device)
    if recipe.training.compile:
        body.compile(dynamic=True)
    packing = PackingOptions(task.vocab_size, recipe.shape.context, CUDA_BLOCK if device.type == "cuda" else 1)
    batches = TaskBatches(
        {TASK.name: make_lesson(task, class_weights=False)}, batch=recipe.training.batch, seed=0, packing=packing
    )
    logging = replace(recipe.logging, log_every=warm, evaluate_every=10**9, save_every=10**9)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            TrainerConfig(
                objective=TaskLearning(model, lm_weight=0.5, tasks=[TASK.name]),
                batches=batches,
                updates=warm + steps,
                recipe=replace(recipe, logging=logging),
                tokens_per_step=round(batches.tokens_a_batch),
                flops_per_token=1.0,
            ),
            Path(folder),
            device=device,
            world=World(),
            listeners=[listen],
        ).train()
    return (times[-1] - times[1]) / steps  # from the end of the warm-up to the last step


def transformers(recipe: Recipe, task: EncodedTask, device: torch.device, steps: int, warm: int) -> float:
    """Return the seconds of an update of transformers' network, trained in the usual way."""
    from transformers import OpenAIGPTConfig, OpenAIGPTModel

    shape, split = recipe.shape, task.splits["train"]
    sizes = {"n_positions": shape.context, "n_embd": shape.width, "n_layer": shape.layers, "n_head": shape.heads}
    config = OpenAIGPTConfig(vocab_size=task.vocab_size + len(SPECIALS), **sizes)
    model = OpenAIGPTModel(config).to(device).train()
    head = nn.Linear(shape.width, 2).to(device)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=6.25e-5, weight_decay=0.01, fused=True)
    dtype = DTYPES[recipe.training.precision] if device.type == "cuda" else torch.float32
    draw = np.random.default_rng(1)
    for k in range(warm + steps):
        if k == warm:
            synchronize(device)
            began = time.perf_counter()
        chosen = draw.integers(0, len(split), recipe.training.batch)
        texts = [torch.from_numpy(split.sequences(int(one))[0]).long() for one in chosen]
        ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=-1).to(device)
        last = torch.tensor([len(text) - 1 for text in texts], device=device)
        labels = torch.from_numpy(split.labels[chosen]).to(device)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            hidden = model(ids.clamp(min=0)).last_hidden_state
            answers = head(F.dropout(hidden[torch.arange(len(ids), device=device), last], 0.1))
            logits = F.linear(hidden[:, :-1], model.tokens_embed.weight)
            losses = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=-1, reduction="none")
            means = losses.view(len(ids), -1).sum(-1) / last
            loss = F.cross_entropy(answers, labels) + 0.5 * means.mean()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    synchronize(device)
    return (time.perf_counter() - began) / steps


def changed(**changes: bool) -> Callable[..., float]:
    """Return ours with settings of its training changed."""

    def run(recipe: Recipe, *given: object) -> float:
        return ours(replace(recipe, training=replace(recipe.training, **changes)), *given)  # type: ignore[arg-type]

    return run


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def print_kernels(recipe: Recipe, task: EncodedTask, device: torch.device, steps: int, warm: int, rows: int) -> None:
    """Print the kernels of our updates, those that take longest first: calls and microseconds an update."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        seconds = ours(recipe, task, device, steps, warm)
    updates = steps + warm
    kernels = sorted(found.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    busy = sum(kernel.self_device_time_total for kernel in kernels)
    print(
        f"{1e3 * seconds:.2f} ms an update, {busy / updates / 1e3:.2f} of them in kernels; in microseconds an update:"
    )
    for kernel in kernels[:rows]:
        share = kernel.self_device_time_total / updates
        print(f"{share:9.1f}  {kernel.count / updates:6.1f} calls  {kernel.key[:120]}")


def main() -> None:
    """Run the contenders in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--json", type=Path, default=None, help="add what was found of updates to this file")
    parser.add_argument(
        "--kernels", type=int, nargs="?", const=40, metavar="ROWS", help="so many, of our updates alone"
    )
    parser.add_argument("--base", default=None, help="of the package, whose shape it is; else the paper's")
    parser.add_argument("--whole", nargs="+", choices=list(SIZES), default=None, metavar="TASK")
    parser.add_argument("--examples", type=int, default=None, help="with --whole: at most so many of each split")
    parser.add_argument("--layers", type=int, default=PAPER.shape.layers, help="with --whole, as the next two")
    parser.add_argument("--width", type=int, default=PAPER.shape.width)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    given = parser.parse_args()
    device = find_device(given.device)
    if given.whole:
        sizes = {"layers": given.layers, "width": given.width, "heads": max(1, given.width // 64)}
        base = replace(PAPER, shape=replace(PAPER.shape, **sizes, feed_forward=4 * given.width))
        print_whole(given.whole, device, given.rounds, given.examples, base, given.vocabulary)
        return
    on_gpu = device.type == "cuda"
    recipe = FINETUNE if on_gpu else replace(FINETUNE, shape=replace(TINY.shape, dropout=0.1))
    vocabulary, shape = (VOCABULARY, "paper") if on_gpu else (8192, "tiny")
    if given.base is not None:
        record = read_run(PACKAGED / given.base)
        vocabulary, shape = record.vocab_size, given.base
        recipe = replace(recipe, shape=replace(record.recipe.shape, dropout=FINETUNE.shape.dropout))
    precision, _ = usable_precision(device, recipe.training.precision if on_gpu else "fp32")
    recipe = replace(recipe, training=replace(recipe.training, precision=precision))
    task = random_texts(vocabulary)
    if given.kernels is not None:
        if not on_gpu:
            parser.error("--kernels are a GPU's")
        print_kernels(recipe, task, device, given.steps, given.warm, given.kernels)
        return
    contenders: dict[str, Callable[..., float]] = {"gpt1": ours, "transformers": transformers}
    if on_gpu:
        contenders |= {"gpt1, not recorded": changed(cuda_graphs=False), "gpt1, compiled": changed(compile=True)}
    print(f"{device_name(device)}, {precision}, {recipe.training.batch} texts of {task.vocab_size:,} kinds of tokens")

    def milliseconds(name: str) -> float:
        return 1e3 * contenders[name](recipe, task, device, given.steps, given.warm)

    chosen = {name: partial(milliseconds, name) for name in given.only or contenders}
    work = f"an update of fine-tuning, {shape}'s shape, {recipe.training.batch} short texts"
    tell(measured(work, "ms", device_name(device), interleave(chosen, given.rounds)), given.json)


if __name__ == "__main__":
    main()
