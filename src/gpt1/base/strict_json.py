"""JSON that every reader takes: a number that JSON does not have (not a number, infinity) is written as null."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(value: Any, **how: Any) -> str:
    """Return a value as JSON; `how` is what `json.dumps` takes besides."""
    try:
        return json.dumps(value, allow_nan=False, **how)
    except ValueError:  # there is such a number somewhere; seldom, so it is looked for only now
        return json.dumps(finite(value), allow_nan=False, **how)


def finite(value: Any) -> Any:
    """Return a value with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
