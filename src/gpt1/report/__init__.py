"""Runs as a page for people: the only room that draws. It reads what runs left, and their makers do not know of it."""

from gpt1.report.page import report

__all__ = ["report"]

# What other rooms may import of this one's modules.
OFFERS = {
    "blocks": ["Block", "Note", "Picture", "Pictures", "Section", "Table", "TableCell", "TableRow"],
    "gather": ["Curve"],
    "plots": ["SCORE_SPAN", "draw_curves"],
}
