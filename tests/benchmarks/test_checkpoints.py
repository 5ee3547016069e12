"""What a checkpoint costs is measured of each contender, in one process or several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.results import ROOT, read

SMALL = ("layers=1", "width=16", "heads=2", "feed_forward=16", "context=8")
CHANGES = [word for setting in SMALL for word in ("--set", f"shape.{setting}")] + ["--set", "training.batch=2"]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_each_contender_has_figures_of_its_saves_and_its_updates(tmp_path: Path, processes: str) -> None:
    sizes = ["--steps", "4", "--every", "2", "--rounds", "2", "--device", "cpu", "--processes", processes]
    options = [*CHANGES, *sizes, "--json", str(tmp_path / "results.json")]
    subprocess.run([sys.executable, "-m", "benchmarks.checkpoints", *options], cwd=ROOT, check=True)
    rows = read(tmp_path / "results.json")
    contenders = ["gpt1", "torch.distributed.checkpoint, async_save", "torch.distributed.checkpoint, save"]
    for work in ("standstill of a save", "an update with saves beside"):
        found = [row for row in rows if row.work.startswith(work)]
        assert [row.contender for row in found] == contenders
        assert all(row.unit == "s" and row.median > 0 for row in found)
