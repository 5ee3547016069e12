"""A table that was checked, as a person reads it: the verdict first, then facts, then each finding with advice."""

from __future__ import annotations

from gpt1.documents.blocks import Block, Facts, Heading, Lines, Note
from gpt1.documents.table import table_blocks
from gpt1.tasks.checking import TableFinding, TableReport, Tokens
from gpt1.text.language import look_at_language

FACTS = {"shape": "single", "columns": {"review": "text", "stars": "label"}, "labels": {"good": 3, "bad": 1}}


def report(*findings: TableFinding, **more: object) -> TableReport:
    facts = {**FACTS, "characters": (7, 12), "language": look_at_language(["word"]), "findings": list(findings), **more}
    return TableReport("films.csv", 5, 4, **facts)  # type: ignore[arg-type]


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Note | Heading)]


def test_the_verdict_comes_first_and_what_stops_a_training_before_the_rest() -> None:
    look = TableFinding("duplicates", "1 row twice", "take it out", [3], "row 3 is row 2")
    stop = TableFinding("empty-text", "1 row without a text", "fill it in?", [4], stops=True)
    assert texts(table_blocks(report(look, stop))) == [
        "films.csv: cannot be trained on yet: 1 row without a text",
        "To be mended: 1 row without a text (row 4)",
        "Fill it in?",
        "To look at: 1 row twice (row 3 is row 2)",
        "Take it out.",
    ]


def test_facts_are_told_as_far_as_they_are_known() -> None:
    (facts,) = [block for block in table_blocks(report()) if isinstance(block, Facts)]
    assert facts.pairs == [
        ("rows", "5, of which 4 can be used"),
        ("columns", "'review' is the text, 'stars' is the label"),
        ("labels", "2: good (75.0 %), bad (25.0 %)"),
        ("length", "median 7 characters, longest 12"),
        ("language", "too few letters to tell"),
    ]
    (facts,) = [block for block in table_blocks(TableReport("films.csv", 2, 2)) if isinstance(block, Facts)]
    assert facts.pairs == [("rows", "2")]


def test_it_is_told_how_rows_are_counted_and_that_tokens_are_not() -> None:
    def last(found: TableReport) -> list[str]:
        return [line for block in table_blocks(found) if isinstance(block, Lines) for line in block.lines]

    assert [line[:10] for line in last(report())] == ["Tokens wer"]
    finding = TableFinding("two-labels", "x", "y", [1])
    tokens = Tokens("a run", 64, 9, 12, 0, 0, 40)
    assert [line[:22] for line in last(report(finding, tokens=tokens))] == ["Rows are numbered as a"]
    lines = last(TableReport("films.jsonl", 1, 1, findings=[finding]))
    assert lines == ["Rows are lines of the file."]
    assert last(report(tokens=tokens)) == []


def test_pairs_scores_and_tokens_are_facts_too() -> None:
    found = report(
        columns={"a": "text", "b": "text", "score": "label"},
        labels={},
        scores=(0.0, 4.5),
        tokens=Tokens("runs/books", 512, 20, 600, 1, 0, 80),
    )
    (facts,) = [block for block in table_blocks(found) if isinstance(block, Facts)]
    told = dict(facts.pairs)
    assert told["columns"] == "'a' and 'b' are the texts, 'score' is the label"
    assert told["scores"] == "0 to 4.5"
    assert told["tokens"] == "median 20, longest 600; runs/books reads 512"


def test_the_name_of_a_file_begins_a_sentence_as_it_is_written() -> None:
    named = TableFinding("columns", "a column is not there", "films.csv has no column 'b'", stops=True)
    assert "films.csv has no column 'b'." in texts(table_blocks(report(named)))


def test_a_finding_without_advice_is_told_by_itself() -> None:
    blocks = table_blocks(TableReport("a.csv", 3, 3, findings=[TableFinding("unread-text", "so it is", "")]))
    assert blocks[-1] == Heading("To look at: so it is", level=4)
