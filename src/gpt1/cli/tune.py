"""`gpt1 tune`: search the settings by which a labelled table is best learned, and learn it by them."""

from __future__ import annotations

from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words


@click.command()
@click.option("--train", required=True, metavar="TABLE", help="A labelled table: csv, tsv, jsonl or parquet.")
@click.option("--dev", metavar="TABLE", help="A table to choose the winner's best epoch on.  [a tenth of --train]")
@click.option("--test", metavar="TABLE", help="A table for the winner's test; no trial reads it.")
@click.option("--init", metavar="RUN", help="The run or base to start from.  [the base of the package]")
@click.option("--out", required=True, metavar="DIR", help="Folder for all of it; the run is in DIR/run.")
@click.option("--minutes", type=options.Number(0, min_open=True), metavar="M", help="Time for all of it.  [60]")
@click.option("--trials", type=options.WholeNumber(1), metavar="N", help="Trials at most.  [as many as fit]")
@click.option(
    "--search", multiple=True, metavar="NAME=LOW:HIGH", help="Between which values to search, such as lr=1e-5:1e-3."
)
@options.columns
@options.regression
@options.symmetric
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@options.seed
@options.changes
@options.device
@options.as_json
def command(train: str, out: str, seed: int | None, as_json: bool, **given: Any) -> None:
    """Search the settings by which a labelled table is best learned, and learn it by the best of them.

    The first trial is the recipe as it is; the others differ in the rate, the epochs, dropout, and how many words are
    left out (augmentation), or in what --search names. Each is judged by rows for training that it has not learned.
    The winner then learns them all, as gpt1 finetune does, into DIR/run: it alone is asked about dev and test. What is
    --set is not searched. Stopped and called again, it goes on where it was.

    \b
    Examples:
      gpt1 tune --train reviews.csv --out tuned
      gpt1 tune --train reviews.csv --test held-out.csv --minutes 120 --search optimizer.lr=1e-5:1e-3 --out tuned
    """
    from gpt1.cli.lines import TrainingLines
    from gpt1.finetuning.results import results, results_blocks
    from gpt1.tuning.shown import search_as_json, search_blocks
    from gpt1.tuning.tune import tune

    named = {name: value for name, value in given.items() if value not in (None, ())}
    if "columns" in named:
        named["columns"] = options.roles_and_names(named["columns"])
    if seed is not None:
        named["changes"] = (*named.get("changes", ()), f"training.seed={seed}")
    terminal = words.CommandTerminal()
    try:
        found = tune(train, out, listeners=[TrainingLines(terminal)], **named)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on") from None
    finally:
        terminal.done()
    again = words.command_line("finetune", found.finetune)
    if as_json:
        told = {"run": str(found.run.path), "command": again, "search": search_as_json(found)}
        click.echo(to_json({**told, "results": results(found.run)}, indent=1))
    else:
        words.show_document([*search_blocks(found), *results_blocks(found.run)])
        click.echo("\n".join(["", "The same run, without the search:", f"  {again}"]))
