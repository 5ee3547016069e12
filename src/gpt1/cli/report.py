"""`gpt1 report`: runs as one page for people."""

from __future__ import annotations

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--out", default="report.html", show_default=True, metavar="FILE", help="Where the page goes.")
@click.option("--title", metavar="TEXT", help="Its title.  [the names of the runs]")
def command(runs: tuple[str, ...], out: str, title: str | None) -> None:
    """Show runs on one HTML page that needs no network: pre-trained, fine-tuned, or the folder of several seeds.

    Runs that learned the same task are put side by side, and their difference is judged in pairs, example by example.
    Then each run has its part: what it is, curves, samples, scores with intervals, confusion, calibration, mistakes.
    Only what lies in the folders is read; nothing is trained or measured.

    \b
    Example: gpt1 report runs/books runs/reviews runs/scratch --out report.html
    """
    from gpt1.base.tables import printable
    from gpt1.report import report

    click.echo(printable(f"{report(runs, out, title)} is written; open it in a browser"))
