"""A verb is started twice on one folder: one start does what it should, the other says why not, and harms nothing.

The first is held at a random change of a file while the second runs, up to a random change of its own; then the first
goes on to its end, and then the second.

    python -m tests.faults --flips 0 --kills 0 --starts 50 --seed 1
"""

from __future__ import annotations

from tests.faults.kills import Undisturbed, draw_writers, undisturbed_writers
from tests.faults.processes import Child, Ending, Moment, wait_for_helpers
from tests.faults.results import differences, tree_of
from tests.faults.tables import Finding, Trial
from tests.faults.world import World
from tests.faults.writers import Writer

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


def try_starts(world: World, count: int, seed: int) -> Trial:
    """Start writers twice, in turn."""
    undisturbed = undisturbed_writers(world)
    trial = Trial("double starts", OUTCOMES)
    for writer, draw in draw_writers(world, count, f"{seed} starts"):
        wanted = undisturbed(writer)
        first, second = (draw.randint(1, wanted.changes) for _ in range(2))
        outcome, what = judge(world, writer, first, second, wanted)
        trial.count(writer.name, outcome)
        if outcome == FOUND:
            where = f"the first held at change {first}, the second at {second} of {wanted.changes}"
            trial.findings.append(Finding(writer.name, outcome, where, what))
    return trial
