"""`gpt1 labels`: which labels are likely wrong, and which rows to label next."""

from __future__ import annotations

from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.app import Verbs
from gpt1.cli.evaluate import open_run, step_option

out_option = click.option("--out", required=True, metavar="FILE", help="The sheet: .csv, .tsv, .jsonl or .parquet.")
task_option = click.option("--task", metavar="NAME", help="Which of the run's tasks, where it has learned several.")


@click.group(cls=Verbs)
def command() -> None:
    """Labels after the first run: which are likely wrong, and which rows to label next.

    Example: gpt1 labels suspect runs/reviews reviews.csv --out suspects.csv
    """


@command.command("suspect")
@click.argument("run")
@click.argument("table")
@out_option
@options.overwrite
@task_option
@options.columns
@options.encoding
@options.skip_bad
@options.fold_labels
@click.option(
    "--flag-anyway",
    is_flag=True,
    default=None,
    help="Flag labels even where those who answer agree with them no better than chance.",
)
@step_option
@options.device
@options.as_json
def suspect(
    run: str,
    table: str,
    out: str,
    step: str | None,
    device: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Tell which labels of a TABLE are likely wrong, by answers to rows that were not learned.

    Where the RUN has learned rows of the table, it is trained again from its base, three times on two thirds of the
    rows, and answers the others: how long that takes is told. Stopped, the same command goes on. Else it answers
    itself. The sheet has all rows, the worst first, with their row in the table, the label that others would give, how
    sure they are of either, and whether the label is flagged (confident learning). Where those who answer agree with
    the labels no better than always saying the commonest would, no label is flagged.

    \b
    Example:
      gpt1 labels suspect runs/reviews reviews.csv --out suspects.csv
    """
    from gpt1.cli.lines import TrainingLines
    from gpt1.labelling.shown import judge_of, suspect_blocks
    from gpt1.labelling.suspects import suspect_labels

    terminal = words.CommandTerminal()
    try:
        found = suspect_labels(
            open_run(run, step, device),
            table,
            out,
            **_named(given),
            listeners=[TrainingLines(terminal)],
            notice=terminal.say,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on") from None
    finally:
        terminal.done()
    if as_json:
        judge = judge_of(found)
        told = {"rows": len(found), "flagged": sum(one.flagged for one in found), "out": out, "agreed": judge.agreed}
        told |= {"commonest": judge.commonest, "may_be_chance": judge.may_be_chance}
        click.echo(to_json(told, indent=1))
    else:
        words.show_document(suspect_blocks(found, out))


@command.command("next")
@click.argument("run")
@click.argument("texts")
@click.option("--count", type=options.WholeNumber(1), metavar="N", help="How many rows to choose.  [50]")
@click.option(
    "--random-share",
    type=options.Number(0, max=1),
    metavar="SHARE",
    help="Of them, drawn from all rows, so that what is measured on them is honest.  [0.2]",
)
@out_option
@options.overwrite
@task_option
@options.columns
@options.encoding
@options.skip_bad
@options.fold_labels
@step_option
@options.device
@options.as_json
def next_(
    run: str,
    texts: str,
    out: str,
    step: str | None,
    device: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Choose the rows of TEXTS, a table, that the RUN learns most from once they are labelled.

    Some are drawn at random, some the run is least sure of, some of these are as different from each other as can be;
    a column says why. Rows that have a label, that the run has learned, and copies are left out. The sheet has a column
    for the label, to be filled in.

    \b
    Example:
      gpt1 labels next runs/reviews mails.csv --column text=body --count 50 --out next.csv
    """
    from gpt1.inference.answering import task_of
    from gpt1.labelling.choosing import next_labels
    from gpt1.labelling.shown import next_blocks

    opened, named = open_run(run, step, device), _named(given)
    found = next_labels(opened, texts, out, notice=words.notice, **named)
    if as_json:
        click.echo(to_json({"rows": [{"row": one.row, "why": one.why} for one in found], "out": out}, indent=1))
    else:
        label = named.get("columns", {}).get("label", task_of(opened, named.get("task")).label_field)
        words.show_document(next_blocks(found, out, label))


def _named(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as the function below has them."""
    named = {name: value for name, value in given.items() if value not in (None, ())}
    return named | ({"columns": options.roles_and_names(named["columns"])} if "columns" in named else {})
