"""`gpt1 lessons`: tasks made from unlabelled text."""

from __future__ import annotations

from typing import Any

import click

from gpt1.cli import options, words


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@options.tokenizer
@click.option("--out", required=True, metavar="DIR", help="Folder for the lessons, a folder each.")
@click.option("--passages", type=options.WholeNumber(1), metavar="N", help="Passages to draw from the text.  [100000]")
@click.option("--seed", type=options.WholeNumber(0), metavar="N", help="Which passages are drawn, and how.  [0]")
@options.document
@options.field
@options.encoding
@options.unwrap
@click.option("--restart", is_flag=True, default=None, help="Replace the lessons that DIR holds.")
@options.workers
def command(paths: tuple[str, ...], tokenizer: str, out: str, **given: Any) -> None:
    """Make tasks of unlabelled text that teach a network to compare and to judge, before it meets real labels.

    How alike are two sentences, is one as it was written, which comes next, does a text go on, was it praise or blame:
    the labels come from the text itself. Fine-tune on them first, then on your own few labels.

    \b
    Example:
      gpt1 lessons books/ --tokenizer runs/books --out lessons
      gpt1 finetune --init runs/books --recipe lessons --encoded lessons/similar --encoded lessons/damaged \\
          --encoded lessons/follows --encoded lessons/continues --encoded lessons/mood --out runs/taught
      gpt1 finetune --init runs/taught --train reviews.csv --out runs/reviews
    """
    from gpt1.lessons.making import make_lessons
    from gpt1.tasks.preparing import describe

    settings = {name: value for name, value in given.items() if value not in (None, ())}
    made = make_lessons(paths, tokenizer, out, progress=words.CommandTerminal(), **settings)
    for encoded in made.values():
        words.show(describe(encoded))
