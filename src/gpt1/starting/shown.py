"""What a person is shown of a start: what it is worth, and what was decided on the way."""

from __future__ import annotations

from gpt1.documents.blocks import Block, Lines, Note
from gpt1.documents.headline import decisive, headline, yardsticks
from gpt1.documents.table import table_blocks
from gpt1.starting.start import StartResult


def start_blocks(found: StartResult) -> list[Block]:
    """Return the verdict first; of a table that cannot be learned from, what is wrong with it."""
    if found.run is None:
        return table_blocks(found.table)
    table: list[Block] = [Note(f"{found.table.table}: {found.table.verdict()}")]
    decided: list[Block] = (
        [Lines([f"{one[:1].upper()}{one[1:]}." for one in found.decisions])] if found.decisions else []
    )
    worth: list[Block] = []
    for one in decisive(found.evaluations):
        worth += [Note(headline(one, found.decided)), yardsticks(one, found.decided)]
    unmeasured: list[Block] = (
        [] if worth else [Note("There were too few rows to keep some apart: nothing was measured.")]
    )
    return [*worth, *unmeasured, *table, *decided]
