"""`gpt1 submit`: fine-tuned runs answer GLUE's test sets, as its server wants them."""

from __future__ import annotations

import click

from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--data", required=True, metavar="DIR", help="The folder of GLUE's files, test files among them.")
@click.option("--out", required=True, metavar="FILE", help="The zip to write, for the server at gluebenchmark.com.")
@options.overwrite
@step_option
@options.device
def command(runs: tuple[str, ...], data: str, out: str, overwrite: bool, step: str | None, device: str | None) -> None:
    """Answer GLUE's test sets with fine-tuned runs, and write the zip for its server.

    Each RUN answers the tasks of GLUE that it has learned. What the zip still lacks, or has wrong, is told: the server
    takes whole ones only.

    \b
    Example: gpt1 submit runs/rte runs/cola --data glue/ --out glue.zip
    """
    from gpt1.inference.glue import submit

    lacking = submit(
        [open_run(run, step, device) for run in runs],
        data,
        out,
        overwrite=overwrite,
        notice=words.notice,
    )
    click.echo(f"{out}: not to be sent yet" if lacking else f"{out}: to be sent")
    for problem in lacking:
        click.echo(f"  {problem}")
