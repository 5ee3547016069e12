"""What a run will take, for a person: the lines of a page about a plan."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict

from gpt1.base.devices import GIB
from gpt1.base.wording import duration, many
from gpt1.inspection.plan import Advice, Figures, LayerCosts, Machine, MemoryUse, RunPlan, Text, Time
from gpt1.inspection.sizes import Disk
from gpt1.model.costs import FEED_FORWARD, PROJECTIONS, SCORES

WIDTH = 80


def describe(plan: RunPlan, worded: Callable[[str], str] = lambda text: text) -> list[str]:
    """Return the lines of a page: what the run is, what it takes, and what would suit the text better.

    `worded` is told each sentence of advice, and returns it in the reader's words.
    """
    memory = plan.figures.memory
    sections = (
        (f"Recipe '{plan.recipe}'", _describe_run(plan.figures, plan.text)),
        (f"Memory, {memory.micro_batch:,} sequences at once", _describe_memory(memory, plan.machine.precision)),
        (f"A layer, {plan.figures.layer.contexts[0].context:,} tokens", _describe_layer(plan.figures.layer)),
        ("Disk, at most", _describe_disk(plan.figures.disk)),
        (f"Time on {plan.machine.name}", _describe_time(plan.figures.time, plan.machine)),
        ("Advice", _describe_advice(plan.advice, worded)),
    )
    lines: list[str] = []
    for title, body in sections:
        lines += ["", title, "-" * len(title), *body]
    return lines[1:]


def _row(label: str, value: str, note: str = "") -> str:
    return f"  {label:<18}{value:>17}  {note}".rstrip()


def _describe_run(figures: Figures, text: Text) -> Iterator[str]:
    parameters, updates, flops = figures.parameters, figures.updates, figures.flops
    named = ", ".join(f"{part} {count:,}" for part, count in asdict(parameters).items() if count)
    yield _row("parameters", f"{parameters.total:,}", named)
    yield _row("text", f"{text.tokens:,}", f"tokens, of {text.vocab_size:,} kinds")
    yield _row("epochs", f"{updates.epochs:,.6g}")
    note = f"of {updates.tokens_an_update:,} tokens; {updates.an_epoch:,} an epoch"
    yield _row("updates", f"{updates.total:,}", note)
    wanted = updates.warmup_of_recipe
    short = wanted is not None and updates.warmup < wanted
    note = f"updates, not {wanted:,}: the run is too short" if short else "updates"
    yield _row("warm-up", f"{updates.warmup:,}", note)
    yield _row("tokens in all", f"{updates.tokens:,}")
    yield _row("FLOPs", f"{flops.total:.3g}", f"{flops.a_token / 1e9:.3g} GFLOP a token")


def _describe_memory(memory: MemoryUse, precision: str) -> Iterator[str]:
    notes = {"optimizer": "moments", "working_copies": precision, "passing": "logits, gradients"}
    for name, size in asdict(memory.peak).items():
        if size:
            yield _row(name.replace("_", " "), _gib(size), notes.get(name, ""))
    yield _row("in all", _gib(memory.peak.total), f"of {_gib(memory.usable)} that can be used")
    if most := memory.largest_micro_batch:
        yield _row("fit at once", f"{most:,}", "sequences of the batch")
    else:
        yield "  not even one sequence at once fits"


_GROWTH = {SCORES: "n^2 d", PROJECTIONS: "n d^2", FEED_FORWARD: "n d^2"}  # for n tokens of width d


def _describe_layer(layer: LayerCosts) -> Iterator[str]:
    for name, part in layer.parts.items():
        growth = f", {_GROWTH[name]}" if name in _GROWTH else ""
        if name == SCORES and layer.window is not None:
            growth = f", n w d, w = {layer.window:,}"
        yield _row(name, f"{_rough(part.flops / 1e9)} GFLOP", f"{_rough(part.saved_bytes / 2**20)} MiB kept{growth}")
    first, *longer = layer.contexts
    for one in longer:
        flops, saved = one.flops_a_token / first.flops_a_token, one.saved_bytes_a_token / first.saved_bytes_a_token
        yield _row(f"context {one.context:,}", f"{flops:.2f} x", f"the FLOPs a token, {saved:.2f} x what is kept")


def _describe_disk(disk: Disk) -> Iterator[str]:
    whole = disk.checkpoints * disk.checkpoint_bytes
    yield _row("checkpoints", _gib(whole), f"{disk.checkpoints:,} of {_gib(disk.checkpoint_bytes)}")
    if disk.weights:
        note = f"{disk.weights:,} of {_gib(disk.weights_bytes)}, along the way"
        yield _row("weights alone", _gib(disk.weights * disk.weights_bytes), note)
    yield _row("in all", _gib(disk.total))


def _describe_time(time: Time, machine: Machine) -> Iterator[str]:
    if machine.notice:
        yield from _wrapped(machine.notice, "  ", "  ")
    flops, update, speed = machine.product_flops, time.seconds_an_update, time.tokens_a_second
    if time.seconds is None or flops is None or update is None or speed is None:
        yield f"  not known: no figure for products in {machine.precision}"
        return
    yield _row("in all", duration(time.seconds))
    took = f"{_rough(1000 * update)} ms" if update < 10 else duration(update)
    yield _row("an update", took, f"{_rough(speed)} tokens/s")
    yield _row("products", f"{_rough(flops / 1e9)} GFLOP/s", f"{machine.precision}, {machine.product_flops_source}")
    yield _row("share of it", f"{100 * machine.utilisation.share:.0f} %", machine.utilisation.source)


def _describe_advice(advice: Advice, worded: Callable[[str], str]) -> Iterator[str]:
    for finding in advice.findings:
        yield from _wrapped(worded(finding.finding), "  * ", "    ")
        yield from _wrapped(worded(finding.advice), "    -> ", "       ")
    if not advice.set:
        yield "  the recipe suits this text and this machine"
        return
    yield from _wrapped("This would suit text and machine:", "  ", "  ")
    line = "    "
    for argument in (f"--set {setting}" for setting in advice.set):  # a line is cut only between arguments
        if len(line) + len(argument) > WIDTH - 2:
            yield line + "\\"
            line = "    "
        line += argument + " "
    yield line.rstrip()
    time = "" if advice.seconds is None else f", {duration(advice.seconds)}"
    yield f"  {advice.parameters:,} parameters, {many(advice.updates, 'update')}{time}"


def _wrapped(text: str, first: str, following: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=following, break_on_hyphens=False)


def _rough(value: float) -> str:
    """Return three digits of a number that is not known better: `0.123`, `45.6`, `547,000`."""
    return f"{float(f'{value:.3g}'):,.12g}"


def _gib(size: float) -> str:
    return f"{size / GIB:,.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"
