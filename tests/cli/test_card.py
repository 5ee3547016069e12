"""`gpt1 card` as a person calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tools import run
from tests.report.tools import write_finetuned


def test_a_card_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reviews = write_finetuned(tmp_path / "reviews", {"dev": [0, 1] * 4})
    code, printed, _ = run(capsys, "card", str(reviews))
    assert (code, "# reviews" in printed) == (0, True)
    out = str(tmp_path / "README.md")
    code, said, _ = run(capsys, "card", str(reviews), "--out", out)
    assert (code, said) == (0, f"{out} is written\n")
    code, _, said = run(capsys, "card", str(reviews), "--out", out)
    assert (code, "--overwrite" in said) == (1, True)
