"""`gpt1 prune`: a run with fewer layers, or narrower ones."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words


@click.command()
@click.argument("run")
@click.option("--layers", type=options.WholeNumber(1), metavar="K", help="Layers that are left.  [all]")
@click.option("--feed-forward", type=options.WholeNumber(1), metavar="N", help="Units left in each layer.  [all]")
@click.option("--corpus", metavar="DIR", help="Judge by its text for validation.  [the one the run was trained on]")
@click.option("--table", metavar="TABLE", help="Fine-tuned: judge by these labelled rows.  [a run's own for dev]")
@click.option("--out", required=True, metavar="RUN", help="A new folder for the smaller run.")
@options.device
@options.as_json
def command(
    run: str,
    layers: int | None,
    feed_forward: int | None,
    corpus: str | None,
    table: str | None,
    out: str,
    device: str | None,
    as_json: bool,
) -> None:
    """Make a run smaller: leave out whole layers, and units of the feed-forward parts.

    Layers go one after the other, each time the one without which the loss on data that was not learned is least; units
    by how much they count for it. What comes out is a run like any other. It has lost something, which a short training
    brings back: gpt1 pretrain, finetune or distill with it as --init. Networks that were trained with --set
    layer_drop=0.2 lose less.

    \b
    Examples:
      gpt1 prune runs/books --layers 4 --out runs/half
      gpt1 prune runs/reviews --layers 4 --feed-forward 1024 --table march.csv --out runs/quick
    """
    from gpt1.model.costs import count_parameters
    from gpt1.pruning.prune import prune

    made = prune(
        run,
        out,
        layers=layers,
        feed_forward=feed_forward,
        corpus=corpus,
        table=table,
        device=device,
        tell=words.notice,
    )
    parameters = count_parameters(made.run.recipe.shape, made.run.record.vocab_size).total
    if as_json:
        removed = [{"layer": one.layer + 1, "loss": one.loss} for one in made.removed]
        told = {"run": out, "parameters": parameters, **asdict(made.pruning), "removed": removed}
        click.echo(to_json(told, indent=1))
        return
    click.echo(f"{out}: {parameters:,} parameters, layers {', '.join(map(str, made.pruning.layers))} of the whole one")
    verb = "finetune" if made.run.has_tasks else "pretrain"
    click.echo(f"a short training brings back what it lost: gpt1 {verb} --init {out}, or gpt1 distill")
