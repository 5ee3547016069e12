"""The figures of README are those of the committed file, and files of figures keep what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.results import (
    RESULTS,
    ROOT,
    Measurement,
    command,
    draw,
    interleave,
    measured,
    read,
    speeds_table,
    with_table,
)
from benchmarks.results import write as write_rows

OURS = Measurement(
    work="reading",
    machine="a machine",
    contender="gpt1",
    unit="s",
    median=2.0,
    least=1.0,
    most=3.0,
    rounds=3,
    date="2026-11-15",
    command="python -m benchmarks.reading",
    versions={"torch": "2.11"},
)
PEER = replace(OURS, contender="a peer", median=5.0)


def test_the_table_of_readme_is_made_of_the_committed_figures() -> None:
    readme = (ROOT / "README.md").read_text()
    assert with_table(readme, read(RESULTS)) == readme, "give: python -m benchmarks.results"


def test_every_committed_figure_has_a_date_and_a_command_of_a_benchmark_that_is_there() -> None:
    for row in read(RESULTS):
        assert row.date.startswith("20")
        module = row.command.removeprefix("python -m benchmarks.").split()[0]
        assert (ROOT / "benchmarks" / f"{module}.py").is_file(), row.command


def test_a_table_tells_how_many_times_as_fast_ours_is_whichever_way_it_is_measured() -> None:
    rates = [replace(OURS, unit="tokens/s", median=30_000.0), replace(PEER, unit="tokens/s", median=20_000.0)]
    assert "| a peer: 5 s | 2 s | 2.5x | 2026-11-15 |" in speeds_table([OURS, PEER])
    assert "| a peer: 20,000 tokens/s | 30,000 tokens/s | 1.5x | 2026-11-15 |" in speeds_table(rates)


def test_a_table_says_where_a_peer_was_measured_in_another_run() -> None:
    assert "another run" not in speeds_table([OURS, PEER])
    assert "| 2026-11-14, another run |" in speeds_table([OURS, replace(PEER, date="2026-11-14")])


def test_contenders_take_turns_forwards_and_backwards() -> None:
    turns: list[str] = []

    def contender(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    found = interleave({"a": lambda: contender("a"), "b": lambda: contender("b")}, rounds=3)
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_what_is_measured_keeps_the_median_the_spread_and_the_circumstances() -> None:
    (row,) = measured("reading", "s", "a machine", {"gpt1": [3.0, 1.0, 2.0]})
    assert (row.median, row.least, row.most, row.rounds) == (2.0, 1.0, 3.0, 3)
    assert row.versions["torch"]
    assert row.command.startswith("python -m benchmarks.")


def test_a_command_is_told_without_where_its_figures_went() -> None:
    given = ["/somewhere/benchmarks/text.py", "--json", "/elsewhere/a.json", "--only", "a plain GPT"]
    assert command(given) == "python -m benchmarks.text --only 'a plain GPT'"


def test_a_file_takes_new_rows_in_the_place_of_old_ones_and_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    write_rows(file, [OURS, PEER])
    write_rows(file, [replace(OURS, median=1.5)])
    assert read(file) == [replace(OURS, median=1.5), PEER]


def test_a_row_with_a_field_that_is_not_known_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"measurements": [{**vars(OURS), "mean": 1.0}]}))
    with pytest.raises(TypeError, match="mean"):
        read(file)


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    draw([OURS, PEER], tmp_path / "results.png")
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
