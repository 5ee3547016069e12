"""`gpt1 demo`: the whole idea in five minutes, on two cores."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from pathlib import Path

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words


@click.command()
@click.option("--out", metavar="DIR", help="Folder for all of it.  [gpt1-demo; with --text: gpt1-demo-text]")
@click.option("--text", multiple=True, metavar="PATH", help="Pre-train on your own text, not on stories; repeatable.")
@click.option(
    "--seeds", type=options.WholeNumber(1), metavar="N", help="Seeds of each fine-tuning; not with --text.  [1]"
)
@options.as_json
def command(out: str | None, text: tuple[str, ...], seeds: int | None, as_json: bool) -> None:
    """Show the paper's idea: a small network is pre-trained on stories, then learns four tasks from few labels.

    About five minutes on two cores. Stopped and called again, it goes on where it was.

    \b
    Examples:
      gpt1 demo
      gpt1 demo --seeds 3
      gpt1 demo --text books/
    """
    from gpt1.base.errors import SettingError
    from gpt1.cli.lines import TrainingLines
    from gpt1.demo.page import TITLE, opening
    from gpt1.demo.recipe import Plan
    from gpt1.demo.tour import FOLDER, OWN_TEXT_FOLDER, REPORT, or_begin_anew, read_own_text, runs_of, tour
    from gpt1.documents.blocks import Note
    from gpt1.report import report

    if text and seeds is not None:
        raise SettingError("--seeds is for the tasks about the stories, and your own text has none; leave it out")
    out = out or (OWN_TEXT_FOLDER if text else FOLDER)
    named = {} if seeds is None else {"seeds": seeds}
    began = time.monotonic()
    terminal = words.CommandTerminal()
    listeners = [TrainingLines(terminal)]
    try:
        if text:
            run = read_own_text(out, text, plan=Plan(), progress=terminal, listeners=listeners)
            runs, title, openings = [run], None, []
        else:
            found = tour(out, **named, plan=Plan(), progress=terminal, listeners=listeners)
            runs, title, openings = runs_of(out, found.seeds), TITLE, [opening(found)]
        with or_begin_anew(out):
            page = report(runs, Path(out, REPORT), title, openings, overwrite=True)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command goes on") from None
    finally:
        terminal.done()
    if as_json:
        click.echo(to_json({**({"run": str(run)} if text else asdict(found)), "report": str(page)}, indent=1))
        return
    click.echo()
    words.show_document([Note(f"The network is pre-trained on your text: {run}")] if text else openings[0].blocks)
    following = (
        f"Teach it your labels: gpt1 finetune --init {shlex.quote(str(run))} --train labels.csv --out classifier"
        if text
        else "Your own text and labels: gpt1 demo --text FOLDER, then gpt1 finetune --help"
    )
    click.echo("\n".join(["", f"{time.monotonic() - began:.0f} seconds. The report: {page}", following]))
