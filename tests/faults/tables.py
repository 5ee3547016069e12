"""What the trials share: their number and seed, the world they happen in, and the table of what came of them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.processes import preload
from tests.faults.world import World


@dataclass(frozen=True)
class Finding:
    """A trial that came to something that it must not."""

    kind: str
    who: str
    where: str
    what: str


def add_arguments(parser: argparse.ArgumentParser, name: str, count: int) -> argparse.ArgumentParser:
    """Give a program the arguments that all trials have; the defaults come from the environment."""
    parser.add_argument("--count", type=int, default=int(os.environ.get(f"GPT1_{name}", count)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("GPT1_FAULTS_SEED", 1)))
    parser.add_argument("--json", help="a file for the outcomes and findings")
    parser.set_defaults(began=time.monotonic())
    return parser


@contextmanager
def the_world() -> Iterator[World]:
    """Build the world, in memory where there is a folder for that: nothing here is to outlast a power cut."""
    preload()
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="gpt1-faults-", dir=memory if memory.is_dir() else None))
    try:
        world = World(root)
        world.build()
        yield world
    finally:
        shutil.rmtree(root, ignore_errors=True)


def print_outcomes(
    arguments: argparse.Namespace,
    columns: Sequence[str],
    outcomes: Mapping[str, Counter[str]],
    findings: Sequence[Finding],
) -> None:
    """Print a row for each kind, and every finding; end with 1 if there is any."""
    width = max(map(len, outcomes), default=10)
    total: Counter[str] = sum(outcomes.values(), Counter())
    print(f"seed {arguments.seed}, {sum(total.values())} trials, {time.monotonic() - arguments.began:.0f} s\n")
    print(f"{'':{width}}  trials  " + "  ".join(columns))
    for name, row in [*sorted(outcomes.items()), ("all", total)]:
        cells = (f"{row[column]:{len(column)}}" for column in columns)
        print(f"{name:{width}}  {sum(row.values()):6}  " + "  ".join(cells))
    for finding in findings:
        print(f"\n{finding.kind}; {finding.who}; {finding.where}\n    {finding.what}")
    if arguments.json:
        facts = {"outcomes": outcomes, "findings": [asdict(finding) for finding in findings]}
        Path(arguments.json).write_text(json.dumps(facts, indent=1))
    sys.exit(bool(findings))
