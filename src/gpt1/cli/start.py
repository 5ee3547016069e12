"""`gpt1 start`: from a table of labels to a verdict in one command."""

from __future__ import annotations

import shlex
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

UNFIT = 1  # exit code of a table that cannot be trained on


@click.command()
@click.argument("table", metavar="TABLE")
@click.option("--text", multiple=True, metavar="PATH", help="Text of the same kind, to be read first; repeatable.")
@click.option("--init", metavar="RUN", help="The run or base to start from.  [the base of the package]")
@click.option("--minutes", type=options.Number(0, min_open=True), metavar="M", help="Time for all of it.  [60]")
@click.option("--out", metavar="DIR", help="Folder for all of it.  [gpt1-NAME, by the name of the table]")
@options.columns
@options.regression
@options.symmetric
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@options.device
@options.as_json
def command(table: str, text: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Make a classifier of a labelled TABLE, and tell whether it is worth more than counting words.

    The table is checked. With --text the base reads your text first, where it is enough, fits into the time, and makes
    the base predict text of yours better that it has not seen. Then it learns the labels. What was decided is told,
    and each step as a command of its own. Stopped and called again, it goes on where it was. Exit code 1: the table
    cannot be trained on as it is.

    \b
    Examples:
      gpt1 start reviews.csv
      gpt1 start mails.csv --text archive/ --minutes 120 --out mails
    """
    from gpt1.cli.lines import TrainingLines
    from gpt1.starting.shown import start_blocks
    from gpt1.starting.start import start

    named = {name: value for name, value in given.items() if value not in (None, ())}
    if "columns" in named:
        named["columns"] = options.roles_and_names(named["columns"])
    terminal = words.CommandTerminal()
    try:
        found = start(table, text=text, progress=terminal, listeners=[TrainingLines(terminal)], **named)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on") from None
    finally:
        terminal.done()
    ran = [words.command_line(step.verb, step.arguments) for step in found.steps]
    if as_json:
        evaluations = [one.as_json() for one in found.evaluations]
        told = {"run": found.run and str(found.run), "report": found.page and str(found.page), "commands": ran}
        table_told = words.reworded(found.table.as_json())
        click.echo(
            to_json({**told, "decisions": found.decisions, "evaluations": evaluations, "table": table_told}, indent=1)
        )
    else:
        words.show_document(start_blocks(found))
        if found.run is not None:
            run = shlex.quote(str(found.run))
            ask = ["Next:", f"  gpt1 predict {run} new.csv --out answers.csv", f"  gpt1 serve {run}"]
            click.echo("\n".join(["", "What was run, each a command of its own:", *(f"  {line}" for line in ran)]))
            click.echo("\n".join(["", f"The report: {found.page}", *ask]))
    return 0 if found.table.is_fit else UNFIT
