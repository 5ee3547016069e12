"""An option that a verb does not have: what may have been meant."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpt1.base.errors import nearest

# What others call an option or a setting of ours; told only where the verb has it.
SYNONYMS = {
    "batch_size": "batch",
    "early_stopping": "patience",
    "force": "overwrite",
    "gpu": "device",
    "iterations": "steps",
    "jobs": "workers",
    "learning_rate": "lr",
    "max_length": "max_new_tokens",
    "max_steps": "steps",
    "max_tokens": "max_new_tokens",
    "model": "init",
    "n_epochs": "epochs",
    "n_jobs": "workers",
    "num_epochs": "epochs",
    "num_samples": "samples",
    "num_workers": "workers",
    "output": "out",
    "output_dir": "out",
    "valid": "dev",
    "vocab_size": "merges",
}
_VALUE = "VALUE"  # where none was given


def told(error: click.NoSuchOption, arguments: Sequence[str]) -> click.UsageError:
    """Return the error for an option that is not there, with the one that may have been meant, or the setting."""
    context = error.ctx
    near = _meant(context.command, error.option_name, _value_of(error.option_name, arguments)) if context else []
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return click.UsageError(f"no such option '{error.option_name}'{meant}", ctx=context)


def _meant(command: click.Command, option: str, value: str) -> list[str]:
    """Return what stands for an option: one of the verb's by another name, settings of a recipe, or what is alike."""
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    options = {word.removeprefix("--").replace("-", "_"): word for one in shown for word in one.opts}
    settings = _settings() if any(one.name == "changes" for one in shown) else {}
    known = {name: [f"--set {one}={value}" for one in places] for name, places in settings.items()}
    known |= {name: [word] for name, word in options.items()}
    name = option.lstrip("-").replace("-", "_")
    for meant in (name, SYNONYMS.get(name), nearest(name, known)):
        if meant in known:
            return known[meant]
    return []


def _settings() -> dict[str, list[str]]:
    """Return the settings of a recipe: by the last part of the name, the whole names."""
    from gpt1.recipes.catalog import PAPER
    from gpt1.recipes.changes import settings

    found: dict[str, list[str]] = {}
    for name in settings(PAPER):
        found.setdefault(name.partition(".")[2], []).append(name)
    return found


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """Return the value that was given with an option, behind it or behind an equals sign."""
    for argument, following in zip(arguments, [*arguments[1:], "-"], strict=True):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and not following.startswith("-"):
            return following
    return _VALUE
