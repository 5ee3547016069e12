"""From which probability on a run gives each of several labels, and the factors of classes: `thresholds.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart
from gpt1.tasks.catalog import Task

THRESHOLDS_FILE = "thresholds.json"


@dataclass(frozen=True)
class TaskThresholds(RecordPart):
    """The thresholds of one task, or where each row has one label the factors of its classes."""

    why: str  # in words
    labels: dict[str, float]  # of the run's answers, by label; factors are of probabilities before any temperature
    examples: Count = 0  # on which they were chosen
    words: dict[str, float] = field(default_factory=dict)  # of counted words beside it, chosen alike


@dataclass(frozen=True)
class ThresholdsRecord(Record):
    """The thresholds of each task of a run that has them: of several labels a row, or of classes with factors."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-thresholds", 1, "thresholds", "from when on a run gives its labels"
    REMEDY = "bring it back from a copy, or `gpt1.finetune(resume=True)` makes it anew"

    step: Count  # of the weights that they are of
    tasks: dict[str, TaskThresholds]
    weights: str = ""  # their checksum; none for a copy whose weights are nearly the same

    def check(self, path: Path, tasks: Mapping[str, Task]) -> None:
        """Refuse what is of other tasks or labels than these, or is no probability, or of classes no factor."""
        labels = {name: set(task.labels) for name, task in tasks.items() if task.has_thresholds}
        if {name: set(one.labels) for name, one in self.tasks.items()} != labels:
            raise FormatError(f"{path} is of other labels than {path.parent}; {self.REMEDY}")
        for name, one in self.tasks.items():
            if one.words and set(one.words) != labels[name]:
                raise FormatError(f"{path} is of other labels than {path.parent}; {self.REMEDY}")
            what, is_sound = ("factor", _is_factor) if tasks[name].class_factors else ("threshold", _is_threshold)
            for label, value in (*one.labels.items(), *one.words.items()):
                if not is_sound(value):
                    raise FormatError(f"{path} is damaged: the {what} of '{label}' is {value:g}; {self.REMEDY}")


def _is_threshold(value: float) -> bool:
    return 0 <= value <= 1


def _is_factor(value: float) -> bool:
    return 0 < value < math.inf
