"""What the tour found: printed, and the opening of the report's page."""

from __future__ import annotations

import statistics

from gpt1.base.wording import hundred, x100
from gpt1.demo.recipe import NETWORK
from gpt1.demo.tasks import OTHER
from gpt1.demo.tour import TourResult
from gpt1.documents.blocks import (
    SCORE_SPAN,
    Block,
    Curve,
    CurvePlot,
    Note,
    Picture,
    Pictures,
    Section,
    Table,
    TableCell,
    TableRow,
)

TITLE = "Pre-training first, then learning from few labels"
HEADER = ("chance", "TF-IDF", "from scratch", "pre-trained", "unseen names, forms")


def opening(found: TourResult) -> Section:
    """Return the section with which the report of the tour begins."""
    shapes = [row.shape for row in found.tasks]
    rows = []
    for (name, cells), note in zip(_figures(found), [*shapes, ""], strict=True):
        best = max(cells[: len(HEADER) - 1], key=float)  # of all that answered the same rows
        own = [TableCell(cell, is_best=cell == best and place < len(HEADER) - 1) for place, cell in enumerate(cells)]
        rows.append(TableRow(name, own, note))
    labels, tested = found.rows["train"], found.rows["test"]
    caption = f"Accuracy x 100 on {tested:,} test rows{_of_seeds(found)}; {labels} labels a task."
    gain, *legend = _legend(found)
    blocks: list[Block] = [
        Note(gain, leads=True),
        Table(caption, ["task", *HEADER], rows),
        *(Note(line) for line in legend),
        Pictures([_growth(found)]),
    ]
    lead = (
        "A small network was pre-trained on made-up stories, then learned four tasks about others, each from a few "
        "hundred labels. The same network learned them from scratch beside it. No test story, and nobody with the "
        "trade of a test, stands in the text of the pre-training."
    )
    return Section("demo", "What pre-training brings", lead, blocks)


def _figures(found: TourResult) -> list[tuple[str, tuple[str, ...]]]:
    """Return each task's name and figures x 100, and their averages."""
    values = {
        row.title: (
            row.chance,
            row.words["test"],
            row.scratch["test"],
            row.pretrained["test"],
            row.pretrained[OTHER],
        )
        for row in found.tasks
    }
    values["average"] = tuple(map(statistics.fmean, zip(*values.values(), strict=True)))  # type: ignore[assignment]
    return [(name, tuple(map(hundred, own))) for name, own in values.items()]


def _legend(found: TourResult) -> list[str]:
    return [
        f"Pre-training brings {found.gain:.1f} points on average{_of_seeds(found)}: the same network, labels and "
        "number of updates, each way with its own best rate.",
        f"TF-IDF: counted words and logistic regression. Unseen: {found.rows[OTHER]} rows with people and sentence "
        "forms that the labelled examples never have.",
        NETWORK,
    ]


def _of_seeds(found: TourResult) -> str:
    return ", one seed" if found.seeds == 1 else f", medians of {found.seeds} seeds"


def _growth(found: TourResult) -> Picture:
    steps = [int(step) for step in found.zero_shot]
    tasks = list(next(iter(found.zero_shot.values())))
    curves = {task: Curve(steps, [x100(scores[task]) for scores in found.zero_shot.values()]) for task in tasks}
    last = ", ".join(f"{task} {curve.values[-1]:.1f}" for task, curve in curves.items())
    return Picture(
        CurvePlot(curves, "accuracy without labels", SCORE_SPAN),
        f"Accuracy without labels against updates of pre-training; at the end: {last}.",
        "What the network knows without labels while it is pre-trained: the likelier of two texts is its answer.",
    )
