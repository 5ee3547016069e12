"""The benchmark of long texts measures what it says: linear with a window, and a text of three global tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import windows
from gpt1.model.global_tokens import find_global


def test_every_contender_is_measured_at_every_length(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(windows, "CPU", replace(windows.CPU, layers=1, width=16, feed_forward=16))
    cpu = torch.device("cpu")
    found = windows.measure_all([32, 64], device=cpu, window=8, dropout=0.1, rounds=1)
    assert set(found) == {(length, arm) for length in (32, 64) for arm in windows.ARMS}
    assert all(cost.seconds > 0 for cost in found.values())
    assert all(cost.peak_bytes >= 0 for cost in found.values())
    head, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["32", "64"]
    assert all(arm in head for arm in windows.ARMS)


def test_the_text_has_three_global_tokens_far_from_each_other() -> None:
    shape = windows.shape_of("window and global", windows.CPU, 64, 8, 0.0)
    ids = windows.make_pair(64, torch.device("cpu"))
    assert find_global(ids.unsqueeze(0), None, shape, windows.START).places.tolist() == [[0, 32, 63]]
