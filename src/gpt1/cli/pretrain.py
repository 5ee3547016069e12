"""`gpt1 pretrain`: a corpus and a recipe in, a run out."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options

if TYPE_CHECKING:
    from gpt1.inference.run import Run


@click.command()
@options.recipe
@click.option("--corpus", required=True, metavar="DIR", help="A corpus that `gpt1 prepare` made.")
@click.option("--out", required=True, metavar="RUN", help="Folder for the run.")
@click.option("--init", metavar="RUN", help="Begin with the weights of this run.")
@click.option("--mix", metavar="CORPUS=SHARE", help="Mix in old text: such a share of all that is read, as 0.25.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out (begin it, if there is none).")
@options.steps
@options.minutes
@click.option(
    "--rank-timeout",
    type=options.Number(0, min_open=True),
    metavar="M",
    help="Of several processes one that the others wait for so many minutes is lost.  [10]",
)
@options.seed
@options.device
@options.changes
@click.option("--tensorboard", is_flag=True, help="Write curves for TensorBoard into the run.")
@options.as_json
def command(
    recipe: str | None,
    corpus: str,
    out: str,
    init: str | None,
    mix: str | None,
    resume: bool,
    steps: int | None,
    minutes: float | None,
    rank_timeout: float | None,
    seed: int | None,
    device: str | None,
    changes: tuple[str, ...],
    tensorboard: bool,
    as_json: bool,
) -> None:
    """Pre-train a model on a prepared corpus.

    Ctrl-C, SIGTERM or the end of --minutes stop it with its state saved; the same command with --resume goes on, bit
    for bit. With torchrun it uses several devices, on one machine or more.

    \b
    Examples:
      gpt1 pretrain --recipe tiny --corpus corpus --out runs/tiny
      gpt1 pretrain --init runs/books --corpus mails --mix corpus=0.25 --out runs/mails --steps 2000
      torchrun --nproc-per-node 8 -m gpt1 pretrain --recipe paper --corpus corpus --out runs/paper
    """
    from gpt1.cli.lines import shown_training
    from gpt1.pretraining.pretrain import pretrain

    with shown_training() as lines:
        run = pretrain(
            recipe,
            corpus,
            out,
            init=init,
            mix=None if mix is None else _corpus_and_share(mix),
            resume=resume,
            changes=options.with_lengths(changes, steps, seed),
            device=device,
            minutes=minutes,
            **({} if rank_timeout is None else {"rank_timeout": rank_timeout}),
            curves=tensorboard,
            listeners=[lines],
        )
    show_result(run, as_json)


def _corpus_and_share(text: str) -> dict[str, float]:
    """Return what `--mix CORPUS=SHARE` said."""
    corpus, _, share = text.rpartition("=")
    with suppress(ValueError):
        if corpus:
            return {corpus: float(share)}
    raise click.UsageError(f"--mix takes CORPUS=SHARE, such as corpus=0.25, not '{text}'")


def show_result(run: Run, as_json: bool) -> None:
    """Print how far a run is, and what it reached."""
    from gpt1.cli.lines import score_line
    from gpt1.runs.checkpoints import list_checkpoints
    from gpt1.runs.files import last_scores

    if os.environ.get("RANK", "0") != "0":
        return
    step, _ = list_checkpoints(run.path)[-1]
    evaluated, scores = last_scores(run.path)
    if as_json:
        of = {"evaluated_step": evaluated} if scores else {}
        click.echo(to_json({"run": str(run.path), "step": step, **of, **scores}, indent=1))
    elif not scores:
        click.echo(f"{run.path}: update {step}, not evaluated")
    else:
        when = "" if evaluated == step else f"at update {evaluated} "
        click.echo(f"{run.path}: update {step}, {when}{score_line(scores)}")
