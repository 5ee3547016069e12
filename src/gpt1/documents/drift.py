"""What a person is shown of rows that came in: have they changed, in which way, and which of them most."""

from __future__ import annotations

from collections.abc import Mapping

from gpt1.base.wording import many, some
from gpt1.documents.blocks import Block, Heading, Lines, Note, Quote, Quotes, Table, TableCell, TableRow
from gpt1.documents.figures import LONGEST_NAME, shown_text
from gpt1.tasks.drift import ANSWERS, BITS, LENGTH, SURENESS, UNKNOWN, DriftReport, Moved, StrangeRow

SHOWN_TEXT = 200  # characters of a row
SHOWN_ANSWERS = 4

# What is said of a figure that went up, and of one that went down.
_WAYS = {
    LENGTH: ("texts are longer", "texts are shorter"),
    UNKNOWN: ("more of the text is not in the vocabulary", "less of the text is not in the vocabulary"),
    BITS: ("the words are less expected", "the words are more expected"),
    SURENESS: ("answers are surer", "answers are less sure"),
    ANSWERS: ("scores are higher", "scores are lower"),
}
_OTHER_ANSWERS = "other answers are given"
_SPREAD = "spread differently"  # where the middle has hardly moved
CHANGED = (
    "What the run scored on its own rows need not hold for these: label some of them, evaluate the run on these, and "
    "learn from them too."
)
NOT_CHANGED = "That says nothing of rows whose words are the same and whose right answers are others now."


def drift_blocks(report: DriftReport) -> list[Block]:
    """Return the verdict, each figure before and now, and the rows that are least like the known ones."""
    bad = f", {report.bad:,} of which cannot be used" if report.bad else ""
    blocks: list[Block] = [
        Note(f"{report.table}: {verdict(report)}", leads=True),
        _table(report),
        Lines([f"{many(report.rows, 'row')}{bad}, {report.asked:,} asked; held against {report.known}."]),
        Note(CHANGED if report.has_changed else NOT_CHANGED),
    ]
    if report.cut:
        blocks.append(Note(f"{many(report.cut, 'text')} did not fit and lost their ends."))
    if report.strangest:
        blocks += [Heading("Least like the known rows"), Quotes([_quote(one) for one in report.strangest])]
    return blocks


def verdict(report: DriftReport) -> str:
    """Return in a sentence whether what comes in has changed, and how."""
    if not report.has_changed:
        return f"no change is noticed in {many(report.asked, 'row')}."
    return f"what comes in has changed: {ways(report.moved)}."


def ways(moved: Mapping[str, Moved]) -> str:
    """Return in words how the figures have changed that have."""
    noticed = [_way(name, one) for name, one in moved.items() if one.shift.is_noticed]
    return some(noticed, len(noticed))


def _way(name: str, moved: Moved) -> str:
    if not isinstance(moved.before, float) or not isinstance(moved.after, float):
        return _OTHER_ANSWERS
    if moved.before == moved.after:
        return f"{name} {_SPREAD}"
    up, down = _WAYS[name]
    return f"{up if moved.after > moved.before else down} ({_shown(name, moved.before)} to {_shown(name, moved.after)})"


def _table(report: DriftReport) -> Table:
    rows = [
        TableRow(
            name,
            [
                TableCell(_shown(name, one.before), is_number=False),
                TableCell(_shown(name, one.after), is_number=False),
                TableCell(f"{one.shift.distance:.2f}"),
                TableCell(_chance(one.shift.chance)),
                TableCell("changed" if one.shift.is_noticed else "", is_number=False),
            ],
        )
        for name, one in report.moved.items()
    ]
    caption = "Medians, of unknown tokens the mean, of answers their shares; distance 0 to 1, by chance as far"
    return Table(caption, ["figure", "known rows", "these rows", "distance", "by chance", ""], rows)


def _shown(name: str, value: float | dict[str, float]) -> str:
    if isinstance(value, dict):
        return some(
            [f"{shown_text(label, LONGEST_NAME)} {100 * share:.0f} %" for label, share in value.items()], SHOWN_ANSWERS
        )
    if name == UNKNOWN:
        return f"{100 * value:.1f} %"
    return f"{value:.0f}" if name == LENGTH else f"{value:.2f}"


def _chance(share: float) -> str:
    return f"{100 * share:.1f} %"


def _quote(one: StrangeRow) -> Quote:
    why = ", ".join(f"{name} {_shown(name, value)}" for name, value in one.figures.items())
    return Quote(f"row {one.row}: {why}", shown_text(one.text, SHOWN_TEXT))
