"""Texts for corpora that several processes make together, and how what they made is compared."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Any

from gpt1.base.progress import Silent
from tests.conftest import make_text

# Of `write_texts`; small batches and lots, so that there are many of them, are set where they are cut.
SETTINGS: dict[str, Any] = {"field": "text", "valid": 0.1, "shard_tokens": 5_000, "workers": 1}
DROPPED = {"empty": 2, "exact duplicate": 4, "near duplicate": 1}
SMALL_BATCH, SMALL_LOT = 3_000, 8_000


def write_texts(folder: Path) -> Path:
    """Write files of all sizes, one as large as the others together, with copies far from each other."""
    folder.mkdir()
    documents = [make_text(60, seed) for seed in range(30)]
    repeated = [documents[3], documents[20], documents[7].replace("Ann", "Eve", 2)]
    for number, group in enumerate([documents[:3], documents[3:8], [*repeated, "", " "], documents[8:]]):
        lines = [json.dumps({"text": text}) + "\n" for text in group]
        (folder / f"{number}.jsonl").write_text("".join(lines))
    for number in range(5):
        (folder / f"{number}.txt").write_text(make_text(40, 100 + number % 3))
    return folder


def assert_same_folder(a: Path, b: Path) -> None:
    """Compare all files of two folders, byte by byte."""
    names = sorted(path.name for path in a.iterdir())
    assert names == sorted(path.name for path in b.iterdir())
    assert filecmp.cmpfiles(a, b, names, shallow=False) == (names, [], [])


class Said(Silent):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Remember a line."""
        self.lines.append(line)
