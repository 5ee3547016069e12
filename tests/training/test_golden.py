"""Ten losses of the tiny recipe, kept as text: a change that claims to alter nothing must reproduce them.

Where a change means to alter them: `python -m tests.training.test_golden > tests/golden/tiny.txt`, and say why.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpt1.model import build_model
from gpt1.pretraining.objective import LanguageModelling
from gpt1.recipes.catalog import TINY
from gpt1.training.batches import Batch
from gpt1.training.config import TrainerConfig
from gpt1.training.distributed import World
from gpt1.training.trainer import Trainer
from tests.training.tools import NEVER, Recorder

GOLDEN = Path(__file__).parent.parent / "golden" / "tiny.txt"
UPDATES, SEQUENCES, CONTEXT, VOCABULARY = 10, 4, 32, 512

RECIPE = replace(
    TINY,
    shape=replace(TINY.shape, context=CONTEXT, dropout=0.1),
    training=replace(TINY.training, batch=SEQUENCES, steps=UPDATES, precision="fp32", max_loss_spike=None),
    logging=replace(TINY.logging, log_every=1, evaluate_every=NEVER, sample_every=None, save_every=NEVER),
)


class RuledText:
    """Text by a rule: each token is five after the last one, now and then six, in a small part of the vocabulary."""

    def batch(self, k: int) -> Batch:
        """Return windows of the text that no batch before had."""
        starts = (k * SEQUENCES + np.arange(SEQUENCES))[:, None] * CONTEXT
        places = starts + np.arange(CONTEXT + 1)
        tokens = ((5 * places + places // 64) % 40).astype(np.int32)
        return Batch({"ids": tokens[:, :-1], "targets": tokens[:, 1:]}, {"lm": float(SEQUENCES * CONTEXT)})


def losses(folder: Path) -> list[float]:
    """Train on one thread and return the loss of each update."""
    record = Recorder()
    trainer = Trainer(
        TrainerConfig(
            objective=LanguageModelling(build_model(RECIPE.shape, VOCABULARY, seed=RECIPE.training.seed)),
            batches=RuledText(),
            updates=UPDATES,
            recipe=RECIPE,
            tokens_per_step=SEQUENCES * CONTEXT,
            flops_per_token=1.0,
        ),
        folder,
        device=torch.device("cpu"),
        world=World(),
        listeners=[record],
    )
    assert trainer.train()
    return [record.losses[step] for step in range(1, UPDATES + 1)]


def test_ten_updates_of_the_tiny_recipe_keep_their_losses(tmp_path: Path) -> None:
    wanted = [float(line) for line in GOLDEN.read_text().splitlines()]
    assert losses(tmp_path) == pytest.approx(wanted, abs=1e-4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(f"{loss:.6f}" for loss in losses(Path(folder))))
