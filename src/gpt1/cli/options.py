"""Options that several verbs share, so that the same thing has the same name everywhere."""

from __future__ import annotations

import click

tokenizer = click.option(
    "--tokenizer", required=True, metavar="FILE", help="A tokenizer.json of ours, or a folder that holds one."
)
workers = click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes to use.  [all cores]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
document = click.option(
    "--document",
    metavar="file|line|blank|field",
    help="What a document is; blank: what stands between blank lines; field: a column.  [file for txt and md, field "
    "for tables]",
)
field = click.option("--field", metavar="COLUMN", help="The column of a table that holds the text.")
encoding = click.option("--encoding", metavar="NAME", help="Encoding of text files.  [utf-8]")
unwrap = click.option("--unwrap", is_flag=True, default=None, help="Join the lines of hard-wrapped paragraphs.")
