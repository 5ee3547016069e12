"""tools/augmentation.py: two processes make all cells, each once, and the same with --tabulate tells what hurts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.studies.tools import TRAINING, write_tasks

TOOL = Path(__file__).parent.parent / "tools" / "augmentation.py"


def test_processes_side_by_side_make_all_cells_and_tables_are_written_of_them(trained: Path, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks", "sst2", "storycloze")
    words = [sys.executable, str(TOOL), str(trained), str(tasks), "--out", str(tmp_path / "out"), "--device", "cpu"]
    words += ["--tasks", "sst2,storycloze", "--counts", "4", "8", "--seeds", "1", "--changes", *TRAINING.changes]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    made = subprocess.run([*words, "--processes", "2"], env=alone, capture_output=True, text=True, check=True)
    assert "ended with" not in made.stdout, made.stderr
    assert sorted(line.partition(" labels")[0] for line in made.stdout.splitlines()) == [
        f"process {number}, {count}" for number in (1, 2) for count in (4, 8)
    ]
    cells = {path.parent.name for path in (tmp_path / "out" / "cells").glob("*/cell.json")}
    assert len(cells) == 2 * (6 + 5)  # of choices no labels are mixed
    told = subprocess.run([*words, "--tabulate"], env=alone, capture_output=True, text=True, check=True)
    assert "word dropout: " in told.stdout
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert record["cells"] == {"done": 22, "planned": 22}
