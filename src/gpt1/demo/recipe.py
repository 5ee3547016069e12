"""How the demo trains: a small relative of the paper's network, which learns the world on one core in minutes.

Settings were chosen on the dev sets of the world of seed 0; the demo's own world has another seed (docs/demo.md). The
rates of both arms come from one grid, see `tuning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpt1.demo.books import COUNTS as BOOK_COUNTS
from gpt1.demo.tasks import OTHER
from gpt1.demo.writing import COUNTS
from gpt1.recipes.catalog import AUTO, FINETUNE, PAPER
from gpt1.recipes.values import Logging, Recipe, Schedule

MERGES = 2_000  # more than the world's words need: each of them is one token

# So narrow a network needs larger first weights than 0.02. Norms stand before the branches, positions are rotary and
# heads are narrow, against the paper: otherwise the comparison of a gift with a trade, on which most tasks rest, is
# learned too late, or in some pre-trainings not at all.
PRETRAINING = replace(
    PAPER,
    name="demo",
    about="a small relative of the paper's network, to learn the demo's world on one core in minutes",
    shape=replace(
        PAPER.shape,
        layers=2,
        width=128,
        heads=8,
        feed_forward=512,
        context=64,
        norm_first=True,
        positions="rotary",
        dropout=0.0,
        init_std=0.08,
    ),
    optimizer=replace(PAPER.optimizer, lr=2e-3),
    # The full rate until late: the comparison comes suddenly, and not while the rate is small.
    schedule=Schedule(kind="trapezoid", warmup_steps=None, warmup_share=0.03, cooldown_share=0.3),
    # 6 sequences x 64 tokens = 384 tokens an update: many small updates learn the world soonest.
    training=replace(PAPER.training, batch=6, steps=5_000, precision="fp32", compile=False),
    logging=Logging(
        log_every=50, evaluate_every=1_000, evaluate_tokens=20_000, sample_every=5_000, save_every=1_000, keep=10
    ),
)

# Told wherever figures of it are shown.
NETWORK = (
    "The network is not GPT-1's: 2 layers of width 128, norms before the branches instead of after, rotary positions "
    "instead of learned ones, and no dropout."
)

LEARNING = replace(
    FINETUNE,
    name="demo-finetune",
    about="fine-tuning on a few hundred labels of the demo's tasks",
    # So small a network forgets too much of what it is about to use: dropout leaves some fine-tunings at chance.
    shape=replace(FINETUNE.shape, dropout=0.0),
    schedule=replace(FINETUNE.schedule, warmup_share=0.1),
    training=replace(FINETUNE.training, batch=8, epochs=10, precision="fp32"),
)

PRETRAINED, SCRATCH = "pretrained", "scratch"
RATES = {PRETRAINED: 1e-3, SCRATCH: 2e-3}


@dataclass(frozen=True)
class Plan:
    """How much of everything the tour makes."""

    stories: int = 22_000  # about 1.9 million tokens, read once
    counts: Mapping[str, int] = field(default_factory=lambda: dict(COUNTS))  # labelled rows of each split
    pretraining: Recipe = PRETRAINING
    learning: Recipe = LEARNING


# For docs/lesson: the same network and half as many stories, of a world with a seed of its own, so that reading takes a
# minute. The comparison is known by then.
LESSON_SEED = 5
LESSON = Plan(
    stories=11_000,
    counts={"train": 600, "dev": 150, "test": 400, OTHER: 100},
    pretraining=replace(
        PRETRAINING,
        name="lesson",
        training=replace(PRETRAINING.training, steps=2_500),
        logging=replace(PRETRAINING.logging, evaluate_every=250, evaluate_tokens=10_000, save_every=500),
    ),
)


# ---- with books ----

# The recipe that any base is fine-tuned with, but for the epochs, of which `auto` has 8 for so many labels: two cores
# without products in bf16 are to be done in eight minutes too. Words do not answer beside the network: it is shown.
BOOKS_LEARNING = replace(
    AUTO,
    name="demo-books",
    about="fine-tuning on a few hundred labels of the demo's tasks about books",
    training=replace(AUTO.training, epochs=5),
    finetuning=replace(AUTO.finetuning, ensemble=False),
    derived=("optimizer.lr", "training.batch"),
)

BOOK_RATES = {PRETRAINED: None, SCRATCH: 2e-4}  # None: what `auto` derives from the size of the base


@dataclass(frozen=True)
class BooksPlan:
    """How much the tour with books learns and asks, and how."""

    counts: Mapping[str, int] = field(default_factory=lambda: dict(BOOK_COUNTS))  # labelled rows of each split
    learning: Recipe = BOOKS_LEARNING
    rates: Mapping[str, float | None] = field(default_factory=lambda: dict(BOOK_RATES))  # by arm
