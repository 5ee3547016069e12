"""`gpt1 recipes`: what would be run."""

from __future__ import annotations

from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.base.wording import aligned
from gpt1.cli import options


@click.command()
@click.argument("name", required=False)
@click.option("--diff", nargs=2, metavar="A B", help="Show the settings in which two recipes differ.")
@options.changes
@options.as_json
def command(name: str | None, diff: tuple[str, str] | None, changes: tuple[str, ...], as_json: bool) -> None:
    """List the recipes, show the settings that one (NAME or module:NAME) uses, or how two differ; --json has all.

    \b
    Examples:
      gpt1 recipes
      gpt1 recipes tiny --set training.batch=16
      gpt1 recipes --diff paper modern
    """
    from gpt1.recipes.catalog import RECIPES, find_recipe, used_settings
    from gpt1.recipes.changes import change, differences, settings

    if diff is not None:
        if name is not None or changes:
            raise click.UsageError("--diff takes two recipes and nothing else")
        one, other = (find_recipe(given) for given in diff)
        found = differences(one, other)
        if as_json:
            click.echo(to_json(found, indent=1))
        else:
            _table([("setting", one.name, other.name), *((key, *pair) for key, pair in found.items())])
    elif name is not None:
        shown = change(find_recipe(name), changes)
        if as_json:
            click.echo(to_json(settings(shown), indent=1))
        else:
            _table(list(used_settings(shown).items()))
    elif changes:
        raise click.UsageError("--set changes one recipe; name it")
    elif as_json:
        click.echo(to_json({recipe.name: settings(recipe) for recipe in RECIPES.values()}, indent=1))
    else:
        _table([(recipe.name, recipe.about) for recipe in RECIPES.values()])


def _table(rows: list[tuple[Any, ...]]) -> None:
    click.echo("\n".join(aligned([["none" if cell is None else str(cell) for cell in row] for row in rows])))
