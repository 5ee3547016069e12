"""How sure the answers of a run are to be, and what is known of how often they are wrong: `calibration.json`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart, Size
from gpt1.tasks.promises import Surenesses
from gpt1.tasks.temperature import COLDEST, HOTTEST

CALIBRATION_FILE = "calibration.json"


@dataclass(frozen=True)
class TaskCalibration(RecordPart):
    """How sure the answers to one task are to be."""

    why: str  # in words
    temperature: float = 1.0
    examples: Count = 0  # on which it was fitted
    seen: Surenesses | None = None  # before the temperature, of examples for dev that chose the epoch and who answers
    kept: Surenesses | None = None  # of those that chose nothing


@dataclass(frozen=True)
class CalibrationRecord(Record):
    """How sure the answers to each task of a run are to be."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-calibration", 1, "calibration", "how sure the answers of a run are"
    REMEDY = "bring it back from a copy, or `gpt1.finetune(resume=True)` makes it anew"

    step: Count  # of the weights that it is of
    tasks: dict[str, TaskCalibration]
    seeds: Size = 1  # of which the run is the best on dev
    weights: str = ""  # their checksum; none for a copy whose weights are nearly the same

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path, remedy: str = "") -> Self:
        """Return what a file holds, whose temperatures are such as are fitted."""
        found = super().from_json(value, path, remedy)
        for name, one in found.tasks.items():
            if not COLDEST - 1e-6 <= one.temperature <= HOTTEST:
                problem = f"the temperature of '{name}' is {one.temperature:g}"
                raise FormatError(f"{path} is damaged: {problem}; {remedy or cls.REMEDY}")
        return found

    def without_promises(self) -> Self:
        """Return it without what is known of how often answers are wrong, for weights that are nearly the same."""
        return replace(
            self, weights="", tasks={name: replace(one, seen=None, kept=None) for name, one in self.tasks.items()}
        )
