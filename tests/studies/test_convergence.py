"""How fast arms learn: the same loss for both, reached by every run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpt1.studies.cells import CellResult
from gpt1.studies.convergence import compare


def cell(*losses: float) -> CellResult:
    """A fine-tuning with these losses after 10, 20, ... updates."""
    found = [{"step": 10 * place, "loss": loss} for place, loss in enumerate(losses, 1)]
    return CellResult(Path("nowhere"), {"score": 0.5, "losses": found}, 1.0)


def seeds(*runs: Sequence[float]) -> dict[int, CellResult]:
    return {seed: cell(*losses) for seed, losses in enumerate(runs)}


def test_the_level_is_the_lowest_that_every_run_reached() -> None:
    found = compare({"full": seeds([1.0] * 5 + [0.0] * 5), "no-lm": seeds([1.0] * 10, [1.0] * 5 + [0.5] * 5)})
    assert found == {"level": 1.0, "updates": {"full": {"0": 10}, "no-lm": {"0": 10, "1": 10}}}


def test_updates_are_counted_until_the_mean_of_the_last_losses_is_there() -> None:
    fast, slow = [1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [1.0] * 3 + [0.5] * 5
    found = compare({"full": seeds(fast, slow), "no-lm": seeds(slow, fast)})
    assert found == {"level": 0.5, "updates": {"full": {"0": 60, "1": 80}, "no-lm": {"0": 80, "1": 60}}}


def test_one_lucky_batch_is_no_level() -> None:
    found = compare({"full": seeds([1.0, 1.0, 0.0, 1.0, 1.0, 0.5]), "no-lm": seeds([1.0, 1.0, 1.0, 1.0, 1.0, 1.0])})
    assert found is not None
    assert (found["level"], found["updates"]["full"]) == (1.0, {"0": 10})


def test_cells_of_an_earlier_version_kept_no_losses() -> None:
    assert compare({"full": seeds([1.0]), "no-lm": {0: CellResult(Path("nowhere"), {"score": 0.5}, 1.0)}}) is None
