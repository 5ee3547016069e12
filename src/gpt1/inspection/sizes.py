"""How much memory an update of a network needs, and how much room its checkpoints, from the network's shape alone.

Formulas, so that a plan needs neither a device nor the network. Activations are a list of the tensors that a block
saves for its backward pass: counted in torch's own graph, compiled and not, and checked against a peak measured on an
H200.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from gpt1.base.errors import SettingError
from gpt1.model.attention import SHORT
from gpt1.model.costs import FEED_FORWARD, PROJECTIONS, SCORES, count_parameters, product_weights
from gpt1.model.loss import CPU_LOGITS, CUDA_LOGITS
from gpt1.recipes.values import LSTM, Recipe, Shape

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}
WEIGHT_BYTES = 4  # fp32; a computation in fp64 has its weights in fp64 too


@dataclass(frozen=True)
class Execution:
    """Where and how a network is computed, as far as memory depends on it."""

    gpu: bool  # with fused kernels for attention and loss
    compiled: bool
    precision: str

    @property
    def size(self) -> int:
        """Bytes of an element of the arithmetic."""
        return BYTES[self.precision]

    @property
    def full_size(self) -> int:
        """Bytes of a weight, and of what is computed in the weights' precision."""
        return max(self.size, WEIGHT_BYTES)


@dataclass(frozen=True)
class SavedTensor:
    """A tensor that one block keeps for its backward pass."""

    name: str
    elements: int  # a token
    size: int  # bytes an element
    of_pairs: bool = False  # so many elements a token are as many as the tokens it is held against


def saved_by_block(shape: Shape, place: Execution) -> list[SavedTensor]:
    """List what one block keeps for its backward pass."""
    return [saved for part in saved_by_part(shape, place).values() for saved in part]


def saved_by_part(shape: Shape, place: Execution) -> dict[str, list[SavedTensor]]:
    """List what one block keeps for its backward pass, by the parts whose operations are counted apart.

    What attention keeps of each pair of tokens is its scores'; fused kernels keep nothing of pairs.
    """
    if shape.kind == LSTM:
        return {LSTM: _saved_by_lstm(shape, place)}
    width, size = shape.width, place.size
    attention = _saved_by_attention(shape, place)
    return {
        SCORES: [saved for saved in attention if saved.of_pairs],
        PROJECTIONS: [
            SavedTensor("input of queries, keys and values", width, size),
            *(saved for saved in attention if not saved.of_pairs),
            SavedTensor("what attention gathers", width, size),
            *_saved_around(shape, place),
        ],
        FEED_FORWARD: [
            SavedTensor("input of the feed-forward part", width, size),
            SavedTensor("before the activation", shape.feed_forward, size),
            SavedTensor("after the activation", shape.feed_forward, size),
            *_saved_around(shape, place),
        ],
    }


def _saved_around(shape: Shape, place: Execution) -> list[SavedTensor]:
    """List what one of a block's two branches keeps of its norm and its dropout."""
    width, size = shape.width, place.size
    saved = [SavedTensor("input of the norm", width, size if place.compiled else place.full_size)]
    if shape.norm == "rms" and not place.compiled:
        saved.append(SavedTensor("output of the norm, before its gain", width, place.full_size))
    if shape.dropout and not place.compiled:  # compiled code draws its masks again
        saved.append(SavedTensor("mask of the branch", width, size))
    return saved


def _saved_by_attention(shape: Shape, place: Execution) -> list[SavedTensor]:
    width, heads, size = shape.width, shape.heads, place.size
    between = size if place.compiled else place.full_size
    rotary, window = shape.positions == "rotary", shape.window or shape.context
    in_blocks = window < shape.context and not (place.gpu and size == 2)  # which has a kernel that makes no blocks
    span = shape.context
    meeting = SavedTensor("queries, keys and values", 3 * width, size)
    if in_blocks:
        span = 2 * window + shape.global_tokens
        name = "queries, and keys and values with the block before and global ones"
        meeting = SavedTensor(name, width + 2 * width * span // window, size)
    if shape.dropout and (in_blocks or not place.gpu or place.precision == "fp64"):  # the weights are written out
        saved = [
            meeting,
            SavedTensor("weights, kept ones, and masks", (2 if place.compiled else 3) * heads * span, size, True),
        ]
        changed = shape.qk_norm
    elif not in_blocks and shape.context <= SHORT and (not place.gpu or place.precision == "fp64"):
        saved = [meeting, SavedTensor("weights", heads * span, size, True)]
        changed = shape.qk_norm
    else:
        saved = [meeting, SavedTensor("logarithms of the weights' sums", heads, 4)]
        changed = shape.qk_norm or (rotary and not in_blocks)
        if in_blocks:
            saved.append(SavedTensor("what may be looked at", span, size, True))
            if rotary or shape.qk_norm:
                saved.append(SavedTensor("heads as they were", width, size))
        elif changed:
            saved += [
                SavedTensor("queries and keys as they meet", 2 * width, size),
                SavedTensor("heads as they were", width, size),
            ]
    if in_blocks and shape.global_tokens:
        everywhere = ((5 if shape.dropout else 4) + (rotary or shape.qk_norm)) * width
        saved.append(SavedTensor("queries, keys, values for global tokens, and what windows gather", everywhere, size))
    if changed and rotary and shape.qk_norm:
        saved.append(SavedTensor("queries and keys between rotation and norm", 2 * width, between))
    return saved


def _saved_by_lstm(shape: Shape, place: Execution) -> list[SavedTensor]:
    width, units, size = shape.width, shape.units, place.size
    # cuDNN's is what the formulas need: four gates, cells and their tanh. oneDNN's was measured.
    workspace = 6 if place.gpu else 22 if size == 2 else 16
    saved = [
        SavedTensor("input", width, size),
        SavedTensor("the library's workspace", workspace * units, size),
        SavedTensor("states", units, size),
    ]
    if shape.dropout:
        saved.append(SavedTensor("states that are kept", units, size))
    if shape.dropout and not place.compiled:
        saved.append(SavedTensor("masks", units + width, size))
    return saved


@dataclass(frozen=True)
class Memory:
    """Bytes at the peak of an update."""

    weights: int
    gradients: int
    optimizer: int
    working_copies: int  # the weights once more, in the precision of the arithmetic
    activations: int
    passing: int  # what comes and goes: the loss's logits and gradients, or one block's gradients

    @property
    def total(self) -> int:
        """All of them."""
        return sum(vars(self).values())


def count_memory(recipe: Recipe, vocab_size: int, micro_batch: int, place: Execution) -> Memory:
    """Return what an update needs at its peak with so many sequences at once."""
    shape = recipe.shape
    parameters = count_parameters(shape, vocab_size).total
    tokens = micro_batch * shape.context
    block = sum(saved.elements * saved.size for saved in saved_by_block(shape, place))
    kept = shape.layers * block
    if recipe.training.checkpoint_activations:  # the blocks' inputs, and one block that is computed again
        kept = shape.layers * shape.width * place.size + block
    return Memory(
        weights=parameters * place.full_size,
        gradients=parameters * place.full_size,
        optimizer=_moments(recipe, vocab_size) * place.full_size,
        working_copies=parameters * place.size if place.size < place.full_size else 0,
        activations=tokens * kept,
        passing=max(_loss_bytes(shape, vocab_size, tokens, place), 2 * tokens * shape.feed_forward * place.size),
    )


def _moments(recipe: Recipe, vocab_size: int) -> int:
    """Return how many numbers the optimiser keeps."""
    moments = 2 * count_parameters(recipe.shape, vocab_size).total
    if recipe.optimizer.kind == "muon" and recipe.shape.kind != LSTM:
        moments -= product_weights(recipe.shape, vocab_size=0)  # which have a momentum and no second moment
    return moments


@dataclass(frozen=True)
class Disk:
    """What the checkpoints of a run take at most when it is over."""

    checkpoint_bytes: int  # with the optimiser's moments, where the run keeps them
    checkpoints: int
    weights_bytes: int
    weights: int  # kept without moments, along the way

    @property
    def total(self) -> int:
        """All of them, in bytes."""
        return self.checkpoints * self.checkpoint_bytes + self.weights * self.weights_bytes


def count_disk(recipe: Recipe, vocab_size: int, updates: int, place: Execution) -> Disk:
    """Return what the checkpoints take after so many updates; one that is kept for two reasons is counted twice."""
    logging = recipe.logging
    size = count_parameters(recipe.shape, vocab_size).total * place.full_size
    moments = _moments(recipe, vocab_size) * place.full_size if logging.keep_optimizer else 0
    checkpoints = logging.keep + (logging.evaluate_every is not None)  # the best one
    checkpoints += 0 if logging.keep_every is None else updates // logging.keep_every + 1
    weights = 0 if logging.keep_weights is None else (updates // logging.keep_weights).bit_length() + 1
    return Disk(size + moments, checkpoints, size, weights)


def _loss_bytes(shape: Shape, vocab_size: int, tokens: int, place: Execution) -> int:
    """Return what the loss holds: some logits, and the gradients of the hidden states and of the output matrix."""
    logits = min(tokens * vocab_size, max(CUDA_LOGITS if place.gpu else CPU_LOGITS, vocab_size))
    # A GPU's kernel writes the gradient over the logits; elsewhere the softmax is written out besides.
    logits_bytes = logits * (place.size if place.gpu else place.size + place.full_size)
    return logits_bytes + tokens * shape.width * place.size + vocab_size * shape.width * place.full_size


def largest_micro_batch(recipe: Recipe, vocab_size: int, place: Execution, memory: int) -> int:
    """Return the most sequences of the batch that can be computed at once in so many bytes; 0: not even one."""
    return bisect_right(
        range(1, recipe.training.batch + 1),
        memory,
        key=lambda micro_batch: count_memory(recipe, vocab_size, micro_batch, place).total,
    )


def fitting(recipe: Recipe, vocab_size: int, place: Execution, memory: int) -> list[str]:
    """Return the settings with which a recipe fits into so many bytes, the cheapest ones; none if it fits as it is."""
    training = recipe.training
    if min(training.micro_batch or training.batch, training.batch) <= (
        most := largest_micro_batch(recipe, vocab_size, place, memory)
    ):
        return []
    if most:
        return [_even_micro_batch(training.batch, most)]
    sparing = replace(recipe, training=replace(training, checkpoint_activations=True))
    if most := largest_micro_batch(sparing, vocab_size, place, memory):
        return ["training.checkpoint_activations=true", _even_micro_batch(training.batch, most)]
    raise SettingError(
        f"recipe '{recipe.name}' with {vocab_size:,} tokens needs more than {memory / 2**30:.1f} GiB, however it is "
        "computed; choose a smaller shape"
    )


def _even_micro_batch(batch: int, most: int) -> str:
    return f"training.micro_batch={max(size for size in range(1, most + 1) if batch % size == 0)}"
