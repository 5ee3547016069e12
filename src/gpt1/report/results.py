"""The top of the page: runs that learned the same task side by side, and pre-training runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from gpt1.base.wording import many
from gpt1.documents.blocks import (
    BarPlot,
    Block,
    Estimate,
    Heading,
    Note,
    Picture,
    Pictures,
    Section,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.figures import between, figure, metric_name, rough, signed
from gpt1.documents.study import judged_row, judged_table
from gpt1.report.compare import Column, Comparison, Difference, Standing
from gpt1.report.gather import GatheredRun
from gpt1.report.pretrained import Reached, reached
from gpt1.report.wording import start_in_words

MOST_BARS = 12  # runs drawn; the table has all of them


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
        seeds = max((standing.seeds for standing in standings.values()), default=1)
        rows.append(TableRow(run.name, cells, note + (f", median of {seeds} seeds" if seeds > 1 else "")))
    caption = "Below a figure is its 95 % interval, over examples."
    blocks: list[Block] = [
        Heading(task.name if task.title == task.name else f"{task.name}: {task.title}"),
        Table(caption, header, rows),
    ]
    if several:
        blocks.append(Pictures([_bars(comparison)]))
    if comparison.differences:
        blocks.append(_differences(comparison.differences))
    return [*blocks, *map(Note, comparison.remarks)]


def _cell(run: GatheredRun, standing: Standing | None, best: float | None) -> TableCell:
    if standing is None:
        return TableCell("–")
    notes = [between(standing.interval)] if standing.interval else []
    notes += [f"{run.seeds.best} only"] if run.seeds and standing.seeds == 1 else []
    return TableCell(figure(standing.value), note=", ".join(notes), is_best=standing.value == best)


def _bars(comparison: Comparison) -> Picture:
    metric = comparison.task.metrics[0]
    columns: list[Column] = [column for column in comparison.columns if column[1] == metric]
    drawn = [row for row in comparison.rows if any(column in row[1] for column in columns)][:MOST_BARS]
    bars = {
        run.name: {
            split: Estimate(standings[split, name].value, standings[split, name].interval)
            for split, name in columns
            if (split, name) in standings
        }
        for run, standings in drawn
    }
    spoken = [
        f"{run}: " + ", ".join(f"{split} {figure(bar.value)}" for split, bar in by_split.items())
        for run, by_split in bars.items()
    ]
    left_out = len(comparison.rows) - len(drawn)
    caption = f"{metric_name(metric).capitalize()} with 95 % intervals." + (
        f" The first {MOST_BARS} of {len(comparison.rows)} runs." if left_out else ""
    )
    return Picture(BarPlot(bars, metric_name(metric)), f"{metric_name(metric)}: {'; '.join(spoken)}", caption)


def _differences(differences: Sequence[Difference]) -> Table:
    rows = []
    for one in differences:
        note = f"{one.split} {metric_name(one.metric)}, {many(one.examples, 'example')}"
        rows.append(judged_row(f"{one.better} over {one.other}", note, one.value, one.low, one.high, signed))
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
