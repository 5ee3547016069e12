"""`gpt1 check`: is this table fit to train on, and what is wrong with it; or what a task of one's own is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.tasks import context_option, data_option, tell_task, tokenizer_option

ONLY_TABLE = ("init", "columns", "regression", "skip_bad", "fold_labels", "labels_sep", "metric", "shape")
UNFIT = 1  # exit code of a table that cannot be trained on


@click.command()
@click.argument("table", metavar="TABLE|MODULE:TASK")
@click.option("--init", metavar="RUN", help="The run or base that is to learn from it.  [the base of the package]")
@options.columns
@options.regression
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@options.shape
@tokenizer_option
@context_option
@data_option
@options.as_json
def command(table: str, data: str | None, as_json: bool, **given: Any) -> int:
    """Tell all that is wrong with a labelled table, in one go and with its rows; or what a task of your own is.

    A table is csv, tsv, jsonl or parquet, also compressed. Found are rows that cannot be used, labels that are rare,
    written in several ways or several in one cell, texts that repeat, have two labels, are too long or in another
    language than English, and characters that the base does not know. With --skip-bad, --fold-labels and --labels-sep
    it is judged as gpt1 finetune with them reads it. Exit code 0: it can be trained on as it is; 1: it cannot.

    Of words that have a label each, in column files (.conll, .conllu) or with --shape tokens in lists of .jsonl, every
    line that cannot be used is told.

    Of a MODULE:TASK it is told what was understood; with --data its files are read too. Nothing is written.

    \b
    Examples:
      gpt1 check reviews.csv
      gpt1 check names.conll
      gpt1 check reviews.csv --init runs/books --column label=stars
      gpt1 check my_tasks:MAIL --data mails/ --tokenizer tokenizer.json
    """
    from gpt1.tasks.preparing import is_table

    settings = {name: value for name, value in given.items() if value not in (None, ())}
    if is_table(table):
        if data is not None:
            raise click.UsageError(f"{table} is a table, and --data is the folder of a task")
        return _check_table(table, as_json, settings)
    _refuse_folder(table)
    for name in ONLY_TABLE:
        if name in settings:
            option = "column" if name == "columns" else name.replace("_", "-")
            raise click.UsageError(f"--{option} is for a table, and '{table}' is not the name of one")
    tell_task(table, data, as_json, **settings)
    return 0


def _refuse_folder(name: str) -> None:
    """Say of a folder that a table is wanted, and which lie in it; a task of the catalogue may be called as one is."""
    from gpt1.base.errors import InputError
    from gpt1.base.wording import some
    from gpt1.tasks.catalog import CATALOGUE
    from gpt1.tasks.preparing import tables_in

    if name not in CATALOGUE and Path(name).is_dir():
        there = [str(path) for path in tables_in(Path(name))]
        found = f"check one of those in it: {some(there)}" if there else "there is none in it"
        raise InputError(f"{name} is a folder, and a table is wanted (csv, tsv, jsonl, parquet); {found}")


def _check_table(table: str, as_json: bool, settings: dict[str, Any]) -> int:
    from gpt1.base.errors import printable
    from gpt1.documents.table import table_blocks
    from gpt1.inspection.table import examine_table

    if "context" in settings and "tokenizer" not in settings:
        raise click.UsageError("--context goes with --tokenizer; a run has its own")
    settings["columns"] = options.roles_and_names(settings.get("columns", ()))
    report = examine_table(table, **settings)
    if as_json:
        click.echo(printable(to_json(words.reworded(report.as_json()), ensure_ascii=False, indent=1)))
    else:
        words.show_document(table_blocks(report))
    return 0 if report.is_fit else UNFIT
