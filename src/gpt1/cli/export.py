"""`gpt1 export`: runs for other programs."""

from __future__ import annotations

import click

from gpt1.cli import options
from gpt1.cli.app import Verbs
from gpt1.cli.evaluate import open_run, step_option

_task = click.option("--task", metavar="NAME", help="Fine-tuned: which of its tasks, where it has learned several.")


@click.group(cls=Verbs)
def command() -> None:
    """Write a run for transformers, as ONNX, or smaller.

    Example: gpt1 export transformers runs/tiny --out for-transformers
    """


@command.command(short_help="A folder that transformers opens.")
@click.argument("run")
@click.option("--out", required=True, metavar="DIR", help="A folder for the model alone.")
@options.overwrite
@_task
@step_option
def transformers(run: str, out: str, overwrite: bool, task: str | None, step: str | None) -> None:
    """Write a run of the paper's form as transformers' OpenAIGPT, fine-tuned ones as a sequence classifier.

    Example: gpt1 export transformers runs/tiny --out for-transformers
    """
    from gpt1.exchange.to_transformers import export_transformers

    _tell(export_transformers(open_run(run, step, "cpu"), out, task=task, overwrite=overwrite), out)


@command.command(short_help="An ONNX file.")
@click.argument("run")
@click.option("--out", required=True, metavar="FILE", help="Where the file goes.")
@options.overwrite
@_task
@step_option
def onnx(run: str, out: str, overwrite: bool, task: str | None, step: str | None) -> None:
    """Write a run as an ONNX file: ids in, logits out.

    Example: gpt1 export onnx runs/tiny --out tiny.onnx
    """
    from gpt1.exchange.to_onnx import export_onnx

    _tell(export_onnx(open_run(run, step, "cpu"), out, task=task, overwrite=overwrite), out)


@command.command(short_help="A run of a quarter of its size.")
@click.argument("run")
@click.option("--out", required=True, metavar="RUN", help="A new folder for the smaller run.")
@step_option
def compact(run: str, out: str, step: str | None) -> None:
    """Write a run as a smaller run: each weight in a byte, and nothing that only training needs.

    It generates, answers, is served and fine-tuned from like any other; it cannot be trained further itself.

    Example: gpt1 export compact runs/tiny --out tiny-compact
    """
    from gpt1.exchange.to_compact import export_compact

    _tell(export_compact(open_run(run, step, "cpu"), out), out)


def _tell(said: list[str], out: str) -> None:
    click.echo(f"{out}: written")
    for sentence in said:
        click.echo(sentence)
