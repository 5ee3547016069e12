"""JSON as every reader takes it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gpt1.base.files import write_json
from gpt1.base.strict_json import to_json


def refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_null_wherever_they_stand(tmp_path: Path, number: float) -> None:
    value = {"a": number, "b": [1.5, number, {"c": (number, "NaN")}]}
    expected = {"a": None, "b": [1.5, None, {"c": [None, "NaN"]}]}
    assert json.loads(to_json(value), parse_constant=refuse) == expected
    write_json(tmp_path / "value.json", value)
    assert json.loads((tmp_path / "value.json").read_bytes(), parse_constant=refuse) == expected


def test_all_else_is_written_as_pythons_own_json_writes_it() -> None:
    value = {"b": [1, 2.5, None, True, "é"], "a": {}}
    for how in ({}, {"indent": 1}, {"ensure_ascii": False, "sort_keys": True}):
        assert to_json(value, **how) == json.dumps(value, **how)
