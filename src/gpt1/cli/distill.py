"""`gpt1 distill`: what large runs know, in a small one."""

from __future__ import annotations

import click

from gpt1.cli import options
from gpt1.cli.pretrain import show_result


@click.command()
@click.option("--teacher", "teachers", multiple=True, required=True, metavar="RUN", help="Who teaches; repeatable.")
@options.recipe
@click.option("--corpus", required=True, metavar="DIR", help="A corpus that `gpt1 prepare` made.")
@click.option("--out", required=True, metavar="RUN", help="Folder for the run.")
@click.option("--init", metavar="RUN", help="Begin with the weights of this run.")
@click.option(
    "--weight", type=options.Number(0, 1, min_open=True), metavar="SHARE", help="Of the teachers in the loss.  [0.5]"
)
@click.option(
    "--temperature", type=options.Number(0, min_open=True), metavar="T", help="Makes answers softer, above 1.  [2]"
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out (begin it, if there is none).")
@options.steps
@options.minutes
@options.seed
@options.device
@options.changes
@click.option("--tensorboard", is_flag=True, help="Write curves for TensorBoard into the run.")
@options.as_json
def command(
    teachers: tuple[str, ...],
    recipe: str | None,
    corpus: str,
    out: str,
    init: str | None,
    weight: float | None,
    temperature: float | None,
    resume: bool,
    steps: int | None,
    minutes: float | None,
    seed: int | None,
    device: str | None,
    changes: tuple[str, ...],
    tensorboard: bool,
    as_json: bool,
) -> None:
    """Train a small model on what larger ones answer (knowledge distillation).

    On a corpus it learns the next token and, beside it, what the teachers expect there; these have the corpus's
    vocabulary. What comes out is a run like any other. Ctrl-C, SIGTERM or the end of --minutes stop it with its state
    saved; the same command with --resume goes on, bit for bit.

    \b
    Examples:
      gpt1 distill --teacher small --recipe tiny --corpus corpus --out runs/student
      gpt1 distill --teacher runs/a --teacher runs/b --init runs/student --corpus mails --out runs/mails
    """
    from gpt1.cli.lines import shown_training
    from gpt1.pretraining.distill import distill_text

    given = {"weight": weight, "temperature": temperature}
    with shown_training() as lines:
        run = distill_text(
            teachers,
            corpus,
            out,
            recipe=recipe,
            init=init,
            **{name: value for name, value in given.items() if value is not None},
            resume=resume,
            changes=options.with_lengths(changes, steps, seed),
            device=device,
            minutes=minutes,
            curves=tensorboard,
            listeners=[lines],
        )
    show_result(run, as_json)
