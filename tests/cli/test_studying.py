"""What a person hears while a study is at work."""

from __future__ import annotations

import pytest

from gpt1.base.progress import Terminal
from gpt1.cli.studying import StudyLines
from gpt1.runs.events import Noticed, RolledBack


def test_what_is_noticed_in_several_cells_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StudyLines(Terminal())
    back = RolledBack(step=9, batch=8, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=3)
    for event in (Noticed("line 3 is damaged"), back, Noticed("line 3 is damaged"), Noticed("line 4 is damaged")):
        lines.heard(event)
    first, second, third = capsys.readouterr().err.splitlines()
    assert (first, third) == ("line 3 is damaged", "line 4 is damaged")
    assert "batch 8 blew up" in second
