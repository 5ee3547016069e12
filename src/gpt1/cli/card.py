"""`gpt1 card`: what a run is, in a file that goes with it."""

from __future__ import annotations

import click

from gpt1.cli import options


@click.command()
@click.argument("run")
@click.option("--out", metavar="FILE", help="Where the card goes.  [it is printed]")
@options.overwrite
def command(run: str, out: str | None, overwrite: bool) -> None:
    """Write the model card of a RUN, in Markdown: what it is, learned, scores, cannot do; how to use it; licences.

    Only what lies in the run's folder is read. Files and runs are named without where they lay, so that the card may be
    given away with the run. Of a base its own card is printed.

    \b
    Examples:
      gpt1 card runs/reviews
      gpt1 card runs/reviews --out runs/reviews/README.md
    """
    from gpt1.base.errors import printable
    from gpt1.report.card import make_card, write_card

    if out is None:
        click.echo(printable(make_card(run)).rstrip("\n"))
    else:
        click.echo(printable(f"{write_card(run, out, overwrite=overwrite)} is written"))
