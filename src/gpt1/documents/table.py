"""What a person is shown of a table that was checked: a verdict, what was understood, each finding with advice."""

from __future__ import annotations

from gpt1.base.tables import file_format
from gpt1.base.wording import many, some
from gpt1.documents.blocks import Block, Facts, Heading, Lines, Note
from gpt1.documents.figures import LONGEST_NAME, shown_text
from gpt1.tasks.checking import TableFinding, TableReport
from gpt1.tasks.sentences import is_column_file

SHOWN_LABELS = 8
SHOWN_FINDING = 1000  # characters
NO_TOKENS = "Tokens were not counted, as there is no base; `init` names the run that is to learn from the table."
HOW_COUNTED = {
    "csv": "Rows are numbered as a spreadsheet numbers them: the header is row 1.",
    "jsonl": "Rows are lines of the file.",
    "parquet": "Rows are counted from 1.",
}
HOW_COUNTED["tsv"] = HOW_COUNTED["csv"]


def table_blocks(report: TableReport) -> list[Block]:
    """Return the verdict, what the table was understood as, and what was found, first what stops a training."""
    stops = [finding for finding in report.findings if finding.stops]
    rest = [finding for finding in report.findings if not finding.stops]
    blocks: list[Block] = [Note(f"{report.table}: {report.verdict()}"), Facts(_facts(report))]
    for title, findings in (("To be mended", stops), ("To look at", rest)):
        blocks += [block for finding in findings for block in _finding(title, finding, report.table)]
    kind = "jsonl" if report.words is not None or is_column_file(report.table) else file_format(report.table)
    notes = [HOW_COUNTED[kind]] if any(finding.rows for finding in report.findings) else []
    notes += [NO_TOKENS] if report.tokens is None and report.language is not None else []
    return [*blocks, Lines(notes)] if notes else blocks


def _finding(title: str, finding: TableFinding, table: str) -> list[Block]:
    what = shown_text(finding.in_words(), SHOWN_FINDING)
    advice = [Note(_sentence(finding.advice, table))] if finding.advice else []
    return [Heading(f"{title}: {what}", level=4), *advice]


def _sentence(text: str, table: str) -> str:
    begins = text[:1] if text.startswith(table) else text[:1].upper()  # the name of a file stays as it is
    return f"{begins}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def _facts(report: TableReport) -> list[tuple[str, str]]:
    left = report.rows - report.usable
    if report.words is not None:
        return _facts_of_words(report, left)
    pairs = [("rows", f"{report.rows:,}" + (f", of which {report.usable:,} can be used" if left else ""))]
    if report.shape is not None:
        texts = [name for name, role in report.columns.items() if role == "text"]
        (label,) = (name for name, role in report.columns.items() if role == "label")
        named = " and ".join(f"'{name}'" for name in texts)
        are = "is the text" if len(texts) == 1 else "are the texts"
        pairs.append(("columns", f"{named} {are}, '{label}' is the label"))
    if report.labels:
        pairs.append(("labels", _labels(report)))
    if report.scores is not None:
        pairs.append(("scores", f"{report.scores[0]:g} to {report.scores[1]:g}"))
    if report.characters is not None:
        pairs.append(("length", f"median {many(report.characters[0], 'character')}, longest {report.characters[1]:,}"))
    if report.tokens is not None:
        tokens = report.tokens
        read = f"{tokens.learner} reads {tokens.context:,}"
        if tokens.windows:
            read += f" at once, and {many(tokens.long_rows, 'longer row')} in up to {tokens.windows} windows"
        pairs.append(("tokens", f"median {tokens.median:,}, longest {tokens.longest:,}; {read}"))
    if report.language is not None:
        pairs.append(("language", report.language.in_words()))
    return pairs


def _facts_of_words(report: TableReport, left: int) -> list[tuple[str, str]]:
    """Return what a file of labelled words holds."""
    assert report.words is not None
    count, middle, longest = report.words
    pairs = [("sentences", f"{report.rows:,}" + (f", of which {report.usable:,} can be used" if left else ""))]
    pairs.append(("words", f"{count:,}; a sentence has {middle:,} (median), the longest {longest:,}"))
    counts = [f"{shown_text(name, LONGEST_NAME)} ({number:,})" for name, number in report.labels.items()]
    what = f"spans ({report.scheme})" if report.scheme else "labels"
    pairs.append((what, f"{len(counts):,}: {some(counts, SHOWN_LABELS)}"))
    pairs += [("read as", text.removeprefix(f"{report.table}: ")) for text in report.told]
    if (tokens := report.tokens) is not None:
        read = f"{tokens.learner} reads {tokens.context:,}"
        if tokens.windows:
            longer = many(tokens.long_rows, "longer sentence")
            read += f" at once, and {longer} in up to {tokens.windows} windows of whole words"
        pairs.append(("tokens", f"median {tokens.median:,}, longest {tokens.longest:,}; {read}"))
    return pairs


def _labels(report: TableReport) -> str:
    shares = [
        f"{shown_text(name, LONGEST_NAME)} ({100 * n / report.usable:.1f} %)" for name, n in report.labels.items()
    ]
    return f"{len(shares):,}: {some(shares, SHOWN_LABELS)}"
