"""The top of the page: runs that learned the same task side by side, whether one is really better; pre-training runs.

The figure of several seeds is their median. How a difference is judged is known to `studies/comparison.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import (
    BarPlot,
    Beside,
    Block,
    Estimate,
    Folded,
    Heading,
    Note,
    Picture,
    Pictures,
    Section,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.figures import between, figure, metric_name, rough, score
from gpt1.documents.headline import decisive, headline, headline_blocks, yardsticks
from gpt1.documents.study import judged_row, judged_table
from gpt1.finetuning.measure import predictions_file
from gpt1.records.ensemble import NETWORK
from gpt1.records.evaluation import Evaluation
from gpt1.report.gather import GatheredRun
from gpt1.report.runs import Reached, reached, start_in_words
from gpt1.studies.comparison import Sheet, paired_difference, read_sheet, resampled_interval
from gpt1.tasks.catalog import Task

MOST_BARS = 12  # runs drawn; the table has all of them

Column = tuple[str, str]  # split and metric


@dataclass(frozen=True)
class Standing:
    """What a run reached: the value, of several seeds their median, and its 95 % interval where that is known."""

    value: float
    interval: tuple[float, float] | None
    seeds: int


@dataclass(frozen=True)
class Difference:
    """By how much one run is better than another on the same examples, with the 95 % interval."""

    split: str
    metric: str
    better: str
    other: str
    value: float
    low: float
    high: float
    examples: int


@dataclass(frozen=True)
class Comparison:
    """The runs of one task."""

    task: Task
    columns: list[Column]
    rows: list[tuple[GatheredRun, dict[Column, Standing]]]
    differences: list[Difference]
    remarks: list[str]

    def best(self, column: Column) -> float | None:
        """Return the best value of a column, if there are several to choose from."""
        found = [standings[column].value for _, standings in self.rows if column in standings]
        return max(found) if len(found) > 1 else None


def compare(runs: Sequence[GatheredRun]) -> list[Comparison]:
    """Return one comparison for each task that any of the runs learned and was measured on."""
    groups: dict[tuple[Any, ...], list[tuple[GatheredRun, Task]]] = {}
    for run in runs:
        for task in run.tasks.values():
            # What merely shares a name is not the same task.
            same = (task.name, task.shape, task.labels, task.labels_sep, task.score_range, task.choices, task.metrics)
            groups.setdefault(same, []).append((run, task))
    found = [_compare_task(members[0][1], [run for run, _ in members]) for members in groups.values()]
    return [comparison for comparison in found if comparison.columns]


def _compare_task(task: Task, runs: Sequence[GatheredRun]) -> Comparison:
    splits = dict.fromkeys(one.split for run in runs for one in run.evaluations if one.task == task.name)
    columns = [(split, metric) for split in splits for metric in task.metrics]
    sheets = {
        (run.name, split): _read_sheet(run, task, split) for run in runs for split in splits if _wanted(run, runs)
    }
    rows = []
    for run in runs:
        standings = {column: _standing(run, task, *column, sheets.get((run.name, column[0]))) for column in columns}
        rows.append((run, {column: standing for column, standing in standings.items() if standing is not None}))
    differences: list[Difference] = []
    remarks: list[str] = []
    for split in splits:
        _judge(task, split, rows, sheets, differences, remarks)
    return Comparison(task, columns, rows, differences, remarks)


def _wanted(run: GatheredRun, runs: Sequence[GatheredRun]) -> bool:
    """Whether the single answers of a run are needed: to compare it, or for the interval of a median."""
    return len(runs) > 1 or run.seeds is not None


def _standing(run: GatheredRun, task: Task, split: str, metric: str, sheet: Sheet | None) -> Standing | None:
    measured = run.evaluation(task.name, split)
    if measured is None or metric not in measured.metrics:
        return None
    figures = run.seeds.summary.get(f"{task.name} {split} {metric}") if run.seeds else None
    if run.seeds is None or figures is None:  # one seed; or only the best one was measured on this split
        return Standing(measured.metrics[metric], measured.intervals.get(metric), 1)
    interval = None if sheet is None else resampled_interval(task, metric, sheet)
    return Standing(figures["median"], interval, len(run.seeds.seeds))


def _judge(
    task: Task,
    split: str,
    rows: Sequence[tuple[GatheredRun, dict[Column, Standing]]],
    sheets: dict[tuple[str, str], Sheet | None],
    differences: list[Difference],
    remarks: list[str],
) -> None:
    """Hold every run against the best one on a split, by the metric that decides."""
    column = (split, task.metrics[0])
    ranked = sorted((row for row in rows if column in row[1]), key=lambda row: -row[1][column].value)
    if len(ranked) < 2:
        return
    best = ranked[0][0].name
    for other in (run.name for run, _ in ranked[1:]):
        one, two = sheets[best, split], sheets[other, split]
        if one is None or two is None:
            remarks.append(
                f"{best} and {other} are not compared in pairs on {split}: the single answers of "
                f"{best if one is None else other} are not there (gpt1 evaluate writes them)."
            )
        elif not np.array_equal(one.labels, two.labels):
            remarks.append(f"{best} and {other} were measured on different examples of {split}: not compared in pairs.")
        else:
            value, low, high = paired_difference(task, task.metrics[0], [one], [two])
            differences.append(
                Difference(split, task.metrics[0], best, other, value, low, high, examples=len(one.labels))
            )


# ---- single answers ----


def _read_sheet(run: GatheredRun, task: Task, split: str) -> Sheet | None:
    """Return the answers of a run, or of each of its seeds, to the labelled examples; None where any are missing."""
    folders = [run.folder]
    if run.seeds is not None and any(name.startswith(f"{task.name} {split} ") for name in run.seeds.summary):
        folders = [run.given / seed for seed in run.seeds.seeds]
    return read_sheet([predictions_file(folder, task.name, split) for folder in folders], task)


# ---- on the page ----


def results(runs: Sequence[GatheredRun], comparisons: Sequence[Comparison], anchor: str) -> Section:
    """Return what came out, before how."""
    blocks: list[Block] = []
    for comparison in comparisons:
        blocks += _comparison(comparison)
    if pretrained := [run for run in runs if not run.is_finetuned]:
        blocks += _pretrained(pretrained)
    unmeasured = [run.name for run in runs if run.is_finetuned and not run.evaluations]
    if unmeasured:
        blocks.append(Note(f"Not measured yet: {', '.join(unmeasured)}."))
    return Section(anchor, "Results", "", blocks)


def _comparison(comparison: Comparison) -> list[Block]:
    task, several = comparison.task, len(comparison.rows) > 1
    header = ["run", *(f"{split} {metric_name(metric)}" for split, metric in comparison.columns)]
    rows = []
    for run, standings in comparison.rows:
        labels = run.record.examples.get(task.name, {}).get("train")
        cells = [_cell(run, standings.get(column), comparison.best(column)) for column in comparison.columns]
        note = start_in_words(run.recipe.finetuning) + ("" if labels is None else f", {many(labels, 'label')}")
        note += _who_answers(run, task)
        seeds = max((standing.seeds for standing in standings.values()), default=1)
        rows.append(TableRow(run.name, cells, note + (f", median of {seeds} seeds" if seeds > 1 else "")))
    caption = "Scores are x 100; below one is its 95 % interval, over examples."
    table = Table(caption, header, rows)
    blocks: list[Block] = [Heading(task.name if task.title == task.name else f"{task.name}: {task.title}")]
    blocks += _worth(comparison, several)
    if several:
        blocks.append(Beside([[table], [Pictures([_bars(comparison)])]]))
    else:  # of one seed the yardsticks have it
        blocks.append(table if comparison.rows[0][0].seeds else Folded("All scores", [table]))
    if comparison.differences:
        blocks.append(_differences(comparison.differences))
    return [*blocks, *map(Note, comparison.remarks)]


def _worth(comparison: Comparison, several: bool) -> list[Block]:
    """Return what the run is worth, of several the best one."""
    (metric, *_), splits = comparison.task.metrics, [split for split, _ in comparison.columns]
    measured = [(run, own) for run, _ in comparison.rows if (own := _decisive(run, comparison.task))]
    if not measured:
        return []
    column = (measured[0][1].split if measured[0][1].split in splits else splits[0], metric)
    values = {run.name: standings[column].value for run, standings in comparison.rows if column in standings}
    run, own = max(measured, key=lambda pair: values.get(pair[0].name, -1.0))
    told: list[Block] = [Note(f"{one}.") for one in _why(run, comparison.task)]
    if not several and run.seeds is not None:
        return [Note(f"Of the seed that is kept: {headline(own, run.decided)}", leads=True), *told]
    if not several:
        return [*headline_blocks(own, run.decided), *told]
    return [
        Note(f"{run.name}: {headline(own, run.decided)}", leads=True),
        *told,
        Folded(f"What {run.name} is held against", [yardsticks(own, run.decided)]),
    ]


def _decisive(run: GatheredRun, task: Task) -> Evaluation | None:
    return next(iter(decisive([one for one in run.evaluations if one.task == task.name])), None)


def _why(run: GatheredRun, task: Task) -> list[str]:
    """Return who answers and how surely, as far as that was decided."""
    why = [] if run.ensemble is None else [run.ensemble.tasks[task.name].why]
    why += [] if run.calibration is None else [run.calibration.tasks[task.name].why]
    return [f"{one[:1].upper()}{one[1:]}" for one in why]


def _who_answers(run: GatheredRun, task: Task) -> str:
    """Tell where it is not the network alone that answers."""
    if run.ensemble is None or (weights := run.ensemble.tasks[task.name].weights).keys() == {NETWORK}:
        return ""
    return ", with counted words" if NETWORK in weights else ", answered by counted words alone"


def _cell(run: GatheredRun, standing: Standing | None, best: float | None) -> TableCell:
    if standing is None:
        return TableCell("–")
    notes = [between(standing.interval)] if standing.interval else []
    notes += [f"{run.seeds.best} only"] if run.seeds and standing.seeds == 1 else []
    return TableCell(score(standing.value), note=", ".join(notes), is_best=standing.value == best)


def _bars(comparison: Comparison) -> Picture:
    metric = comparison.task.metrics[0]
    columns: list[Column] = [column for column in comparison.columns if column[1] == metric]
    drawn = [row for row in comparison.rows if any(column in row[1] for column in columns)][:MOST_BARS]
    shown = {
        run.name: {split: standings[split, name] for split, name in columns if (split, name) in standings}
        for run, standings in drawn
    }
    bars = {run: {split: _scaled(one) for split, one in by_split.items()} for run, by_split in shown.items()}
    spoken = [
        f"{run}: " + ", ".join(f"{split} {score(bar.value)}" for split, bar in by_split.items())
        for run, by_split in shown.items()
    ]
    left_out = len(comparison.rows) - len(drawn)
    caption = f"{metric_name(metric).capitalize()} with 95 % intervals." + (
        f" The first {MOST_BARS} of {len(comparison.rows)} runs." if left_out else ""
    )
    return Picture(BarPlot(bars, metric_name(metric)), f"{metric_name(metric)}: {'; '.join(spoken)}", caption)


def _scaled(standing: Standing) -> Estimate:
    interval = standing.interval
    return Estimate(x100(standing.value), None if interval is None else (x100(interval[0]), x100(interval[1])))


def _differences(differences: Sequence[Difference]) -> Table:
    rows = []
    for one in differences:
        note = f"{one.split} {metric_name(one.metric)}, {many(one.examples, 'example')}"
        rows.append(judged_row(f"{one.better} over {one.other}", note, one.value, one.low, one.high))
    return judged_table("The best against each other run.", rows)


def _pretrained(runs: Sequence[GatheredRun]) -> list[Block]:
    found = [(run, reached(run)) for run in runs]
    # Losses on other text, or of other tokens, are not to be ranked.
    texts = {(run.record.corpus and run.record.corpus.identity, run.record.tokenizer) for run in runs}
    losses = [one.loss for _, one in found if one.loss is not None]
    best = min(losses) if len(losses) > 1 and len(texts) == 1 else None
    rows = [TableRow(run.name, _reached_cells(one, best), run.recipe.name) for run, one in found]
    caption = "Loss in nats a token, at the best evaluation of each run."
    if len(texts) > 1:
        caption += " These runs saw different text or have different tokens, so their losses are not to be ranked."
    header = ["run", "validation loss", "perplexity", "bits per byte", "parameters", "training tokens"]
    return [Heading("Pre-training"), Table(caption, header, rows)]


def _reached_cells(found: Reached, best: float | None) -> list[TableCell]:
    return [
        TableCell(
            "–" if found.loss is None else figure(found.loss), is_best=found.loss is not None and found.loss == best
        ),
        TableCell("–" if found.perplexity is None else f"{found.perplexity:,.1f}"),
        TableCell("–" if found.bits_per_byte is None else figure(found.bits_per_byte)),
        TableCell(rough(found.parameters)),
        TableCell("–" if found.tokens is None else rough(found.tokens)),
    ]
