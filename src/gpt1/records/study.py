"""What a study keeps: of each cell `cell.json`, of all together `study.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart, Seconds


class CellFigures(TypedDict):
    """What a cell found; each kind of study has further figures of its own."""

    score: float
    scores: NotRequired[dict[str, dict[str, float]]]  # by split and metric
    metrics: NotRequired[dict[str, float]]
    curve: NotRequired[list[dict[str, float]]]
    device: NotRequired[str]
    notes: NotRequired[list[str]]


@dataclass(frozen=True)
class CellRecord(Record):
    """A cell that is done: what decided the result, the result, and how long it took."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-cell", 1, "cell", "a cell of a study"

    name: str
    inputs: dict[str, Any]
    result: CellFigures
    seconds: Seconds


@dataclass(frozen=True)
class CellCounts(RecordPart):
    """How many cells are done, of how many."""

    done: Count
    planned: Count


@dataclass(frozen=True)
class Cost(RecordPart):
    """What the cells that are done took."""

    seconds: Seconds
    devices: list[str]


@dataclass(frozen=True)
class StudyRecord(Record):
    """What was asked, what a person was told, and what was found: sections by name, as a report draws them."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-study", 2, "study", "a study"
    REMEDY = "the study's command writes it anew"

    kind: str
    about: dict[str, Any]
    cells: CellCounts
    cost: Cost
    notes: list[str]
    sections: dict[str, dict[str, Any]]
