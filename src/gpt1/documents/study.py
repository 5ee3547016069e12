"""What a study found: the paper's tables and figures, ours beside the paper's, x 100 as the paper has them.

A study wrote plain values (`studies/folder.py`); here they become tables and pictures, and nothing is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpt1.base.wording import duration, many
from gpt1.documents.blocks import (
    Block,
    Facts,
    Folded,
    Heading,
    Lines,
    Note,
    Picture,
    Pictures,
    Point,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.figures import MINUS, metric_name
from gpt1.documents.scores import (
    Content,
    best_of,
    hundred,
    judged_on,
    numbers_beside,
    over,
    pairs_table,
    picture,
    points_of,
    signed_hundred,
    spread,
)
from gpt1.records.study import StudyRecord

KINDS = {
    "zeroshot": "Tasks that were never taught, along pre-training (figure 2 right)",
    "transfer": "More and more pre-trained blocks taken over (figure 2 left)",
    "ablations": "What is lost without each part (table 5)",
    "labels": "How many labels pre-training is worth",
    "reproduce": "The paper's tables 2 to 5 and figure 2",
}


def study_blocks(study: StudyRecord) -> list[Block]:
    """Return what was found, section by section."""
    blocks: list[Block] = []
    done, planned = study.cells.done, study.cells.planned
    if done < planned:
        blocks.append(Note(f"{done:,} of {many(planned, 'cell')} are done; the same command goes on with it."))
    for part, tell in _PARTS.items():
        if part in study.sections:
            blocks += tell(study.sections[part])
    return blocks


def about_study(study: StudyRecord) -> list[Block]:
    """Return what was asked, and what a person was told on the way."""
    return [Facts(_what(study)), *([Lines(study.notes)] if study.notes else [])]


def _what(study: StudyRecord) -> list[tuple[str, str]]:
    about = study.about
    source = about.get("source") or {}
    runs = about.get("runs") or {}
    told = {
        "pre-trained run": about.get("init") or ", ".join(runs.values()),
        "LSTM": about.get("lstm"),
        "tasks": ", ".join(about.get("tasks") or source.get("tasks") or []) or source.get("train"),
        "data": about.get("data") or source.get("data"),
        "shots": about.get("shots"),
        "changed settings": ", ".join(about.get("changes") or []),
        "seeds": ", ".join(map(str, about.get("seeds") or [])),
        "cells": f"{study.cells.planned:,}",
        "hardware": ", ".join(study.cost.devices),
        "time of the cells": duration(study.cost.seconds) if study.cells.done else None,
    }
    return [(name, str(value)) for name, value in told.items() if value]


# ---- tables 2 to 5 ----


def _tables(content: Content) -> list[Block]:
    blocks: list[Block] = []
    for name, rows in content["tables"].items():
        if rows:
            header = ["task", "ours", "paper", "best before it"]
            how = over(rows).capitalize()
            caption = f"{how}, on the split below the task; the paper's are on the test sets."
            blocks += [Heading(content["titles"][name]), Table(caption, header, [_published(row) for row in rows])]
    return blocks


def _published(row: Content) -> TableRow:
    ours = 100 * row["median"]
    best = max(round(ours, 1), row["paper_percent"], row["previous_percent"])
    cells = [
        TableCell(hundred(row["median"]), note=spread(row), is_best=round(ours, 1) == best),
        TableCell(f"{row['paper_percent']:.1f}", is_best=row["paper_percent"] == best, note=row["remark"]),
        TableCell(f"{row['previous_percent']:.1f}", is_best=row["previous_percent"] == best),
    ]
    examples = many(row["examples"], "example")
    return TableRow(row["task"], cells, f"{row['split']} {metric_name(row['metric'])}, {examples}")


def _ablations(content: Content) -> list[Block]:
    tasks = content["tasks"]
    if not any(tasks.values()):
        return []
    averages = {arm: one["median"] for arm, one in content["average"].items() if one}
    best = {"average": best_of(averages.values())}
    best |= {task: best_of(figure["median"] for figure in arms.values()) for task, arms in tasks.items()}
    rows = []
    for arm, name in content["arms"].items():
        average = content["average"][arm]
        cells = [TableCell("–")]
        if average:
            theirs = "" if average["paper_percent"] is None else f"paper {average['paper_percent']:.1f}"
            cells = [TableCell(hundred(average["median"]), note=theirs, is_best=average["median"] == best["average"])]
        for task, arms in tasks.items():
            cells.append(_ablated(arms.get(arm), content["paper_percent"][arm].get(task), best[task]))
        rows.append(TableRow(name, cells))
    figures = {task: next(iter(arms.values())) for task, arms in tasks.items() if arms}
    where = "; ".join(f"{task} on {judged_on(figure)}" for task, figure in figures.items())
    between = ", below it between which values they lie, and" if any(map(spread, figures.values())) else ", below it"
    caption = (
        f"{over(figures.values()).capitalize()}{between} the paper's figure (on the test sets; its average is that of "
        f"the same tasks). Ours: {where}."
    )
    return [Heading("Ablations"), Table(caption, ["", "average", *tasks], rows)]


def _ablated(figure: Content | None, published: float | None, best: float | None) -> TableCell:
    theirs = "" if published is None else f"paper {published:.1f}"
    if figure is None:
        return TableCell("–", note=theirs)
    return TableCell(
        hundred(figure["median"]),
        note="; ".join(filter(None, [spread(figure), theirs])),
        is_best=figure["median"] == best,
    )


def _differences(content: Content) -> list[Block]:
    if not content["pairs"]:
        return []
    arms = {"full": "full", "scratch": "no pre-training", "no-lm": "no auxiliary loss", "lstm": "LSTM"}
    return [
        pairs_table(
            "The full model against each other.", content["pairs"], lambda one: f"{one['task']} {one['split']}", arms
        )
    ]


def _curves(content: Content) -> list[Block]:
    names = {"full": "with auxiliary loss", "no-lm": "without"}
    pictures: list[Picture] = []
    drawn: list[list[Point]] = []
    for task, facts in content["tasks"].items():
        lines = {names[arm]: points_of(points, "step") for arm, points in facts["arms"].items() if points}
        if lines:
            pictures.append(picture(task, lines, "updates", f"dev {metric_name(facts['metric'])}"))
            drawn += lines.values()
    if not pictures:
        return []
    title = "With and without the auxiliary loss, along fine-tuning"
    return [Heading(title), Pictures(pictures, numbers_beside("curves", drawn))]


# ---- figure 2, and few labels ----


def _zeroshot(content: Content) -> list[Block]:
    pictures, rows = [], []
    for task, facts in content["tasks"].items():
        runs = {run: points for run, points in facts["runs"].items() if points}
        if not runs:
            continue
        scale = facts["scale"]
        lines = {run: [_asked(point, scale) for point in points] for run, points in runs.items()}
        value = "normalised score" if scale else metric_name(facts["metric"])
        drawn = picture(task, lines, "updates", value, levels=(0.0, 1.0) if scale else ())
        pictures.append(Picture(drawn.plot, drawn.alternative, f"{task}{_scale_in_words(scale)}"))
        for run, points in runs.items():
            rows.append(_last(task, run, content["kinds"].get(run, ""), points))
    if not pictures:
        return []
    caption = "The last checkpoint of each run; normalised: 0 is a guess, 1 the best single model of the time."
    header = ["task and run", "updates", "score", "best on the way", "normalised", "best normalised"]
    return [
        Heading("Without learning the task"),
        Pictures(pictures, numbers_beside("zeroshot", ())),
        Table(caption, header, rows),
    ]


def _asked(point: Content, scale: Content | None) -> Point:
    value = point["normalised"] if scale else 100 * point["score"]
    return Point(point["step"], value, value, value)


def _scale_in_words(scale: Content | None) -> str:
    if scale is None:
        return ""
    remark = f"; {scale['remark']}" if scale["remark"] else ""
    return f": 0 is a guess ({scale['chance']:g}), 1 the best of the time ({scale['best']:g}{remark})"


def _last(task: str, run: str, kind: str, points: Sequence[Content]) -> TableRow:
    last = points[-1]
    examples = many(last["examples"], "example")
    scaled = [point["normalised"] for point in points if point["normalised"] is not None]
    cells = [
        TableCell(f"{last['step']:,}"),
        TableCell(hundred(last["score"]), note=f"{last['split']} {metric_name(last['metric'])}, {examples}"),
        TableCell(hundred(max(point["score"] for point in points))),
        TableCell(_plain(last["normalised"])),
        TableCell(_plain(max(scaled, default=None))),
    ]
    return TableRow(f"{task}, {run}", cells, kind)


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", MINUS)


def _transfer(content: Content) -> list[Block]:
    pictures: list[Picture] = []
    tables: list[Block] = []
    drawn: list[list[Point]] = []
    for task, facts in content["tasks"].items():
        if not facts["points"]:
            continue
        value = metric_name(facts["metric"])
        drawn.append(points_of(facts["points"], "layers"))
        pictures.append(picture(task, {task: drawn[-1]}, "blocks taken over", value))
        rows = [_layers(point) for point in facts["points"]]
        caption = (
            f"{task}, {value} on {judged_on(facts['points'][0])}: {over(facts['points'])}. The gain is that of the "
            "most blocks over so many, in pairs, with its 95 % interval below."
        )
        tables.append(Table(caption, ["blocks", "score", "gain of the most"], rows))
    if not pictures:
        return []
    return [Heading("Blocks taken over"), Pictures(pictures, numbers_beside("transfer", drawn)), *tables]


def _layers(point: Content) -> TableRow:
    behind = point.get("behind_most")
    cells = [TableCell(hundred(point["median"]), note=spread(point)), TableCell("–")]
    if behind is not None:
        interval = f"{signed_hundred(behind['low'])} to {signed_hundred(behind['high'])}"
        cells[1] = TableCell(signed_hundred(behind["difference"]), note=interval)
    return TableRow(f"{point['layers']}" if point["layers"] else "0 (embeddings alone)", cells)


def _labels(content: Content) -> list[Block]:
    blocks: list[Block] = []
    for task, facts in content["tasks"].items():
        arms = {arm: points for arm, points in facts["arms"].items() if points}
        if not arms:
            continue
        value = metric_name(facts["metric"])
        lines = {content["arms"][arm]: points_of(points, "labels") for arm, points in arms.items()}
        counts = sorted({point["labels"] for points in arms.values() for point in points})
        found = {arm: {point["labels"]: point for point in points} for arm, points in arms.items()}
        best = {count: max(points[count]["median"] for points in found.values() if count in points) for count in counts}
        rows = [
            TableRow(content["arms"][arm], [_ablated(points.get(count), None, best[count]) for count in counts])
            for arm, points in found.items()
        ]
        figures = [point for points in arms.values() for point in points]
        between = ", and between which values they lie" if any(map(spread, figures)) else ""
        caption = f"{value} on {judged_on(figures[0])}: {over(figures, 'draw')}{between}."
        blocks += [
            Heading(f"{task}: few labels"),
            Pictures([picture(task, lines, "labels", value, log=True)], numbers_beside("labels", lines.values())),
            Table(caption, ["", *(f"{count:,} labels" for count in counts)], rows),
        ]
        if facts["differences"]:
            pairs = pairs_table(
                "", facts["differences"], lambda one: f"{one['labels']:,} labels, {one['split']}", content["arms"]
            )
            blocks.append(Folded("Differences in pairs", [pairs]))
    return blocks


_PARTS: dict[str, Callable[[Content], list[Block]]] = {
    "tables": _tables,
    "ablations": _ablations,
    "differences": _differences,
    "curves": _curves,
    "zeroshot": _zeroshot,
    "transfer": _transfer,
    "labels": _labels,
}
