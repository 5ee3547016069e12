"""`gpt1 report`: runs and studies as one page for people."""

from __future__ import annotations

from typing import Any

import click

from gpt1.cli import options


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN|STUDY...")
@click.option("--out", metavar="FILE", help="Where the page goes.  [report.html]")
@options.overwrite
@click.option("--title", metavar="TEXT", help="Its title.  [the names of the folders]")
def command(runs: tuple[str, ...], out: str | None, overwrite: bool, title: str | None) -> None:
    """Show runs (pre-trained, fine-tuned, the folder of several seeds) and studies on one HTML page.

    Runs that learned the same task are put side by side, and their difference is judged in pairs, example by example.
    Then each run has its part: what it is, curves, samples, scores with intervals, confusion, calibration, mistakes.
    A study has its tables and curves, the paper's beside ours. Only what lies in the folders is read; nothing is
    trained or measured, and the page needs no network.

    \b
    Examples:
      gpt1 report runs/books runs/reviews runs/scratch --out report.html
      gpt1 report studies/ablations studies/labels --out studies.html
    """
    from gpt1.base.errors import printable
    from gpt1.report import report

    named: dict[str, Any] = {} if out is None else {"out": out}
    page = report(runs, title=title, overwrite=overwrite, **named)
    click.echo(printable(f"{page} is written; open it in a browser"))
