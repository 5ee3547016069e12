"""Counting words on all the labels of tasks: the figures that README and docs/studies.md show beside ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpt1.studies.baseline import score_by_words


# As README and docs/studies.md have them.
@pytest.mark.parametrize(
    ("name", "figure"),
    [("rte", 63.9), ("stsb", 80.6), ("storycloze", 69.0), pytest.param("sst2", 81.6, marks=pytest.mark.slow)],
)
def test_it_is_strong_on_real_tasks(data: Path, name: str, figure: float) -> None:
    ((split, _, found),) = score_by_words(name, data / "tasks")
    assert split == "dev"
    assert 100 * next(iter(found.values())) == pytest.approx(figure, abs=0.3)


def test_by_itself_it_tells_the_score_of_each_task(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        rows = [{"text": text, "label": label} for text, label in [("a fine film", 1), ("a poor film", 0)] * 4]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "gpt1.studies.baseline", str(tmp_path), "sst2"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "sst2 dev, 8 rows: accuracy 100.0\n"
