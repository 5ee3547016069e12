"""Rows of a small world that an estimator learns in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpt1 import GPTClassifier

WHO = ("Ann", "Tom", "Dr. Wu", "the cat", "somebody", "Mr. Brown")
GLAD, SAD = ("sold", "was given", "carried"), ("lost", "couldn't find", "dreamt of")

TEXTS = [f"{who} {deed} nothing" for who in WHO for deed in GLAD + SAD]
MOODS = ["glad" if deed in GLAD else "sad" for _ in WHO for deed in GLAD + SAD]
PAIRS = [(text, "the cat lost 3 apples") for text in TEXTS]
SCORES = [3 * float(deed in GLAD) + number / 10 for number, _ in enumerate(WHO) for deed in GLAD + SAD]

# The network alone: what counted words add is told apart from it in tests of its own.
ENOUGH: dict[str, Any] = {"recipe": "finetune", "epochs": 14, "lr": 1e-2, "batch": 12, "device": "cpu"}


def hasty(trained: Path | str, **arguments: Any) -> GPTClassifier:
    """Return a classifier that makes one update, for where it does not matter what it learns."""
    return GPTClassifier(
        trained, **{"recipe": "finetune", "settings": {"training.steps": 1}, "device": "cpu", **arguments}
    )
