"""`gpt1 plan`: what would a run take, and does it suit its text?"""

from __future__ import annotations

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words


@click.command()
@click.option("--recipe", metavar="NAME", help="The recipe to plan for.  [paper]")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting of it. May be repeated.")
@click.option("--corpus", metavar="DIR", help="What 'gpt1 prepare' made of the text.")
@click.option("--tokens", type=options.WholeNumber(2), metavar="N", help="In place of a corpus: so many tokens.")
@click.option(
    "--vocab", "vocab_size", type=options.WholeNumber(1), metavar="N", help="With --tokens: of so many kinds."
)
@click.option("--gpu", metavar="NAME", help="Plan for this GPU, such as H200 or 'RTX 4090'.  [this machine]")
@click.option("--device", metavar="NAME", help="A device of this machine: cpu, mps, cuda:1.  [the best there is]")
@options.as_json
def command(recipe: str | None, changes: tuple[str, ...], as_json: bool, **given: object) -> None:
    """Tell what a run would take (parameters, updates, FLOPs, memory, disk, time) and whether it suits its text.

    Nothing is trained or written.

    \b
    Example: gpt1 plan --recipe paper --corpus corpus/ --gpu H200
             gpt1 plan --recipe tiny --tokens 2000000 --vocab 8000 --set layers=6
    """
    from gpt1.inspection.plan import RECIPE, plan
    from gpt1.inspection.plan_page import describe
    from gpt1.recipes.catalog import find_recipe
    from gpt1.recipes.changes import change

    planned = plan(change(find_recipe(recipe or RECIPE), changes), **given)  # type: ignore[arg-type]
    if as_json:
        click.echo(to_json(words.reworded(planned.as_json()), indent=1))
    else:
        click.echo("\n".join(describe(planned, words.in_own_words)))
