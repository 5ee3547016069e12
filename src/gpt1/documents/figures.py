"""Figures, names and texts as a document writes them."""

from __future__ import annotations

import re

from gpt1.base.errors import printable
from gpt1.base.wording import hundred, shortened, x100
from gpt1.documents.blocks import TableCell

LONGEST_TEXT = 600  # characters of a sample or a mistake
LONGEST_NAME = 60  # of a run, a label, a setting
MINUS = "\u2212"
# All but tabs and line ends; also those that turn the direction of whatever stands after them on the page.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def figure(value: float) -> str:
    """Return what is no share, such as a loss: 0.620."""
    return f"{value:.3f}".replace("-", MINUS)


def signed(value: float) -> str:
    """Return an error of what is no share: +0.044."""
    return f"{value:+.3f}".replace("-", MINUS)


def score(value: float) -> str:
    """Return a score (0 to 1), x 100 as the paper has it: 62.0."""
    return hundred(value).replace("-", MINUS)


def signed_score(value: float) -> str:
    """Return a difference of scores: +4.4."""
    return f"{x100(value):+z.1f}".replace("-", MINUS)


def between(interval: tuple[float, float]) -> str:
    """Return the interval of a score: 54.0 to 69.4."""
    return f"{score(interval[0])} to {score(interval[1])}"


def rough(count: float) -> str:
    """Return a large number as one says it: 14.1 M."""
    for unit, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f}"


def metric_name(metric: str) -> str:
    """Return a metric's name as a person writes it."""
    names = {
        "f1": "F1",
        "matthews": "Matthews",
        "pearson": "Pearson",
        "spearman": "Spearman",
        "micro_f1": "micro F1",
        "macro_f1": "macro F1",
        "exact_match": "all labels right",
        "span_f1": "span F1",
    }
    name, slash, group = metric.partition("/")
    return names.get(name, name.replace("_", " ")) + (f" ({group})" if slash else "")


def number(value: float) -> TableCell:
    """Return a cell for what is no share."""
    return TableCell(figure(value))


def share(value: float) -> TableCell:
    """Return a cell for a score."""
    return TableCell(score(value))


def shown_text(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text that a document can hold: not too long, and without characters that are none."""
    shown = without_controls(text)
    return shown if len(shown) <= most else shortened(shown, most - 1)


def without_controls(text: str) -> str:
    """Return a text that can do nothing to a page or a terminal but to be read."""
    return _CONTROL.sub("\ufffd", printable(text))
