"""`gpt1 check`: a task of one's own, before anything is trained on it."""

from __future__ import annotations

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
    "--context", type=click.IntRange(4), metavar="N", help="Longest sequence in tokens.  [512]"
)


@click.command()
@click.argument("task", metavar="MODULE:TASK")
@data_option
@tokenizer_option
@context_option
@options.encoding
@options.as_json
def command(task: str, data: str | None, as_json: bool, **given: Any) -> None:
    """Tell what a task of your own was understood as, or what is wrong with it.

    With --data its files are read, and splits, labels and what is doubtful in them are told; with --tokenizer lengths
    too. Nothing is written.

    \b
    Example: gpt1 check my_tasks:MAIL --data mails/ --tokenizer tokenizer.json
    """
    print_check(task, data, as_json, {option: value for option, value in given.items() if value is not None})


def print_check(task: str, data: str | None, as_json: bool, settings: dict[str, Any]) -> None:
    """Print what a task is, and what its data holds if there is any."""
    from gpt1.base.errors import printable
    from gpt1.tasks.describe import check_task, describe_check

    if settings and data is None:
        raise click.UsageError(f"--{next(iter(settings))} goes with --data")
    report = check_task(task, data=data, **load_if_named(settings))
    if as_json:
        click.echo(to_json(report, ensure_ascii=False, indent=1))
        return
    for notice in report.get("notices", ()):
        words.notice(printable(notice))
    click.echo(printable("\n".join(describe_check(report))))


def load_if_named(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the tokenizer in the place of its name."""
    from gpt1.text.tokenizer import load_tokenizer

    return settings | ({"tokenizer": load_tokenizer(settings["tokenizer"])} if "tokenizer" in settings else {})
