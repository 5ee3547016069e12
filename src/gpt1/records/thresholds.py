"""From which probability on a run gives each of several labels: `thresholds.json`."""

from __future__ import annotations

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
    """The thresholds of one task."""

    why: str  # in words
    labels: dict[str, float]  # of the run's answers, by label
    examples: Count = 0  # on which they were chosen
    words: dict[str, float] = field(default_factory=dict)  # of counted words beside it, chosen alike


@dataclass(frozen=True)
class ThresholdsRecord(Record):
    """The thresholds of each task of a run whose rows may have several labels."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-thresholds", 1, "thresholds", "from when on a run gives its labels"
    REMEDY = "bring it back from a copy, or `gpt1.finetune(resume=True)` makes it anew"

    step: Count  # of the weights that they are of
    tasks: dict[str, TaskThresholds]
    weights: str = ""  # their checksum; none for a copy whose weights are nearly the same

    def check(self, path: Path, tasks: Mapping[str, Task]) -> None:
        """Refuse what is of other tasks or labels than these, or is no probability."""
        labels = {name: set(task.labels) for name, task in tasks.items() if task.is_multilabel}
        if {name: set(one.labels) for name, one in self.tasks.items()} != labels:
            raise FormatError(f"{path} is of other labels than {path.parent}; {self.REMEDY}")
        for name, one in self.tasks.items():
            if one.words and set(one.words) != labels[name]:
                raise FormatError(f"{path} is of other labels than {path.parent}; {self.REMEDY}")
            for label, value in (*one.labels.items(), *one.words.items()):
                if not 0 <= value <= 1:
                    raise FormatError(f"{path} is damaged: the threshold of '{label}' is {value:g}; {self.REMEDY}")
