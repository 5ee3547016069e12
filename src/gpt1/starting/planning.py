"""What fits into the time that a person has: how labels are learned and judged, and whether text is read before them.

Times are rough, of labels by a few updates (`finetuning/update_time.py`) and of text by the device
(`inspection/plan.py`), so that what is planned leaves room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.base.wording import duration, many
from gpt1.finetuning.ensembling import times_as_long
from gpt1.inspection.plan import Speed
from gpt1.recipes.derived import gentler
from gpt1.recipes.values import FOLDS, Recipe

ROOM = 1.5  # times what was reckoned: an estimate is off by as much
TRIAL_SHARE = 0.05  # of the time, at most, goes to the updates that show how long one takes
TEXT_SHARE = 0.5  # of the time, at most, goes to text
LITTLE_TEXT = 200_000  # bytes, below which it teaches a base nothing that its labels would not
MOST_READINGS = 4  # of a text, which are nearly as good as fresh text (`inspection/advice.py`)
WANTED_UPDATES = 500  # for which a batch is made smaller, as far as this one
SMALLEST_BATCH = 8
FEWEST_UPDATES = 20


@dataclass(frozen=True)
class LearningPlan:
    """How long the labels are learned, and how often again to judge by; None: as the recipe says."""

    seconds: float  # that it takes, roughly
    epochs: float | None = None
    folds: int | None = None
    why: str = ""  # where it is cut down

    def changes(self) -> list[str]:
        """Return the settings by which it differs from the recipe."""
        epochs = [] if self.epochs is None else [f"training.epochs={self.epochs:g}"]
        return epochs + ([] if self.folds is None else [f"finetuning.folds={self.folds}"])


def plan_learning(
    recipe: Recipe, examples: int, seconds_an_update: float, seconds: float, *, again: bool
) -> LearningPlan:
    """Return how examples are learned in so many seconds, by a recipe that is settled.

    Few of them are learned `again` without a part, which tells what the run is worth. Where there is no time for all
    parts, one is held out; where there is not even for that, all is read fewer times.
    """
    epochs, updates = recipe.training.epochs, math.ceil(examples / recipe.training.batch)
    an_epoch = ROOM * updates * seconds_an_update
    whole, least = (an_epoch * (1 + times_as_long(folds)) for folds in ((FOLDS, 1) if again else (0, 0)))
    if whole * epochs <= seconds:
        return LearningPlan(whole * epochs)
    folds = 1 if again else None
    instead = "a third of the rows is held out once, in place of cross-validation"
    fits = f"to fit into {duration(seconds)}"
    if least * epochs <= seconds:
        return LearningPlan(least * epochs, folds=folds, why=f"{instead}, {fits}")
    fitting = max(seconds / least, 1 / updates)
    fitting = math.floor(fitting) if fitting >= 1 else float(f"{fitting:.2g}")
    cut = [f"the labels are read {fitting:g} times, not {epochs:g}", *([instead] if again else [])]
    return LearningPlan(least * fitting, float(fitting), folds, f"{', and '.join(cut)}, {fits}")


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
        *gentler(recipe),
        f"logging.evaluate_every={looks}",
        f"logging.save_every={looks}",
        "logging.sample_every=none",
        *([] if recipe.logging.keep_weights is None else ["logging.keep_weights=none"]),
    ]
