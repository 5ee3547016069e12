"""What the trials share: their number and seed, the world they happen in, and the table of what came of them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults.processes import preload
from tests.faults.world import World

NUMBERS = {
    name: int(os.environ.get(f"GPT1_{name.upper()}", number))
    for name, number in (("flips", 1000), ("kills", 300), ("starts", 50))
}
SEED = int(os.environ.get("GPT1_FAULTS_SEED", 1))


@dataclass(frozen=True)
class Finding:
    """A try that came to something that it must not."""

    kind: str
    who: str
    where: str
    what: str


@dataclass
class Trial:
    """What came of all tries of one sort: outcomes (the columns) by kind, findings, and what is less than that."""

    name: str
    columns: tuple[str, ...]
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    def count(self, kind: str, outcome: str) -> None:
        """Count an outcome."""
        self.outcomes.setdefault(kind, Counter())[outcome] += 1


@contextmanager
def the_world(*, small: bool = False) -> Iterator[World]:
    """Build the world, in memory where there is a folder for that: nothing here is to outlast a power cut."""
    preload(small=small)
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="gpt1-faults-", dir=memory if memory.is_dir() else None))
    try:
        world = World(root, small=small)
        world.build()
        yield world
    finally:
        shutil.rmtree(root, ignore_errors=True)


def print_trials(trial: Trial, seed: int, began: os.times_result, ended: os.times_result) -> None:
    """Print what it took, a row for each kind, and every finding."""
    width = max(map(len, trial.outcomes), default=10)
    total: Counter[str] = sum(trial.outcomes.values(), Counter())
    computed = sum(ended[:4]) - sum(began[:4])  # our own and our children's; others may be at work on the machine
    print(f"{sum(total.values())} {trial.name}, seed {seed}: {computed:.0f} s of computing\n")
    print(f"{'':{width}}  {'all':>5}  " + "  ".join(trial.columns))
    for name, row in [*sorted(trial.outcomes.items()), ("all", total)]:
        cells = (f"{row[column]:{len(column)}}" for column in trial.columns)
        print(f"{name:{width}}  {sum(row.values()):5}  " + "  ".join(cells))
    for found in trial.findings:
        print(f"\n{found.kind}; {found.who}; {found.where}\n    {found.what}")
    print(flush=True)


def write_trials(path: str, trials: Sequence[Trial]) -> None:
    """Write all that came of the trials, also what is less than a finding."""
    facts = [
        {
            "name": trial.name,
            "outcomes": trial.outcomes,
            "findings": [asdict(found) for found in trial.findings],
            "notes": [asdict(found) for found in trial.notes],
        }
        for trial in trials
    ]
    Path(path).write_text(json.dumps(facts, indent=1))
