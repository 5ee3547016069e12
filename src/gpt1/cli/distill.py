"""`gpt1 distill`: what large runs know, in a small one."""

from __future__ import annotations

import os
from typing import Any

import click

from gpt1.base.strict_json import to_json
from gpt1.cli import options, words
from gpt1.cli.pretrain import show_result


@click.command()
@click.option("--teacher", "teachers", multiple=True, required=True, metavar="RUN", help="Who teaches; repeatable.")
@click.option("--corpus", metavar="DIR", help="To learn text from: a corpus that `gpt1 prepare` made.")
@click.option("--train", metavar="TABLE", help="To learn a task from: a labelled table.")
@click.option("--dev", metavar="TABLE", help="--train: a table to choose the best epoch on.  [a tenth of --train]")
@click.option("--test", metavar="TABLE", help="--train: a table for the final test.")
@click.option("--task", multiple=True, metavar="NAME", help="To learn tasks from --data; repeatable.")
@click.option("--data", metavar="DIR", help="--task: the folder of the tasks' files.")
@click.option("--texts", metavar="TABLE", help="Of a task: a table without labels, which teachers answer too.")
@options.columns
@options.regression
@options.symmetric
@options.encoding
@options.skip_bad
@options.fold_labels
@options.labels_sep
@options.metric
@click.option("--init", metavar="RUN", help="Begin with the weights of this run.")
@options.recipe
@click.option("--out", required=True, metavar="RUN", help="Folder for the run.")
@click.option(
    "--weight", type=options.Number(0, 1, min_open=True), metavar="SHARE", help="Of teachers in the loss.  [0.5]"
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
    corpus: str | None,
    out: str,
    changes: tuple[str, ...],
    steps: int | None,
    seed: int | None,
    tensorboard: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train a small model on what larger ones answer (knowledge distillation).

    On a corpus it learns the next token and, beside it, what the teachers expect there; these have the corpus's
    vocabulary. On a labelled table it learns the labels and what fine-tuned teachers answer, also to texts without
    labels. What comes out is a run like any other. Ctrl-C, SIGTERM or the end of --minutes stop it with its state
    saved; the same command with --resume goes on, bit for bit.

    \b
    Examples:
      gpt1 distill --teacher small --recipe tiny --corpus corpus --out runs/student
      gpt1 distill --teacher runs/reviews --init runs/student --train reviews.csv --texts more.csv --out runs/quick
    """
    from gpt1.cli.lines import shown_training

    how = ("init", "recipe", "weight", "temperature", "device", "minutes", "resume")
    with shown_training() as lines:
        settings = {name: given[name] for name in how if given[name] is not None}
        settings |= {"changes": options.with_lengths(changes, steps, seed), "curves": tensorboard, "listeners": [lines]}
        if corpus is not None:
            if named := [name for name, value in given.items() if name not in how and value not in (None, ())]:
                option = "column" if named[0] == "columns" else named[0].replace("_", "-")
                raise click.UsageError(f"--{option} is of a task, and --corpus of text")
            from gpt1.pretraining.distill import distill_text

            show_result(distill_text(teachers, corpus, out, **settings), as_json)
            return
        _distill_task(teachers, out, settings, given, as_json)


def _distill_task(
    teachers: tuple[str, ...], out: str, settings: dict[str, Any], given: dict[str, Any], as_json: bool
) -> None:
    if not given["train"] and not given["task"]:
        raise click.UsageError(
            "nothing to learn is named; name a corpus (--corpus DIR), a table (--train TABLE), or a task and the "
            "folder of its data (--task NAME --data DIR)"
        )
    from gpt1.finetuning.distill import distill_task
    from gpt1.finetuning.results import results, results_blocks

    source = options.source_of(**given)
    run = distill_task(teachers, settings.pop("init", None), out, source=source, texts=given["texts"], **settings)
    if os.environ.get("RANK", "0") != "0":
        return
    if as_json:
        click.echo(to_json(results(run), indent=1))
    else:
        words.show_document(results_blocks(run))
