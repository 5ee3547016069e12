"""What a study found, in lines for a person: figures x 100, as the paper writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpt1.records.study import StudyRecord


def describe(study: StudyRecord) -> list[str]:
    """Return what was found, section by section."""
    cells, sections = study.cells, study.sections
    lines: list[str] = []
    for name, writer in _WRITERS.items():
        if name in sections and (found := list(writer(sections[name]))):
            lines += ["", *found] if lines else found
    if cells.done < cells.planned:
        lines.append(f"{cells.done:,} of {cells.planned:,} cells are done; the same command goes on")
    return lines


def hundred(value: float | None) -> str:
    """Return a score (0 to 1) as the paper writes it."""
    return "-" if value is None else f"{100 * value:.1f}"


def spread(figure: Mapping[str, Any]) -> str:
    """Return a median and, of several seeds, its worst and best: 61.4 (58.9 to 62.0)."""
    if len(figure["seeds"]) == 1:
        return hundred(figure["median"])
    return f"{hundred(figure['median'])} ({hundred(figure['worst'])} to {hundred(figure['best'])})"


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines whose columns stand below each other."""
    listed = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in listed]


def _tables(section: Mapping[str, Any]) -> Iterator[str]:
    for name, rows in section["tables"].items():
        if rows:
            yield section["titles"][name]
            header = ["task", "split", "metric", "ours", "paper", "best before"]
            cells = [
                [
                    row["task"],
                    row["split"],
                    row["metric"],
                    spread(row),
                    f"{row['paper_percent']:.1f}",
                    f"{row['previous_percent']:.1f}",
                ]
                for row in rows
            ]
            yield from aligned([header, *cells])


def _zeroshot(section: Mapping[str, Any]) -> Iterator[str]:
    header = ["zero-shot", "run", "updates", "score", "normalised", "best on the way"]
    rows = [
        [task, run, f"{last['step']:,}", hundred(last["score"]), _plain(last["normalised"]), hundred(best)]
        for task, facts in section["tasks"].items()
        for run, points in facts["runs"].items()
        if points
        for last, best in [(points[-1], max(point["score"] for point in points))]
    ]
    if rows:
        yield from aligned([header, *rows])


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ablations(section: Mapping[str, Any]) -> Iterator[str]:
    if not section["tasks"]:
        return
    tasks = list(section["tasks"])
    rows = [["", "average", *tasks]]
    for arm, name in section["arms"].items():
        average = section["average"][arm]
        scored = [section["tasks"][task].get(arm) for task in tasks]
        rows.append([name, hundred(average and average["median"]), *(spread(one) if one else "-" for one in scored)])
        theirs = section["paper_percent"][arm]
        known = average["paper_percent"] if average else None
        shown = [f"{theirs[task]:.1f}" if task in theirs else "-" for task in tasks]
        rows.append(["  the paper's", "-" if known is None else f"{known:.1f}", *shown])
    yield from aligned(rows)


def _differences(section: Mapping[str, Any]) -> Iterator[str]:
    if section["pairs"]:
        header = ["in pairs", "", "difference", "95 %"]
        yield from aligned([header, *(_pair(one["task"], one) for one in section["pairs"])])


def _pair(place: str, one: Mapping[str, Any]) -> list[str]:
    low, high = (f"{100 * one[end]:+.1f}" for end in ("low", "high"))
    over = f"{one['arm']} over {one['over']}"
    return [f"{place} {one['split']}", over, f"{100 * one['difference']:+.1f}", f"{low} to {high}"]


def _transfer(section: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [task, str(point["layers"]), spread(point)]
        for task, facts in section["tasks"].items()
        for point in facts["points"]
    ]
    if rows:
        yield from aligned([["task", "blocks taken over", "score"], *rows])


def _labels(section: Mapping[str, Any]) -> Iterator[str]:
    for task, facts in section["tasks"].items():
        counts = sorted({point["labels"] for points in facts["arms"].values() for point in points})
        if not counts:
            continue
        rows = [[f"{task}, {facts['metric']}", *(f"{count:,} labels" for count in counts)]]
        for arm, points in facts["arms"].items():
            found = {point["labels"]: spread(point) for point in points}
            rows.append([section["arms"][arm], *(found.get(count, "-") for count in counts)])
        yield from aligned(rows)
        if facts["differences"]:
            yield from aligned([_pair(f"{one['labels']:,} labels,", one) for one in facts["differences"]])


_WRITERS = {
    "tables": _tables,
    "zeroshot": _zeroshot,
    "ablations": _ablations,
    "differences": _differences,
    "transfer": _transfer,
    "labels": _labels,
}
