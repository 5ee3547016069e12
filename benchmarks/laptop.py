"""What a person with two cores waits for: a thousand labelled texts to a classifier, by ours and by transformers.

    python -m benchmarks.laptop              # recipe `small`'s size, 900 rows to learn from, 100 for dev, 174 updates
    python -m benchmarks.laptop --rounds 1 --updates 29 --rows 1000

Both fine-tune a network of the same layers and width on the same rows, with the paper's two losses, clipping, and the
same number of updates of 32 rows, and answer the rows for dev after each epoch. `gpt1` is `gpt1.finetune` from its call
to its return, with recipe `auto` as a user gets it: checkpoints, counted words beside the network, measuring.
transformers' OpenAIGPT is trained as its users write it: batches padded to their longest row, torch's fused AdamW,
single precision; and once more with its arithmetic in bf16 by autocast. Rows are of random tokens, as long as those of
SST-2: speed does not depend on what they say. Then both networks answer further rows. Every process is warm: each
contender makes one update before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "5000")  # as the command line has it, for both, before torch is imported

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.finetuning import make_base
from benchmarks.results import interleave, measured, tell
from gpt1.base.devices import device_name
from gpt1.finetuning.finetune import finetune
from gpt1.inference.classification import probabilities
from gpt1.inference.run import Run, load_run
from gpt1.recipes.catalog import SMALL
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import EncodedSplit, EncodedTask
from gpt1.text.specials import SPECIALS, special_ids
from gpt1.text.tokenizer import Tokenizer

TASK = CATALOGUE["sst2"]
VOCABULARY, BATCH, EPOCH = 16_256, 32, 29  # of 900 rows
PADDING = -1


def make_rows(count: int, vocab_size: int, seed: int) -> EncodedSplit:
    """Return rows of random tokens: half of them have 13 or fewer, one in twenty more than 40, as in SST-2."""
    draw = np.random.default_rng(seed)
    start, _, extract = special_ids(vocab_size).values()
    lengths = np.minimum(3 + draw.exponential(12, count), 64).astype(int)
    texts = [[start, *draw.integers(0, vocab_size, length).tolist(), extract] for length in lengths]
    ids, offsets = np.concatenate(texts).astype(np.int32), np.cumsum([0, *map(len, texts)])
    return EncodedSplit(ids, offsets, draw.integers(0, 2, count), np.full(count, -1), np.zeros(count, np.int64))


def make_task(tokenizer: Tokenizer) -> EncodedTask:
    """Return 900 rows to learn from and 100 for dev."""
    splits = {"train": make_rows(900, tokenizer.vocab_size, 0), "dev": make_rows(100, tokenizer.vocab_size, 1)}
    return EncodedTask(TASK, SMALL.shape.context, tokenizer.fingerprint, tokenizer.vocab_size, splits)


def ours(base: Path, task: EncodedTask, out: Path, updates: int) -> float:
    """Return the seconds of a fine-tuning of ours, from the call to the return; the run stays in `out`."""
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    finetune(base, out, encoded=task, recipe="auto", device="cpu", changes=[f"training.steps={updates}"])
    return time.perf_counter() - began


class Theirs(nn.Module):
    """transformers' OpenAIGPT with a layer that answers at the last token, as its users put it together."""

    def __init__(self, vocab_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        from transformers import OpenAIGPTConfig, OpenAIGPTModel

        shape = SMALL.shape
        sizes = {"n_positions": shape.context, "n_embd": shape.width, "n_layer": shape.layers, "n_head": shape.heads}
        self.body = OpenAIGPTModel(OpenAIGPTConfig(vocab_size=vocab_size + len(SPECIALS), **sizes))
        self.head = nn.Linear(shape.width, 2)
        self.dtype = dtype

    def forward(self, ids_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return the answers to padded rows, and what the network made of each token."""
        with torch.autocast("cpu", self.dtype, enabled=self.dtype != torch.float32):
            hidden_BTC = self.body(ids_BT.clamp(min=0)).last_hidden_state
            last_B = (ids_BT != PADDING).sum(1) - 1
            return self.head(F.dropout(hidden_BTC[torch.arange(len(ids_BT)), last_B], 0.1, self.training)), hidden_BTC

    def loss(self, ids_BT: Tensor, labels_B: Tensor) -> Tensor:
        """Return the task's loss and half of the next token's, each row's mean."""
        answers, hidden_BTC = self(ids_BT)
        with torch.autocast("cpu", self.dtype, enabled=self.dtype != torch.float32):
            logits = F.linear(hidden_BTC[:, :-1], self.body.tokens_embed.weight)
        targets = ids_BT[:, 1:].flatten()
        losses = F.cross_entropy(logits.flatten(0, 1).float(), targets, ignore_index=PADDING, reduction="none")
        means = losses.view(len(ids_BT), -1).sum(-1) / (ids_BT[:, 1:] != PADDING).sum(-1)
        return F.cross_entropy(answers.float(), labels_B) + 0.5 * means.mean()


def padded(split: EncodedSplit, rows: np.ndarray) -> Tensor:
    """Return rows filled up to the longest of them."""
    texts = [torch.from_numpy(split.sequences(int(row))[0]).long() for row in rows]
    return nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PADDING)


@torch.no_grad()
def their_answers(model: Theirs, split: EncodedSplit) -> Tensor:
    """Return the answers to all rows, in their own order."""
    model.eval()
    batches = np.array_split(np.arange(len(split)), -(-len(split) // BATCH))
    return torch.cat([model(padded(split, rows))[0].argmax(-1) for rows in batches])


def theirs(dtype: torch.dtype, task: EncodedTask, kept: dict[torch.dtype, Theirs], updates: int) -> float:
    """Return the seconds of a fine-tuning by transformers; the network is kept."""
    began = time.perf_counter()
    model, train = Theirs(task.vocab_size, dtype), task.splits["train"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.2e-4, weight_decay=0.01, fused=True)
    draw = np.random.default_rng(0)
    for update in range(updates):
        if update % EPOCH == 0:
            order = draw.permutation(len(train))
        rows = order[update % EPOCH * BATCH :][:BATCH]
        model.train()
        model.loss(padded(train, rows), torch.from_numpy(train.labels[rows])).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (update + 1) % EPOCH == 0:
            their_answers(model, task.splits["dev"])
    with tempfile.TemporaryDirectory() as folder:
        model.body.save_pretrained(folder)
    kept[dtype] = model
    return time.perf_counter() - began


def main() -> None:
    """Let both learn, and then answer, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=6 * EPOCH)
    parser.add_argument("--rows", type=int, default=10_000, help="to be answered; 0: none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None, help="add what was found to this file")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    machine, kept = device_name(torch.device("cpu")), dict[torch.dtype, Theirs]()
    with tempfile.TemporaryDirectory() as folder:
        base, out = Path(folder) / "base", Path(folder) / "run"
        task = make_task(make_base(base, SMALL, VOCABULARY))
        learners = {
            "gpt1": partial(ours, base, task, out),
            "transformers": partial(theirs, torch.float32, task, kept),
            "transformers, bf16": partial(theirs, torch.bfloat16, task, kept),
        }
        for learn in learners.values():  # what is imported and compiled by the way is none of the work
            learn(1)
        learning = {name: partial(learn, given.updates) for name, learn in learners.items()}
        work = f"fine-tuning small's size, 900 short texts, {given.updates} updates, start to end"
        tell(measured(work, "s", machine, interleave(learning, given.rounds)), given.json)
        if not given.rows:
            return
        rows, run = make_rows(given.rows, task.vocab_size, 2), load_run(out, device="cpu")
        answering = {
            "gpt1": partial(timed, our_answers, run, rows),
            "transformers": partial(timed, their_answers, kept[torch.float32], rows),
            "transformers, bf16": partial(timed, their_answers, kept[torch.bfloat16], rows),
        }
        work = f"answers to {given.rows:,} short texts, small's size"
        tell(measured(work, "s", machine, interleave(answering, given.rounds)), given.json)


def our_answers(run: Run, rows: EncodedSplit) -> None:
    """Have the network answer all rows, whoever else would answer for a run whose labels mean nothing."""
    probabilities(run.ready_classifier, TASK.name, rows)


def timed(work: object, *given: object) -> float:
    """Return the seconds that a function takes."""
    began = time.perf_counter()
    work(*given)  # type: ignore[operator]
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
