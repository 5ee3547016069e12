"""What the sheets about labels have in common: which tasks they are for, and a row's texts as cells."""

from __future__ import annotations

from gpt1.base.errors import SettingError
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import CHOICES


def require_one_label(task: Task) -> None:
    """Refuse a task whose rows have scores, or several labels: there is no one class that a row is taken for."""
    if task.score_range is not None:
        raise SettingError(
            f"'{task.name}' has scores, and this is for labels; gpt1 evaluate shows the rows whose scores are furthest "
            "from the answers"
        )
    if task.is_multilabel:
        raise SettingError(
            f"'{task.name}' has several labels a row, and this is for one; make a table for a label (has it, has it "
            "not), and a run of that one"
        )


def text_cells(task: Task, example: Example) -> dict[str, object]:
    """Return the texts of a row by the names of their columns."""
    if task.shape != CHOICES:
        return dict(zip(task.fields, example.texts, strict=True))
    *asked, answers = task.fields
    return {**dict(zip(asked, example.texts, strict=False)), answers: list(example.texts[2:])}
