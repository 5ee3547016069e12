"""A kind of file as a value: read, written, versions, what is not known, what is left out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import RecordPart
from tests.records import facts_in


@dataclass(frozen=True)
class Span(RecordPart):
    """A part whose key is a word of Python's own."""

    from_: int
    to: int | None = None


@dataclass(frozen=True)
class Trip(Record):
    """A file of some version."""

    FORMAT, VERSION, NAME, WHAT, REMEDY = "gpt1-trip", 3, "trip", "a trip", "travel again"

    name: str
    spans: list[Span]
    stops: dict[str, int] = field(default_factory=dict)


TRIP = Trip("north", [Span(1), Span(2, 3)])
KEPT = {"format": "gpt1-trip", "version": 3, "name": "north", "spans": [{"from": 1}, {"from": 2, "to": 3}]}


def test_what_was_written_is_read_and_what_has_its_default_is_left_out(tmp_path: Path) -> None:
    TRIP.write(tmp_path / "trip.json")
    assert list(facts_in(tmp_path / "trip.json").items()) == list(KEPT.items())
    assert Trip.read(tmp_path / "trip.json") == TRIP


def test_what_a_later_version_wrote_besides_is_passed_over(tmp_path: Path) -> None:
    later = {**KEPT, "weather": "fair", "spans": [{"from": 1, "way": "sea"}, {"from": 2, "to": 3}]}
    (tmp_path / "trip.json").write_text(json.dumps(later))
    assert Trip.read(tmp_path / "trip.json") == TRIP


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "gpt1-walk"}, "trip.json is no trip of this version of gpt1; travel again"),
        ({"version": 2}, "trip.json is no trip of this version of gpt1; travel again"),
        ({"spans": [{"to": 3}]}, r"trip.json is damaged: spans\[0\].from is missing; travel again"),
        ({"name": 3}, "trip.json is damaged: name is 3, expected a string; travel again"),
    ],
)
def test_what_is_damaged_or_of_another_version_is_refused_with_what_helps(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    (tmp_path / "trip.json").write_text(json.dumps({**KEPT, **change}))
    with pytest.raises(FormatError, match=message):
        Trip.read(tmp_path / "trip.json")
    with pytest.raises(FormatError, match=message.replace("travel again", "stay")):
        Trip.read(tmp_path / "trip.json", "stay")
