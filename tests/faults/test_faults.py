"""Nothing silently other, never start over: bits turned over, kills and double starts, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_defaults import commands
from tests.faults.tables import NUMBERS, SEED
from tests.faults.writers import WRITERS


def try_faults(folder: Path, *options: str, **numbers: int) -> list[dict[str, Any]]:
    """Return what comes of so many flips, kills and starts; the program forks, and may have one thread only."""
    found = folder / "trials.json"
    words = [word for name in NUMBERS for word in (f"--{name}", str(numbers.get(name, 0)))]
    command = [sys.executable, "-m", "tests.faults", *options, *words, "--seed", str(SEED), "--json", str(found)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    print(ended.stdout)
    assert found.exists(), ended.stderr
    trials: list[dict[str, Any]] = json.loads(found.read_text())
    return trials


def findings_of(trials: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [finding for trial in trials for finding in trial["findings"]]


# What they read is no part of the small world: official files, a model of transformers (`tests/exchange` stops what
# writes by it), or minutes of work. The page of a start tells how often it was started; `tests/starting` kills it.
WITHOUT_A_WRITER = {"augment", "demo", "start", "tokenizer import", "submit", "import openai"}


def test_every_verb_that_writes_a_result_is_killed() -> None:
    writing = {name for name, command in commands() if any("--out" in option.opts for option in command.params)}
    tried = {name for name in writing if any(writer.name.startswith(name) for writer in WRITERS)}
    assert writing - tried == WITHOUT_A_WRITER


def test_a_few_turned_bits_kills_and_double_starts_end_as_promised(tmp_path: Path) -> None:
    trials = try_faults(tmp_path, "--small", flips=3, kills=1, starts=1)
    assert findings_of(trials) == []
    assert [sum(sum(row.values()) for row in trial["outcomes"].values()) for trial in trials] == [3, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("sort", NUMBERS)
def test_many_end_as_promised(tmp_path: Path, sort: str) -> None:
    assert findings_of(try_faults(tmp_path, **{sort: NUMBERS[sort]})) == []
