"""Records and logs of ours as plain values, without their checksums; written back so, they are as made before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpt1.base.records import LINE_SEAL, SEAL


def facts_in(path: Path) -> dict[str, Any]:
    """Return what a record holds."""
    return {name: value for name, value in json.loads(path.read_bytes()).items() if name != SEAL}


def lines_in(path: Path) -> list[dict[str, Any]]:
    """Return what the lines of a log hold."""
    lines = map(json.loads, path.read_bytes().splitlines())
    return [{name: value for name, value in line.items() if name != LINE_SEAL} for line in lines]
