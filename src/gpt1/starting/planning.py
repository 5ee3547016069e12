"""What fits into the time that a person has: how often labels are read, and whether text is read before them.

Times are rough (`inspection/plan.py`), so that what is planned leaves room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.wording import duration, many
from gpt1.finetuning.ensembling import ENOUGH, PARTS
from gpt1.inspection.plan import Speed
from gpt1.recipes.values import Recipe
from gpt1.tasks.splitting import ONE_IN

ROOM = 1.5  # times what was reckoned: an estimate is off by as much
TEXT_SHARE = 0.5  # of the time, at most, goes to text
LITTLE_TEXT = 200_000  # bytes, below which it teaches a base nothing that its labels would not
MOST_READINGS = 4  # of a text, which are nearly as good as fresh text (`inspection/advice.py`)
WANTED_UPDATES = 500  # for which a batch is made smaller, as far as this one
SMALLEST_BATCH = 8
FEWEST_UPDATES = 20
GENTLER = 0.3  # times the rate of the recipe: a network that knows something is not to forget it


@dataclass(frozen=True)
class LearningPlan:
    """How long the labels are learned: the recipe's own number of epochs (None), or one that fits."""

    epochs: float | None
    seconds: float  # that it takes, roughly
    why: str = ""  # where it is cut down


def plan_learning(recipe: Recipe, tokens: int, examples: int, speed: Speed | None, seconds: float) -> LearningPlan:
    """Return how often examples of so many tokens in all are to be read, by a recipe that is settled.

    Few of them are learned again in parts, to see whether counted words would do better.
    """
    if speed is None:
        return LearningPlan(None, 0.0)
    again = recipe.finetuning.ensemble and examples / ONE_IN < ENOUGH
    epochs, times = recipe.training.epochs, 1 + (PARTS - 1) * again
    updates = math.ceil(examples / recipe.training.batch)
    an_epoch = ROOM * times * speed.seconds(tokens, updates)
    if an_epoch * epochs <= seconds:
        return LearningPlan(None, an_epoch * epochs)
    fitting = max(seconds / an_epoch, 1 / updates)
    fitting = math.floor(fitting) if fitting >= 1 else float(f"{fitting:.2g}")
    why = f"the labels are read {fitting:g} times, not {epochs:g}, to fit into {duration(seconds)}"
    return LearningPlan(float(fitting), an_epoch * fitting, why)


@dataclass(frozen=True)
class ReadingPlan:
    """How much of a text is read: so many updates of so many sequences."""

    updates: int
    batch: int
    seconds: float


def plan_reading(
    recipe: Recipe, *, tokens: int, text_bytes: int, speed: Speed | None, seconds: float
) -> ReadingPlan | str:
    """Return how a text of so many tokens is read in so many seconds; or why it is not."""
    if text_bytes < LITTLE_TEXT:
        return f"it has {text_bytes / 1000:,.0f} kB, and below {LITTLE_TEXT / 1000:,.0f} kB there is little to learn"
    if speed is None:
        return "how fast this device is cannot be told"
    context, batch = recipe.shape.context, recipe.training.batch
    seconds = max(seconds, 0.0)
    in_text, in_time = MOST_READINGS * tokens, speed.tokens_a_second * seconds / ROOM
    while batch >= 2 * SMALLEST_BATCH and min(in_text, in_time) / (batch * context) < WANTED_UPDATES:
        batch //= 2
    in_time = seconds / ROOM / speed.seconds(batch * context, 1)  # updates
    within = {"this text": in_text / (batch * context), duration(seconds): in_time}
    bound = min(within, key=lambda name: within[name])
    updates = math.floor(within[bound])
    if updates < FEWEST_UPDATES:
        return f"{many(updates, 'update')} fit into {bound}, and fewer than {FEWEST_UPDATES} change little"
    return ReadingPlan(updates, batch, speed.seconds(updates * batch * context, updates))


def reading_changes(recipe: Recipe, plan: ReadingPlan) -> Sequence[str]:
    """Return the settings by which a reading differs from the recipe."""
    looks = max(1, plan.updates // 4)
    return [
        f"training.steps={plan.updates}",
        f"training.batch={plan.batch}",
        f"optimizer.lr={GENTLER * recipe.optimizer.lr:.2g}",
        *(
            [f"optimizer.matrix_lr={GENTLER * recipe.optimizer.matrix_lr:.2g}"]
            if recipe.optimizer.kind == "muon"
            else []
        ),
        f"logging.evaluate_every={looks}",
        f"logging.save_every={looks}",
        "logging.sample_every=none",
        *([] if recipe.logging.keep_weights is None else ["logging.keep_weights=none"]),
    ]
