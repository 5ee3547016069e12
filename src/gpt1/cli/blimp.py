"""`gpt1 blimp`: what a language model knows of grammar, by minimal pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.evaluate import open_run, step_option

if TYPE_CHECKING:
    from gpt1.inference.blimp import Blimp


@click.command()
@click.argument("run")
@click.option("--data", required=True, metavar="PATH", help="A file of minimal pairs, or a folder of such files.")
@options.encoding
@step_option
@options.device
@options.int8
@options.as_json
def command(
    run: str, data: str, encoding: str | None, step: str, device: str | None, int8: bool, as_json: bool
) -> None:
    """Ask a language model which of two sentences is English: BLiMP's minimal pairs.

    The good sentence of a pair is to be likelier than the bad one. Files are those of BLiMP (.jsonl, one for each
    paradigm), or tables with the columns good, bad, paradigm and field. Chance is 50.

    \b
    Examples:
      gpt1 blimp runs/books --data blimp/data
      gpt1 blimp runs/books --data tasks/blimp/dev.jsonl.xz --json
    """
    from gpt1.inference.blimp import blimp, read_pairs

    pairs = read_pairs(Path(data), **({} if encoding is None else {"encoding": encoding}))
    found = blimp(open_run(run, step, device, int8), pairs)
    click.echo(to_json({"run": run, **found.as_json()}, indent=1) if as_json else "\n".join(_in_words(run, found)))
    for text in found.unknown.notice(of_examples=2 * found.pairs):
        words.notice(text)


def _in_words(run: str, found: Blimp) -> Iterator[str]:
    from gpt1.inference.blimp import PUBLISHED

    yield f"{run}, step {found.step}: BLiMP, {found.pairs:,} pairs of {len(found.paradigms)} paradigms"
    yield f"  {100 * found.accuracy:5.1f}  mean over paradigms"
    yield ""
    yield from _listed(found.fields)
    yield ""
    yield from _listed(found.paradigms)
    yield ""
    yield "Left-to-right models of BabyLM after 10 and 100 million words of text:"
    yield from (f"  {few:5.1f} {more:5.1f}  {name}" for name, (few, more) in PUBLISHED.items())


def _listed(shares: dict[str, float]) -> Iterator[str]:
    """Yield a line for each name, what is known best first."""
    for name, share in sorted(shares.items(), key=lambda one: -one[1]):
        yield f"  {100 * share:5.1f}  {name}"
