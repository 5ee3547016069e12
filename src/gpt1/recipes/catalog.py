"""The recipes there are: the paper's, and values derived from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpt1.base.errors import unknown
from gpt1.base.modules import load_value
from gpt1.recipes.changes import Setting, settings, with_settings
from gpt1.recipes.values import DERIVED, LSTM, TRANSFORMER, Logging, Recipe, Schedule, Shape

# 64 sequences x 512 tokens = 32,768 tokens an update; section 4.1 of the paper.
PAPER = Recipe(
    name="paper",
    about="GPT-1 as the paper has it: 117 M parameters, for a GPU",
    logging=Logging(keep_weights=100),  # the curve of figure 2, whose updates are spaced evenly on a logarithmic scale
)

# What six years of small-GPT records agree on, with the paper's layers and width and on the paper's data. Its output
# matrix is its own, so that with the paper's vocabulary it has 147 M parameters.
MODERN = replace(
    PAPER,
    name="modern",
    about="the paper's layers, width and data with today's network, optimiser and schedule: 147 M parameters",
    shape=replace(
        PAPER.shape,
        norm="rms",
        norm_first=True,
        positions="rotary",
        activation="relu2",
        qk_norm=True,
        bias=False,
        tied=False,
        dropout=0.0,
    ),
    optimizer=replace(PAPER.optimizer, kind="muon", lr=3e-3, beta2=0.95, weight_decay=0.0),
    schedule=Schedule(kind="trapezoid", warmup_steps=None, warmup_share=0.01, cooldown_share=0.5),
    training=replace(PAPER.training, epochs=10),
)

# For a base that anybody's computer can fine-tune. Deeper and thinner gained nothing (LOG.md).
SMALL = replace(
    MODERN,
    name="small",
    about="today's network with 33 M parameters (of 16,000 merges), to be fine-tuned on any computer; trained on a GPU",
    shape=replace(MODERN.shape, layers=8, width=512, heads=8, feed_forward=2048, tied=True),
    optimizer=replace(MODERN.optimizer, weight_decay=0.1),
)

# For two cores and a few megabytes of text: learns in minutes, and shows every part at work.
TINY = replace(
    PAPER,
    name="tiny",
    about="the paper's network without dropout, small enough to learn on two cores in minutes",
    # So narrow a network needs larger first weights than 0.02: at this rate it would never leave the unigrams.
    shape=replace(
        PAPER.shape,
        layers=4,
        width=192,
        heads=4,
        feed_forward=768,
        context=128,
        dropout=0.0,
        init_std=0.05,
    ),
    optimizer=replace(PAPER.optimizer, lr=2e-3),
    # Short runs are the rule here, and at this rate a warm-up of 30 updates ends in a blow-up.
    schedule=replace(PAPER.schedule, warmup_steps=400, warmup_share=0.3),
    training=replace(PAPER.training, batch=16, epochs=2, compile=False),
    logging=Logging(log_every=10, evaluate_every=250, sample_every=250, save_every=250, keep_weights=25),
)

# The ablation of the paper's table 5: one layer of 2,048 units in place of the blocks.
PAPER_LSTM = replace(
    PAPER,
    name="lstm",
    about="the paper's comparison: one LSTM layer of 2,048 units in place of the blocks",
    shape=replace(PAPER.shape, kind=LSTM, layers=1),
)

# Section 4.1: three epochs of small batches, a small rate that warms up over 0.2 % of the updates and falls to 0.
FINETUNE = replace(
    PAPER,
    name="finetune",
    about="the paper's fine-tuning; the network's shape is that of the run it starts from",
    optimizer=replace(PAPER.optimizer, lr=6.25e-5),
    schedule=replace(PAPER.schedule, kind="linear", warmup_steps=None, warmup_share=0.002),
    # Of few examples one odd label is a spike; only a loss that is no number is refused.
    training=replace(PAPER.training, batch=32, epochs=3, compile=False, cuda_graphs=True, max_loss_spike=None),
    logging=Logging(
        log_every=10, evaluate_every=None, sample_every=None, save_every=None, keep=1, keep_optimizer=False
    ),
)

# The paper's fine-tuning made for any base and any number of labels; see `derived.py`.
AUTO = replace(
    FINETUNE,
    name="auto",
    about="fine-tuning whose rate suits the size of the base, and whose batch and epochs suit the number of examples",
    optimizer=replace(FINETUNE.optimizer, lr=PAPER.optimizer.lr),  # what is derived has its default until then
    schedule=replace(FINETUNE.schedule, warmup_share=0.06),
    training=replace(FINETUNE.training, batch=PAPER.training.batch, epochs=PAPER.training.epochs),
    finetuning=replace(FINETUNE.finetuning, ensemble=True, calibrate=True),
    derived=tuple(DERIVED),
)

# Without dropout, as the pre-training of `small`, and with much of the language model: LOG.md has what that kept.
LESSONS = replace(
    FINETUNE,
    name="lessons",
    about="one reading of tasks that were made from text (gpt1 lessons), between pre-training and fine-tuning",
    shape=replace(FINETUNE.shape, dropout=0.0),
    optimizer=replace(FINETUNE.optimizer, lr=2e-4),
    schedule=replace(FINETUNE.schedule, warmup_share=0.05),
    training=replace(FINETUNE.training, batch=64, epochs=1),
    finetuning=replace(FINETUNE.finetuning, lm_weight=2.0),
)

RECIPES = {recipe.name: recipe for recipe in (PAPER, MODERN, SMALL, TINY, PAPER_LSTM, FINETUNE, AUTO, LESSONS)}
FOR_FINETUNING = tuple(recipe.name for recipe in (FINETUNE, AUTO, LESSONS))
FOR_TEXT = tuple(name for name in RECIPES if name not in FOR_FINETUNING)


def find_recipe(name: str) -> Recipe:
    """Return the recipe of this name, or the one of the user's own that `module:NAME` names."""
    if ":" in name:
        return load_value(name, Recipe)
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


# What a setting other than these values of another leaves without a meaning.
_ONLY_WITH: dict[tuple[str, str], tuple[str, ...]] = {
    ("shape.kind", LSTM): ("shape.units",),
    ("shape.kind", TRANSFORMER): (
        *("shape.heads", "shape.feed_forward", "shape.norm", "shape.norm_first", "shape.positions"),
        *("shape.activation", "shape.qk_norm", "shape.window", "shape.global_tokens", "shape.layer_drop"),
    ),
    ("optimizer.kind", "muon"): ("optimizer.matrix_lr", "optimizer.momentum"),
    ("schedule.kind", "trapezoid"): ("schedule.cooldown_share",),
}
MASKING = ("training.masked_share", "training.mask_rate")
NOT_OF_THE_BASE = ("shape.dropout", "shape.layer_drop")  # of a shape: how it is trained, and not what it is
HOW_FAR = ("shape.window", "shape.global_tokens")  # how far a network looks: no weight depends on it
_OF_TEXT = ("logging.evaluate_tokens", "logging.sample_every")


def used_settings(recipe: Recipe) -> dict[str, Setting]:
    """Return the settings of a recipe that mean something in it.

    Recipes for text have no fine-tuning; one for fine-tuning has its network from the run it starts from, but for
    dropout.
    """
    found = settings(recipe)
    unused = {name for (of, value), names in _ONLY_WITH.items() if found[of] != value for name in names}
    if not recipe.training.masked_share:
        unused.add("training.mask_rate")
    if recipe.name in FOR_TEXT:
        unused |= {name for name in found if name.startswith("finetuning.")}
    if recipe.name in FOR_FINETUNING:
        unused |= {name for name in found if name.startswith("shape.") and name not in NOT_OF_THE_BASE}
        unused |= {*_OF_TEXT, *MASKING}
    return {name: value for name, value in found.items() if name not in unused}


def not_of_weights(shape: Shape) -> tuple[str, ...]:
    """Return the settings that may change where a network is read on with its weights: no weight depends on them.

    Those are what it drops, how far it looks, and with rotary positions how many tokens it reads at once.
    """
    longer = ("shape.context",) if shape.kind == TRANSFORMER and shape.positions == "rotary" else ()
    return (*NOT_OF_THE_BASE, *HOW_FAR, *longer)


def recipe(name: str, **changes: Any) -> Recipe:
    """Return a recipe, with settings changed by name: `recipe("tiny", batch=8, **{"optimizer.lr": 1e-3})`."""
    return with_settings(find_recipe(name), changes)
