"""`gpt1 generate`: a run continues a text."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

ALL = "all"


def _number_or_all(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == ALL:
        return value
    if not value.isdecimal():
        raise click.BadParameter(f"a whole number or '{ALL}', not '{value}'")
    if int(value) == 0:
        raise click.BadParameter(f"at least 1, or '{ALL}'")
    return int(value)


@click.command()
@click.argument("run")
@click.argument("prompt", default="")
@click.option("--max-new-tokens", type=options.WholeNumber(0), metavar="N", help="So many, at most.  [128]")
@options.formerly("--tokens", "--max-new-tokens", options.WholeNumber(0))
@click.option("--temperature", type=options.Number(0), metavar="X", help="0: always the likeliest.  [0.8]")
@click.option("--top-k", callback=_number_or_all, metavar="N|all", help="Draw from the likeliest N tokens.  [40]")
@click.option(
    "--top-p",
    type=options.Number(0, 1, min_open=True),
    metavar="P",
    help="Draw from the likeliest that together have probability P.  [all]",
)
@click.option(
    "--repetition-penalty",
    type=options.Number(0, min_open=True),
    metavar="X",
    help="Above 1: say less again.  [1]",
)
@click.option("--stop", multiple=True, metavar="TEXT", help="End before this text; may be given several times.")
@click.option(
    "--samples", type=options.WholeNumber(1), default=1, metavar="N", help="How many, with seeds one after another."
)
@options.seed
@step_option
@options.int8
@options.device
@options.as_json
def command(
    run: str,
    prompt: str,
    samples: int,
    step: str | None,
    int8: bool,
    device: str | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Let a run continue a text, and show it as it is written.

    Without a prompt it begins a document; with - the prompt is read from standard input. The same seed gives the same
    text.

    \b
    Examples:
      gpt1 generate runs/tiny "The captain opened the door"
      gpt1 generate runs/tiny "It was" --max-new-tokens 50 --temperature 0 --stop "." --json
    """
    from collections import Counter

    import numpy as np

    from gpt1.tasks.unknowns import count_unknown

    if prompt == "-":
        prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").removesuffix("\n")
    opened = open_run(run, step, device, int8)
    unknown = count_unknown(np.array([opened.tokenizer.count_unknown(prompt)]))
    for text in unknown.notice(1, "the prompt", opened.tokenizer.unknown_characters(Counter(prompt))):
        words.notice(text)
    given = {name: None if value == ALL else value for name, value in settings.items() if value not in (None, ())}
    if as_json or samples > 1:
        found = opened.generate_batch([prompt] * samples, **given)
        if as_json:
            texts = [{"text": one.text, "tokens": len(one.ids), "finish_reason": one.finish_reason} for one in found]
            answer = {"run": run, "step": opened.checkpoint.step, "prompt": prompt}
            answer |= {"unknown_tokens": unknown.tokens, "samples": texts}
            click.echo(to_json(answer, ensure_ascii=False, indent=1))
        else:
            click.echo("\n\n".join(prompt + one.text for one in found))
        return
    pieces = opened.stream(prompt, **given)  # which refuses what makes no sense before anything is shown
    click.echo(prompt, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
    click.echo()
