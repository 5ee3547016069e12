"""Knowledge distillation: runs as teachers, whose answers a smaller network learns besides those of its data.

A student's loss is (1 - weight) x that of the data + weight x T^2 KL(p || q), where p and q are what teachers and
student answer at the temperature T (Hinton et al., 2015). Of several teachers p is the mean. Of a task the entropy of p
is left in, a constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from gpt1.base.errors import SettingError
from gpt1.base.wording import many, some
from gpt1.bases.catalog import lasting_name
from gpt1.inference.run import Run, load_run
from gpt1.records.run import RecordedTeacher, RecordedTeaching, RecordedTexts

WEIGHT, TEMPERATURE = 0.5, 2.0


@dataclass(frozen=True)
class Teaching:
    """Who teaches, how much of that is learned, and how soft answers are made."""

    teachers: tuple[str | Path, ...]
    weight: float = WEIGHT
    temperature: float = TEMPERATURE

    def __post_init__(self) -> None:
        if not self.teachers:
            raise SettingError("who teaches? Name a run, or several, with `teachers`")
        if not 0 < self.weight <= 1:
            raise SettingError(f"the weight of what teachers say is above 0 and at most 1, not {self.weight:g}")
        if not 0 < self.temperature < float("inf"):
            raise SettingError(
                f"a temperature is above 0, not {self.temperature:g}; at 1 answers are taken as they are"
            )

    def opened(self, device: torch.device) -> list[Run]:
        """Return the teachers' runs."""
        return [load_run(teacher, device=str(device)) for teacher in self.teachers]

    def recorded(self, runs: Iterable[Run], texts: RecordedTexts | None = None) -> RecordedTeaching:
        """Return what a student's run says of its teachers, which are open, and of texts that only they answered."""
        teachers = [RecordedTeacher(lasting_name(run.path), str(run.checkpoint.weights_hash)) for run in runs]
        return RecordedTeaching(teachers, self.weight, self.temperature, texts)


def require_same_teaching(run: Path, begun: RecordedTeaching | None, now: RecordedTeaching | None) -> None:
    """Refuse to go on with a run that others taught, or in another way; a teacher may have been moved."""
    if _decisive(begun) == _decisive(now):
        return
    raise SettingError(
        f"{run} was begun {_in_words(begun)}, and {_in_words(now)} now: a run goes on as it was begun; name the same, "
        f"or begin a new run with `init={str(run)!r}`"
    )


def _decisive(taught: RecordedTeaching | None) -> object:
    if taught is None:
        return None
    texts = taught.texts and taught.texts.identity
    return [teacher.weights for teacher in taught.teachers], taught.weight, taught.temperature, texts


def _in_words(taught: RecordedTeaching | None) -> str:
    return "without a teacher" if taught is None else f"with {taught_in_words(taught)}"


def taught_in_words(taught: RecordedTeaching, *, paths: bool = True) -> str:
    """Return who taught a run, and how; where they lay is told with `paths` alone."""
    names = some([teacher.run if paths else Path(teacher.run).name for teacher in taught.teachers])
    who = "the teacher" if len(taught.teachers) == 1 else "the teachers"
    on = ""
    if taught.texts is not None:
        file = taught.texts.path if paths else Path(taught.texts.path).name
        on = f" on the labelled rows and {many(taught.texts.rows, 'text')} of {file}"
    return f"{who} {names}{on} (weight {taught.weight:g}, temperature {taught.temperature:g})"


def teachers_hashes(taught: RecordedTeaching | None) -> dict[str, str]:
    """Return what tells teachers' weights from all others, if there are teachers."""
    return {} if taught is None else {"the teachers": ", ".join(teacher.weights for teacher in taught.teachers)}
