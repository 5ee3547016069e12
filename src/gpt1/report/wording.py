"""The parts of the page that both kinds of runs have."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Curve, Facts, Folded, Lines, Note, Table, TableCell, TableRow
from gpt1.recipes.catalog import FINETUNE, PAPER, RECIPES
from gpt1.recipes.changes import differences, settings
from gpt1.recipes.values import Finetuning
from gpt1.report.gather import GatheredRun


def told(curve: Curve) -> str:
    """Return a curve in words, for those who do not see it."""
    if len(curve.steps) == 1:
        return f"{curve.values[0]:.4g} at update {curve.steps[0]:,}"
    low, high = min(curve.values), max(curve.values)
    return (
        f"from {curve.values[0]:.4g} at update {curve.steps[0]:,} to {curve.values[-1]:.4g} at update "
        f"{curve.steps[-1]:,}, between {low:.4g} and {high:.4g}"
    )


def averaging(curves: Iterable[Curve]) -> str:
    """Return how long curves were shortened, if any was."""
    most = max(curve.neighbours for curve in curves)
    return f" A point is the mean of up to {most:,} that were noted." if most > 1 else ""


def recipe_facts(run: GatheredRun) -> list[tuple[str, str]]:
    """Return the recipe's name and what was changed of it."""
    recipe = run.recipe
    facts = [("recipe", recipe.name)]
    if recipe.name in RECIPES:
        changed = differences(RECIPES[recipe.name], recipe)
        # How a run is watched changes nothing about it, and the shape of a fine-tuned one is its parent's.
        beside = ("logging.", "shape.") if run.is_finetuned else ("logging.",)
        changed = {name: pair for name, pair in changed.items() if not name.startswith(beside)}
        shown = [f"{name} {_value(after)} (recipe: {_value(before)})" for name, (before, after) in changed.items()]
        facts.append(("changed settings", ", ".join(shown) or "none"))
    return facts


def _value(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


def configuration(run: GatheredRun) -> Folded:
    """Return every setting, those first that are not the paper's, in a fold."""
    own, papers = settings(run.recipe), settings(FINETUNE if run.is_finetuned else PAPER)
    own = {name: value for name, value in own.items() if run.is_finetuned or not name.startswith("finetuning.")}
    rows = [
        TableRow(name, [TableCell(_value(value), is_number=False), TableCell(_value(papers[name]), is_number=False)])
        for name, value in own.items()
        if value != papers[name]
    ]
    same = ", ".join(f"{name} {_value(value)}" for name, value in own.items() if value == papers[name])
    table = Table("Settings that are not the paper's.", ["setting", "this run", "the paper"], rows)
    title = f"Settings ({len(rows)} of {len(own)} are not the paper's)"
    return Folded(title, [*([table] if rows else []), Note(f"As in the paper: {same}.")])


def trained_on(run: GatheredRun) -> str | None:
    """Return the hardware of a run, where it is known."""
    found = run.record.trained_on
    if found is None or not found.device:
        return None
    return found.device + (f", in {found.processes} processes" if found.processes != 1 else "")


def start_in_words(how: Finetuning) -> str:
    """Return which weights a fine-tuning began with."""
    if how.scratch:
        return "from scratch"
    if how.transfer_layers is not None:
        return f"pre-trained, first {many(how.transfer_layers, 'layer')}"
    return "pre-trained"


def happened(run: GatheredRun) -> list[Block]:
    """Return what the log tells: batches that blew up, and all else in a fold."""
    if run.log is None:
        return [Note("There is no events.jsonl, so what happened on the way is not known.")]
    blocks: list[Block] = []
    if run.log.rollback_count:
        times = many(run.log.rollback_count, "time")
        blocks += [Note(f"A batch blew up {times}, and the run went back:"), Lines(run.log.rollbacks)]
    else:
        blocks.append(Note("No batch blew up, and the run never had to go back."))
    if run.log.notices:
        more = run.log.notice_count - len(run.log.notices)
        lines = [*run.log.notices, *([f"and {many(more, 'line')} more"] if more else [])]
        blocks.append(Folded(f"Log ({many(run.log.notice_count, 'line')})", [Lines(lines)]))
    return blocks


def origin(run: GatheredRun) -> Folded:
    """Return with what, where, when and by which command a run was made, in a fold."""
    made = run.record.made_with
    pairs = [(name, str(made[name])) for name in ("at", "machine") if made.get(name)]
    versions = [f"{name} {made[name]}" for name in ("gpt1", "git", "python", "torch", "numpy") if made.get(name)]
    if versions:
        pairs.append(("versions", ", ".join(versions)))
    if isinstance(made.get("command"), list):
        pairs.append(("command", shlex.join(map(str, made["command"]))))
    pairs.append(("tokenizer", f"{str(run.record.tokenizer)[:12]}, {run.record.vocab_size:,} tokens"))
    return Folded("Made with", [Facts([("folder", str(run.folder)), *pairs])])
