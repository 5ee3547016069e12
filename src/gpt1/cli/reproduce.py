"""`gpt1 reproduce`: the paper's tables and figures in one go."""

from __future__ import annotations

from typing import Any

import click

from gpt1.cli import options
from gpt1.cli.study import init_option, lstm_option, out_option, training_of, training_options, watched


@click.command()
@init_option
@lstm_option
@click.option("--data", required=True, metavar="DIR", help="A folder with the tasks, each in one of its name.")
@out_option
@training_options
@options.as_json
def command(init: str, lstm: str | None, data: str, out: str, as_json: bool, **given: Any) -> None:
    """Make the paper's tables 2 to 5 and figure 2, as far as the data goes, with the paper's figures beside ours.

    Every task found in --data is learned; a table of what is done and left is shown on the way. What is done is kept:
    killed and called again, it goes on.

    \b
    Example: gpt1 reproduce --init runs/paper --lstm runs/lstm --data tasks/ --out reproduction --seeds 3
    """
    from gpt1.studies.reproduce import reproduce

    training = training_of(given)
    watched(
        lambda watcher: reproduce(init, out, data=data, training=training, lstm=lstm, watcher=watcher), out, as_json
    )
