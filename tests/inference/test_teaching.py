"""Who teaches is known by its weights, wherever it lies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import SettingError
from gpt1.inference.teaching import Teaching, require_same_teaching, taught_in_words
from gpt1.records.run import RecordedTeacher, RecordedTeaching

CPU = torch.device("cpu")


def test_teachers_are_opened_and_recorded_by_their_weights(trained: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(trained, tmp_path / "moved"))
    teaching = Teaching((trained, moved), weight=0.25, temperature=4)
    found = teaching.recorded(teaching.opened(CPU))
    assert [teacher.run for teacher in found.teachers] == [str(trained.resolve()), str(moved.resolve())]
    assert len({teacher.weights for teacher in found.teachers}) == 1
    assert (found.weight, found.temperature) == (0.25, 4)


def test_a_run_goes_on_with_its_teachers_wherever_they_lie_now_and_with_no_others() -> None:
    begun = RecordedTeaching([RecordedTeacher("a", "11")], 0.5, 2.0)
    require_same_teaching(Path("run"), begun, RecordedTeaching([RecordedTeacher("moved", "11")], 0.5, 2.0))
    require_same_teaching(Path("run"), None, None)
    others = RecordedTeaching([RecordedTeacher("a", "22")], 0.5, 2.0), RecordedTeaching(begun.teachers, 0.5, 1.0), None
    for other in others:
        with pytest.raises(SettingError, match=r"run was begun with the teacher a \(weight 0.5, temperature 2\), and"):
            require_same_teaching(Path("run"), begun, other)


def test_a_person_is_told_who_taught() -> None:
    taught = RecordedTeaching([RecordedTeacher("small", "11"), RecordedTeacher("/b", "22")], 1.0, 1.5)
    assert taught_in_words(taught) == "the teachers small, /b (weight 1, temperature 1.5)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"teachers": ()}, "who teaches"),
        ({"weight": 0.0}, "the weight of what teachers say is above 0 and at most 1, not 0"),
        ({"weight": 1.1}, "not 1.1"),
        ({"temperature": 0.0}, "a temperature is above 0, not 0"),
        ({"temperature": float("inf")}, "not inf"),
        ({"temperature": float("nan")}, "not nan"),
    ],
)
def test_what_cannot_be_taught_is_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Teaching(**{"teachers": ("a",), **given})  # type: ignore[arg-type]
