"""All benchmarks in one call, on the same machine: one JSON file and one picture.

    python -m benchmarks --out bench                 # what `make bench` does: half an hour or more on two cores
    python -m benchmarks --out bench --only generation laptop

Each benchmark is a process of its own, in which all its contenders take turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.results import ROOT, draw, read

BENCHMARKS = ("text", "pretraining", "finetuning", "laptop", "generation", "serving")


def main() -> None:
    """Run the benchmarks one after another; one that fails does not keep the others from being run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json and results.png")
    parser.add_argument("--only", nargs="*", choices=BENCHMARKS, default=BENCHMARKS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out.absolute() / "results.json"
    file.unlink(missing_ok=True)
    failed = []
    for name in given.only:
        print(f"\n{name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    if file.exists():
        draw(read(file), given.out / "results.png")
    if failed:
        sys.exit(f"these failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
