"""What a person is shown of labels that may be wrong, and of rows to label next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import Block, Lines, Note, Table, TableCell, TableRow
from gpt1.documents.figures import shown_text
from gpt1.labelling.choosing import RowToLabel
from gpt1.labelling.suspects import FLAGGED, SUGGESTED, Suspect

SHOWN = 5
LONGEST = 70  # characters of a row's text


def suspect_blocks(found: Sequence[Suspect], out: str) -> list[Block]:
    """Return how many labels are flagged, the first few of them, and what to do with the sheet."""
    flagged = [one for one in found if one.flagged]
    share = f"{x100(len(flagged) / len(found)):.1f} %"
    verdict = Note(f"{len(flagged):,} of {many(len(found), 'label')} are likely wrong ({share}).", leads=True)
    agreed = sum(one.suggested == one.label for one in found)
    label, count = Counter(one.label for one in found).most_common(1)[0]
    of = f"Those who had not learned a row agree with {x100(agreed / len(found)):.1f} % of the labels"
    worth = f"{of}; '{label}' alone is {x100(count / len(found)):.1f} %."
    if agreed <= count:
        worth = f"{worth} That is no better than always saying it: what is flagged says little."
    how = [
        f"All rows are in {out}, the worst first; row is that of your table.",
        f"Read those with {FLAGGED} = True and decide by the text, not by '{SUGGESTED}': it is what others would say, "
        "and on hard texts the label is right.",
        "Mend your own table where it is wrong, then teach it anew; leave alone what you cannot decide.",
    ]
    return [verdict, Note(worth), *([_table(flagged[:SHOWN])] if flagged else []), Lines(how)]


def _table(shown: Sequence[Suspect]) -> Table:
    def cells(one: Suspect) -> list[TableCell]:
        pairs = ((one.label, one.p_label), (one.suggested, one.p_suggested))
        named = [TableCell(f"{label} ({x100(share):.0f} %)", is_number=False) for label, share in pairs]
        text = " | ".join(map(str, one.texts.values()))
        return [*named, TableCell(shown_text(text, LONGEST), is_number=False)]

    rows = [TableRow(str(one.row), cells(one)) for one in shown]
    return Table("The likeliest to be wrong", ["row", "label", SUGGESTED, "text"], rows)


def next_blocks(found: Sequence[RowToLabel], out: str, label: str) -> list[Block]:
    """Return how many rows were chosen, why, and what to do with the sheet."""
    why = ", ".join(f"{count:,} {name}" for name, count in Counter(one.why for one in found).most_common())
    how = [
        f"Fill the column '{label}' of {out} with one of the labels beside it; what the run would say is left out, so "
        "that it does not lead you.",
        "Add the rows to your table, teach it anew, and ask again for the next.",
        "Measure on the rows whose why is 'random': the others are harder than most.",
    ]
    return [Note(f"{many(len(found), 'row')} to label: {why}.", leads=True), Lines(how)]
