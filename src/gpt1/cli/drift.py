"""`gpt1 drift`: has what comes in changed since a run was judged?"""

from __future__ import annotations

from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

CHANGED = 1  # exit code


@click.command()
@click.argument("run")
@click.argument("table", metavar="TABLE")
@click.option(
    "--reference",
    metavar="TABLE",
    help="Rows as they were when it was well.  [the run's own for dev and test, where they still lie as they did]",
)
@click.option("--task", metavar="NAME", help="Which of the run's tasks, where it has learned several.")
@options.columns
@options.encoding
@options.skip_bad
@step_option
@options.device
@options.as_json
def command(run: str, table: str, step: str | None, device: str | None, as_json: bool, **given: Any) -> int:
    """Tell whether the rows of a table are still like those that a fine-tuned run was judged by.

    Labels are not needed and not looked at. Held against each other are the lengths of texts, how expected their words
    are to the run's own language model, tokens that its vocabulary does not have, what it answers and how surely. A
    change is told where it is farther off than chance (1 % in all) and of some size; the rows that are least like the
    known ones are shown. Exit code 0: no change is noticed; 1: there is one.

    \b
    Examples:
      gpt1 drift runs/reviews march.csv
      gpt1 drift runs/reviews march.csv --reference january.csv --json
    """
    from gpt1.base.errors import printable
    from gpt1.documents.drift import drift_blocks
    from gpt1.finetuning.drifting import find_drift

    asked = {name: value for name, value in given.items() if value not in (None, ())}
    if "columns" in asked:
        asked["columns"] = options.roles_and_names(asked["columns"])
    report = find_drift(open_run(run, step, device), table, notice=words.notice, **asked)
    if as_json:
        click.echo(printable(to_json(report.as_json(), ensure_ascii=False, indent=1)))
    else:
        words.show_document(drift_blocks(report))
    return CHANGED if report.has_changed else 0
