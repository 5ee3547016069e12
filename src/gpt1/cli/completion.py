"""`gpt1 completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    Example, for the running shell: eval "$(gpt1 completion bash)". Put that line into ~/.bashrc (or ~/.zshrc, with
    zsh) to have it always; for fish: gpt1 completion fish > ~/.config/fish/completions/gpt1.fish
    """
    from gpt1.cli.app import gpt1

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(gpt1, {}, "gpt1", "_GPT1_COMPLETE").source())
