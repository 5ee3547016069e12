"""What counting words is worth on all the training labels of tasks: `python -m gpt1.studies.baseline DIR TASK...`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpt1.base.wording import hundred
from gpt1.linear.words import answer_by_words
from gpt1.tasks.metrics import scores
from gpt1.tasks.preparing import read_task


def score_by_words(task: str, data: str | Path) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Learn all training rows of a task; yield each of its dev splits, its number of rows and the scores on it."""
    labelled = read_task(task, data=data)
    for split in labelled.task.dev_splits:
        asked = labelled.splits[split]
        answers = answer_by_words(labelled.task, labelled.splits["train"], asked)
        yield split, len(asked), scores(labelled.task, np.array([example.label for example in asked]), answers)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        for split, rows, found in score_by_words(name, sys.argv[1]):
            shown = ", ".join(f"{metric} {hundred(score)}" for metric, score in found.items())
            print(f"{name} {split}, {rows:,} rows: {shown}")
