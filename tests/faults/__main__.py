"""All three trials in one world: `python -m tests.faults --flips 1000 --kills 300 --starts 50 --seed 1`."""

from __future__ import annotations

import argparse
import os
import sys

from tests.faults import flips, kills, starts
from tests.faults.tables import NUMBERS, SEED, Trial, print_trials, the_world, write_trials


def main() -> None:
    """Try so much of each, print what came of it, and end with 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=number, help=f"how many {name}  [{number}]")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", help="a file for the outcomes and findings")
    parser.add_argument("--small", action="store_true", help="in a small world, with the kinds and verbs of that alone")
    arguments = parser.parse_args()
    tries = {"flips": flips.try_flips, "kills": kills.try_kills, "starts": starts.try_starts}
    trials: list[Trial] = []
    with the_world(small=arguments.small) as world:
        for name, try_all in tries.items():
            began = os.times()
            if count := getattr(arguments, name):
                trial = try_all(world, count, arguments.seed)
                trials.append(trial)
                print_trials(trial, arguments.seed, began, os.times())
    if arguments.json:
        write_trials(arguments.json, trials)
    sys.exit(any(trial.findings for trial in trials))


if __name__ == "__main__":
    main()
