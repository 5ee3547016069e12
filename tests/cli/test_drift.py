from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpt1.cli.app import main

WORLD = Path(__file__).parent.parent / "golden" / "formats" / "world"


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([*arguments, "--device", "cpu"])
    return int(exit_.value.code or 0)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """Forty rows as the run has learned them, and forty that are three times as long."""
    rows = [line.split(",")[0] for line in (WORLD / "reviews.csv").read_text().splitlines()[1:]]
    paths = []
    for name, times in (("known", 1), ("long", 3)):
        path = tmp_path / f"{name}.csv"
        path.write_text("text\n" + "".join(" ".join([text] * times) + "\n" for text in [*rows, *rows][:40]))
        paths.append(str(path))
    return paths[0], paths[1]


def test_a_change_is_told_with_its_own_exit_code(
    tables: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    known, long = tables
    run = str(WORLD / "runs" / "reviews")
    assert call("drift", run, long, "--reference", known) == 1
    assert "what comes in has changed: texts are longer" in capsys.readouterr().out
    again = tmp_path / "again.csv"
    again.write_text(Path(known).read_text())
    assert call("drift", run, str(again), "--reference", known, "--json") == 0
    assert json.loads(capsys.readouterr().out)["has_changed"] is False


def test_without_rows_to_hold_against_the_option_is_named(
    tables: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("drift", str(WORLD / "runs" / "reviews"), tables[0]) == 1
    assert "--reference" in capsys.readouterr().err
    assert call("drift", str(WORLD / "runs" / "books"), tables[0]) == 2
    assert "has learned no task" in capsys.readouterr().err
