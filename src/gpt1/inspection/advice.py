"""How much network, how many epochs and how large a vocabulary suit so much text: rules of thumb, said as settings.

About 20 tokens a parameter make the most of a given time (Hoffmann et al. 2022, "Training Compute-Optimal Large
Language Models"). Text that is read again is worth less each time: four readings are nearly as good as fresh text,
forty are not (Muennighoff et al. 2023, "Scaling Data-Constrained Language Models"). A short text is cheap to read, so
it is read more often. The paper's own choice, 100 epochs, was made before these were known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gpt1.base.wording import many
from gpt1.inspection.verdict import Finding
from gpt1.model.costs import count_parameters
from gpt1.recipes.changes import change, settings
from gpt1.recipes.values import TRANSFORMER, Recipe

TOKENS_A_PARAMETER = 20
FADING_EPOCHS = 15.4  # readings after which a further one is worth 1/e of the first: the second paper's R*
NEARLY_FRESH_EPOCHS = 4
MOST_EPOCHS = 32
PLENTY_TOKENS = 100_000_000  # from here on more than the nearly fresh epochs are not worth their time

TOLERANCE = 2  # a network so many times too large or too small is left as it is
HEAD_WIDTH = 64  # the paper's; width / layers is 64 in it too
LAYERS = range(2, 41)

FEW_UPDATES = 2000  # under which a smaller batch learns more from the same text
SMALLEST_BATCH = 8

BYTES_A_TOKEN = 4  # roughly, of English
VOCABULARIES = (1000, 2000, 4000, 8000, 16_000, 32_000, 40_000)
PAPER_TEXT_BYTES, PAPER_MERGES, VOCABULARY_GROWTH = 5e9, 40_000, 0.4  # merges grow as the text to this power


def effective_tokens(tokens: float, epochs: float) -> float:
    """Return how many fresh tokens so many epochs of a text are worth."""
    if epochs <= 1:
        return tokens * epochs
    return tokens * (1 + FADING_EPOCHS * (1 - math.exp(-(epochs - 1) / FADING_EPOCHS)))


def suitable_epochs(tokens: int) -> int:
    """Return how often to read a text: 4 times where there is plenty, up to 32 times where there is little."""
    often = NEARLY_FRESH_EPOCHS * math.sqrt(PLENTY_TOKENS / tokens)
    return round(min(MOST_EPOCHS, max(NEARLY_FRESH_EPOCHS, often)))


def suitable_parameters(tokens: int) -> float:
    """Return how many parameters a text of so many tokens can teach well."""
    return effective_tokens(tokens, suitable_epochs(tokens)) / TOKENS_A_PARAMETER


def suitable_merges(text_bytes: int) -> int:
    """Return how many merges a vocabulary should learn for so much text: the paper's 40,000 for its 5 GB."""
    wanted = PAPER_MERGES * (text_bytes / PAPER_TEXT_BYTES) ** VOCABULARY_GROWTH
    return min(VOCABULARIES, key=lambda merges: abs(math.log(merges / max(wanted, 1))))


def suitable_layers(recipe: Recipe, tokens: int, vocab_size: int) -> int:
    """Return how many layers, each layer adding 64 to the width, come nearest to the suitable parameters."""
    # A vocabulary that is too large must not make the blocks too small.
    vocab_size = min(vocab_size, suitable_merges(tokens * BYTES_A_TOKEN))
    wanted = math.log(suitable_parameters(tokens))

    def distance(layers: int) -> float:
        shape = change(recipe, _shape(layers)).shape
        return abs(math.log(count_parameters(shape, vocab_size).total) - wanted)

    return min(LAYERS, key=distance)


def suggest(recipe: Recipe, tokens: int, vocab_size: int) -> list[str]:
    """Return the settings, as `--set` takes them, by which a recipe should differ to suit a text; perhaps none."""
    epochs = suitable_epochs(tokens)
    wanted = [f"training.epochs={epochs}", "training.steps=none"]
    size = count_parameters(recipe.shape, vocab_size).total / suitable_parameters(tokens)
    if recipe.shape.kind == TRANSFORMER and not 1 / TOLERANCE <= size <= TOLERANCE:
        layers = suitable_layers(recipe, tokens, vocab_size)
        wanted = [*_shape(layers), *_learning_rate(recipe, HEAD_WIDTH * layers), *wanted]
    if epochs > NEARLY_FRESH_EPOCHS and recipe.shape.dropout == 0:
        wanted.append("shape.dropout=0.1")
    wanted.append(f"training.batch={_suitable_batch(recipe, tokens * epochs)}")
    now = settings(recipe)
    return [setting for setting in wanted if not _is_so(now, setting)]


def _shape(layers: int) -> list[str]:
    width = HEAD_WIDTH * layers
    return [
        f"shape.layers={layers}",
        f"shape.width={width}",
        f"shape.heads={layers}",
        f"shape.feed_forward={4 * width}",
    ]


def _learning_rate(recipe: Recipe, width: int) -> list[str]:
    """Narrower networks bear higher rates: in inverse proportion, as Yang et al. 2022 ("Tensor Programs V") derive."""
    if recipe.optimizer.kind == "muon" or width == recipe.shape.width:
        return []
    return [f"optimizer.lr={recipe.optimizer.lr * recipe.shape.width / width:.2g}"]


def _suitable_batch(recipe: Recipe, tokens: int) -> int:
    """Return the recipe's batch, or the largest power of two below it that gives enough updates."""
    most = tokens / (FEW_UPDATES * recipe.shape.context)
    if recipe.training.batch <= max(most, SMALLEST_BATCH):
        return recipe.training.batch
    return max(SMALLEST_BATCH, 1 << math.floor(math.log2(max(most, 1))))


def _is_so(now: Mapping[str, object], setting: str) -> bool:
    name, _, value = setting.partition("=")
    return str(now[name]).lower() == value or (isinstance(now[name], float) and f"{now[name]:g}" == value)


def judge(
    recipe: Recipe, *, tokens: int, text_bytes: int, vocab_size: int, epochs: float, updates: int
) -> list[Finding]:
    """Return what is odd about a recipe for a text, weightiest first."""
    parameters = count_parameters(recipe.shape, vocab_size).total
    return [
        *_judge_size(effective_tokens(tokens, epochs) / parameters, parameters, suitable_parameters(tokens)),
        *_judge_epochs(tokens, epochs),
        *_judge_updates(updates),
        *_judge_vocabulary(text_bytes, vocab_size),
    ]


def _judge_size(tokens_a_parameter: float, parameters: int, suitable: float) -> Iterator[Finding]:
    worth = f"{tokens_a_parameter:.3g} tokens a parameter, repeats counted for what they are worth"
    if parameters > 4 * suitable:
        yield Finding(
            "large",
            f"the network is large for this text ({worth}; {TOKENS_A_PARAMETER} are balanced): read seldom, the text "
            "cannot teach it, read often, it is learnt by heart",
            "take a smaller one, or start from a trained model and continue on this text",
        )
    elif parameters < suitable / 4:
        yield Finding(
            "small",
            f"the network is small for this text ({worth}; {TOKENS_A_PARAMETER} are balanced)",
            "a larger one would get further in the same time",
        )


def _judge_epochs(tokens: int, epochs: float) -> Iterator[Finding]:
    suitable = suitable_epochs(tokens)
    if epochs > 2 * suitable:
        worth = effective_tokens(tokens, epochs) / tokens
        yield Finding(
            "many-epochs",
            f"{epochs:.4g} readings of this text are worth about {worth:.2g} of fresh text: past {NEARLY_FRESH_EPOCHS} "
            "or so each gives less",
            f"{suitable} would do for most of it",
        )
    elif epochs < min(suitable / 4, 1):
        yield Finding("part-of-text", f"only {epochs:.2g} of this text is read", "train longer, or prepare less text")


def _judge_updates(updates: int) -> Iterator[Finding]:
    if updates < FEW_UPDATES:
        yield Finding(
            "few-updates",
            f"{many(updates, 'update')} in all {'is' if updates == 1 else 'are'} few to learn from",
            "a smaller batch makes more of them from the same text",
        )


def _judge_vocabulary(text_bytes: int, vocab_size: int) -> Iterator[Finding]:
    suitable = suitable_merges(text_bytes)
    finding = f"a vocabulary of {vocab_size:,} is {{}} for {text_bytes / 1e6:,.4g} MB of text"
    train = f"`gpt1.train_tokenizer(merges={suitable})`, then prepare the text anew"
    if vocab_size > 2.5 * suitable:  # beside merges it has characters
        yield Finding("large-vocabulary", finding.format("large"), f"most of its tokens would hardly be seen: {train}")
    elif vocab_size < suitable / 4:
        yield Finding("small-vocabulary", finding.format("small"), f"sequences get longer than they need be: {train}")
