"""`gpt1 evaluate`: how well a run predicts text."""

from __future__ import annotations

import json

import click

from gpt1.cli import options


@click.command()
@click.argument("run")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--corpus", metavar="DIR", help="A corpus that `gpt1 prepare` made.  [the one the run was trained on]")
@click.option("--split", metavar="NAME", default="valid", show_default=True, help="--corpus: train or valid.")
@click.option("--step", metavar="N|best|last", default="best", show_default=True, help="Which checkpoint.")
@options.device
@options.as_json
def command(
    run: str, paths: tuple[str, ...], corpus: str | None, split: str, step: str, device: str | None, as_json: bool
) -> None:
    """Measure how well a run predicts text: loss, perplexity and bits per byte.

    PATHs are text in any form `gpt1 prepare` reads; without them a split of a prepared corpus is measured.

    \b
    Examples:
      gpt1 evaluate runs/tiny
      gpt1 evaluate runs/tiny --corpus other-corpus --split train
      gpt1 evaluate runs/tiny letters/*.txt
    """
    from gpt1.base.wording import some
    from gpt1.cli.training import score_line
    from gpt1.inference.run import load_run
    from gpt1.pretraining.measure import measure_corpus, measure_text

    if paths and corpus is not None:
        raise click.UsageError("name either texts or a --corpus, not both")
    opened = load_run(
        run,
        device=device,
        step=int(step) if step.isdecimal() else step,
        refused=lambda problem: click.echo(problem, err=True),
    )
    scores = measure_text(opened, paths) if paths else measure_corpus(opened, corpus, split)
    what = some(paths) if paths else f"split {split} of {corpus or opened.facts['corpus']['path']}"
    if as_json:
        click.echo(json.dumps({"run": run, "step": opened.checkpoint.step, **scores}, indent=1))
    else:
        click.echo(f"{run}, step {opened.checkpoint.step}, {what}: {score_line(scores, 'loss')}")
        click.echo(f"{scores['targets']:,.0f} tokens were predicted")
