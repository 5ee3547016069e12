"""What several seeds of one fine-tuning gave."""

from __future__ import annotations

from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Note, Table, TableCell, TableRow
from gpt1.documents.figures import figure
from gpt1.records.seeds import SeedsResult

_SUMMARY = {"median": "median", "mean": "mean", "sd": "deviation", "worst": "worst", "best": "best"}


def seeds_blocks(seeds: SeedsResult) -> list[Block]:
    """Return the scores of all seeds, and which was kept."""
    rows = []
    for name, figures in seeds.summary.items():
        each = [figure(scores[name]) for scores in seeds.seeds.values() if name in scores]
        values = [TableCell(figure(figures[what])) if what in figures else TableCell("–") for what in _SUMMARY]
        rows.append(TableRow(name, [*values, TableCell(", ".join(each))]))
    return [
        Table(
            f"{many(len(seeds.seeds), 'seed')}: {', '.join(seeds.seeds)}.",
            ["score", *_SUMMARY.values(), "each"],
            rows,
        ),
        Note(f"{seeds.best} is kept: the best on dev, or the first of equals; all that follows is of this one."),
    ]
