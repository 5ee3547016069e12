"""Options that several verbs share, so that the same thing has the same name everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpt1.base.errors import tell_renamed

if TYPE_CHECKING:
    from gpt1.finetuning.data import Source


class WholeNumber(click.IntRange):
    """A whole number within bounds, called so in errors too."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within bounds, called so in errors too."""

    name = "number"


class Share(Number):
    """A number above 0 and below 1; one that seems to be percent is answered with the share that it is."""

    def __init__(self) -> None:
        super().__init__(0, 1, min_open=True, max_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share that was typed."""
        try:
            return float(super().convert(value, param, ctx))
        except click.BadParameter as error:
            with suppress(ValueError):
                if 1 <= (percent := float(str(value).rstrip("% "))) < 100:
                    self.fail(f"{error.message} For {percent:g} % write {percent / 100:g}.", param, ctx)
            raise


tokenizer = click.option(
    "--tokenizer", required=True, metavar="FILE", help="A tokenizer.json of ours, a folder that holds one, or a base."
)
workers = click.option("--workers", type=WholeNumber(1), metavar="N", help="Processes to use.  [all cores]")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
document = click.option(
    "--document",
    metavar="file|line|blank|field|page",
    help="What a document is; blank: what stands between blank lines; field: a column.  [file for txt and md, field "
    "for tables]",
)
field = click.option("--field", metavar="COLUMN", help="The column of a table that holds the text.")
encoding = click.option("--encoding", metavar="NAME", help="Encoding of text files.  [utf-8]")
unwrap = click.option("--unwrap", is_flag=True, default=None, help="Join the lines of hard-wrapped paragraphs.")
columns = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="Of a labelled table: which column is text, a, b, label ...",
)
regression = click.option(
    "--regression", is_flag=True, default=None, help="Of a labelled table: the labels are numbers to predict."
)
symmetric = click.option(
    "--symmetric", is_flag=True, default=None, help="Of a labelled table: the order of a pair means nothing."
)
skip_bad = click.option(
    "--skip-bad", is_flag=True, default=None, help="Of a labelled table: leave out rows that cannot be used, and tell."
)
fold_labels = click.option(
    "--fold-labels",
    is_flag=True,
    default=None,
    help="Of a labelled table: labels that differ by case, blanks or Unicode's forms alone are one.",
)
labels_sep = click.option(
    "--labels-sep",
    metavar="SIGN",
    help="Of a labelled table: a row may have several labels, parted by this sign, or none.",
)
shape = click.option(
    "--shape",
    metavar="tokens|tokens-once",
    help="Of labelled words, in column files or lists: a label for each word; once: without what follows it.",
)
metric = click.option(
    "--metric",
    metavar="NAME",
    help="Of a labelled table: what chooses and judges: accuracy, or macro-f1 or matthews where labels are skewed.",
)
recipe = click.option("--recipe", metavar="NAME", help="A recipe (gpt1 recipes lists them), or module:NAME.")
changes = click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting, such as training.batch=32."
)
steps = click.option("--steps", type=WholeNumber(1), metavar="N", help="Updates to make.  [as the recipe says]")
lr = click.option("--lr", type=Number(0, min_open=True), metavar="RATE", help="Learning rate.  [as the recipe says]")
minutes = click.option("--minutes", type=Number(0), metavar="M", help="Stop after so long, saved.")
seed = click.option("--seed", type=WholeNumber(0), metavar="N", help="Seed of all that is random.  [0]")
overwrite = click.option("--overwrite", is_flag=True, help="Replace what --out holds already.")
int8 = click.option("--int8", is_flag=True, help="On a CPU: round the network's matrices to bytes, for speed.")
device = click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps.  [the fastest there is]")


def formerly(old: str, new: str, kind: click.ParamType[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option under the name it had before: not shown, it sets the one that it is now, and says so."""
    old_name, new_name = (option.removeprefix("--").replace("-", "_") for option in (old, new))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(**given: Any) -> Any:
            if (value := given.pop(old_name)) is not None:
                tell_renamed(old, new)
                if given[new_name] is not None:
                    raise click.UsageError(f"{old} and {new} are one option; give {new} alone")
                given[new_name] = value
            return command(**given)

        return click.option(old, type=kind, hidden=True)(called)

    return decorate


def roles_and_names(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return what `--column ROLE=NAME` said, given any number of times."""
    found = {}
    for pair in pairs:
        role, equals, name = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--column takes ROLE=NAME, such as text=review, not '{pair}'")
        found[role] = name
    return found


def part_of(text: str | None) -> tuple[int, int] | None:
    """Return which part of some work is meant, and of how many."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None:
        raise click.UsageError(f"--part takes such as 2/8, the second of eight parts, not '{text}'")
    return int(found[1]), int(found[2])


def with_lengths(changes: tuple[str, ...], steps: int | None, seed: int | None) -> list[str]:
    """Return settings with those that have options of their own, which are worth more than a --set: the last holds."""
    own = {"steps": steps, "seed": seed}
    return [*changes, *(f"training.{name}={value}" for name, value in own.items() if value is not None)]


def source_of(**given: Any) -> Source:
    """Return the labelled data that options name."""
    from gpt1.finetuning.data import Source

    named: dict[str, Any] = {name: Path(given[name]) for name in ("train", "dev", "test") if given[name] is not None}
    how = ("regression", "symmetric", "encoding", "skip_bad", "fold_labels", "labels_sep", "metric", "shape")
    named |= {name: given[name] for name in how if given.get(name) is not None}
    return Source(tasks=given["task"], data=given["data"], columns=roles_and_names(given["columns"]), **named)
