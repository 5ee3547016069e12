"""A verb is started twice on one folder: one start does what it should, the other says why not, and harms nothing.

The first is held at a random change of a file while the second runs, up to a random change of its own; then the first
goes on to its end, and then the second.

    python -m tests.faults.starts --count 50 --seed 1
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from tests.faults.kills import Undisturbed, undisturbed_writers
from tests.faults.processes import Child, Ending, Moment, wait_for_helpers
from tests.faults.results import differences, tree_of
from tests.faults.tables import Finding, add_arguments, print_outcomes, the_world
from tests.faults.world import World
from tests.faults.writers import WRITERS, Writer

ONE_REFUSED, BOTH_WELL, FOUND = "one refused", "both well", "findings"
OUTCOMES = (ONE_REFUSED, BOTH_WELL, FOUND)


def judge(world: World, writer: Writer, first: int, second: int, undisturbed: Undisturbed) -> tuple[str, str]:
    """Start a writer twice, each held at a moment; return the outcome and what is wrong."""
    world.renew()
    children = [Child(world.scene, writer.start, hold=Moment(first))]
    children[0].wait_until_held()
    children.append(Child(world.scene, writer.start, hold=Moment(second)))
    children[1].wait_until_held()
    endings = []
    for child in children:
        child.let_go()
        endings.append(child.end())
    if not all(wait_for_helpers(child.pid) for child in children):
        return FOUND, "helpers live on"
    told = "; ".join(f"{name}: {_in_words(ending)}" for name, ending in zip(("first", "second"), endings, strict=True))
    other = differences(tree_of(world.scene), undisturbed.tree)
    if other:
        return FOUND, f"other than undisturbed: {'; '.join(other[:8])} ({told})"
    codes = sorted(ending.code for ending in endings)
    if codes == [0, 0]:
        return BOTH_WELL, ""
    refused = next(ending for ending in endings if ending.code)
    if codes == [0, 1] and refused.error.startswith("gpt1:"):
        return ONE_REFUSED, ""
    return FOUND, told


def _in_words(ending: Ending) -> str:
    last = (ending.err.strip().splitlines() or [""])[-1][:200]
    return "ended well" if ending.ended_well else f"code {ending.code}, {ending.error}, {last}"


def try_starts(world: World, count: int, seed: int) -> tuple[dict[str, Counter[str]], list[Finding]]:
    """Start writers twice, in turn; return the outcomes by writer, and the findings."""
    undisturbed = undisturbed_writers(world)
    outcomes: dict[str, Counter[str]] = {}
    findings = []
    writers = list(WRITERS)
    random.Random(seed).shuffle(writers)
    for number in range(count):
        writer = writers[number % len(writers)]
        draw = random.Random(f"{seed} {writer.name} {number}")
        wanted = undisturbed(writer)
        first, second = (draw.randint(1, wanted.changes) for _ in range(2))
        outcome, what = judge(world, writer, first, second, wanted)
        outcomes.setdefault(writer.name, Counter())[outcome] += 1
        if outcome == FOUND:
            where = f"the first held at change {first}, the second at {second} of {wanted.changes}"
            findings.append(Finding(writer.name, outcome, where, what))
    return outcomes, findings


def main() -> None:
    """Start writers twice and print what came of it."""
    arguments = add_arguments(argparse.ArgumentParser(description=__doc__), "STARTS", 50).parse_args()
    with the_world() as world:
        outcomes, findings = try_starts(world, arguments.count, arguments.seed)
    print_outcomes(arguments, OUTCOMES, outcomes, findings)


if __name__ == "__main__":
    main()
