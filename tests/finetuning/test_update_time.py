"""How long an update takes is measured on this table and this base, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpt1.base.errors import SettingError
from gpt1.finetuning.update_time import FEWEST, UPDATES, Enough, Stopwatch, encode_table, seconds_an_update
from gpt1.runs.events import Stepped
from tests.starting.test_start import write_table


def seconds_of(init: Path, folder: Path, table: Path, minutes: float, **reading: Any) -> float:
    tasks = encode_table(str(init), table, **reading)
    return seconds_an_update(str(init), folder, tasks=tasks, device="cpu", minutes=minutes)


@pytest.mark.parametrize("minutes", [1.0, 1e-9])
def test_a_few_updates_tell_it_or_fewer_where_there_is_no_time(trained: Path, tmp_path: Path, minutes: float) -> None:
    table = write_table(tmp_path)
    assert seconds_of(trained, tmp_path / "trial", table, minutes) > 0
    assert [entry.name for entry in tmp_path.iterdir()] == [table.name]


def test_updates_are_made_as_somebody_has_set_them(trained: Path, tmp_path: Path) -> None:
    tasks = encode_table(str(trained), write_table(tmp_path))
    with pytest.raises(SettingError, match="lr is above 0"):
        seconds_an_update(
            str(trained), tmp_path / "trial", tasks=tasks, device="cpu", minutes=1.0, changes=["optimizer.lr=0"]
        )


def test_what_a_kill_has_left_is_cleared_away(trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path)
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "run.json").write_text("half")
    assert seconds_of(trained, tmp_path / "trial", table, 1.0, columns={"text": "text"}, skip_bad=True) > 0


def stepped(step: int, seconds: float) -> Stepped:
    return Stepped(step, UPDATES, step, 1.0, {}, 1e-4, 1.0, 1e3, seconds * (UPDATES - step), 0, None)


def test_without_time_others_than_the_slow_first_update_are_made_and_tell_it() -> None:
    watch = Stopwatch(0.0)
    for step in range(1, FEWEST):
        watch(stepped(step, 90.0 if step == 1 else 1.0))
    with pytest.raises(Enough):
        watch(stepped(FEWEST, 2.0))
    assert watch.seconds_an_update() == 1.5


def test_with_time_all_updates_are_made() -> None:
    watch = Stopwatch(3600.0)
    for step in range(1, UPDATES + 1):
        watch(stepped(step, 90.0 if step == 1 else 1.0))
    assert watch.seconds_an_update() == 1.0
