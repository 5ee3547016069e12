"""How a fine-tuned run answered the examples of a split: `evaluation-TASK-SPLIT.json` and its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart
from gpt1.tasks.assessment import Assessment
from gpt1.tasks.unknowns import Unknown


@dataclass(frozen=True)
class Cut(RecordPart):
    """How many examples lost tokens to fit the context, and how many those were."""

    examples: Count
    tokens: Count | None = None


@dataclass(frozen=True)
class RecordedTable(RecordPart):
    """A table that was measured on."""

    file: str
    sha256: str


@dataclass(frozen=True)
class InTrain(RecordPart):
    """Examples that stand in train too, which flatters the score."""

    examples: Count
    metrics: dict[str, float]  # without them; none where there are no others


@dataclass(frozen=True)
class Tempered(RecordPart):
    """What the temperature of answers did."""

    temperature: float
    ece_before: float  # the expected calibration error without it


@dataclass(frozen=True, kw_only=True)
class Prediction(RecordPart):
    """A line of `predictions-TASK-SPLIT.jsonl`: what was answered to an example."""

    index: Count | None = None
    label: str | float | None
    prediction: str | float
    probabilities: dict[str, float] | None = None  # by class or choice
    scores: list[float] | None = None  # of each reading, by a model that never learned the task


@dataclass(frozen=True, kw_only=True)
class _Measured(Record):
    """What was measured."""

    task: str
    split: str
    step: Count
    unlabelled: Count  # examples that do not count
    context: Count = 0
    cut: Cut
    windows: Count = 0  # that a text is read in at most, where some are read in several
    unknown: Unknown | None = None  # what the vocabulary does not have, where that was counted
    table: RecordedTable | None = None
    words: dict[str, float] | None = None  # the metrics of counting words on the same examples
    by: str = ""  # what these are of, where it is not counted words
    tempered: Tempered | None = None  # where answers have a temperature
    in_train: InTrain | None = None  # where some of the examples stand in train too


@dataclass(frozen=True, kw_only=True)
class Evaluation(Assessment, _Measured):
    """What was measured, and what was found."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-evaluation", 1, "evaluation", "an evaluation"
    REMEDY = "gpt1 evaluate writes it anew"

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path, remedy: str = "") -> Self:
        """Return what a file holds, whose table of answers has a row and a column for each class."""
        found = super().from_json(value, path, remedy)
        table = found.confusion
        if table is not None and table.pairs is None:
            sizes = {len(table.labels), len(table.counts), len(found.classes), *map(len, table.counts)}
            if len(sizes) > 1:
                problem = "the table of answers is not as wide as there are labels"
                raise FormatError(f"{path} is damaged: {problem}; {remedy or cls.REMEDY}")
        return found

    @property
    def yardstick(self) -> str:
        """What the run is held against."""
        return self.by or "counting words"

    def unknown_notices(self) -> list[str]:
        """Return what a person is told of text that the vocabulary does not have."""
        return [] if self.unknown is None else self.unknown.notice(self.examples + self.unlabelled)
