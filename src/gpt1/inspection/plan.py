"""What a run will take, before it is begun: size, updates, FLOPs, memory, room on the disk, time, and whether it suits
its text.

`plan_page.py` says the values that `plan` returns. FLOPs are those of `model/costs.py`. Time is FLOPs over the
speed of matrix products, by a GPU's data sheet or measured here in a moment, times the share of it that training
reaches; it is meant to tell minutes from days.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpt1.base.devices import (
    GIB,
    Abilities,
    Gpu,
    choose_precision,
    device_name,
    find_device,
    find_gpu,
    known_gpu,
    measured_flops,
    memory_total,
    usable_precision,
)
from gpt1.base.errors import InputError, SettingError
from gpt1.inspection.advice import BYTES_A_TOKEN, judge, suggest, suitable_merges, suitable_parameters
from gpt1.inspection.sizes import (
    Disk,
    Execution,
    Memory,
    count_disk,
    count_memory,
    fitting,
    largest_micro_batch,
    saved_by_block,
    saved_by_part,
)
from gpt1.inspection.verdict import Finding
from gpt1.model.costs import (
    Parameters,
    count_parameters,
    flops_per_token,
    layer_flops_per_token,
    recurrent_flops_per_token,
)
from gpt1.recipes.changes import change
from gpt1.recipes.derived import require_for_text
from gpt1.recipes.values import Recipe, Shape

RECIPE = "paper"  # that is planned for, where none is named
USABLE_MEMORY = 0.92  # the rest is the driver's, the libraries' and lost between tensors
LONGER = (1, 2, 4)  # times the recipe's context


@dataclass(frozen=True)
class Utilisation:
    """The share of the speed of products that a whole update reaches, and how that is known."""

    share: float
    source: str


# The paper's model, compiled, in bf16, with dropout: 528,000 tokens/s, that is 396 TFLOP/s of the data sheet's 989.
ON_H200 = Utilisation(0.40, "measured with the paper's model")
ON_OTHER_GPUS = Utilisation(0.35, "assumed, a little under an H200's")
IN_FULL_PRECISION = Utilisation(0.6, "assumed: slow products leave the rest less to hide")
# Forward and backward on one core of an AMD EPYC: 0.49 to 0.63 of the products' speed in bf16, 0.77 to 0.83 in fp32;
# the optimiser takes a little more.
OVER_MEASURED = {
    "bf16": Utilisation(0.5, "measured on a CPU"),
    "fp16": Utilisation(0.5, "as in bf16 on a CPU"),
    "fp32": Utilisation(0.7, "measured on a CPU"),
    "fp64": Utilisation(0.7, "as in fp32 on a CPU"),
}
# Small networks keep a GPU waiting for its next task: 22 ms for 12 layers forward, backward and update, however little
# there is to compute (compiled, measured on an H200).
GPU_SECONDS_A_LAYER = 0.022 / 12
# An LSTM reads its tokens one after another: the least that one of them takes, forward or backward, however small the
# product with its state is. The paper's LSTM was measured on an H200 with 770,000 tokens/s: 43 ms an update, of which
# the products that wait for nothing explain 22, and 2 x 512 tokens the rest.
GPU_SECONDS_A_STATE = 20e-6


@dataclass(frozen=True)
class Text:
    """The text to learn from, as far as a plan depends on it."""

    tokens: int
    bytes: int
    vocab_size: int
    source: str


@dataclass(frozen=True)
class Machine:
    """What computes, as far as a plan depends on it."""

    name: str
    gpu: bool
    memory_bytes: int
    precision: str
    product_flops: float | None  # FLOP/s; None: not known
    product_flops_source: str
    utilisation: Utilisation
    notice: str | None  # where the precision is not the one that was asked for


@dataclass(frozen=True)
class Updates:
    """How many there are, and what they read."""

    tokens_an_update: int
    an_epoch: int
    epochs: float
    total: int
    tokens: int
    warmup: int
    warmup_of_recipe: int | None


@dataclass(frozen=True)
class Flops:
    """Of the model's own."""

    a_token: float
    an_update: float
    total: float


@dataclass(frozen=True)
class Speed:
    """How fast a machine trains: tokens a second, and the least that an update takes however little it reads.

    What an LSTM does token by token comes on top of both, `waiting_seconds` an update.
    """

    tokens_a_second: float
    least_seconds: float = 0.0
    waiting_seconds: float = 0.0

    def seconds(self, tokens: float, updates: float) -> float:
        """Return how long so many updates take that read so many tokens in all."""
        return max(tokens / self.tokens_a_second, self.least_seconds * updates) + self.waiting_seconds * updates


@dataclass(frozen=True)
class Time:
    """What it takes; None: not known."""

    seconds_an_update: float | None = None
    tokens_a_second: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class MemoryUse:
    """What a micro-batch needs at the peak of an update, and what there is."""

    micro_batch: int
    peak: Memory
    usable: int
    largest_micro_batch: int

    @property
    def fits(self) -> bool:
        """Whether there is enough."""
        return self.peak.total <= self.usable


@dataclass(frozen=True)
class PartCost:
    """What a part of one layer takes for one sequence."""

    flops: float  # forward and backward
    saved_bytes: int  # for the backward pass


@dataclass(frozen=True)
class ContextCost:
    """What a token costs with a context of so many."""

    context: int
    flops_a_token: float
    saved_bytes_a_token: int  # by all layers


@dataclass(frozen=True)
class LayerCosts:
    """What a layer takes by part, and a token with the recipe's context and with longer ones."""

    parts: dict[str, PartCost]
    contexts: list[ContextCost]
    window: int | None = None  # tokens that are looked back, where those are not all


@dataclass(frozen=True)
class Figures:
    """What a recipe makes of a text on a machine."""

    parameters: Parameters
    updates: Updates
    flops: Flops
    time: Time
    memory: MemoryUse
    disk: Disk
    layer: LayerCosts


@dataclass(frozen=True)
class Advice:
    """What is odd about a recipe, the settings that would suit, and what they come to."""

    findings: list[Finding]
    suitable_parameters: int
    suitable_merges: int
    set: list[str]
    parameters: int
    updates: int
    seconds: float | None


@dataclass(frozen=True)
class RunPlan:
    """What a training takes, and what would suit its text better."""

    recipe: str
    text: Text
    machine: Machine
    figures: Figures
    advice: Advice

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        parameters, memory, disk = self.figures.parameters, self.figures.memory, self.figures.disk
        return {
            "recipe": self.recipe,
            "text": asdict(self.text),
            "machine": asdict(self.machine),
            "parameters": {**asdict(parameters), "total": parameters.total},
            "updates": asdict(self.figures.updates),
            "flops": asdict(self.figures.flops),
            "time": asdict(self.figures.time),
            "memory": {
                "micro_batch": memory.micro_batch,
                **asdict(memory.peak),
                "total": memory.peak.total,
                "usable": memory.usable,
                "fits": memory.fits,
                "largest_micro_batch": memory.largest_micro_batch,
            },
            "disk": {**asdict(disk), "total": disk.total},
            "layer": asdict(self.figures.layer),
            "advice": {**vars(self.advice), "findings": [finding._asdict() for finding in self.advice.findings]},
        }


def training_speed(recipe: Recipe, vocab_size: int, device: str | None = None) -> Speed | None:
    """Return how fast this machine trains by a recipe, roughly; None: not known."""
    return _speed(recipe, flops_per_token(recipe.shape, vocab_size), _find_machine(recipe, None, device))


def plan(
    recipe: Recipe,
    corpus: str | Path | None = None,
    *,
    tokens: int | None = None,
    vocab_size: int | None = None,
    gpu: str | None = None,
    device: str | None = None,
) -> RunPlan:
    """Return what training by `recipe` takes, on a prepared corpus or on so many tokens, here or on a GPU by name."""
    require_for_text(recipe)
    text = _find_text(corpus, tokens, vocab_size)
    machine = _find_machine(recipe, gpu, device)
    figures = _figures(recipe, text, machine)
    settings = suggest(recipe, text.tokens, text.vocab_size)
    suggested = change(recipe, settings)
    try:
        settings += _fitting(suggested, text, machine)
    except SettingError:  # what would suit so much text is too large for this machine: the recipe as it is, then
        settings = _fitting(recipe, text, machine)
    then = _figures(change(recipe, settings), text, machine)
    findings = judge(
        recipe,
        tokens=text.tokens,
        text_bytes=text.bytes,
        vocab_size=text.vocab_size,
        epochs=figures.updates.epochs,
        updates=figures.updates.total,
    )
    advice = Advice(
        findings,
        suitable_parameters=round(suitable_parameters(text.tokens)),
        suitable_merges=suitable_merges(text.bytes),
        set=settings,
        parameters=then.parameters.total,
        updates=then.updates.total,
        seconds=then.time.seconds,
    )
    return RunPlan(recipe.name, text, machine, figures, advice)


# --- what is given ------------------------------------------------------------------------------------------


def _find_text(corpus: str | Path | None, tokens: int | None, vocab_size: int | None) -> Text:
    if (corpus is None) == (tokens is None):
        raise SettingError("give either a prepared `corpus` or a number of `tokens` to plan for")
    if corpus is None:
        if vocab_size is None:
            raise SettingError(
                "of how many kinds are the tokens? Name the vocabulary's size with `vocab_size`; the paper's is 40478"
            )
        if tokens is None or tokens < 2 or vocab_size < 1:
            raise SettingError(f"a text has at least 2 tokens of 1 kind, not {tokens} of {vocab_size}")
        return Text(tokens, tokens * BYTES_A_TOKEN, vocab_size, "given")
    if vocab_size is not None:
        raise SettingError("a corpus has its vocabulary already; leave its size out")
    from gpt1.corpus.manifest import read_corpus

    found = read_corpus(corpus)
    train = found.splits["train"]
    if train.tokens < 2:
        raise InputError(f"{corpus} has nothing to train on")
    return Text(train.tokens, train.bytes, found.tokenizer.vocab_size, str(corpus))


def _find_machine(recipe: Recipe, gpu: str | None, device: str | None) -> Machine:
    if gpu is not None and device is not None:
        raise SettingError("give either the name of a GPU to plan for or a device of this machine")
    wanted = recipe.training.precision
    if gpu is not None:
        named = find_gpu(gpu)
        precision, notice = choose_precision(Abilities("cuda", named.name, named.bf16 is not None), wanted)
        return _gpu_machine(named, named.name, named.memory_gib * GIB, precision, notice)
    found = find_device(device)
    name, memory = device_name(found), memory_total(found)
    precision, notice = usable_precision(found, wanted)
    if found.type == "cuda" and (named_here := known_gpu(name)) and named_here.peak(precision):
        return _gpu_machine(named_here, name, memory, precision, notice)
    flops = measured_flops(found, precision, recipe.shape.width)
    return Machine(name, found.type == "cuda", memory, precision, flops, "measured", OVER_MEASURED[precision], notice)


def _gpu_machine(gpu: Gpu, name: str, memory: int, precision: str, notice: str | None) -> Machine:
    utilisation = ON_H200 if gpu.name == "H200" else ON_OTHER_GPUS
    if precision not in ("bf16", "fp16"):
        utilisation = IN_FULL_PRECISION
    return Machine(name, True, memory, precision, gpu.peak(precision), "data sheet", utilisation, notice)


# --- figures ------------------------------------------------------------------------------------------------


def _figures(recipe: Recipe, text: Text, machine: Machine) -> Figures:
    updates = _updates(recipe, text.tokens)
    flops = flops_per_token(recipe.shape, text.vocab_size)
    return Figures(
        count_parameters(recipe.shape, text.vocab_size),
        updates,
        Flops(flops, flops * updates.tokens_an_update, flops * updates.tokens),
        _time(recipe, flops, updates, machine),
        _memory(recipe, text, machine),
        count_disk(recipe, text.vocab_size, updates.total, _place(recipe, machine)),
        layer_costs(recipe.shape, text.vocab_size, _place(recipe, machine)),
    )


def layer_costs(shape: Shape, vocab_size: int, place: Execution) -> LayerCosts:
    """Return what a layer takes for one sequence, by part, and what longer contexts cost a token."""
    flops, saved = layer_flops_per_token(shape), saved_by_part(shape, place)
    parts = {
        part: PartCost(
            flops[part] * shape.context, shape.context * sum(tensor.elements * tensor.size for tensor in saved[part])
        )
        for part in flops
    }
    longer = [replace(shape, context=times * shape.context) for times in LONGER]
    window = shape.window if shape.window is not None and shape.window < shape.context else None
    return LayerCosts(parts, [_context_cost(one, vocab_size, place) for one in longer], window)


def _context_cost(shape: Shape, vocab_size: int, place: Execution) -> ContextCost:
    saved = shape.layers * sum(tensor.elements * tensor.size for tensor in saved_by_block(shape, place))
    return ContextCost(shape.context, flops_per_token(shape, vocab_size), saved)


def _updates(recipe: Recipe, tokens: int) -> Updates:
    training, context = recipe.training, recipe.shape.context
    targets = tokens - 1
    # An epoch begins at a random offset, on average in the middle of a window.
    windows = math.ceil((targets + context / 2) / context)
    in_epoch = math.ceil(windows / training.batch)
    total = training.steps or math.ceil(in_epoch * training.epochs)
    epochs = total / in_epoch
    return Updates(
        tokens_an_update=training.batch * context,
        an_epoch=in_epoch,
        epochs=epochs,
        total=total,
        tokens=round(targets * epochs),
        warmup=round(recipe.schedule.warmup(total) * total),
        warmup_of_recipe=recipe.schedule.warmup_steps,
    )


def _time(recipe: Recipe, flops: float, updates: Updates, machine: Machine) -> Time:
    if (speed := _speed(recipe, flops, machine)) is None:
        return Time()
    seconds = speed.seconds(updates.tokens, updates.total) / updates.total
    return Time(seconds, updates.tokens / updates.total / seconds, seconds * updates.total)


def _speed(recipe: Recipe, flops: float, machine: Machine) -> Speed | None:
    if machine.product_flops is None:
        return None
    training, shape, reached = recipe.training, recipe.shape, machine.product_flops * machine.utilisation.share
    if not machine.gpu:
        return Speed(reached / flops)
    at_once = min(training.micro_batch or training.batch, training.batch)
    micro_batches = math.ceil(training.batch / at_once)
    least, waiting, one_by_one = (
        GPU_SECONDS_A_LAYER * shape.layers * micro_batches,
        0.0,
        recurrent_flops_per_token(shape),
    )
    if one_by_one:
        a_state = max(GPU_SECONDS_A_STATE, at_once * one_by_one / 2 / reached)
        waiting = 2 * shape.context * micro_batches * a_state
    return Speed(reached / (flops - one_by_one), least, waiting)


def _place(recipe: Recipe, machine: Machine) -> Execution:
    return Execution(machine.gpu, machine.gpu and recipe.training.compile, machine.precision)


def _memory(recipe: Recipe, text: Text, machine: Machine) -> MemoryUse:
    training, place = recipe.training, _place(recipe, machine)
    micro_batch = min(training.micro_batch or training.batch, training.batch)
    peak = count_memory(recipe, text.vocab_size, micro_batch, place)
    usable = round(USABLE_MEMORY * machine.memory_bytes)
    return MemoryUse(micro_batch, peak, usable, largest_micro_batch(recipe, text.vocab_size, place, usable))


def _fitting(recipe: Recipe, text: Text, machine: Machine) -> list[str]:
    return fitting(recipe, text.vocab_size, _place(recipe, machine), round(USABLE_MEMORY * machine.memory_bytes))
