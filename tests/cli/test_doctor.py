"""`gpt1 doctor` prints the page, or the same as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.cli.app import main

TEXT = "A short text about nothing in particular, in one file.\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments, "--workers", "1"])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def test_it_prints_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    code, out, _ = run(capsys, str(tmp_path))
    assert code == 0
    assert out.startswith("Text\n----\n")
    assert "Verdict" in out


def test_json_is_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    code, out, _ = run(capsys, str(tmp_path / "a.txt"), "--json", "--against", str(tmp_path / "a.txt"))
    assert code == 0
    report = json.loads(out)
    assert report["text"]["words"] == len(TEXT.split())
    assert report["leakage"]["files"][0]["examples_contained"] == 1


def test_errors_are_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").write_text("")
    code, out, err = run(capsys, str(tmp_path / "empty.txt"))
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no text to examine")
    assert run(capsys)[0] == 2
