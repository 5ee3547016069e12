"""`gpt1 bases`: the pre-trained runs that ship inside the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words

if TYPE_CHECKING:
    from gpt1.bases.catalog import Base


@click.command()
@click.argument("name", required=False)
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the bases that ship with gpt1 and what each has read, or print the model card of one (NAME).

    A base is a pre-trained run: its name stands wherever a verb takes a run, and `gpt1 finetune` without --init starts
    from the first one.

    \b
    Examples:
      gpt1 bases
      gpt1 bases small
      gpt1 finetune --init small --train reviews.csv --out runs/reviews
    """
    from gpt1.bases.catalog import NO_BASE, bases, find_base

    if name is not None:
        base = find_base(name)
        click.echo(to_json(_facts(base), indent=1) if as_json else base.card().rstrip("\n"))
    elif as_json:
        click.echo(to_json([_facts(base) for base in bases()], indent=1))
    else:
        words.show([line for base in bases() for line in _lines(base)] or [NO_BASE])


def _facts(base: Base) -> dict[str, Any]:
    return base.record.as_json() | {"path": str(base.path), "size": base.size}


def _lines(base: Base) -> list[str]:
    record = base.record
    return [
        f"{base.name}: {record.about}",
        f"  {record.parameters:,} parameters, {base.size / 1e6:,.1f} MB in {base.path}",
        f"  has read {record.text.in_short()}",
        f"  licence: {record.weights_licence}; of the text: {record.text_licence}",
    ]
