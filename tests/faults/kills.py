"""A verb is killed at a moment and started again as documented until it ends: nothing may be other than undisturbed.

python -m tests.faults.kills --count 300 --seed 1
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tests.faults.processes import Child, Moment, wait_for_helpers
from tests.faults.results import Tree, differences, tree_of
from tests.faults.tables import Finding, Trial
from tests.faults.world import World
from tests.faults.writers import WRITERS, Writer

SAME, LEFT_OVER, FOUND = "as undisturbed", "leftovers", "findings"
OUTCOMES = (SAME, LEFT_OVER, FOUND)
SHARE_OF_INSTANTS = 0.2  # killed after some computing, where no count finds them, such as in the midst of a write
SHARE_KILLED_TWICE = 0.3
STARTS = 4  # that a killed verb is given, at the most


@dataclass(frozen=True)
class Undisturbed:
    """What a writer leaves when nobody disturbs it, in how many changes of files, and seconds of computing."""

    tree: Tree
    changes: int
    computed: float


def in_words(kill: Moment) -> str:
    """Return when a start is killed."""
    if kill.computed is not None:
        return f"killed after {kill.computed:.3f} s of computing"
    return f"killed {'in' if kill.opened else 'before'} change {kill.number}"


def undisturbed_writers(world: World) -> Callable[[Writer], Undisturbed]:
    """Return what tells how a writer ends in the world as it was built."""

    @lru_cache(None)
    def write(writer: Writer) -> Undisturbed:
        world.renew()
        ending = Child(world.scene, writer.start).end()
        assert ending.ended_well, f"{writer.name} fails undisturbed: {ending.err}"
        return Undisturbed(tree_of(world.scene), ending.changes, ending.computed)

    return write


def draw_kill(draw: random.Random, undisturbed: Undisturbed) -> Moment:
    """Return a random moment to kill a writer at."""
    if draw.random() < SHARE_OF_INSTANTS:
        return Moment(computed=draw.random() * undisturbed.computed)
    return Moment(draw.randint(1, undisturbed.changes), opened=draw.random() < 0.5)


def judge(world: World, writer: Writer, kills: Sequence[Moment], undisturbed: Undisturbed) -> tuple[str, str]:
    """Start a writer, kill it so often, let it go on to its end; return the outcome and what is wrong."""
    world.renew()
    children = []
    ending = None
    for kill, step in zip([*kills, *[None] * STARTS], [writer.start, *[writer.again] * STARTS], strict=False):
        child = Child(world.scene, step, kill=kill)
        children.append(child)
        ending = child.end()
        if ending.hung or (not ending.was_killed and (step is writer.again or ending.code)):
            break
    assert ending is not None
    last = (ending.err.strip().splitlines() or [""])[-1][:300]
    if not all(wait_for_helpers(child.pid) for child in children):
        return FOUND, "helpers live on after the kill"
    if ending.hung:
        return FOUND, "hangs when it is started again"
    other = differences(tree_of(world.scene), undisturbed.tree)
    if not ending.ended_well and not (writer.once and not other and ending.error.startswith("gpt1:")):
        return FOUND, f"does not go on (code {ending.code}, {ending.error}): {last}"
    if other and all(line.endswith("left over") for line in other):
        return LEFT_OVER, "; ".join(other[:6])
    return (FOUND, f"other than undisturbed: {'; '.join(other[:8])}") if other else (SAME, "")


def try_kills(world: World, count: int, seed: int) -> Trial:
    """Kill writers, in turn."""
    undisturbed = undisturbed_writers(world)
    trial = Trial("kills", OUTCOMES)
    for writer, draw in draw_writers(world, count, f"{seed} kills"):
        wanted = undisturbed(writer)
        kills = [draw_kill(draw, wanted) for _ in range(2 if draw.random() < SHARE_KILLED_TWICE else 1)]
        outcome, what = judge(world, writer, kills, wanted)
        trial.count(writer.name, outcome)
        if outcome != SAME:
            where = f"{' and '.join(map(in_words, kills))} (of {wanted.changes} changes)"
            trial.findings.append(Finding(writer.name, outcome, where, what))
    return trial


def draw_writers(world: World, count: int, seed: str) -> Iterator[tuple[Writer, random.Random]]:
    """Yield writers in turn, each with what draws its chances; a few are not always the first ones."""
    writers = [writer for writer in WRITERS if not world.small or writer.small]
    random.Random(seed).shuffle(writers)
    for number in range(count):
        writer = writers[number % len(writers)]
        yield writer, random.Random(f"{seed} {writer.name} {number // len(writers)}")
