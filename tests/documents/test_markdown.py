"""Blocks as Markdown: whatever they say is text."""

from __future__ import annotations

from gpt1.documents.blocks import Beside, Facts, Folded, Heading, Lines, Note, Quote, Quotes, Table, TableCell, TableRow
from gpt1.documents.markdown import render


def test_each_kind_of_block_has_its_form() -> None:
    table = Table("Scores.", ["who", "accuracy"], [TableRow("run", [TableCell("80.0", "70 to 90", is_best=True)])])
    blocks = [Heading("Title"), Note("A line."), Facts([("rows", "12")]), table, Lines(["one", "two"])]
    assert render(blocks) == (
        "## Title\n\nA line.\n\n|  |  |\n| --- | --- |\n| rows | 12 |\n\n| who | accuracy |\n| --- | --- |\n"
        "| run | **80.0** (70 to 90) |\n\nScores.\n\n- one\n- two\n"
    )
    inside = [Beside([[Note("left")], [Note("right")]]), Folded("more", [Quotes([Quote("head", "text")])])]
    assert render(inside) == "left\n\nright\n\n> head: text\n"


def test_what_a_label_says_is_never_markup() -> None:
    shown = render([Facts([("label", "a|b <img src=x> *c* [d](e)\n# f")])])
    assert "a\\|b \\<img src=x\\> \\*c\\* \\[d\\](e) \\# f" in shown
