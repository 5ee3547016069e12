"""Documents as text: readable on a terminal, plain and searchable in logs and pipes."""

from __future__ import annotations

import re

import pytest

from gpt1.documents.blocks import (
    Beside,
    Block,
    CurvePlot,
    Facts,
    Folded,
    Heading,
    Lines,
    Note,
    Picture,
    Pictures,
    Quote,
    Quotes,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.terminal import FOLDED_ROWS, MOST_COLUMNS, MOST_ROWS, render

LONG = "a sentence that goes on and on, far beyond what any terminal is wide " * 4


def plain(*blocks: Block, width: int = 60) -> str:
    return render(blocks, width=width, is_terminal=False)


def table(rows: int = 1, columns: int = 1, **more: str) -> Table:
    cells = [TableCell(f"{column}.5") for column in range(columns)]
    header = ["name", *(f"c{column}" for column in range(columns))]
    return Table("What it is.", header, [TableRow(f"row {row}", cells) for row in range(rows)], **more)


def test_numbers_end_below_each_other_and_notes_stand_below() -> None:
    rows = [
        TableRow("one", [TableCell("0.5", note="0.1 to 0.9"), TableCell("good", is_number=False)], "first"),
        TableRow("two", [TableCell("12.25"), TableCell("bad", is_number=False)]),
    ]
    assert plain(Table("Told.", ["run", "score", "verdict"], rows)).splitlines() == [
        "run         score  verdict",
        "one           0.5  good",
        "first  0.1 to 0.9",
        "two         12.25  bad",
        "Told.",
    ]


def test_the_best_is_marked_without_bold_letters_too() -> None:
    rows = [TableRow(name, [TableCell(name, is_best=name == "9.5")]) for name in ("10", "9.5")]
    assert plain(Table("", ["run", "score"], rows)).splitlines() == [
        "run  score",
        "10      10",
        "9.5   *9.5",
        "Best with *.",
    ]


def test_long_tables_are_cut_and_the_rest_is_counted() -> None:
    text = plain(table(MOST_ROWS + 7))
    assert len(text.splitlines()) == 1 + MOST_ROWS + 1
    assert text.endswith("\nand 7 more. What it is.")
    assert "more" not in plain(table(MOST_ROWS))


def test_wide_tables_are_cut_and_the_rest_is_counted() -> None:
    text = plain(table(columns=MOST_COLUMNS + 3), width=200)
    assert text.splitlines()[0].split()[-1] == f"c{MOST_COLUMNS - 2}"
    assert text.endswith("4 more columns are not shown.")


def test_a_table_of_pairs_that_is_too_wide_has_numbers_for_its_columns() -> None:
    names = [f"quite a long name {number}" for number in range(4)]
    rows = [TableRow(name, [TableCell("7")] * 4) for name in names]
    pairs = Table("Told.", ["label", *names], rows, over="answered")
    assert plain(pairs, width=60).splitlines()[:2] == [
        "label, answered:        1  2  3  4",
        "1: quite a long name 0  7  7  7  7",
    ]
    assert f"label, answered:     {'  '.join(names)}" in plain(pairs, width=120)


def test_of_a_crowded_table_the_names_of_the_columns_are_folded_first() -> None:
    rows = [TableRow("the name of this row is rather long", [TableCell("7"), TableCell("8.5")])]
    assert plain(Table("", ["run", "one long header", "another header"], rows), width=60).splitlines() == [
        "                                     one long  another",
        "run                                    header   header",
        "the name of this row is rather long         7      8.5",
    ]


def test_no_more_names_of_columns_are_folded_than_need_be() -> None:
    rows = [TableRow("a row", [TableCell("9.5"), TableCell("10.5", is_best=True), TableCell("8.5")])]
    scores = Table("", ["task", "bag of words", "from scratch", "pre-trained"], rows)
    assert plain(scores, width=40).splitlines()[:-1] == [
        "       bag of",
        "task    words  from scratch  pre-trained",
        "a row     9.5         *10.5          8.5",
    ]
    assert plain(scores, width=46).splitlines()[0] == "task   bag of words  from scratch  pre-trained"


def test_pictures_are_left_out_and_so_are_headings_of_nothing_else() -> None:
    pictures = Pictures([Picture(CurvePlot({}, "loss"), "falls", "The loss.")], "The numbers are elsewhere.")
    blocks = (
        Heading("Curves"),
        pictures,
        Heading("Scores"),
        Heading("of dev", level=4),
        Note("All right."),
        Heading("x"),
    )
    assert plain(*blocks) == "Scores\nof dev\nAll right."


def test_of_folds_the_head_and_tables_are_shown() -> None:
    quotes = Quotes([Quote("example 1", "a text")])
    text = plain(Folded("3 more", [quotes]), Folded("Rates", [table(FOLDED_ROWS + 2), Note("hidden")]))
    assert text.startswith("3 more\n\nRates\nname")
    assert "and 2 more." in text
    assert "a text" not in text
    assert "hidden" not in text


def test_what_stands_side_by_side_on_a_page_stands_one_below_the_other() -> None:
    assert plain(Beside([[Note("left")], [Facts([("name", "value")])]])) == "left\n\nname  value"


def test_without_a_terminal_a_sentence_is_one_line_and_tables_are_bounded() -> None:
    rows = [TableRow(LONG, [TableCell(LONG, is_number=False)])]
    sentences, _, tables = plain(Note(LONG.strip()), Lines([LONG.strip()]), Table("", ["a", "b"], rows)).split("\n\n")
    assert sentences == LONG.strip()
    assert max(map(len, tables.splitlines())) <= 60
    styled = render([Note(LONG)], width=60, is_terminal=True)
    assert max(map(len, styled.splitlines())) <= 60


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_without_a_terminal_nothing_is_coloured_or_drawn(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    text = plain(Heading("h"), Note("n"), table(3, over="answered"), Facts([("a", "b")]), Quotes([Quote("h", "t")]))
    assert re.fullmatch(r"[ -~\n]*", text)
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_a_terminal_gets_bold_headings_unless_it_is_a_dumb_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert render([Heading("Scores"), Note("x")], width=60, is_terminal=True).startswith("\x1b[1mScores\x1b[0m")
    monkeypatch.setenv("TERM", "dumb")
    assert render([Heading("Scores"), Note("x")], width=60, is_terminal=True) == "Scores\nx"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_text_can_neither_style_nor_steer_the_terminal(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    evil = "a\x1b[31mred\x1b]0;title\x07\r [bold]b[/bold] \u202e"
    found = render([Quotes([Quote("h", evil)]), Note(evil)], width=60, is_terminal=is_terminal)
    assert "\x1b[31m" not in found
    assert "\x1b]" not in found
    assert not set("\x07\r\u202e") & set(found)
    assert found.count("[bold]b[/bold]") == 2


def test_minus_and_missing_are_written_as_programs_write_them() -> None:
    rows = [TableRow("one", [TableCell("\u22120.5")]), TableRow("two", [TableCell("–")])]
    assert plain(Table("", ["run", "score"], rows)).splitlines()[1:] == ["one   -0.5", "two      -"]


def test_sentences_are_said_in_the_readers_words() -> None:
    found = render(
        [Note("do `x`"), Lines(["or `x`"])], width=60, is_terminal=False, worded=lambda t: t.replace("`", "")
    )
    assert found == "do x\n\nor x"


def test_a_quote_says_what_would_have_been_right() -> None:
    quote = Quote("example 1: wrong", "it\nwent", before="Then", after="it came")
    assert plain(Quotes([quote])).splitlines() == [
        "example 1: wrong",
        "    Then it went",
        "Right would have been",
        "    it came",
    ]


def test_sentences_are_folded_in_a_pipe_where_a_width_was_asked_for() -> None:
    note = Note("a sentence of some words that does not fit " * 3)
    assert len(render([note], width=40, is_terminal=False).splitlines()) == 1
    folded = render([note], width=40, is_terminal=False, folds=True).splitlines()
    assert max(map(len, folded)) <= 40
