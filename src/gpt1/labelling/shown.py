"""What a person is shown of labels that may be wrong, and of rows to label next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpt1.base.wording import many, x100
from gpt1.documents.blocks import Block, Lines, Note, Table, TableCell, TableRow
from gpt1.documents.figures import shown_text
from gpt1.labelling.choosing import RowToLabel
from gpt1.labelling.judging import Agreement, agreement
from gpt1.labelling.suspects import FLAGGED, SUGGESTED, Suspect

SHOWN = 5
LONGEST = 70  # characters of a row's text


def suspect_blocks(found: Sequence[Suspect], out: str) -> list[Block]:
    """Return how many labels are flagged, the first few, and what to do; first where those who answer know nothing."""
    judge = judge_of(found)
    flagged = [one for one in found if one.flagged]
    told = judge.in_words()
    if judge.may_be_chance and not flagged:
        return [
            Note(f"No label is flagged: {told}, so that flags would be chance.", leads=True),
            Lines(
                [
                    f"All rows are in {out}, those first whose label is furthest from what others would say; that is "
                    "no reason to doubt one.",
                    "More labels, or a base that has read more, may make a judge; `flag_anyway=True` flags all the "
                    "same.",
                ]
            ),
        ]
    share = f"{len(flagged):,} of {many(len(found), 'label')}"
    percent = f"{x100(len(flagged) / len(found)):.1f} %"
    if judge.may_be_chance:
        verdict = [
            Note(f"Flags are chance here: {told}.", leads=True),
            Note(f"{share} are flagged all the same ({percent})."),
        ]
    else:
        verdict = [Note(f"{share} are likely wrong ({percent}).", leads=True), Note(f"{told[0].upper()}{told[1:]}.")]
    how = [
        f"All rows are in {out}, the worst first; row is that of your table.",
        f"Read those with {FLAGGED} = True and decide by the text, not by '{SUGGESTED}': it is what others would say, "
        "and on hard texts the label is right.",
        "Mend your own table where it is wrong, then teach it anew; leave alone what you cannot decide.",
    ]
    return [*verdict, *([_table(flagged[:SHOWN])] if flagged else []), Lines(how)]


def judge_of(found: Sequence[Suspect]) -> Agreement:
    """Return how far those who answered agree with the labels."""
    return agreement([one.label for one in found], [one.suggested for one in found])


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
