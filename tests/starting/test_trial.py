"""How long an update takes is measured on this table and this base, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpt1.starting.trial import seconds_an_update
from tests.starting.test_start import write_table


@pytest.mark.parametrize("minutes", [1.0, 1e-9])
def test_a_few_updates_tell_it_or_one_where_there_is_no_time(trained: Path, tmp_path: Path, minutes: float) -> None:
    table = write_table(tmp_path)
    assert seconds_an_update(str(trained), tmp_path / "trial", table=table, device="cpu", minutes=minutes) > 0
    assert [entry.name for entry in tmp_path.iterdir()] == [table.name]


def test_what_a_kill_has_left_is_cleared_away(trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path)
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "run.json").write_text("half")
    told: dict[str, Any] = {"columns": {"text": "text"}, "skip_bad": True}
    assert seconds_an_update(str(trained), tmp_path / "trial", table=table, device="cpu", minutes=1.0, **told) > 0
