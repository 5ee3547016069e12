"""`gpt1 augment`: rows of a table in other words, by a model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpt1.cli import options, words


@click.command()
@click.argument("table")
@click.option("--with", "model", metavar="DIR", help="A model of transformers that writes text anew.")
@click.option("--neighbours", metavar="RUN", help="List words that stand near each other in a run, or a base, instead.")
@click.option("--back", metavar="DIR", help="A model that translates back what the first one has translated.")
@click.option("--prefix", metavar="TEXT", help='What stands before each text, such as "paraphrase: ".')
@click.option("--copies", type=options.WholeNumber(1), metavar="N", help="Rows to make of each.  [1]")
@click.option("--out", required=True, metavar="FILE", help="The rows: .csv, .tsv, .jsonl or .parquet.")
@options.overwrite
@click.option("--resume", is_flag=True, help="Go on with a file that was stopped or killed.")
@click.option("--dev", metavar="TABLE", help="Rows for dev, as for gpt1 finetune.  [a tenth of TABLE]")
@click.option("--test", metavar="TABLE", help="Rows for the test, as for gpt1 finetune.")
@options.columns
@options.regression
@options.symmetric
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.device
def command(
    table: str,
    model: str | None,
    neighbours: str | None,
    back: str | None,
    prefix: str | None,
    copies: int | None,
    resume: bool,
    out: str,
    **given: Any,
) -> None:
    """Write the rows of a labelled TABLE in other words, to be looked at and then learned too.

    A model on this machine paraphrases, or one translates and another translates --back; nothing is fetched. Only rows
    to learn from are written anew, never those for dev and test. Each row keeps its label and its other columns, and
    says in `source_row` and `source_...` what it was made of: look at them and delete what says something else. Then
    learn them with --more; they stay on the side of their source.

    With --neighbours it is a list of words, each with those that the embeddings of a RUN have near it: candidates for
    synonyms, opposites among them. Look at it, delete what changes your labels, and name it with --synonyms.

    \b
    Example:
      gpt1 augment reviews.csv --with models/paraphraser --out more.csv
      gpt1 augment reviews.csv --with models/en-fr --back models/fr-en --out more.csv
      gpt1 finetune reviews.csv --more more.csv --out runs/reviews
      gpt1 augment reviews.csv --neighbours small --out synonyms.tsv
    """
    named = {name: value for name, value in given.items() if value is not None and name != "columns"}
    named["columns"] = options.roles_and_names(given["columns"])
    if (model is None) == (neighbours is None):
        raise click.UsageError("say what to make: rows --with a model, or a list of --neighbours in a run")
    if neighbours is not None:
        of_rows = {"--back": back, "--prefix": prefix, "--copies": copies, "--resume": resume or None}
        if odd := [name for name, value in of_rows.items() if value is not None]:
            raise click.UsageError(f"{odd[0]} is for rows that are made --with a model; leave it out")
        _list_neighbours(neighbours, table, out, named)
        return
    assert model is not None
    from gpt1.base.progress import Terminal
    from gpt1.base.wording import many
    from gpt1.exchange.rewording import Ways, reword_table

    asked: dict[str, Any] = {"prefix": prefix, "copies": copies, "back": None if back is None else Path(back)}
    ways = Ways(Path(model), **{name: value for name, value in asked.items() if value is not None})
    progress = Terminal()
    try:
        found = reword_table(table, out, ways=ways, resume=resume, notice=words.notice, progress=progress, **named)
    finally:
        progress.done()
    click.echo(f"{many(found.made, 'row')} made of {many(found.rows, 'row')} to learn from, in {out}")
    for why, count in found.left.items():
        click.echo(f"left out: {count:,} that {why}" if why[0] == "s" else f"left out: {count:,}: {why}")
    click.echo(f"look at them, then: gpt1 finetune {table} --more {out} --out RUN")


def _list_neighbours(run: str, table: str, out: str, named: dict[str, Any]) -> None:
    from gpt1.base.wording import many
    from gpt1.inference.neighbours import list_neighbours
    from gpt1.inference.run import load_run

    found = list_neighbours(load_run(run, device=named.pop("device", None)), table, out, **named)
    of = len({one.word for one in found})
    click.echo(f"{many(len(found), 'neighbour')} of {many(of, 'word')} in {out}; opposites are among them")
    click.echo(f"look at them, then: gpt1 finetune {table} --synonyms {out} --out RUN")
