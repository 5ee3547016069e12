"""`gpt1 blimp`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tools import run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four pairs of two paradigms."""
    rows = [
        {"good": "Ann lost 3 apples.", "bad": "Apples 3 lost Ann.", "paradigm": name, "field": "syntax"}
        for name in ("order", "order", "gaps", "gaps")
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "pairs.jsonl"


def test_shares_are_printed_by_paradigm_beside_published_ones(
    trained: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("blimp", str(trained), "--data", str(data), "--device", "cpu", "--step", "last")
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["paradigms"].keys() == {"order", "gaps"}
    assert found["accuracy"] in (0.0, 1.0)  # all pairs are the same
    assert (found["pairs"], found["step"]) == (4, 12)
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert out.splitlines()[0] == f"{trained}, step 12: BLiMP, 4 pairs of 2 paradigms"
    assert f"{100 * found['accuracy']:5.1f}  mean over paradigms" in out
    assert "65.1  74.5  GPT-2, 98 M parameters" in out


def test_a_folder_without_pairs_is_told(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "blimp", str(trained), "--data", str(tmp_path / "none"))
    assert code == 1
    assert "does not exist" in error
