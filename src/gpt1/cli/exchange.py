"""`gpt1 import`: runs of weights that were trained elsewhere; `gpt1 export`: runs for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpt1.cli import options
from gpt1.cli.app import Verbs
from gpt1.cli.evaluate import open_run, step_option

if TYPE_CHECKING:
    from gpt1.inference.run import Run

_run = click.option("--out", required=True, metavar="RUN", help="A new folder for the run.")
_task = click.option("--task", metavar="NAME", help="Fine-tuned: which of its tasks, where it has learned several.")


@click.group("import", cls=Verbs)
def import_command() -> None:
    """Make a run of GPT-1's released weights, or of transformers' OpenAIGPT.

    Example: gpt1 import openai finetune-transformer-lm/model --out runs/gpt1
    """


@import_command.command("openai", short_help="OpenAI's released files.")
@click.argument("folder")
@_run
@options.device
def import_openai_command(folder: str, out: str, device: str | None) -> None:
    """Import OpenAI's release: a FOLDER with params_0.npy ..., params_shapes.json and the two vocabulary files.

    Example: gpt1 import openai finetune-transformer-lm/model --out runs/gpt1
    """
    from gpt1.exchange.importing import import_openai

    _tell_run(import_openai(folder, out, device=device), out)


@import_command.command("transformers", short_help="transformers' OpenAIGPT.")
@click.argument("source", metavar="FOLDER|HUB-NAME")
@_run
@options.device
def import_transformers_command(source: str, out: str, device: str | None) -> None:
    """Import an OpenAIGPT that transformers saved, from a folder or, by its name, from the hub.

    The vocabulary gets the paper's own rules, which transformers' tokenizer does not follow.

    Example: gpt1 import transformers openai-community/openai-gpt --out runs/gpt1
    """
    from gpt1.exchange.importing import import_transformers

    _tell_run(import_transformers(source, out, device=device), out)


def _tell_run(run: Run, out: str) -> None:
    parameters = sum(weight.numel() for weight in run.checkpoint.model.values())
    click.echo(
        f"{out}: {parameters:,} parameters, {run.tokenizer.vocab_size:,} tokens, context {run.recipe.shape.context}"
    )
    click.echo(f'try: gpt1 generate {out} "The captain opened the door"')


@click.group("export", cls=Verbs)
def export_command() -> None:
    """Write a run for transformers, as ONNX, or smaller.

    Example: gpt1 export transformers runs/tiny --out for-transformers
    """


@export_command.command("transformers", short_help="A folder that transformers opens.")
@click.argument("run")
@click.option("--out", required=True, metavar="DIR", help="A folder for the model alone.")
@options.overwrite
@_task
@step_option
def export_transformers_command(run: str, out: str, overwrite: bool, task: str | None, step: str | None) -> None:
    """Write a run of the paper's form as transformers' OpenAIGPT, fine-tuned ones as a sequence classifier.

    Example: gpt1 export transformers runs/tiny --out for-transformers
    """
    from gpt1.exchange.to_transformers import export_transformers

    _tell_written(export_transformers(open_run(run, step, "cpu"), out, task=task, overwrite=overwrite), out)


@export_command.command("onnx", short_help="An ONNX file.")
@click.argument("run")
@click.option("--out", required=True, metavar="FILE", help="Where the file goes.")
@options.overwrite
@_task
@step_option
def export_onnx_command(run: str, out: str, overwrite: bool, task: str | None, step: str | None) -> None:
    """Write a run as an ONNX file: ids in, logits out.

    Example: gpt1 export onnx runs/tiny --out tiny.onnx
    """
    from gpt1.exchange.to_onnx import export_onnx

    _tell_written(export_onnx(open_run(run, step, "cpu"), out, task=task, overwrite=overwrite), out)


@export_command.command("compact", short_help="A run of a quarter of its size.")
@click.argument("run")
@click.option("--out", required=True, metavar="RUN", help="A new folder for the smaller run.")
@step_option
def export_compact_command(run: str, out: str, step: str | None) -> None:
    """Write a run as a smaller run: each weight in a byte, and nothing that only training needs.

    It generates, answers, is served and fine-tuned from like any other; it cannot be trained further itself.

    Example: gpt1 export compact runs/tiny --out tiny-compact
    """
    from gpt1.exchange.to_compact import export_compact

    _tell_written(export_compact(open_run(run, step, "cpu"), out), out)


def _tell_written(said: list[str], out: str) -> None:
    click.echo(f"{out}: written")
    for sentence in said:
        click.echo(sentence)
