"""Which fine-tuning suits a base: the paper's at the paper's size, else one derived from base and examples.

The rate falls with the root of the number of parameters, from the paper's at the paper's size. Few examples are read
in small batches and often enough for the updates to be some. LOG.md has the figures: between 1e-4 and 2e-4 at 33.5 M
parameters, and between 10 and 25 epochs of 200 labels, there is little difference.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpt1.base.errors import SettingError
from gpt1.base.wording import many
from gpt1.recipes.catalog import AUTO, FINETUNE, FOR_FINETUNING, FOR_TEXT, PAPER, RECIPES
from gpt1.recipes.values import MEAN, NO_WINDOWS, Recipe, Shape

PAPERS_PARAMETERS = 116_534_784
HIGHEST_RATE = 1e-3  # the lowest is the paper's
FEW_EXAMPLES, SMALL_BATCH = 500, 16  # fewer examples than that are read in such batches, others in the paper's
FEWEST_UPDATES, MOST_EPOCHS = 150, 15
GENTLER = 0.3  # times the rate of the recipe: a network that knows something is not to forget it


def recipe_for(base: Shape) -> Recipe:
    """Return how a base is fine-tuned unless somebody says otherwise."""
    sizes = ("kind", "layers", "width", "heads", "feed_forward")
    is_papers = all(getattr(base, name) == getattr(PAPER.shape, name) for name in sizes)
    return FINETUNE if is_papers else AUTO


def recipe_for_text(base: Shape) -> Recipe:
    """Return how a base goes on reading text: by the recipe whose network is most like its own."""

    def alike(name: str) -> int:
        own = vars(RECIPES[name].shape)
        return sum(own[part] == value for part, value in vars(base).items())

    return RECIPES[max(FOR_TEXT, key=alike)]


def wants_windows(recipe: Recipe) -> bool | None:
    """Whether texts that do not fit the context are to be read in windows; None: the texts decide."""
    return None if "finetuning.windows" in recipe.derived else recipe.finetuning.windows != NO_WINDOWS


def windows_of(recipe: Recipe, *, any_are_long: bool) -> str:
    """Return how texts that do not fit are read: as the recipe says, or else as the texts have decided."""
    if "finetuning.windows" not in recipe.derived:
        return recipe.finetuning.windows
    return MEAN if any_are_long else NO_WINDOWS


def settled(recipe: Recipe, parameters: int, examples: int, *, windows: bool = False) -> Recipe:
    """Return the recipe with what it leaves open decided, for a base of so many parameters and so many examples.

    Whether texts are read in `windows` they have decided themselves.
    """
    lr, batch, epochs = recipe.optimizer.lr, recipe.training.batch, recipe.training.epochs
    if "optimizer.lr" in recipe.derived:
        lr = _rate(parameters)
    if "training.batch" in recipe.derived:
        batch = SMALL_BATCH if examples < FEW_EXAMPLES else FINETUNE.training.batch
    if "training.epochs" in recipe.derived:
        epochs = _epochs(examples, batch)
    pooling = windows_of(recipe, any_are_long=windows)
    return replace(
        recipe,
        optimizer=replace(recipe.optimizer, lr=lr),
        training=replace(recipe.training, batch=batch, epochs=epochs),
        finetuning=replace(recipe.finetuning, windows=pooling),
        derived=(),
    )


def _rate(parameters: int) -> float:
    """Return the paper's rate times the root of how much smaller the base is, in three digits and within bounds."""
    lowest = FINETUNE.optimizer.lr
    rate = lowest * math.sqrt(PAPERS_PARAMETERS / parameters)
    return float(f"{min(max(rate, lowest), HIGHEST_RATE):.2e}")


def _epochs(examples: int, batch: int) -> float:
    """Return how often to read the examples: for enough updates, at least as often as the paper, but not too often."""
    wanted = math.ceil(FEWEST_UPDATES / math.ceil(examples / batch))
    return float(min(max(wanted, FINETUNE.training.epochs), MOST_EPOCHS))


def in_words(recipe: Recipe, parameters: int, examples: int) -> str | None:
    """Return in a line what is derived for a recipe that is not settled yet; None where nothing is."""
    found, told = settled(recipe, parameters, examples), []
    training = found.training
    if "optimizer.lr" in recipe.derived:
        told.append(f"rate {found.optimizer.lr:.2e} for {parameters / 1e6:.1f} M parameters")
    if "training.epochs" in recipe.derived and training.steps is None:
        told.append(f"{training.epochs:g} epochs of {training.batch} for {many(examples, 'example')}")
    elif "training.batch" in recipe.derived:
        told.append(f"batches of {training.batch} for {many(examples, 'example')}")
    return f"recipe {recipe.name}: {', '.join(told)}" if told else None


def gentler(recipe: Recipe) -> list[str]:
    """Return the rates, as changes, at which a network that a recipe has taught goes on with other text."""
    optimizer = recipe.optimizer
    found = {"lr": optimizer.lr} | ({"matrix_lr": optimizer.matrix_lr} if optimizer.kind == "muon" else {})
    return [f"optimizer.{name}={GENTLER * rate:.2g}" for name, rate in found.items()]


def require_for_text(recipe: Recipe) -> None:
    """Refuse a recipe that is for fine-tuning, where a network is to learn from text."""
    if recipe.derived or recipe.name in FOR_FINETUNING:
        raise SettingError(f"recipe '{recipe.name}' is for fine-tuning; for text there are {', '.join(FOR_TEXT)}")


def require_for_tasks(recipe: Recipe, base: Shape) -> None:
    """Refuse a recipe that masks text, where tasks are learned, or asks of a base's network what it cannot do."""
    if recipe.training.masked_share:
        raise SettingError(
            "training.masked_share is of pre-training: no text is masked while a task is learned; leave it out"
        )
    replace(recipe, shape=base)  # which a recipe looks at when it is made


def require_settled(recipe: Recipe) -> None:
    """Refuse a recipe that leaves something to be derived, where there is nothing to derive it from."""
    if recipe.derived:
        raise SettingError(
            f"recipe '{recipe.name}' is for fine-tuning: it derives {', '.join(recipe.derived)} from a base and its "
            "examples; name another"
        )
