"""What one seed of a fine-tuning gave (`result.json`), and what several gave together (`seeds.json`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record

RESULT_FILE, SEEDS_FILE = "result.json", "seeds.json"
SEED_FOLDER = re.compile(r"seed-(\d+)")

Scores = dict[str, dict[str, dict[str, float]]]  # by task, split and metric


@dataclass(frozen=True)
class SeedResult(Record):
    """What a run gave that was trained and measured to the end."""

    NAME, WHAT = "result", "a result"

    scores: Scores


@dataclass(frozen=True)
class SeedsResult(Record):
    """What several seeds gave, and which was kept."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-seeds", 1, "result of several seeds", "the result of several seeds"
    REMEDY = "`gpt1.finetune(resume=True)` writes it anew"

    best: str  # its folder
    seeds: dict[str, dict[str, float]]  # by folder and `task split metric`
    summary: dict[str, dict[str, float]]

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path, remedy: str = "") -> Self:
        """Return what a file holds, which never leads out of its folder."""
        found = super().from_json(value, path, remedy)
        if not SEED_FOLDER.fullmatch(found.best):
            raise FormatError(f"{path} is damaged: best is {found.best!r}, expected the folder of a seed")
        return found
