"""`gpt1 tasks`: which labelled tasks there are, what one is, and how its rows reach a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

data_option = click.option(
    "--data", metavar="DIR", help="The folder of the task's files, ours or official, or hub:NAME."
)
tokenizer_option = click.option(
    "--tokenizer", metavar="FILE", help="A tokenizer.json of ours, or a folder that holds one."
)
context_option = click.option(
    "--context", type=options.WholeNumber(4), metavar="N", help="Longest sequence in tokens.  [512]"
)


@click.command("tasks")
@click.argument("name", required=False)
@data_option
@click.option(
    "--show", "count", type=options.WholeNumber(1), metavar="N", help="Print so many examples, token by token."
)
@click.option("--split", metavar="NAME", help="--show: of which split.  [train]")
@tokenizer_option
@context_option
@options.encoding
@options.as_json
def tasks_command(name: str | None, data: str | None, count: int | None, as_json: bool, **given: Any) -> None:
    """List the labelled tasks, tell what one is (NAME or module:NAME), or show examples of it as tokens.

    Without a tokenizer words stand for tokens.

    \b
    Examples:
      gpt1 tasks
      gpt1 tasks rte --data tasks/
      gpt1 tasks rte --data tasks/ --show 2 --tokenizer tokenizer.json
    """
    settings = {option: value for option, value in given.items() if value is not None}
    if name is None:
        if data or count or settings:
            raise click.UsageError("name a task, such as: gpt1 tasks rte --data tasks/ --show 2")
        _list(as_json)
    elif count is not None:
        if data is None:
            raise click.UsageError("--show needs the rows of the task; name their folder with --data")
        _show(name, data, count, as_json, settings)
    else:
        if "split" in settings:
            raise click.UsageError("--split goes with --show")
        tell_task(name, data, as_json, **settings)


def tell_task(task: str, data: str | None, as_json: bool, **settings: Any) -> None:
    """Print what a task is, and what its data holds if there is any."""
    from gpt1.base.errors import printable
    from gpt1.tasks.describe import check_task, describe_check

    if settings and data is None:
        raise click.UsageError(f"--{next(iter(settings))} goes with --data")
    report = check_task(task, data=data, **_load_if_named(settings))
    if as_json:
        click.echo(to_json(report, ensure_ascii=False, indent=1))
        return
    for notice in report.get("notices", ()):
        words.notice(printable(notice))
    click.echo(printable("\n".join(describe_check(report))))


def _load_if_named(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the tokenizer in the place of its name."""
    from gpt1.text.tokenizer import load_tokenizer

    return settings | ({"tokenizer": load_tokenizer(settings["tokenizer"])} if "tokenizer" in settings else {})


def _list(as_json: bool) -> None:
    from gpt1.documents.blocks import Table, TableCell, TableRow
    from gpt1.tasks.catalog import CATALOGUE
    from gpt1.tasks.describe import describe_catalogue

    if as_json:
        click.echo(to_json({name: task.as_json() for name, task in CATALOGUE.items()}, indent=1))
        return
    header, *tasks = describe_catalogue()
    rows = [TableRow(name, [TableCell(text, is_number=False) for text in cells]) for name, *cells in tasks]
    words.show_document([Table("", [*header], rows)])


def _show(name: str, data: str, count: int, as_json: bool, settings: dict[str, Any]) -> None:
    from gpt1.base.errors import printable
    from gpt1.tasks.describe import in_lines, show_task

    if "tokenizer" not in settings:
        click.echo("there is no --tokenizer: words stand for tokens", err=True)
    shown, notices = show_task(name, data, count, **_load_if_named(settings))
    for notice in notices:
        words.notice(printable(notice))
    if as_json:
        click.echo(to_json([asdict(example) for example in shown], ensure_ascii=False, indent=1))
    else:
        click.echo(printable("\n".join(line for example in shown for line in in_lines(example))))
