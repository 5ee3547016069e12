"""`gpt1 import`: runs of weights that were trained elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpt1.cli import options
from gpt1.cli.app import Verbs

if TYPE_CHECKING:
    from gpt1.inference.run import Run

_out = click.option("--out", required=True, metavar="RUN", help="A new folder for the run.")


@click.group(cls=Verbs)
def command() -> None:
    """Make a run of GPT-1's released weights, or of transformers' OpenAIGPT.

    Example: gpt1 import openai finetune-transformer-lm/model --out runs/gpt1
    """


@command.command(short_help="OpenAI's released files.")
@click.argument("folder")
@_out
@options.device
def openai(folder: str, out: str, device: str | None) -> None:
    """Import OpenAI's release: a FOLDER with params_0.npy ..., params_shapes.json and the two vocabulary files.

    Example: gpt1 import openai finetune-transformer-lm/model --out runs/gpt1
    """
    from gpt1.exchange.from_openai import import_openai

    _tell(import_openai(folder, out, device=device), out)


@command.command(short_help="transformers' OpenAIGPT.")
@click.argument("source", metavar="FOLDER|HUB-NAME")
@_out
@options.device
def transformers(source: str, out: str, device: str | None) -> None:
    """Import an OpenAIGPT that transformers saved, from a folder or, by its name, from the hub.

    The vocabulary gets the paper's own rules, which transformers' tokenizer does not follow.

    Example: gpt1 import transformers openai-community/openai-gpt --out runs/gpt1
    """
    from gpt1.exchange.from_transformers import import_transformers

    _tell(import_transformers(source, out, device=device), out)


def _tell(run: Run, out: str) -> None:
    parameters = sum(weight.numel() for weight in run.checkpoint.model.values())
    click.echo(
        f"{out}: {parameters:,} parameters, {run.tokenizer.vocab_size:,} tokens, context {run.recipe.shape.context}"
    )
    click.echo(f'try: gpt1 generate {out} "The captain opened the door"')
