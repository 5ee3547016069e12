"""Scores of studies: figures x 100 as the paper has them, lines with their spread, differences in pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpt1.base.wording import many
from gpt1.documents.blocks import SCORE_SPAN, LinePlot, Picture, Point, Table, TableCell, TableRow
from gpt1.documents.figures import MINUS, metric_name
from gpt1.tasks.assessment import RESAMPLES

SPOKEN = 12  # points of a line that are read out one by one
IN_PAIRS = (
    f"In pairs: examples are drawn with replacement {RESAMPLES:,} times, the same for both; below a difference is its "
    "95 % interval."
)

Content = Mapping[str, Any]


def hundred(value: float | None) -> str:
    """Return a score (0 to 1) as the paper writes it."""
    return "–" if value is None else f"{100 * value:.1f}".replace("-", MINUS)


def spread(figure: Content) -> str:
    """Return between which values several seeds lie."""
    return f"{hundred(figure['worst'])} to {hundred(figure['best'])}" if len(figure["seeds"]) > 1 else ""


def over(figures: Iterable[Content], what: str = "seed") -> str:
    """Return what a figure is of its seeds: their median, or the only one."""
    return f"median over {what}s" if any(len(figure["seeds"]) > 1 for figure in figures) else f"one {what}"


def judged_on(figure: Content) -> str:
    """Return on what a figure stands: dev, 277 examples."""
    return f"{' and '.join(figure['splits'])}, {many(figure['examples'], 'example')}"


def verdict(low: float, high: float, *, is_better: bool) -> str:
    """Return what the interval of a difference says."""
    if low == high == 0:
        return "the same"
    if low <= 0 <= high:
        return "could be chance"
    return ("better" if is_better else "worse") + ", beyond chance"


def points_of(points: Iterable[Content], x: str) -> list[Point]:
    """Return medians with worst and best as points of a line."""
    return [Point(float(one[x]), 100 * one["median"], 100 * one["worst"], 100 * one["best"]) for one in points]


def picture(
    title: str, lines: dict[str, list[Point]], x: str, value: str, *, log: bool = False, levels: Sequence[float] = ()
) -> Picture:
    """Return a picture of lines, with all of them in words."""
    plot = LinePlot(lines, x, value, log, levels, least_span=0 if levels else 100 * SCORE_SPAN)
    spoken = "; ".join(f"{name}: {_told(points)}" for name, points in lines.items())
    return Picture(plot, f"{title}, {value} by {x}: {spoken}", title)


def _told(points: Sequence[Point]) -> str:
    shown = points if len(points) <= SPOKEN else [points[0], points[-1]]
    return ", ".join(f"{point.value:.4g} at {point.x:,.0f}" for point in shown)


def pairs_table(
    caption: str, pairs: Sequence[Content], place: Callable[[Content], str], arms: Mapping[str, str]
) -> Table:
    """Return differences with their intervals."""
    rows = []
    for one in pairs:
        note = f"{place(one)} {metric_name(one['metric'])}, {many(one['examples'], 'example')}"
        name = f"{arms[one['arm']]} over {arms[one['over']]}"
        rows.append(judged_row(name, note, one["difference"], one["low"], one["high"], signed_hundred))
    return judged_table(caption, rows)


def judged_row(
    name: str, note: str, value: float, low: float, high: float, written: Callable[[float], str]
) -> TableRow:
    """Return a difference with its interval, and what that says."""
    said = verdict(low, high, is_better=value > 0)
    cells = [TableCell(written(value), note=f"{written(low)} to {written(high)}"), TableCell(said, is_number=False)]
    return TableRow(name, cells, note)


def judged_table(caption: str, rows: list[TableRow]) -> Table:
    """Return differences, and how they were judged."""
    return Table(f"{caption} {IN_PAIRS}".strip(), ["difference", "by", "verdict"], rows)


def signed_hundred(value: float) -> str:
    """Return a difference of scores: +4.4."""
    return f"{100 * value:+.1f}".replace("-", MINUS)


def numbers_beside(name: str, lines: Iterable[Sequence[Point]]) -> str:
    """Return where the numbers of pictures are, and what the band around a line is, where there is one."""
    banded = any(point.low < point.high for points in lines for point in points)
    band = "The band around a line goes from the worst seed to the best. " if banded else ""
    return f"{band}The numbers are in {name}.csv of the study."


def best_of(values: Iterable[float]) -> float | None:
    """Return the best of several values, None where there is nothing to choose."""
    found = set(values)
    return max(found) if len(found) > 1 else None
